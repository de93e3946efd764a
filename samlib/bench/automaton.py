"""The automata at scale: building, memory, opening, drafting, measured beside other indexes and the machine's limits.

    python -m samlib.bench.automaton --profile cpu-full

prints a table; every measurement is a record in runs/<profile>/records/automaton.jsonl, and is not repeated while
corpus, settings, processor and the automata's sources stay the same. A peer is measured in a process of its own,
together with the library: at the same size, on the same queries, in turns.
"""

import argparse
import contextlib
import platform
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from samlib import paths
from samlib.automaton.free_memory import available_memory
from samlib.bench.automaton_table import table_text
from samlib.bench.child import run_child
from samlib.bench.large_corpus import load_large_corpus
from samlib.bench.machine import cpu_name
from samlib.bench.peers import PEERS, PromptLookup, Samlib, largest_size
from samlib.bench.profiles import load_profile, profile_names
from samlib.bench.records import RecordStore, settings_key, sources_key
from samlib.bench.scale import CHOICES
from samlib.errors import SetupError

RULE = 2  # part of every key: raise it where a measurement means something else than before
REPEATS = 3
STEPS = 1000  # of a walk
BLOCK = 1000  # tokens appended in one call
CONTEXTS = (1000, 10_000, 100_000, 1_000_000)
STEP_CONTEXTS = CONTEXTS[:3]
MEMORY = 4_000_000_000  # bytes that are taken to be free where the system does not say
PATIENCE = 3600  # seconds for a child
FEWEST = 20_000  # tokens of a corpus
EPILOG = """Installed peers are found by import: DraftRetriever (pip install draftretriever==0.1.1), ArcticInference's
suffix_decoding, Hugging Face's prompt lookup. "ratio" says how many times better samlib is in the same run, median and
range over repeats; "limit" is what memory latency and bandwidth allow (formulas: samlib/bench/limits.py); targets are
meant at 16 million tokens. Exit status: 0 done, 1 not measured, 2 a flag or its value is wrong."""


@dataclass(frozen=True)
class Job:
    """What one or a few children measure together.

    label: for the progress bar. names: the measurements, known beforehand. settings: what they depend on, besides
    corpus, machine and library. measure: yields a record's own fields for each name.
    """

    label: str
    names: tuple[str, ...]
    settings: dict
    measure: Callable[[], Iterator[dict]]


class ChildFailed(RuntimeError):
    """A child ended early; the message is one line."""


def load_automaton(profile="cpu", *, tokens=None, repeats=REPEATS, peers=False, fresh=False, progress=True):
    """The records of a profile's measurements at a size (default: the profile's), measured now where they are missing.

    peers: also measure the installed peers, which may take minutes; without it, their records are still returned where
    they are there. A peer that dies has a record with its `error`, and is tried again the next time.
    Returns a list of dicts: measurement, tokens, unit, samlib, peer, other, better, facts, error, corpus, cpu, key.
    """
    from tqdm import tqdm

    profile = load_profile(profile)
    corpus = load_large_corpus(profile, tokens, progress=progress)
    store = RecordStore(paths.runs_dir(profile.name) / "records" / "automaton.jsonl")
    with Bench(profile, corpus, repeats) as bench:
        wanted = [*bench.own_jobs(), *bench.peer_jobs(cheap=True), *(bench.peer_jobs(cheap=False) if peers else [])]
        due = [job for job in wanted if fresh or not _is_done(store, bench, job)]
        bar = tqdm(due, desc="automata at scale", unit="job", disable=not progress or not due)
        for job in bar:
            bar.set_postfix_str(job.label)
            for record in bench.records(job):
                store.append(record)
        keys = [bench.key(job, name) for job in bench.all_jobs() for name in job.names]
    found = {record["key"]: record for record in store.load()}
    return [found[key] for key in dict.fromkeys(keys) if key in found]


class Bench:
    """The jobs of one corpus, and the folder in which they keep an index; a context manager."""

    def __init__(self, profile, corpus, repeats):
        self.profile, self.corpus, self.repeats = profile, corpus, repeats
        self.tokens = len(corpus.tokens)
        self._index = None

    def __enter__(self):
        self._stack = contextlib.ExitStack()
        return self

    def __exit__(self, *_):
        self._stack.close()

    def own_jobs(self):
        """What is measured of the library alone."""
        extending = tuple(n for n in CONTEXTS if n + 2 * BLOCK < self.tokens)
        return [
            Job("limits of the machine", ("limits",), {}, self._limits),
            Job("build", ("build", "save", "states", "index memory", "peak memory"), {}, self._build),
            Job("opening", ("open", "open, verified", "first draft after opening"), {}, self._opening),
            Job("drafts", tuple(_draft_names()), {"steps": STEPS}, self._drafts),
            Job("extend", _names("extend at", extending), {"block": BLOCK}, lambda: self._extend(extending)),
            self._step_job(None),
        ]

    def peer_jobs(self, *, cheap):
        """The library against each installed peer; the cheap ones are those that every run can afford."""
        chosen = [peer for peer in PEERS.values() if peer.cheap is cheap and peer.installed()]
        jobs = [self._peer_job(peer) for peer in chosen]
        return jobs if cheap or not PromptLookup.installed() else [*jobs, self._step_job(PromptLookup)]

    def all_jobs(self):
        """Every job, in the table's order."""
        return [*self.own_jobs(), *self.peer_jobs(cheap=True), *self.peer_jobs(cheap=False)]

    def key(self, job, name):
        """The key of a measurement's record."""
        versions = [platform.python_version(), np.__version__, library_version()]
        return settings_key([RULE, name, job.settings, self.corpus.facts["sha256"], cpu_name(), versions])

    def records(self, job):
        """Measure a job: its records; where a child fails, the missing ones carry its last words."""
        fields, error = {}, None
        try:
            for measured in job.measure():
                fields[measured["measurement"]] = measured
        except ChildFailed as failure:
            error = f"{job.label}: {failure}"
            if "peer" not in job.settings:
                raise ChildFailed(error) from failure
        for name in job.names:
            yield self._record(job, name, fields.get(name, {}), None if name in fields else error)

    def _record(self, job, name, fields, error):
        tokens = job.settings.get("size", self.tokens)
        record = {"key": self.key(job, name), "profile": self.profile.name, "measurement": name, "tokens": tokens}
        empty = {"unit": "", "better": "less", "samlib": [], "peer": job.settings.get("peer"), "other": [], "facts": {}}
        about = {"error": error, "repeats": self.repeats, "corpus": self.corpus.facts, "cpu": cpu_name()}
        return record | empty | fields | about

    def _limits(self):
        (found,) = self._child("limits:measure_limits", largest=32 * self.tokens, repeats=self.repeats)
        yield {"measurement": "limits", "facts": found, "samlib": found["copy_gb_s"], "unit": "GB/s"}

    def _build(self):
        self._index = self._path()
        (found,) = self._child("scale:build", corpus=str(self.corpus.path), repeats=self.repeats, index=self._index)
        facts = _facts(found) | {"states": found["states"]}
        yield _speeds("build", found["seconds"]["build"], self.tokens, facts=facts)
        yield {"measurement": "save", "unit": "s", "samlib": found["seconds"]["save"], "facts": facts}
        sizes = {
            "states": ("states/token", "states"),
            "index memory": ("B/token", "nbytes"),
            "peak memory": ("B/token", "peak"),
        }
        for name, (unit, field) in sizes.items():
            yield {"measurement": name, "unit": unit, "samlib": [found[field] / self.tokens], "facts": facts}

    def _memory_of(self, name, tokens):
        (found,) = self._child("scale:memory", corpus=str(self.corpus.path), tokens=tokens, name=name)
        return found

    def _opening(self):
        first = {"index": self.index(), "token": int(self.corpus.tokens[0])}
        plain, verified = [], []
        for _ in range(self.repeats):
            plain += self._child("scale:opening", verify=False, **first)
            verified += self._child("scale:opening", verify=True, **first)
        size = {"nbytes": Path(self.index()).stat().st_size}
        ms = {"unit": "ms", "facts": size}
        yield {"measurement": "open", "samlib": [one["load"] for one in plain], **ms}
        yield {"measurement": "open, verified", "samlib": [one["load"] for one in verified], **ms}
        yield {"measurement": "first draft after opening", "samlib": [one["first draft"] for one in plain], **ms}

    def _drafts(self):
        place = {"corpus": str(self.corpus.path), "index": self.index()}
        for walk in self._child("scale:drafts", repeats=self.repeats, steps=STEPS, **place):
            facts = _facts(walk)
            for choice, times in walk["times"].items():
                name = f"draft, {choice}, {walk['walk']}"
                yield {"measurement": name, "unit": "µs", "samlib": times, "facts": facts}
            name = f"advance in one call, {walk['walk']}"
            yield {"measurement": name, "unit": "µs/token", "samlib": walk["advance"], "facts": facts}

    def _extend(self, contexts):
        place = {"corpus": str(self.corpus.path), "contexts": contexts}
        for found in self._child("scale:extending", repeats=self.repeats, block=BLOCK, **place):
            facts = {name: float(np.median(found[name])) for name in ("nbytes", "jumps")}
            name = f"extend at {found['context']}"
            size = {"tokens": found["context"]}
            yield {"measurement": name, "unit": "µs/token", "samlib": found["us"], "facts": facts} | size

    def _step_job(self, peer):
        contexts = [n for n in STEP_CONTEXTS if n + STEPS < self.tokens]
        versus = f", {peer.name}" if peer else ""
        names = [f"step at {n}{versus}" for n in contexts]
        names += [] if peer else [f"step at {n} against {contexts[0]}" for n in contexts[1:]]
        settings = {"steps": STEPS} | ({"peer": peer.name, "version": peer.installed()} if peer else {})
        return Job(f"steps{versus}", tuple(names), settings, lambda: self._steps(contexts, peer, versus))

    def _steps(self, contexts, peer, versus):
        place = {"corpus": str(self.corpus.path), "contexts": contexts, "scan": peer is not None}
        steps = STEPS // 5 if peer else STEPS  # a scan takes milliseconds at the longest context
        base = None
        for found in self._child("scale:stepping", repeats=self.repeats, steps=steps, **place):
            size, times = {"tokens": found["context"]}, found["times"]
            ours, other = times[Samlib.name], times[peer.name] if peer else []
            name = f"step at {found['context']}"
            yield {"measurement": f"{name}{versus}", "unit": "µs", "samlib": ours, "other": other} | size
            if base and not peer:
                ratios = [one / first for one, first in zip(ours, base, strict=True)]
                yield {"measurement": f"{name} against {contexts[0]}", "unit": "times", "samlib": ratios} | size
            base = base or ours

    def _peer_job(self, peer):
        size = largest_size(peer, self.tokens, available_memory() or MEMORY)
        names = ["build", *(["build and save"] if peer.saves else []), "index memory", "peak memory"]
        names += ["draft, held-out", "draft, quoting"]
        settings = {"peer": peer.name, "version": peer.installed(), "size": size, "steps": STEPS}
        return Job(peer.name, tuple(f"{name}, {peer.name}" for name in names), settings, lambda: self._peer(peer, size))

    def _peer(self, peer, size):
        place = {"corpus": str(self.corpus.path), "tokens": size, "name": peer.name}
        for found in self._child("scale:against", repeats=self.repeats, steps=STEPS, **place):
            yield from _build_fields(peer, size, found) if found["part"] == "build" else [_lookup_fields(peer, found)]
        ours, theirs = self._memory_of(Samlib.name, size), self._memory_of(peer.name, size)
        for name, field in (("index memory", "resting"), ("peak memory", "peak")):
            bytes_a_token = {"samlib": [ours[field] / size], "other": [theirs[field] / size]}
            yield {"measurement": f"{name}, {peer.name}", "unit": "B/token", **bytes_a_token}

    def _child(self, function, **arguments):
        """Yield a child's results as far as it came; ChildFailed after them where it ended early."""
        results, reason = run_child(f"samlib.bench.{function}", timeout=PATIENCE, **arguments)
        yield from results
        if reason:
            raise ChildFailed(reason)

    def index(self):
        """The path of the saved index over the whole corpus, built now where no job has left one."""
        if self._index is None:
            path = self._path()
            list(self._child("scale:build", corpus=str(self.corpus.path), repeats=1, index=path))
            self._index = path
        return self._index

    def _path(self):
        paths.CACHE.mkdir(parents=True, exist_ok=True)
        return str(Path(self._stack.enter_context(tempfile.TemporaryDirectory(dir=paths.CACHE)), "index.sam"))


def library_version():
    """A short hash of the automata's sources: measurements are made anew when these change."""
    return sources_key(paths.ROOT / "samlib" / "automaton")


def _is_done(store, bench, job):
    """Whether all of a job's measurements are on file, without an error and with as many repeats as are asked for."""
    found = {record["key"]: record for record in store.load()}
    records = [found.get(bench.key(job, name)) for name in job.names]
    return all(record and not record["error"] and record["repeats"] >= bench.repeats for record in records)


def _names(what, contexts):
    return tuple(f"{what} {context}" for context in contexts)


def _draft_names():
    for walk in ("held-out", "quoting"):
        yield from (f"draft, {choice}, {walk}" for choice in (*CHOICES, "tree"))
        yield f"advance in one call, {walk}"


def _facts(found):
    """What is kept beside the times: the index's bytes, and what the walk was like."""
    return {name: found[name] for name in ("nbytes", "match_length", "drafted", "with_draft", "jumps")}


def _speeds(name, seconds, tokens, **fields):
    """The fields of a record of speeds, in million tokens a second."""
    speeds = [tokens / one / 1e6 for one in seconds]
    return {"measurement": name, "unit": "Mtok/s", "better": "more", "samlib": speeds, **fields}


def _build_fields(peer, size, found):
    """Building beside a peer; where the peer's building writes a file, also with the library's saving counted."""
    seconds, facts = found["seconds"], _facts(found)
    other = {"other": [size / one / 1e6 for one in seconds[peer.name]], "facts": facts}
    yield _speeds(f"build, {peer.name}", seconds[Samlib.name], size, **other)
    if peer.saves:
        both = [built + saved for built, saved in zip(seconds[Samlib.name], seconds["save"], strict=True)]
        yield _speeds(f"build and save, {peer.name}", both, size, **other)


def _lookup_fields(peer, found):
    times = {"samlib": found["times"][Samlib.name], "other": found["times"][peer.name]}
    facts = _facts(found)
    return {"measurement": f"draft, {found['walk']}, {peer.name}", "unit": "µs", **times, "facts": facts}


class _Parser(argparse.ArgumentParser):
    """One line for bad input, without the usage text."""

    def error(self, message):
        self.exit(2, f"{self.prog}: {message}\n")


def _parser():
    parser = _Parser(prog="python -m samlib.bench.automaton", description=__doc__.splitlines()[0], epilog=EPILOG)
    parser.add_argument("--profile", default="cpu", metavar="NAME", help=f"{', '.join(profile_names())} (default: cpu)")
    parser.add_argument("--tokens", type=_count, help="size of the corpus (default: the profile's automaton_tokens)")
    parser.add_argument("--repeats", type=_count, default=REPEATS, help=f"of each measurement (default: {REPEATS})")
    parser.add_argument("--fresh", action="store_true", help="measure anew what has been measured before")
    parser.add_argument("--peers", action=argparse.BooleanOptionalAction, default=True, help="the installed peers, too")
    return parser


def _count(text):
    """A whole number above 0, with or without separators: 16000000, 16_000_000, 16,000,000."""
    try:
        number = int(text.replace(",", ""))
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"takes a whole number above 0, not {text!r}")
    return number


def main(arguments=None):
    """The command line: measure what is missing, then print the table. Returns the exit status."""
    parser = _parser()
    args = parser.parse_args(arguments)
    try:
        profile = load_profile(args.profile)
        if args.tokens is not None and args.tokens < FEWEST:
            parser.error(f"argument --tokens: at least {FEWEST:,}")
    except SetupError as error:
        parser.error(str(error))
    how = {"tokens": args.tokens, "repeats": args.repeats, "peers": args.peers, "fresh": args.fresh}
    try:
        records = load_automaton(profile, **how)
    except (SetupError, ChildFailed) as error:
        parser.exit(1, f"{parser.prog}: {error}\n")
    print(table_text(records))
    if args.peers:
        missing = [peer.name for peer in (*PEERS.values(), PromptLookup) if not peer.installed()]
        print(f"not installed: {', '.join(missing) or 'none'}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
