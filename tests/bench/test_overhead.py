"""What is not the model's forward: parts that add up, for every method, and the command's last line."""

import json

import pytest

import samlib
from samlib.bench import load_model, overhead
from samlib.bench.heads import head_options
from samlib.bench.overhead import compare_loops, measure_overhead, prompt_near
from samlib.bench.profiles import load_profile

PROMPT = [5, 6, 7, 8, 5, 6, 7, 8, 5, 6]


@pytest.fixture(scope="module")
def model():
    return load_model("smoke")[0]


@pytest.mark.parametrize("method", samlib.METHODS)
def test_the_parts_make_up_what_is_not_the_forward(model, method):
    index, options = samlib.StaticAutomaton.build([PROMPT]), head_options(load_profile("smoke"), model, method)
    found = measure_overhead(model, PROMPT, method, index, max_new_tokens=12, **options)
    assert found["method"] == method and found["tokens"] == 12
    assert found["forward"] > 0
    assert all(found[part] > 0 for part in ("draft", "verify", "update"))
    assert found["other"] == pytest.approx(found["draft"] + found["verify"] + found["update"])
    assert found["share"] == pytest.approx(found["other"] / (found["other"] + found["forward"]))


def test_the_forwards_are_those_of_the_steps_and_not_the_prefill(model, monkeypatch):
    """Made-up seconds: the prefill's 100 are left out, the steps' are summed."""

    class Clocked:
        def __enter__(self):
            return [(10, 100.0), (1, 0.25), (1, 0.5)]

        def __exit__(self, *exception):
            pass

    monkeypatch.setattr(overhead, "forward_clock", lambda model: Clocked())
    assert measure_overhead(model, PROMPT, "autoregressive", max_new_tokens=3)["forward"] == 0.75


def test_a_static_index_is_used(model):
    index = samlib.StaticAutomaton.build([list(range(40))])
    assert measure_overhead(model, [30, 31, 32], "sam", static=index, max_new_tokens=6)["steps"] > 0


def test_the_drafter_is_warm_when_it_is_measured(model):
    """Token Recycling drafts nothing in the first steps of its first request; the second is measured."""
    cold = samlib.generate(model, PROMPT, method="token_recycling", max_new_tokens=30, eos_token_id=None)
    assert measure_overhead(model, PROMPT, "token_recycling", max_new_tokens=30)["steps"] < len(cold.steps)


def test_the_loops_are_timed_in_turn_and_the_first_turn_is_dropped(model, monkeypatch):
    order = []

    def seconds(model, loop, prompt, max_new_tokens):
        order.append(loop.__name__)
        return {"_samlib_loop": 3.0, "_transformers_loop": 2.0}[loop.__name__] if len(order) > 2 else 1000.0

    monkeypatch.setattr(overhead, "_seconds", seconds)
    assert compare_loops(model, PROMPT, 5, repeats=3) == {
        "samlib": 3.0, "transformers": 2.0, "ratio": 1.5, "repeats": 3
    }  # fmt: skip
    assert order == ["_samlib_loop", "_transformers_loop", "_transformers_loop", "_samlib_loop"] * 2


def test_the_context_is_entered_for_samlib_alone(model, monkeypatch):
    entered, seen = [], []

    class Context:
        def __enter__(self):
            entered.append(self)

        def __exit__(self, *exception):
            entered.pop()

    monkeypatch.setattr(
        overhead, "_seconds", lambda model, loop, *rest: seen.append((loop.__name__, len(entered))) or 1
    )
    compare_loops(model, PROMPT, 5, repeats=1, context=Context())
    assert set(seen) == {("_samlib_loop", 1), ("_transformers_loop", 0)}


def test_both_loops_really_run(model):
    found = compare_loops(model, PROMPT, 4, repeats=1)
    assert found["samlib"] > 0 and found["transformers"] > 0


def test_the_prompt_nearest_to_a_size():
    tokenizer = load_model("smoke")[1]
    short, long = (prompt_near(tokenizer, "smoke", size) for size in (0, 10**6))
    assert len(short) < len(long)


def test_the_command_ends_with_one_line_of_json(capsys):
    overhead.main(["--profile", "smoke", "--context", "50", "--tokens", "4", "--repeats", "1"])
    lines = capsys.readouterr().out.splitlines()
    last = json.loads(lines[-1])
    assert [row["method"] for row in last["overhead"]] == list(samlib.METHODS) and last["left_out"] == []
    assert last["loop"]["repeats"] == last["kernels"]["repeats"] == 1
    assert any(line.startswith("token_recycling") for line in lines)


def test_methods_without_their_head_are_left_out_and_named(capsys, monkeypatch):
    monkeypatch.setattr(overhead, "head_options", lambda profile, model, method: {})
    overhead.main(["--profile", "smoke", "--context", "50", "--tokens", "2", "--repeats", "1"])
    lines = capsys.readouterr().out.splitlines()
    last = json.loads(lines[-1])
    missing = ["eagle", "eagle2", "sam[e]", "sam[e2]"]
    assert [row["method"] for row in last["overhead"]] == [name for name in samlib.METHODS if name not in missing]
    assert [words.split(" left out (")[0] for words in last["left_out"]] == missing
    assert all("needs an EAGLE head" in words and words in lines for words in last["left_out"])
