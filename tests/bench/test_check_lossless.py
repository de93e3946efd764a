"""The check of all questions: with the tiny random model, against plain greedy decoding."""

import json

import pytest

from samlib import paths
from samlib.bench import check_lossless
from samlib.bench.answers import Contender
from samlib.bench.check_lossless import Check, summary
from samlib.bench.data import load_questions


@pytest.fixture
def runs(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "RUNS", tmp_path)
    return tmp_path / "smoke" / "lossless.jsonl"


@pytest.fixture
def questions(monkeypatch):
    """Three questions: the first of HAGRID, and two of Spec-Bench, one of them in two turns."""
    of_spec_bench = load_questions("smoke")
    chosen = {"spec_bench": [next(q for q in of_spec_bench if len(q.turns) == n) for n in (2, 1)]}
    chosen["hagrid"] = load_questions("smoke", "hagrid")[:1]
    monkeypatch.setattr(check_lossless, "load_questions", lambda profile, dataset: chosen[dataset])
    return chosen


def check(methods=("autoregressive", "eagle2", "sam[t]")):
    return Check("smoke", list(methods), ["spec_bench", "hagrid"], 6, progress=False).run()


def test_every_turn_of_every_question_is_compared_with_greedy_decoding(runs, questions):
    counts = check()
    assert {method: dict(kinds) for method, kinds in counts.items()} == dict.fromkeys(counts, {"identical": 4})
    records = [json.loads(line) for line in runs.read_text().splitlines()]
    assert len(records) == 4 * 4 and sum("ids" in record for record in records) == 4


def test_the_settings_for_this_device_are_checked_too(runs, questions):
    sized = Check("smoke", ["eagle2", "sam"], ["hagrid"], 6, block="device", progress=False)
    assert [line.block for line in sized.lines] == ["device", "device"]
    assert sized.lines[0].options["vocabulary"] is not None, "drafts over a part of it, as no paper's line does"
    assert all(dict(kinds) == {"identical": 1} for kinds in sized.run().values())


def test_a_second_call_measures_only_what_is_missing(runs, questions, monkeypatch):
    check(["sam"])
    asked, answer = [], Contender.answer

    def counted(self, *args):
        asked.append(self.line.method)
        return answer(self, *args)

    monkeypatch.setattr(Contender, "answer", counted)
    assert check(["sam", "pld"])["pld"].total() == 4
    assert asked == ["pld"] * 4


def test_a_difference_is_found_and_fails(runs, questions, monkeypatch, capsys):
    answer = check_lossless.Check._answer

    def wrong(self, contender, ids):
        found = answer(self, contender, ids)
        return found[:-1] if contender.line.method == "pld" else found

    monkeypatch.setattr(check_lossless.Check, "_answer", wrong)
    arguments = ["--profile", "smoke", "--datasets", "hagrid", "--max-new-tokens", "6", "--methods"]
    assert check_lossless.main([*arguments, "sam", "pld"]) == 1
    assert "pld: 0 of 1 identical, 1 different" in capsys.readouterr().out
    assert check_lossless.main([*arguments, "sam"]) == 0


def test_an_unknown_method_is_refused_before_anything_is_loaded(monkeypatch):
    monkeypatch.setattr(check_lossless, "load_model", lambda profile: pytest.fail("loaded"))
    with pytest.raises(ValueError, match="unknown method 'eagel'"):
        Check("smoke", ["eagel"], ["hagrid"])


def test_the_summary_names_what_is_not_identical():
    counts = {"pld": check_lossless.collections.Counter(identical=3, near_tie=1)}
    assert summary(counts) == "pld: 3 of 4 identical, 1 near-tie"
