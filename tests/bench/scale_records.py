"""Invented records of the automata at scale, for tests that measure nothing."""

FACTS = {"tokens": 16_000_000, "documents": 5000, "bytes": 60_000_000, "skipped": 2, "vocabulary": 49_152}
CORPUS = FACTS | {"sha256": "ab" * 32}
LIMITS = {"latency_ns": {"32768": [1.0, 1.2], "536870912": [101.0, 150.0]}, "copy_gb_s": [9.0, 10.0]}
LIMITS |= {"call_us": [0.25, 0.3]}
INDEX = {"nbytes": 536_870_912, "jumps": 0.5}


def record(measurement, samlib, unit="µs", **fields):
    """One record as the bench writes it."""
    empty = {"tokens": 16_000_000, "better": "less", "peer": None, "other": [], "facts": {}, "error": None}
    about = {"profile": "cpu", "repeats": 3, "corpus": CORPUS, "cpu": "CPU A"}
    given = {"key": measurement, "measurement": measurement, "unit": unit, "samlib": samlib}
    return given | empty | about | fields


def scale_records():
    """The library alone, DraftRetriever, and ArcticInference, which died after building."""
    return [
        record("limits", [9.0, 10.0], "GB/s", facts=LIMITS),
        record("build", [2.4, 2.6, 2.7], "Mtok/s", better="more", facts=INDEX),
        record("index memory", [20.0], "B/token"),
        record("peak memory", [95.0], "B/token"),
        record("open", [1.0, 2.0, 3.0], "ms"),
        record("open, verified", [200.0], "ms", facts=INDEX),
        record("draft, first, held-out", [2.5, 2.0, 3.0], facts=INDEX),
        record("extend at 1000", [0.1], "µs/token", tokens=1000, facts={"nbytes": 32_768, "jumps": 0.25}),
        record("step at 100000 against 1000", [1.4, 1.6, 1.7], "times", tokens=100_000),
        *_peer("DraftRetriever", 16_000_000),
        *_peer("ArcticInference", 2_000_000, died="ArcticInference: killed by SIGABRT: bad query"),
    ]


def _peer(peer, tokens, died=None):
    common = {"peer": peer, "tokens": tokens}
    speeds = record(f"build, {peer}", [2.0, 2.2, 2.4], "Mtok/s", other=[1.0, 2.0, 1.5], better="more", **common)
    memory = record(f"index memory, {peer}", [20.0], "B/token", other=[30.0], **common)
    draft = record(f"draft, held-out, {peer}", [2.0, 2.5], other=[200.0, 300.0], **common)
    return [speeds, *([one | {"samlib": [], "other": [], "error": died} if died else one for one in (memory, draft)])]
