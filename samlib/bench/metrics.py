"""From records to the numbers of Tables 1 to 3. Nothing here measures; a row of a frame is one of a CSV file."""

import csv
import dataclasses
import functools
import math

import numpy as np
import pandas as pd

from samlib import paths
from samlib.bench.losslessness import HALF, TOKENS_PER_NEAR_TIE, LosslessnessError
from samlib.bench.tables import BASELINE, TABLES

OVERALL, ALL = "overall", "all"
REPETITION_LIMIT = 0.2
MIN_QUESTIONS = 5  # for an interval
MIN_QUESTIONS_OVERALL = 12
RESAMPLES = 9_999
BOOTSTRAP_SEED = 2411

#: How an answer can compare with greedy decoding's, the best first, and what a reader is told.
KIND_WORDS = {"identical": "identical", "near_tie": "near-tie", "rounding": "rounding", "different": "DIFFERENT"}
SEVERITY = tuple(KIND_WORDS)

NOT_RUN = "not run"

#: The names in `data/paper_numbers.csv` of tasks, sources and phases, where they differ.
PAPER_TASKS = {"math_reasoning": "math", "human_eval": "humaneval"}
PAPER_SOURCES = {"token_recycling": "auxiliary"}
PAPER_MEASURES = ("mat", "tokens_per_s", "speedup")
PHASES = ("prefill", "draft", "verify", "update", "other")

COLUMNS = (
    "block method task n mat tokens_per_s speedup speedup_low speedup_high speedup_total_time speedup_decode identical "
    "draft_share verify_share prefill_share update_share speedup_no_repeat n_no_repeat "
    "paper_mat paper_tokens_per_s paper_speedup"
).split()

AUXILIARY_COLUMNS = "task method source n steps mat mat_low mat_high ratio ratio_low ratio_high".split()


@dataclasses.dataclass(frozen=True)
class Sample:
    """One method on one question, its turns pooled: new tokens and seconds, in all and without prefill."""

    question: tuple
    task: str
    tokens: int
    seconds: float
    decode_tokens: int
    decode_seconds: float
    steps: int
    emitted: int
    phases: dict
    comparisons: tuple
    repeated: float
    sources: tuple

    @property
    def rate(self):
        """Tokens a second, prefill included, as Spec-Bench counts."""
        return self.tokens / self.seconds

    @property
    def decode_rate(self):
        """Tokens a second after the first token, which the prefill gives; nan where there is only that one."""
        return self.decode_tokens / self.decode_seconds if self.decode_tokens else math.nan


def table_rows(table, records, not_run=None):
    """Return a table (a name of TABLES) as a DataFrame with COLUMNS, one row a block x method x (task or "overall").

    records: of the table's run. not_run: {(block, method): why} of the run's lines that there was no time for; their
    rows have n = 0 and "not run" in the column `identical`.

    Only questions that every other line has answered count, so that all rows of a task speak of the same questions;
    those that failed anywhere are left out of all rows and listed in `frame.attrs["failed"]`. A line that failed on
    every question has no rows, and spares those of the others. The baseline, measured once, appears in both blocks. An
    interval is nan below 5 questions, overall below 12. `frame.attrs["differences"]`: see `differences`;
    `frame.attrs["not_run"]`: what was not run, and why.
    """
    table = TABLES[table]
    records, not_run = _of_table(table, records, not_run)
    series = _common_series(records)
    baseline = series.get(("paper", BASELINE), [])
    rows = [
        _row(table, *key, task, group, baseline)
        for key, group in _with_baseline_in_each_block(series, table.blocks).items()
        for task in (*table.tasks, OVERALL)
    ]
    rows = [row for row in rows if row["n"]]
    for block, method in not_run:
        rows += [_not_run_row(table, block, method, task) for task in (*table.tasks, OVERALL)]
    frame = pd.DataFrame(rows, columns=COLUMNS)
    frame.attrs["failed"] = failed_questions(records)
    frame.attrs["differences"] = differences(records)
    frame.attrs["not_run"] = [f"{method} ({block}): {why}" for (block, method), why in not_run.items()]
    return frame


def source_rows(table, records, not_run=None):
    """Who drafted: a DataFrame of block, method, source, steps, share (of the method's steps), mat, and the paper's.

    mat: emitted tokens a step of that source; the source "none" is a step without a draft. Questions and lines count
    as in `table_rows`.
    """
    records, _ = _of_table(TABLES[table], records, not_run)
    rows = []
    for (block, method), samples in _common_series(records).items():
        counts = _pooled_sources(samples)
        total = sum(steps for steps, _ in counts.values())
        for source, (steps, emitted) in counts.items():
            paper = _paper_source(table, method, source) if block == "paper" else (math.nan, math.nan)
            rows.append((block, method, source, steps, steps / total, emitted / steps, *paper))
    return pd.DataFrame(rows, columns="block method source steps share mat paper_share paper_mat".split())


def phase_rows(table, records, not_run=None):
    """Where the time went: a DataFrame of block, method, phase (one of PHASES), share (of its time), paper_share.

    Questions and lines count as in `table_rows`. What the paper calls decoding and verifying is one phase here, the
    forwards over drafts and the reading of what they say.
    """
    records, _ = _of_table(TABLES[table], records, not_run)
    rows = []
    for (block, method), samples in _common_series(records).items():
        shares = _shares(samples)
        shares = {phase: shares.get(f"{phase}_share", 1 - sum(shares.values())) for phase in PHASES}
        paper = _paper_phases(table, method) if block == "paper" else {}
        rows += [(block, method, phase, share, paper.get(phase, math.nan)) for phase, share in shares.items()]
    return pd.DataFrame(rows, columns=["block", "method", "phase", "share", "paper_share"])


def auxiliary_rows(records, method="sam[e2]", auxiliary="eagle2", block="paper"):
    """What SAM makes of an auxiliary drafter's accepted tokens: a DataFrame of AUXILIARY_COLUMNS, by task (data set).

    source "all": the auxiliary's own line, then all steps of the method around it; others: the method's steps whose
    draft was from there. n: questions with such a step; steps: such steps; mat: emitted tokens a step, pooled. ratio:
    mat over that of the auxiliary's own line on the same n questions. Intervals are bootstraps over questions, nan
    below 5. Only questions count that both lines have answered. No rows where one of the lines is missing.
    """
    lines = [(block, auxiliary), (block, method)]
    series = _common_series([record for record in records if _line(record) in lines])
    if not all(series.get(line) for line in lines):
        return pd.DataFrame(columns=AUXILIARY_COLUMNS)
    alone, own = (series[line] for line in lines)
    counts = {(auxiliary, ALL): _counts(alone), (method, ALL): _counts(own)}
    counts |= {(method, source): _counts(own, source) for source in _pooled_sources(own)}
    rows = []
    for task in dict.fromkeys(sample.task for sample in alone):
        of_task = {sample.question for sample in alone if sample.task == task}
        base = {question: found for question, found in counts[auxiliary, ALL].items() if question in of_task}
        rows += [(task, *line, *_beside(of_line, base)) for line, of_line in counts.items()]
    frame = pd.DataFrame(rows, columns=AUXILIARY_COLUMNS)
    return frame[frame["n"] > 0].reset_index(drop=True)


def failed_questions(records):
    """The failures, as "question 17 (sam[t], paper): message", in the order of the records."""
    failures = [record for record in records if record["error"]]
    return [f"question {r['question_id']} ({r['method']}, {r['block']}): {r['error']}" for r in failures]


def differences(records):
    """Every answer that is not greedy decoding's, as "near-tie: question 17, pld (paper), token 3, gap 5e-06"."""
    found = [pair for pair in _turns(records) if pair[1]["comparison"]["kind"] != "identical"]
    return [f"{KIND_WORDS[turn['comparison']['kind']]}: {_where(record, turn)}" for record, turn in found]


def check_run(records):
    """Raise LosslessnessError if the run is not acceptable; call it after the table has been shown.

    Not acceptable: a question that failed, an output that differs from greedy decoding beyond a near-tie, or more than
    one near-tie in 10,000 tokens (a single one is always allowed). In half precision, a difference that rounding
    explains is not counted: it is common there, and the table shows it.
    """
    failures = failed_questions(records)
    turns = _turns(records)
    different = [pair for pair in turns if pair[1]["comparison"]["kind"] == "different"]
    near_ties = [pair for pair in turns if pair[1]["comparison"]["kind"] == "near_tie"]
    tokens = sum(turn["new_tokens"] for _, turn in turns)
    if failures:
        raise LosslessnessError(f"{len(failures)} failed: {failures[0]}")
    if different:
        raise LosslessnessError(f"{len(different)} answers differ from greedy decoding, first: {_where(*different[0])}")
    if len(near_ties) > max(1, tokens / TOKENS_PER_NEAR_TIE):
        raise LosslessnessError(f"{len(near_ties)} near-ties in {tokens} tokens, first: {_where(*near_ties[0])}")


def speedup(method, baseline):
    """Spec-Bench's speed-up: the mean rate over questions, divided by the baseline's mean rate."""
    return float(np.mean(method) / np.mean(baseline))


def speedup_interval(method, baseline):
    """The 95 % percentile interval of `speedup`; see `interval_of`."""
    return interval_of(_quotient, method, baseline)


def interval_of(statistic, *series):
    """The 95 % percentile interval of a statistic of several series by a bootstrap over questions.

    series: one value a question each, resampled together. statistic(*series, axis): along the axis, vectorised. The
    seed is fixed: the same records give the same interval.
    """
    from scipy.stats import bootstrap

    result = bootstrap(
        tuple(np.asarray(values, dtype=float) for values in series),
        statistic,
        paired=True,
        vectorized=True,
        method="percentile",
        n_resamples=RESAMPLES,
        rng=np.random.default_rng(BOOTSTRAP_SEED),
    )
    return float(result.confidence_interval.low), float(result.confidence_interval.high)


def _quotient(above, below, axis):
    return np.mean(above, axis=axis) / np.mean(below, axis=axis)


def _quotient_of_quotients(above, below, other_above, other_below, axis):
    return _quotient(above, below, axis) / _quotient(other_above, other_below, axis)


def mean_accepted_tokens(samples):
    """Emitted tokens a step, pooled over all steps of all questions; nan with no step."""
    return _ratio(sum(s.emitted for s in samples), sum(s.steps for s in samples))


def paper_numbers(table, method, task):
    """The paper's {"mat", "tokens_per_s", "speedup"} of a row and task; nan where it gives none.

    A whole method in Table 3 is the one of Table 1, whose numbers stand there.
    """
    if table == "table3" and "without" not in method:
        table = "table1"
    dataset = PAPER_TASKS.get(task, task) if table == "table2" else "spec_bench"
    found, columns = _paper_values(table.removeprefix("table"), dataset, method), _paper_column_names(table, task)
    return {name: found.get(columns.get(name), math.nan) for name in PAPER_MEASURES}


def _paper_column_names(table, task):
    """{measure: the name of its column in `data/paper_numbers.csv`}, of the measures that are given there."""
    every = dict(zip(PAPER_MEASURES, PAPER_MEASURES, strict=True))
    if table == "table1":
        speedup = {"speedup": f"speedup_{PAPER_TASKS.get(task, task)}"}
        return every | speedup if task == OVERALL else speedup
    return every if table == "table2" or task == OVERALL else {}


def _paper_source(table, method, source):
    """The paper's (share of steps, MAT) of a draft source; nan where it gives none."""
    found = _paper_values("source_share", "spec_bench", method) if table != "table2" else {}
    name = PAPER_SOURCES.get(source, source)
    return found.get(f"{name}_share_percent", math.nan) / 100, found.get(f"{name}_mat", math.nan)


def _paper_phases(table, method):
    """{phase: the paper's share of the time}, of the phases that it gives."""
    found = _paper_values("time_share", "spec_bench", method) if table != "table2" else {}
    shares = {name.removesuffix("_percent"): percent / 100 for name, percent in found.items()}
    return shares | {"verify": shares.pop("decode") + shares["verify"]} if shares else {}


def _paper_values(table, dataset, method):
    """{column: value} of the paper's numbers of one row."""
    return _all_paper_values(paths.DATA / "paper_numbers.csv").get((table, dataset, method), {})


@functools.cache
def _all_paper_values(path):
    """{(table, dataset, method): {column: value}} of the whole file, which is read once: every cell asks for some."""
    found = {}
    with open(path, encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            found.setdefault((row["table"], row["dataset"], row["method"]), {})[row["column"]] = float(row["value"])
    return found


def _of_table(table, records, not_run):
    """The table's records, without those of lines not run; and these lines. Blocks are the table's own in both."""
    not_run = not_run or {}
    blocks = table.blocks_of({*not_run, *map(_line, records)})
    shown = {line: block for line, block in blocks.items() if line not in not_run}
    kept = [record | {"block": shown[_line(record)]} for record in records if _line(record) in shown]
    return kept, {(blocks[line], line[1]): why for line, why in not_run.items() if line in blocks}


def _line(record):
    """The (block, name) of a record's line."""
    return record["block"], record["method"]


def _not_run_row(table, block, method, task):
    row = {"block": block, "method": method, "task": task, "n": 0, "n_no_repeat": 0, "identical": NOT_RUN}
    return row | _paper_columns(table, block, method, task)


def _common_series(records):
    """{(block, method): [Sample]}, of the questions that all of them have answered."""
    series = _samples_by_series(records)
    answered = [{sample.question for sample in group} for group in series.values() if group]
    common = set.intersection(*answered) if answered else set()
    return {name: [s for s in group if s.question in common] for name, group in series.items()}


def _counts(samples, source=None):
    """{question: (emitted tokens, steps)}, of one source's steps where one is given; questions without one left out."""
    if source is None:
        found = {sample.question: (sample.emitted, sample.steps) for sample in samples}
    else:
        found = {sample.question: _pooled_sources([sample]).get(source, (0, 0))[::-1] for sample in samples}
    return {question: counts for question, counts in found.items() if counts[1]}


def _beside(counts, base):
    """n, steps, MAT with its interval, and its ratio to `base` with its interval, on the questions that both hold."""
    common = [question for question in base if question in counts]
    if not common:
        return [0, 0, *[math.nan] * 6]
    emitted, steps = zip(*(counts[question] for question in common), strict=True)
    series = (emitted, steps, *zip(*(base[question] for question in common), strict=True))
    values = [len(common), sum(steps)]
    for statistic, given in ((_quotient, series[:2]), (_quotient_of_quotients, series)):
        bounds = interval_of(statistic, *given) if len(common) >= MIN_QUESTIONS else (math.nan, math.nan)
        values += [float(statistic(*given, axis=None)), *bounds]
    return values


def _pooled_sources(samples):
    """{source: (steps, emitted tokens)} over all samples, the most frequent source first."""
    counts = {}
    for sample in samples:
        for source, of_source in sample.sources:
            steps, emitted = counts.get(source, (0, 0))
            counts[source] = steps + of_source["steps"], emitted + of_source["emitted"]
    return dict(sorted(counts.items(), key=lambda item: -item[1][0]))


def _samples_by_series(records):
    """{(block, method): [Sample]} of the records that did not fail; a question's latest record counts, once."""
    series = {}
    for record in records:
        group = series.setdefault((record["block"], record["method"]), {})
        if not record["error"]:
            group[record["dataset"], record["question_id"]] = _sample(record)
    return {name: list(group.values()) for name, group in series.items()}


def _sample(record):
    turns = record["turns"]
    phases = {name: sum(t["timings"][name] or 0.0 for t in turns) for name in ("prefill", "draft", "verify", "update")}
    seconds = sum(t["timings"]["total"] for t in turns)
    tokens = sum(t["new_tokens"] for t in turns)
    return Sample(
        question=(record["dataset"], record["question_id"]),
        task=record["task"],
        tokens=tokens,
        seconds=seconds,
        decode_tokens=tokens - sum(1 for t in turns if t["new_tokens"]),
        decode_seconds=seconds - phases["prefill"],
        steps=sum(t["steps"] for t in turns),
        emitted=sum(t["mat_emitted"] for t in turns),
        phases=phases,
        comparisons=tuple(t["comparison"] for t in turns),
        repeated=record["repeated_8gram_share"],
        sources=tuple(pair for t in turns for pair in t["sources"].items()),
    )


def _with_baseline_in_each_block(series, blocks):
    """The same series, ordered block by block, the baseline first in each of `blocks`."""
    ordered = {}
    for block in ("reference", *blocks):
        if block != "reference" and ("paper", BASELINE) in series:
            ordered[block, BASELINE] = series["paper", BASELINE]
        ordered |= {key: group for key, group in series.items() if key[0] == block and key[1] != BASELINE}
    return ordered


def _row(table, block, method, task, group, baseline):
    own = [s for s in group if task in (OVERALL, s.task)]
    row = {"block": block, "method": method, "task": task, "n": len(own)}
    if not own:
        return row
    base_of = {s.question: s for s in baseline}
    pairs = [(s, base_of[s.question]) for s in own if s.question in base_of]
    row["mat"] = mean_accepted_tokens(own)
    row["tokens_per_s"] = float(np.mean([s.rate for s in own]))
    row["identical"] = identical_words([s.comparisons for s in own])
    return row | _speeds(pairs, task) | _shares(own) | _paper_columns(table, block, method, task)


def _speeds(pairs, task):
    """All speed-up columns, from (sample, baseline's sample of the same question) pairs."""
    calm = [(s, b) for s, b in pairs if max(s.repeated, b.repeated) <= REPETITION_LIMIT]
    decode = [(s, b) for s, b in pairs if s.decode_tokens and b.decode_tokens]
    low, high = _interval(pairs, task)
    return {
        "speedup": _speedup(pairs, "rate"),
        "speedup_low": low,
        "speedup_high": high,
        "speedup_total_time": _total_time_speedup(pairs),
        "speedup_decode": _speedup(decode, "decode_rate"),
        "speedup_no_repeat": _speedup(calm, "rate"),
        "n_no_repeat": len(calm),
    }


def _speedup(pairs, attribute):
    if not pairs:
        return math.nan
    return speedup([getattr(s, attribute) for s, _ in pairs], [getattr(b, attribute) for _, b in pairs])


def _interval(pairs, task):
    if len(pairs) < (MIN_QUESTIONS_OVERALL if task == OVERALL else MIN_QUESTIONS):
        return math.nan, math.nan
    return speedup_interval([s.rate for s, _ in pairs], [b.rate for _, b in pairs])


def _total_time_speedup(pairs):
    """The ratio of total rates: all tokens over all seconds, against the baseline's (near-ties may change lengths)."""
    own = _ratio(sum(s.tokens for s, _ in pairs), sum(s.seconds for s, _ in pairs))
    return _ratio(own, _ratio(sum(b.tokens for _, b in pairs), sum(b.seconds for _, b in pairs)))


def _shares(samples):
    """Each phase's share of the total time. What no phase claims (the loop itself) is in none of them."""
    seconds = sum(s.seconds for s in samples)
    names = ("draft", "verify", "prefill", "update")
    return {f"{name}_share": sum(s.phases[name] for s in samples) / seconds for name in names}


def _paper_columns(table, block, method, task):
    """The paper's numbers: all in the paper block; speed-up alone beside device sizes, whose MAT is another thing."""
    numbers = paper_numbers(table.name, method, task) if block in ("paper", "device") else {}
    if block == "device":
        numbers = {"speedup": numbers["speedup"]}
    return {f"paper_{name}": numbers.get(name, math.nan) for name in PAPER_MEASURES}


def _turns(records):
    """(record, turn) of every answer that did not fail."""
    return [(record, turn) for record in records if not record["error"] for turn in record["turns"]]


def identical_words(questions):
    """How many questions' answers are greedy decoding's, from each question's comparisons (dicts, one a turn).

    "12/12", "59/60 + 1 near-tie", "50/60 + 10 different in float16 (largest gap 0.031)", "59/60 + 1 different"; a
    question counts by its worst turn. What fails the run in half precision is "1 different beyond rounding".
    """
    worst = [max(comparisons, key=_severity) for comparisons in questions]
    groups = {kind: [found for found in worst if found["kind"] == kind] for kind in SEVERITY}
    parts = [f"{len(groups['identical'])}/{len(worst)}"]
    if near_ties := groups["near_tie"]:
        parts.append(f"{len(near_ties)} near-tie{'s' if len(near_ties) > 1 else ''}")
    if rounded := groups["rounding"]:
        gap = max(found["gap"] for found in rounded)
        parts.append(f"{len(rounded)} different in {rounded[0]['dtype']} (largest gap {gap:.2g})")
    if different := groups["different"]:
        parts.append(f"{len(different)} different{' beyond rounding' if different[0]['dtype'] in HALF else ''}")
    return " + ".join(parts)


def _severity(found):
    """The order of comparisons, the worst last."""
    return SEVERITY.index(found["kind"]), found["gap"] or 0.0


def _where(record, turn):
    found = turn["comparison"]
    gap = "no gap: one output ends earlier, or a logit is not finite" if found["gap"] is None else _gap_words(found)
    return f"question {record['question_id']}, {record['method']} ({record['block']}), token {found['position']}, {gap}"


def _gap_words(found):
    """ "gap 0.031", in half precision with the rounding error that it is held against."""
    if found["rounding"] is None:
        return f"gap {found['gap']:.2g}"
    return f"gap {found['gap']:.2g} where {found['dtype']} rounds by {found['rounding']:.2g}"


def _ratio(a, b):
    return a / b if b else math.nan
