"""The measurement behind the tables: every line on every question, interleaved, resumable, within a budget.

On each question the lines run back to back, greedy `model.generate` (the oracle) first, the others in an order that
rotates from question to question; rounds of one question of every task follow each other. All lines get the same
prompts: a second turn's history holds the oracle's first answer. The warm-up on the first question is not recorded.
"""

import dataclasses
import sys
import time
from pathlib import Path

from tqdm import tqdm

from samlib import paths
from samlib.bench.answers import Contender
from samlib.bench.budget import Plan, PlanFile
from samlib.bench.cost import cached_cost
from samlib.bench.data import DATASETS, data_source, load_questions, question_files, rounds
from samlib.bench.head_cost import cached_head_cost
from samlib.bench.heads import head_identity, head_options, missing_head
from samlib.bench.kernels import cpu_kernels
from samlib.bench.losslessness import compare
from samlib.bench.machine import device_words
from samlib.bench.manifest import manifest_name, write_manifest
from samlib.bench.model import load_model, model_identity
from samlib.bench.packages import sha256_of
from samlib.bench.profiles import PAPER_SETTINGS, load_profile
from samlib.bench.prompts import answer_text, prompt_ids, repeated_ngram_share
from samlib.bench.records import RecordStore, settings_key
from samlib.bench.shared_prefill import SharedPrefill
from samlib.bench.sizing import device_options
from samlib.bench.static import corpus_files, load_static
from samlib.bench.tables import BASELINE, ORACLE, RUNS, TABLES, run_datasets, run_lines, title_of
from samlib.bench.threads import settle_threads
from samlib.drafters.registry import needs_head

RECORD_VERSION = 3  # 3: samlib's lines share the prefill of a prompt
ESSENTIAL = (ORACLE, BASELINE, "sam", "sam[t]")  # the methods whose lines are measured in any case


@dataclasses.dataclass(frozen=True)
class RunResult:
    """What a run has on file: the path of its records, and {(block, line's name): why} of the lines not run."""

    path: Path
    not_run: dict

    def load(self):
        """The records, in the order in which they were made."""
        return RecordStore(self.path).load()


def measure_table(table, profile="cpu", *, minutes=None, progress=True):
    """Measure all that a table (a name of TABLES) is made of; return the RunResult, in `runs/<profile>/records/`.

    minutes: the budget (default: the run's share of the profile's). After the first round it decides how many rounds
    follow, at least the profile's `min_rounds`, and which lines there is no time for; lines that need an EAGLE head
    where there is none for the model are not run either. A second call resumes; with nothing left to do it returns at
    once, without loading the model. Records of other settings (another data set, say) are set aside under their own
    name, and found again.

    A question on which a line raises is recorded as failed and the run goes on: call `samlib.bench.metrics.check_run`
    on the records once the table has been shown. KeyError: no such table.
    """
    profile = load_profile(profile)
    run = RUNS[TABLES[table].run]
    minutes = profile.minutes * run.share if minutes is None else minutes
    measurement = Measurement(run, profile, progress=progress)
    if not measurement.is_complete(minutes):
        measurement.measure(minutes)
    return measurement.result()


def run_settings(run, profile):
    """All that the records of a run depend on, as JSON types; the budget and the machine are not part of it."""
    kept = ("dtype", "attention", "cpu_kernels", "device", "threads", "max_new_tokens", "seed", "static_documents")
    parameters = profile.parameters()
    datasets = run_datasets(run, profile)
    with_heads = any(map(needs_head, (*profile.paper, *profile.device_sized)))
    return {
        "version": RECORD_VERSION,
        "model": model_identity(profile),
        "datasets": {name: [sha256_of(path) for path in question_files(name)] for name in datasets},
        "corpora": {name: [sha256_of(path) for path in corpus_files(name)] for name in datasets},
        "lines": [list(line) for line in run_lines(run.name, profile, {})],
        "device_sized": parameters["device_sized"],
        **({"head": head_identity(profile)} if with_heads else {}),
        **{name: parameters[name] for name in kept},
    }


class Measurement:
    """The state of one run: its settings, what is on file, and once `measure` is called, the model and the lines."""

    def __init__(self, run, profile, *, progress=True):
        self.run, self.profile, self.progress = run, profile, progress
        self.folder = paths.runs_dir(profile.name)
        self.key = settings_key(run_settings(run, profile))
        self.no_head = missing_head(profile)
        self.sources = {name: data_source(profile, name) for name in run_datasets(run, profile)}
        questions = [question for name in self.sources for question in load_questions(profile, name)]
        self.rounds = rounds(questions, profile.seed)
        self.plans = PlanFile(self.folder / f"plan_{run.name}.json")
        self.store = self._open_store()
        # Without records a plan is stale: the user has deleted them to measure anew.
        self.plan = self.plans.get(self.key) if len(self.store) else None

    def is_complete(self, minutes):
        """True if the number of rounds was decided for this budget and all their records are on file."""
        if self.plan is None or self.plan.seconds is None:
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
            if self.plan.seconds is None:
                self.plan.overhead_seconds, self.plan.seconds = overhead, self._seconds_of_first_round()
            self._decide(minutes, announce=True)
            self._resize(bar)
            for index in range(1, self.plan.rounds):
                self._measure_round(index, bar)
        self._write_manifest(wall_seconds=round(time.perf_counter() - start, 1))

    def result(self):
        """The RunResult."""
        lines = self._all_lines()
        reasons = self.plan.not_run() | {_key(line): self.no_head for line in lines if self._lacks_head(line)}
        not_run = [line for line in lines if _key(line) in reasons]
        return RunResult(self.store.path, {(line.block, line.name): reasons[_key(line)] for line in not_run})

    # ---- what to do ----

    def _open_store(self):
        """The records file; one of other settings is renamed after its key, and one of these settings gets it back."""
        path = self.folder / "records" / f"{self.run.name}.jsonl"
        if path.exists() and self.plans.current not in (None, self.key):
            path.rename(path.with_name(f"{self.run.name}.{self.plans.current}.jsonl"))
        aside = path.with_name(f"{self.run.name}.{self.key}.jsonl")
        if aside.exists() and not path.exists():
            aside.rename(path)
        if self.plans.get(self.key):
            self.plans.save(self.key, self.plans.get(self.key))
        return RecordStore(path)

    def _decide(self, minutes, announce=False):
        available = len(self.rounds)
        least = min(self.profile.min_rounds[self.run.name], available)
        essential = [_key(line) for line in self._lines() if _is_essential(line)]
        most = min(self.profile.max_rounds, available)
        self.plan.decide(minutes, at_least=least, at_most=most, essential=essential)
        self.plans.save(self.key, self.plan)
        if announce:
            said = [f"not run: {line}, {why}" for line, why in self.plan.not_run().items()]
            self._say(self.plan.overrun(), *said)

    def _say(self, *texts):
        """Write what there is to say, a line each, without tearing the progress bar."""
        for text in filter(None, texts):
            tqdm.write(text, file=sys.stderr)

    def _questions(self, count):
        return [question for group in self.rounds[:count] for question in group]

    def _all_lines(self):
        """Every line of the run, the oracle and the baseline first."""
        return run_lines(self.run.name, self.profile, self.plan.device_options)

    def _lacks_head(self, line):
        return self.no_head is not None and needs_head(line.method)

    def _lines(self):
        """Every line that can be run."""
        return [line for line in self._all_lines() if not self._lacks_head(line)]

    def _kept_lines(self):
        return [line for line in self._lines() if _key(line) not in self.plan.left_out]

    def _record_key(self, question, line):
        return settings_key([self.key, self._source(question), question.question_id, *line])

    def _source(self, question):
        return self.sources[dataset_of(question)]

    def _is_measured(self, question):
        return all(self.store.has(self._record_key(question, line)) for line in self._kept_lines())

    # ---- doing it ----

    def _prepare(self):
        self.model, self.tokenizer = load_model(self.profile)
        settle_threads(self.model, self.profile)
        if self.plan is None:
            self.plan = Plan(device_options=sized_options(self.profile, self.model, progress=self.progress))
            self.plans.save(self.key, self.plan)
        if headless := dict.fromkeys(line.method for line in self._all_lines() if self._lacks_head(line)):
            self._say(f"not run: {', '.join(headless)}; {self.no_head}")
        self.prefill = SharedPrefill(self.model, hidden=any(needs_head(line.method) for line in self._lines()))
        self.contenders = {name: self._contenders(name) for name in self.sources}
        self.manifest = manifest_name()
        self._write_manifest()

    def _contenders(self, dataset):
        """One for each line, with the data set's own static automaton."""
        static = load_static(self.profile, dataset=dataset, tokenizer=self.tokenizer, progress=self.progress)
        shared = {"model": self.model, "static": static, "prefill": self.prefill}
        return [
            Contender(
                line,
                context=cpu_kernels(self.profile, self.model),
                assets=self._assets(line.method),
                **shared,
            )
            for line in self._lines()
        ]

    def _assets(self, method):
        """What of this machine a method drafts with: its head, or the measured cost of a forward."""
        if method == "sam_auto":
            return {"cost": cached_cost(self.profile, self.model, progress=self.progress)}
        return head_options(self.profile, self.model, method)

    def _write_manifest(self, wall_seconds=None):
        facts = {"run": self.run.name, "tables": self.run.tables, "settings_key": self.key}
        facts |= {"device_options": self.plan.device_options, "rounds": self.plan.rounds, "minutes": self.plan.minutes}
        facts |= {"left_out": self.plan.left_out, "device": device_words(self.profile)}
        facts |= {"head": head_identity(self.profile)}
        path = self.folder / self.manifest
        write_manifest(path, self.profile, datasets=list(self.sources), wall_seconds=wall_seconds, **facts)

    def _warm_up(self):
        """A few tokens of every line, recorded nowhere; the drafters forget them."""
        first = self.rounds[0][0]
        ids = prompt_ids(self.tokenizer, [{"role": "user", "content": first.turns[0]}])
        for contender in self.contenders[dataset_of(first)]:
            contender.answer(ids, self.profile.warmup_tokens)
            contender.reset()

    def _bar(self):
        done = self._answers_to(q for q in self._questions(len(self.rounds)) if self._is_measured(q))
        bar = tqdm(disable=not self.progress, desc=title_of(self.run), unit="answer", initial=done)
        self._resize(bar)
        return bar

    def _resize(self, bar):
        count = self.plan.rounds or min(self.profile.min_rounds[self.run.name], len(self.rounds))
        bar.total = self._answers_to(self._questions(count))
        bar.refresh()

    def _answers_to(self, questions):
        """How many answers all lines give to the questions, one a turn."""
        return sum(len(question.turns) for question in questions) * len(self._kept_lines())

    def _measure_round(self, index, bar):
        for question in self.rounds[index]:
            if not self._is_measured(question):
                bar.set_postfix_str(question.category)
                self._measure_question(question, bar)

    def _seconds_of_first_round(self):
        """{line: seconds}, from the records, so that a run interrupted in its first round can still be planned."""
        first = {(self._source(question), question.question_id) for question in self.rounds[0]}
        keys = {(line.block, line.name): _key(line) for line in self._lines()}
        seconds = dict.fromkeys(keys.values(), 0.0)
        for record in self.store.load():
            if (record["dataset"], record["question_id"]) in first:
                spent = sum(turn["timings"]["total"] - turn["prefill_saved"] for turn in record["turns"])
                seconds[keys[record["block"], record["method"]]] += spent
        return seconds

    def _measure_question(self, question, bar):
        """Run all lines on one question, turn by turn, the oracle first; a question is resumed as a whole."""
        contenders = [c for c in self.contenders[dataset_of(question)] if _key(c.line) not in self.plan.left_out]
        oracle, *others = contenders
        shift = oracle.questions_seen % len(others)
        contenders = [oracle, *others[shift:], *others[:shift]]
        answers, failures = self._answers(question, contenders, bar)
        for number, contender in enumerate(contenders):
            failure = failures[0] or failures[number]
            record = self._record(question, contender, answers[0], answers[number], failure)
            self.store.append(record)
            contender.end_question()

    def _answers(self, question, contenders, bar):
        """For each contender its [(prompt ids, Answer)] a turn, and its failure's text or None.

        The first one is the oracle: its answer is part of the next turn's prompt, and nothing goes on without it.
        """
        answers, failures = [[] for _ in contenders], [None] * len(contenders)
        messages = []
        for text in question.turns:
            messages.append({"role": "user", "content": text})
            self.prefill.forget()
            for number, contender in enumerate(contenders):
                if failures[0] or failures[number]:
                    continue
                try:
                    ids = prompt_ids(self.tokenizer, messages)
                    answers[number].append((ids, contender.answer(ids, self.profile.max_new_tokens)))
                except Exception as error:  # the run goes on; the question is named in the table and fails `check_run`
                    failures[number] = " ".join(f"{type(error).__name__}: {error}".split())
                bar.update()
            if not failures[0]:
                messages.append({"role": "assistant", "content": answer_text(self.tokenizer, answers[0][-1][1].ids)})
        return answers, failures

    def _record(self, question, contender, reference, answers, error):
        line = contender.line
        return {
            "key": self._record_key(question, line),
            "profile": self.profile.name,
            "run": self.run.name,
            "dataset": self._source(question),
            "block": line.block,
            "method": line.name,
            "options": line.options,
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


def sized_options(profile, model, *, progress=True):
    """{method: options} of a profile's block for this device; what sizes follow from is measured once, then cached."""
    options = {method: PAPER_SETTINGS[method] for method in profile.device_sized}
    measured = {"profile": profile, "model": model, "progress": progress}
    with_heads = any(map(needs_head, options)) and not missing_head(profile)
    return device_options(options, cached_cost(**measured), cached_head_cost(**measured) if with_heads else None)


def dataset_of(question):
    """The data set that a question is from: its task, where the data set is a single one."""
    return question.category if question.category in DATASETS else "spec_bench"


def _key(line):
    """A line's name in plans."""
    return f"{line.name} ({line.block})"


def _is_essential(line):
    """The oracle, the baseline, and what the tables are about: SAM and SAM[T]. A head's drafts may take too long."""
    return line.method in ESSENTIAL and line.block != "ablation"
