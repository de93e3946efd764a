"""Table 1's measurement: every method on every question, interleaved, resumable, within a budget.

On each question the methods run back to back, greedy `model.generate` (the oracle) first, the others in an order that
rotates from question to question; rounds of one question of every task follow each other. All methods get the same
prompts: a second turn's history holds the oracle's first answer. The warm-up on the first question is not recorded.
"""

import dataclasses
import sys
import time

from tqdm import tqdm

from samlib import paths
from samlib.bench.answers import HF_OPTIONS, Contender
from samlib.bench.budget import Plan, PlanFile
from samlib.bench.cost import cached_cost
from samlib.bench.data import data_source, load_questions, question_files, rounds
from samlib.bench.kernels import cpu_kernels
from samlib.bench.losslessness import compare
from samlib.bench.machine import device_words
from samlib.bench.manifest import manifest_name, write_manifest
from samlib.bench.metrics import BASELINE
from samlib.bench.model import load_model, model_identity
from samlib.bench.packages import sha256_of
from samlib.bench.profiles import PAPER_SETTINGS, load_profile
from samlib.bench.prompts import answer_text, prompt_ids, repeated_ngram_share
from samlib.bench.records import RecordStore, settings_key
from samlib.bench.sizing import device_options
from samlib.bench.static import corpus_files, load_static
from samlib.bench.threads import settle_threads

ORACLE = "hf_generate"
RECORD_VERSION = 2  # 2: a comparison holds the dtype and the rounding error as well


def run_table1(profile="cpu", *, minutes=None, progress=True):
    """Measure Table 1 and return the path of its records, `runs/<profile>/records/table1.jsonl`.

    minutes: the budget (default: the profile's); after the first round it decides how many rounds follow, at least the
    profile's `min_rounds`. A second call resumes; with nothing left to do it returns at once, without loading the
    model. Records of other settings (another data set, say) are set aside under their own name, and found again.

    A question on which a method raises is recorded as failed and the run goes on: call `samlib.bench.metrics.check_run`
    on the records once the table has been shown.
    """
    profile = load_profile(profile)
    minutes = profile.minutes if minutes is None else minutes
    run = Table1Run(profile, progress=progress)
    if not run.is_complete(minutes):
        run.measure(minutes)
    return run.store.path


def table1_settings(profile):
    """All that the records of a run depend on, as JSON types; the budget and the machine are not part of it."""
    kept = ("dtype", "attention", "cpu_kernels", "device", "threads", "max_new_tokens", "seed", "static_documents")
    parameters = profile.parameters()
    return {
        "version": RECORD_VERSION,
        "model": model_identity(profile),
        "dataset": [sha256_of(path) for path in question_files()],
        "corpus": [sha256_of(path) for path in corpus_files()],
        "paper": {method: PAPER_SETTINGS[method] for method in profile.paper},
        "device_sized": parameters["device_sized"],
        **{name: parameters[name] for name in kept},
    }


class Table1Run:
    """The state of one run: its settings, what is on file, and once `measure` is called, the model and the methods."""

    def __init__(self, profile, *, progress=True):
        self.profile, self.progress = profile, progress
        self.folder = paths.runs_dir(profile.name)
        self.key = settings_key(table1_settings(profile))
        self.dataset = data_source(profile)
        self.rounds = rounds(load_questions(profile), profile.seed)
        self.plans = PlanFile(self.folder / "plan_table1.json")
        self.store = self._open_store()
        # Without records a plan is stale: the user has deleted them to measure anew.
        self.plan = self.plans.get(self.key) if len(self.store) else None

    def is_complete(self, minutes):
        """True if the number of rounds was decided for this budget and all their records are on file."""
        if self.plan is None or self.plan.seconds_per_round is None:
            return False
        self._decide(minutes)
        return all(self._is_measured(question) for question in self._questions(self.plan.rounds))

    def measure(self, minutes):
        """Load everything, then measure what is missing."""
        start = time.perf_counter()
        self._prepare()
        self._warm_up()
        with self._bar() as bar:
            overhead = time.perf_counter() - start
            self._measure_round(0, bar)
            if self.plan.seconds_per_round is None:
                self.plan.overhead_seconds, self.plan.seconds_per_round = overhead, self._seconds_of_first_round()
            self._decide(minutes, announce=True)
            self._resize(bar)
            for index in range(1, self.plan.rounds):
                self._measure_round(index, bar)
        self._write_manifest(wall_seconds=round(time.perf_counter() - start, 1))

    # ---- what to do ----

    def _open_store(self):
        """The records file; one of other settings is renamed after its key, and one of these settings gets it back."""
        path = self.folder / "records" / "table1.jsonl"
        if path.exists() and self.plans.current not in (None, self.key):
            path.rename(path.with_name(f"table1.{self.plans.current}.jsonl"))
        aside = path.with_name(f"table1.{self.key}.jsonl")
        if aside.exists() and not path.exists():
            aside.rename(path)
        if self.plans.get(self.key):
            self.plans.save(self.key, self.plans.get(self.key))
        return RecordStore(path)

    def _decide(self, minutes, announce=False):
        self.plan.decide(minutes, self.profile, available=len(self.rounds))
        self.plans.save(self.key, self.plan)
        if announce and self.plan.overrun():
            tqdm.write(self.plan.overrun(), file=sys.stderr)

    def _questions(self, count):
        return [question for group in self.rounds[:count] for question in group]

    def _series(self):
        """(block, method, options) of every line of the table, the oracle and the baseline first."""
        reference = [("reference", method, options) for method, options in HF_OPTIONS.items()]
        paper = [("paper", method, PAPER_SETTINGS[method]) for method in self.profile.paper]
        device = [("device", method, options) for method, options in self.plan.device_options.items()]
        return [reference[0], ("paper", BASELINE, {}), *paper, *device, *reference[1:]]

    def _record_key(self, question, block, method, options):
        return settings_key([self.key, self.dataset, question.question_id, block, method, options])

    def _is_measured(self, question):
        return all(self.store.has(self._record_key(question, *series)) for series in self._series())

    # ---- doing it ----

    def _prepare(self):
        self.model, self.tokenizer = load_model(self.profile)
        settle_threads(self.model, self.profile)
        static = load_static(self.profile, tokenizer=self.tokenizer, progress=self.progress)
        if self.plan is None:
            cost = cached_cost(self.profile, self.model, progress=self.progress)
            options = {method: PAPER_SETTINGS[method] for method in self.profile.device_sized}
            self.plan = Plan(device_options=device_options(options, cost))
            self.plans.save(self.key, self.plan)
        context = cpu_kernels(self.profile, self.model)
        self.contenders = [Contender(*s, model=self.model, static=static, context=context) for s in self._series()]
        self.manifest = manifest_name()
        self._write_manifest()

    def _write_manifest(self, wall_seconds=None):
        facts = {"table": "1", "settings_key": self.key, "device_options": self.plan.device_options}
        facts |= {"rounds": self.plan.rounds, "minutes": self.plan.minutes, "device": device_words(self.profile)}
        write_manifest(self.folder / self.manifest, self.profile, wall_seconds=wall_seconds, **facts)

    def _warm_up(self):
        """A few tokens of every method, recorded nowhere; the drafters forget them."""
        ids = prompt_ids(self.tokenizer, [{"role": "user", "content": self.rounds[0][0].turns[0]}])
        for contender in self.contenders:
            contender.answer(ids, self.profile.warmup_tokens)
            contender.reset()

    def _bar(self):
        done = sum(self._is_measured(question) for question in self._questions(len(self.rounds)))
        bar = tqdm(disable=not self.progress, desc="Table 1", unit="answer", initial=done * len(self.contenders))
        self._resize(bar)
        return bar

    def _resize(self, bar):
        count = self.plan.rounds or min(self.profile.min_rounds, len(self.rounds))
        bar.total = len(self._questions(count)) * len(self.contenders)
        bar.refresh()

    def _measure_round(self, index, bar):
        for question in self.rounds[index]:
            if not self._is_measured(question):
                bar.set_postfix_str(question.category)
                self._measure_question(question, bar)

    def _seconds_of_first_round(self):
        """From its records, so that a run that was interrupted in its first round can still be planned."""
        ids = {question.question_id for question in self.rounds[0]}
        turns = [turn for record in self.store.load() if record["question_id"] in ids for turn in record["turns"]]
        return max(1e-3, sum(turn["timings"]["total"] for turn in turns))

    def _measure_question(self, question, bar):
        """Run all methods on one question, the oracle first; a question is resumed as a whole, to stay back to back."""
        oracle, *others = self.contenders
        turns, failure = self._oracle_turns(question, oracle)
        shift = oracle.questions_seen % len(others)
        for contender in [oracle, *others[shift:], *others[:shift]]:
            answers, error = (turns, failure) if contender is oracle or failure else self._answers(contender, turns)
            self.store.append(self._record(question, contender, turns, answers, error))
            contender.questions_seen += 1
            bar.update()

    def _oracle_turns(self, question, oracle):
        """[(prompt ids, the oracle's answer)] a turn, and the failure's text or None."""
        messages, turns = [], []
        try:
            for text in question.turns:
                messages.append({"role": "user", "content": text})
                ids = prompt_ids(self.tokenizer, messages)
                answer = oracle.answer(ids, self.profile.max_new_tokens)
                messages.append({"role": "assistant", "content": answer_text(self.tokenizer, answer.ids)})
                turns.append((ids, answer))
        except Exception as error:  # the run goes on; the question is named in the table and fails `check_run`
            return turns, _one_line(error)
        return turns, None

    def _answers(self, contender, turns):
        """[(prompt ids, this method's answer)] to the same prompts, and the failure's text or None."""
        answers = []
        try:
            for ids, _ in turns:
                answers.append((ids, contender.answer(ids, self.profile.max_new_tokens)))
        except Exception as error:  # as above
            return answers, _one_line(error)
        return answers, None

    def _record(self, question, contender, reference, answers, error):
        return {
            "key": self._record_key(question, contender.block, contender.method, contender.options),
            "profile": self.profile.name,
            "table": "1",
            "dataset": self.dataset,
            "block": contender.block,
            "method": contender.method,
            "options": contender.options,
            "question_id": question.question_id,
            "task": question.category,
            "turns": [] if error else self._compared(reference, answers),
            "repeated_8gram_share": repeated_ngram_share([answer.ids for _, answer in answers]),
            "questions_seen": contender.questions_seen,
            "error": error,
            "manifest": self.manifest,
        }

    def _compared(self, reference, answers):
        """The answers' turns, each with its comparison with the oracle's."""
        turns = []
        for (ids, oracle), (_, answer) in zip(reference, answers, strict=True):
            found = compare(self.model, ids, oracle.ids, answer.ids)
            turns.append(answer.turn | {"comparison": dataclasses.asdict(found)})
        return turns


def _one_line(error):
    return " ".join(f"{type(error).__name__}: {error}".split())
