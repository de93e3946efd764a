"""Is every method's output the greedy one, on every question? `python -m samlib.bench.check_lossless`.

The tables compare the answers that they time, a sample of the questions; this goes through all of them and times
nothing. The oracle is plain greedy `model.generate`; a second turn's history holds its first answer. What is done is
kept in `runs/<profile>/lossless.jsonl`, so that a call that was stopped goes on.
"""

import argparse
import collections
import dataclasses
import sys

from tqdm import tqdm

from samlib import METHODS, paths
from samlib.bench.answers import Contender
from samlib.bench.data import data_source, load_questions
from samlib.bench.heads import head_identity, head_options
from samlib.bench.kernels import cpu_kernels
from samlib.bench.losslessness import compare
from samlib.bench.model import load_model, model_identity
from samlib.bench.profiles import PAPER_SETTINGS, load_profile
from samlib.bench.prompts import answer_text, prompt_ids
from samlib.bench.records import RecordStore, settings_key
from samlib.bench.runner import sized_options
from samlib.bench.shared_prefill import SharedPrefill
from samlib.bench.static import load_static
from samlib.bench.tables import BASELINE, ORACLE, Line
from samlib.drafters.registry import needs_head

TOKENS = 32  # new tokens of an answer


class Check:
    """The check of some methods on some data sets; `run` goes on from what is on file.

    methods: names of METHODS. datasets: their names. block: "paper" for the paper's settings, "device" for those sized
    to this device. ValueError for an unknown method, MissingAssetError for one without a head. Not thread-safe.
    """

    def __init__(self, profile, methods, datasets, max_new_tokens=TOKENS, *, block="paper", progress=True):
        self.profile, self.datasets, self.max_new_tokens = load_profile(profile), datasets, max_new_tokens
        if unknown := [method for method in methods if method not in METHODS]:
            raise ValueError(f"unknown method {unknown[0]!r}; known: {', '.join(METHODS)}")
        self.progress = progress
        self.model, self.tokenizer = load_model(self.profile)
        self.store = RecordStore(paths.runs_dir(self.profile.name) / "lossless.jsonl")
        self.prefill = SharedPrefill(self.model, hidden=any(map(needs_head, methods)))
        options = PAPER_SETTINGS
        if block == "device":
            options = sized_options(self.profile, self.model, progress=progress)
        self.lines = [Line(block, method, options.get(method, {})) for method in methods]

    def run(self):
        """Check what is missing; return {method: Counter of the kinds of Comparison}, over all turns."""
        counts = {line.method: collections.Counter() for line in self.lines}
        for dataset in self.datasets:
            contenders = self._contenders(dataset)
            for question in tqdm(load_questions(self.profile, dataset), desc=dataset, disable=not self.progress):
                for method, kind in self._question(dataset, question, contenders):
                    counts[method][kind] += 1
        return counts

    def _contenders(self, dataset):
        static = load_static(self.profile, dataset=dataset, tokenizer=self.tokenizer, progress=self.progress)
        shared = {"model": self.model, "static": static, "prefill": self.prefill}
        context = cpu_kernels(self.profile, self.model)
        heads = {line.method: head_options(self.profile, self.model, line.method) for line in self.lines}
        return [Contender(line, context=context, assets=heads[line.method], **shared) for line in self.lines]

    def _question(self, dataset, question, contenders):
        """Yield (method, kind) for each turn."""
        oracle, messages = Contender(Line("reference", ORACLE, {}), model=self.model), []
        for number, text in enumerate(question.turns):
            messages.append({"role": "user", "content": text})
            ids, place = prompt_ids(self.tokenizer, messages), (data_source(self.profile, dataset), question, number)
            self.prefill.forget()
            expected = self._once(place, oracle.line, lambda ids=ids: {"ids": self._answer(oracle, ids)})["ids"]
            for contender in contenders:
                found = self._once(
                    place,
                    contender.line,
                    lambda c=contender, ids=ids, expected=expected: self._compared(c, ids, expected),
                )
                yield contender.line.method, found["kind"]
            messages.append({"role": "assistant", "content": answer_text(self.tokenizer, expected)})

    def _answer(self, contender, ids):
        return list(map(int, contender.answer(ids, self.max_new_tokens).ids))

    def _compared(self, contender, ids, expected):
        return dataclasses.asdict(compare(self.model, ids, expected, self._answer(contender, ids)))

    def _once(self, place, line, make):
        """The record of a line on one turn: from the file, or made now and kept."""
        source, question, number = place
        head = head_identity(self.profile) if needs_head(line.method) else None
        key = settings_key(
            [model_identity(self.profile), source, question.question_id, number, self.max_new_tokens, *line, head]
        )
        if not self.store.has(key):
            facts = {"dataset": source, "question_id": question.question_id, "turn": number, "method": line.method}
            self.store.append({"key": key, **facts, **make()})
        return self.store.get(key)


def summary(counts):
    """One line a method: how many turns were compared, and how many were not identical."""
    lines = []
    for method, kinds in counts.items():
        others = [f"{number} {kind.replace('_', '-')}" for kind, number in kinds.items() if kind != "identical"]
        words = ", ".join([f"{kinds['identical']} of {kinds.total()} identical", *others])
        lines.append(f"{method}: {words}")
    return "\n".join(lines)


def main(arguments=None):
    """The command line; the exit status is 1 where an output differs by more than rounding."""
    parser = argparse.ArgumentParser(prog="python -m samlib.bench.check_lossless", description=__doc__.splitlines()[0])
    parser.add_argument("--profile", default="cpu")
    parser.add_argument("--methods", nargs="+", metavar="NAME", help=f"of {', '.join(METHODS)} (default: all)")
    parser.add_argument("--datasets", nargs="+", metavar="NAME", help="(default: all of the profile)")
    parser.add_argument("--max-new-tokens", type=int, default=TOKENS, help="of an answer (default: %(default)s)")
    parser.add_argument("--block", default="paper", choices=("paper", "device"), help="settings (default: %(default)s)")
    args = parser.parse_args(arguments)
    profile = load_profile(args.profile)
    methods = args.methods or [method for method in METHODS if method == BASELINE or method in profile.paper]
    check = Check(profile, methods, args.datasets or profile.datasets, args.max_new_tokens, block=args.block)
    counts = check.run()
    print(summary(counts))
    return int(any(kinds["different"] for kinds in counts.values()))


if __name__ == "__main__":
    sys.exit(main())
