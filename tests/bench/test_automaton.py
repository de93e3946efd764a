"""The bench of the automata: measured once, kept, measured again when something changed; a peer's death is a line."""

import dataclasses
import importlib
import json

import numpy as np
import pytest

from samlib import paths
from samlib.bench import automaton, large_corpus, limits, peers, scale
from samlib.bench.automaton import ChildFailed, load_automaton
from samlib.bench.child import run_child
from samlib.bench.peers import largest_size
from samlib.bench.profiles import load_profile
from tests.automaton.naive import NaiveStatic

PROFILE = dataclasses.replace(load_profile("smoke"), automaton_tokens=21_000)


class Frail(peers.PlainPython):
    """A peer that is at hand everywhere, and that the tests let die."""

    name, cheap, saves = "Frail", False, True


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """A corpus of the profile's size, tokenised once for all tests here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(paths, "CACHE", tmp_path_factory.mktemp("cache"))
        yield large_corpus.load_large_corpus(PROFILE, progress=False)


@pytest.fixture(autouse=True)
def bench(corpus, tmp_path, monkeypatch):
    """Small sizes, folders of the test's own, one peer besides plain Python; children are called in this process.

    Returns the list of the calls made, and a dict: which function is to die for which peer.
    """
    calls, deaths = [], {}

    def call(function, *, timeout=None, **arguments):
        module, _, name = function.partition(":")
        calls.append(name)
        results = list(getattr(importlib.import_module(module), name)(**arguments))
        if name in deaths and deaths[name] in (arguments.get("name"), "anyone"):
            return results[:1], "killed by SIGABRT: panicked"
        return json.loads(json.dumps(results)), None

    monkeypatch.setattr(automaton, "run_child", call)
    monkeypatch.setattr(automaton, "load_large_corpus", lambda *_, **__: corpus)
    monkeypatch.setattr(automaton, "PEERS", {"plain Python": peers.PlainPython, "Frail": Frail})
    monkeypatch.setattr("samlib.bench.scale.PEERS", {"plain Python": peers.PlainPython, "Frail": Frail})
    monkeypatch.setattr(peers.PromptLookup, "installed", staticmethod(lambda: None))
    monkeypatch.setattr(automaton, "STEPS", 40)
    monkeypatch.setattr(limits, "COPIED", 1 << 16)
    monkeypatch.setattr(paths, "RUNS", tmp_path / "runs")
    monkeypatch.setattr(paths, "CACHE", tmp_path / "cache")
    return calls, deaths


def load(**options):
    return load_automaton(PROFILE, progress=False, **({"repeats": 1} | options))


def names(records):
    return [record["measurement"] for record in records]


def test_every_measurement_has_one_record_on_file(bench):
    records = load(peers=True, repeats=2)
    path = paths.RUNS / "smoke" / "records" / "automaton.jsonl"
    assert [json.loads(line) for line in path.read_text().splitlines()] == records
    assert len(set(names(records))) == len(records)
    for name in (
        "build",
        "peak memory",
        "open, verified",
        "draft, tree, quoting",
        "extend at 10000",
        "draft, held-out, Frail",
    ):
        assert name in names(records)
    for record in records:
        assert record["error"] is None and record["unit"] and all(np.isfinite(record["samlib"]))
        assert len(record["other"]) == (len(record["samlib"]) if record["peer"] else 0)
    assert list(paths.CACHE.iterdir()) == []  # the index was only for the run


def test_what_was_measured_is_not_measured_again(bench):
    calls, _ = bench
    first = load()
    calls.clear()
    assert load() == first and calls == []


def test_peers_are_added_and_stay(bench):
    calls, _ = bench
    load()
    calls.clear()
    with_peers = load(peers=True)
    assert set(calls) == {"against", "memory"}
    assert names(load()) == names(with_peers)


@pytest.mark.parametrize("change", ["fresh", "repeats", "library", "corpus"])
def test_what_changed_is_measured_again(bench, corpus, monkeypatch, change):
    calls, _ = bench
    load()
    calls.clear()
    if change == "library":
        monkeypatch.setattr(automaton, "library_version", lambda: "another")
    if change == "corpus":
        other = dataclasses.replace(corpus, facts=corpus.facts | {"sha256": "another"})
        monkeypatch.setattr(automaton, "load_large_corpus", lambda *_, **__: other)
    options = {"fresh": {"fresh": True}, "repeats": {"repeats": 2}}.get(change, {})
    records = load(**options)
    assert {"build", "opening", "drafts", "extending", "stepping", "against"} <= set(calls)
    assert len(records) == len(set(names(records)))


def test_fewer_repeats_than_on_file_are_served_from_there(bench):
    calls, _ = bench
    load(repeats=2)
    calls.clear()
    assert load(repeats=1)[0]["repeats"] == 2 and calls == []


def test_a_peer_that_dies_keeps_what_it_had_is_told_in_one_line_and_tried_again(bench):
    calls, deaths = bench
    deaths["against"] = "Frail"
    found = {record["measurement"]: record for record in load(peers=True)}
    assert found["build, Frail"]["error"] is None and found["build, Frail"]["other"]
    lost = found["draft, held-out, Frail"]
    assert lost["error"] == "Frail: killed by SIGABRT: panicked" and lost["samlib"] == lost["other"] == []
    assert found["draft, held-out, plain Python"]["error"] is None
    deaths.clear()
    calls.clear()
    assert all(record["error"] is None for record in load(peers=True))
    assert set(calls) == {"against", "memory"}


def test_the_library_s_own_failure_is_an_error(bench):
    _, deaths = bench
    deaths["drafts"] = "anyone"
    with pytest.raises(ChildFailed, match="SIGABRT"):
        load()


def test_saving_counts_where_the_peer_s_building_writes_a_file(bench):
    found = {record["measurement"]: record for record in load(peers=True)}
    assert found["build and save, Frail"]["samlib"][0] < found["build, Frail"]["samlib"][0]
    assert found["build and save, Frail"]["other"] == found["build, Frail"]["other"]
    assert "build and save, plain Python" not in found


def test_a_comparison_runs_in_a_process_of_its_own(corpus):
    place = {"corpus": str(corpus.path), "tokens": 2000, "name": "plain Python"}
    results, reason = run_child("samlib.bench.scale:against", repeats=2, steps=20, **place)
    assert reason is None and [result["part"] for result in results] == ["build", "lookup", "lookup"]
    assert {who: len(times) for who, times in results[1]["times"].items()} == {"samlib": 2, "plain Python": 2}
    assert results[2]["with_draft"] > 0.9 and results[2]["jumps"] < results[1]["jumps"]  # held-out, quoting


def test_a_walk_quotes_what_the_index_holds_and_a_held_out_one_does_not_repeat_itself(corpus):
    walks = scale.walks(corpus, 2000, repeats=3, steps=40)
    held = corpus.tokens[:2000].tobytes()
    assert all(stretch[: scale.PASSAGE].tobytes() in held for stretch in walks["quoting"])
    assert len({stretch.tobytes() for stretch in walks["held-out"]}) == 3
    assert all(stretch.tobytes() in corpus.held_out.tobytes() for stretch in walks["held-out"])


def test_all_builders_draft_what_followed_the_longest_match(corpus):
    documents = corpus.documents(3000)
    naive = NaiveStatic([np.concatenate(documents).tolist()])
    query = [*corpus.tokens[1000:1020].tolist(), *corpus.held_out[:20].tolist()]
    for builder in (peers.Samlib(), peers.PlainPython()):
        builder.build(builder.prepare([np.concatenate(documents)], 259))
        for size in range(1, len(query) + 1):
            draft = builder.lookup(query[size - 1], None)
            assert list(draft) == naive.draft(query[:size], 40, "first")


@pytest.mark.parametrize(
    ("most", "memory", "tokens", "size"),
    [(None, 1e12, 5_000_000, 5_000_000), (300_000, 1e12, 5_000_000, 300_000), (None, 1e9, 5_000_000, 700_000)],
)
def test_a_peer_is_measured_at_what_it_bears(most, memory, tokens, size):
    peer = dataclasses.make_dataclass("Peer", [])
    peer.max_tokens, peer.peak_bytes = most, 700
    assert largest_size(peer, tokens, int(memory)) == size


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--tokens", "many"], "--tokens: takes a whole number above 0, not 'many'"),
        (["--tokens", "0"], "--tokens"),
        (["--tokens", "100"], "at least 20,000"),
        (["--repeats", "-1"], "--repeats"),
        (["--profile", "cpuu"], "did you mean 'cpu'"),
        (["--what"], "--what"),
    ],
)
def test_bad_input_is_one_line_and_status_2(capsys, arguments, says):
    with pytest.raises(SystemExit) as ended:
        automaton.main(arguments)
    text = capsys.readouterr().err
    assert ended.value.code == 2 and says in text and text.count("\n") == 1


def test_help_fits_one_screen(capsys):
    with pytest.raises(SystemExit):
        automaton.main(["--help"])
    text = capsys.readouterr().out
    assert len(text.splitlines()) <= 40
    assert all(flag in text for flag in ("--profile", "--tokens", "--repeats", "--fresh", "--no-peers"))


def test_the_command_ends_with_the_table(capsys, monkeypatch):
    monkeypatch.setattr(automaton, "load_profile", lambda _: PROFILE)
    assert automaton.main(["--no-peers", "--repeats", "1"]) == 0
    text = capsys.readouterr().out
    assert "draft, first, held-out" in text and "21,000 tokens" in text


def test_a_number_may_have_separators():
    assert automaton._count("16,000,000") == automaton._count("16_000_000") == 16_000_000
