"""sam_auto against the same in plain Python: what may come next, how it learns, which tree it takes; and its cost."""

import math

import numpy as np
import pytest
from hypothesis import given, settings

import samlib
from samlib import StaticAutomaton, make_drafter
from samlib.decoding import step_cost as step_cost_module
from samlib.decoding.step_cost import StepCost, step_cost
from samlib.drafters import Verified
from samlib.drafters.acceptance import LEARNING_RATE, PRIOR_WORTH, SHAPES, load_prior
from samlib.drafters.auto import SamAuto

from ..automaton.naive import tree_paths
from ..automaton.strategies import SMALL_IDS, corpora, texts
from ..decoding.models import COST, counted_forwards, cycle, cycle_model, random_model, random_prompt
from .naive_auto import NaiveAuto
from .replay import replay

#: Random weights, no two alike, so that a wrong one shows.
WEIGHTS = {name: np.random.default_rng(7).normal(0, 1, shape) for name, shape in SHAPES.items()}
FLAT, STEEP = StepCost({1: 1.0}), StepCost({1: 1.0, 64: 64.0})


def pair(documents, cost=COST, rate=LEARNING_RATE, prior=WEIGHTS):
    """sam_auto and the naive one, both before any text."""
    drafter = SamAuto(StaticAutomaton.build(documents), cost=cost, rate=rate, prior=prior)
    return drafter, NaiveAuto(prior, documents, rate, PRIOR_WORTH)


def int32(values):
    return np.array(values, dtype=np.int32)


def show_rows(drafter, naive, text):
    """Some verified tokens, a root with two branches, and eight likely ids after each."""
    rng = np.random.default_rng(len(text))
    tokens, parents = [text[-1], *rng.integers(0, 5, 3).tolist()], [-1, 0, 1, 0]
    top = [rng.permutation(9)[:8].tolist() for _ in tokens]
    before = text[-2] if len(text) > 1 else None
    verified = Verified(int32(tokens), int32(top), None, np.array([0, 1]), int32(parents))
    drafter._foresight.successors.learn(-1 if before is None else before, verified)
    naive.see(before, tokens, parents, top)


requests = given(
    documents=corpora(alphabets=SMALL_IDS),
    prompt=texts(24, SMALL_IDS).filter(bool),
    stream=texts(12, SMALL_IDS).filter(bool),
)


@requests
def test_what_may_come_next(documents, prompt, stream):
    drafter, naive = pair(documents)
    drafter.begin(int32(prompt))
    naive.extend(prompt, learn=False)
    for token in stream:
        show_rows(drafter, naive, naive.text)
        expected = naive.probabilities(naive.options())
        found = drafter.options()
        assert {option["token"]: pytest.approx(option["probability"]) for option in found} == expected
        assert found == sorted(found, key=lambda option: -option["probability"])
        drafter.observe(int32([token]))
        naive.extend([token], learn=True)


@requests
def test_it_learns_from_every_emitted_token(documents, prompt, stream):
    drafter, naive = pair(documents, rate=0.5)
    drafter.begin(int32(prompt))
    naive.extend(prompt, learn=False)
    show_rows(drafter, naive, prompt)
    drafter.observe(int32(stream))
    naive.extend(stream, learn=True)
    learnt = drafter.learnt()
    assert {name: part.shape for name, part in learnt.items()} == SHAPES
    for (kind, *place), weight in naive.weights.items():
        assert learnt[kind][tuple(place)] == pytest.approx(weight)
    drafter.reset()
    assert all((part == WEIGHTS[name]).all() for name, part in drafter.learnt().items())
    assert drafter.options() == []


@settings(max_examples=60)
@requests
@pytest.mark.parametrize("cost", [COST, FLAT, STEEP])
@pytest.mark.parametrize("room", [1, 3, 99])
def test_the_tree_is_the_best_one(cost, room, documents, prompt, stream):
    """Its gain is that of the best number of nodes among those that plain Python takes, the likeliest first."""
    drafter, naive = pair(documents, cost=cost)
    drafter._draft_size = 12  # of plain Python's patience
    text = prompt + stream
    drafter.begin(int32(text))
    naive.extend(text, learn=False)
    show_rows(drafter, naive, text)
    seconds = [cost.seconds(1 + n, len(text)) for n in range(13)]
    paths, best, chances = naive.tree(room, seconds)
    draft = drafter.propose(room)
    found = tree_paths(draft.tokens, draft.parents)
    known = {path: naive_chance(naive, path) for path in found}
    gains = [(1 + sum(chances[:n])) / seconds[n] for n in range(len(paths) + 1)]
    assert len(set(found)) == len(found) and all(len(path) <= room for path in found)
    assert (1 + sum(known.values())) / seconds[len(found)] == pytest.approx(gains[best])


def naive_chance(naive, path):
    """The probability that all of a path is accepted."""
    steps = (naive.probabilities(naive.options(path[:n]))[path[n]] for n in range(len(path)))
    return math.prod(steps)


# --- what the weights mean


def test_the_prior_trusts_what_followed_long_matches_last_and_the_first_ranks():
    prior = load_prior()
    assert {name: part.shape for name, part in prior.items()} == SHAPES
    ranks = prior["row"] + prior["pair"]  # where both are known, they mostly agree
    assert ranks[:2].min() > ranks[2:].max()
    assert prior["latest"][5:].min() > 1 > prior["latest"][:4].max()


def test_a_prior_of_other_shapes_is_refused():
    with pytest.raises(KeyError):
        SamAuto(prior={})
    with pytest.raises(ValueError):
        SamAuto(prior=WEIGHTS | {"row": np.zeros(3)})


def test_a_text_that_repeats_itself_is_drafted_from_with_confidence():
    drafter = make_drafter("sam_auto", cost=COST)
    drafter.begin(int32(list(range(30)) * 2 + list(range(12))))
    option, draft = drafter.options()[0], drafter.propose(99)
    assert option["token"] == 12 and option["probability"] > 0.8 and option["latest"]
    assert option["matches"][0] == ("dynamic", 42, 1, pytest.approx(1.0))
    assert draft.tokens.tolist()[:5] == [12, 13, 14, 15, 16] and (draft.source, draft.match_length) == ("dynamic", 42)


def test_a_match_with_very_many_continuations_is_not_read_and_options_are_bounded():
    """Of 40 tokens that followed, none stands out; in the index the eight most frequent ones are looked at."""
    many = [token for other in range(100, 140) for token in (7, other)]
    few = [token for other in range(100, 120) for token in (7, other)]
    for text, seen in ((many, 0), (few, 20)):
        drafter = make_drafter("sam_auto", cost=FLAT)
        drafter.begin(int32([*text, 7]))
        assert len(drafter.options()) == seen
    drafter = make_drafter("sam_auto", cost=FLAT, static=StaticAutomaton.build([[7, other] for other in range(60)]))
    drafter.begin(int32([9, 7]))
    assert len(drafter.options()) == 8
    drafter._foresight.successors.learn(9, Verified(int32([7]), int32([range(200, 208)]), None, None, int32([-1])))
    drafter.begin(int32([*few, 8, *few, 9, 7]))
    assert 20 < len(drafter.options()) <= 40 and 0 < len(drafter.propose(99)) <= 64


def test_nothing_known_is_nothing_drafted():
    drafter = make_drafter("sam_auto", cost=FLAT)
    drafter.begin(int32([1, 2, 3]))
    assert drafter.options() == [] and len(drafter.propose(9)) == 0


def test_without_learning_the_weights_stay():
    drafter = make_drafter("sam_auto", cost=COST, rate=0)
    replay(drafter, [1, 2, 3], [4, 1, 2, 3] * 9)
    assert all((part == load_prior()[name]).all() for name, part in drafter.learnt().items())


def test_what_is_not_so_is_unlearnt():
    """After twenty known tokens comes a new one, each time: what followed them before is believed less and less."""
    drafter, lure = make_drafter("sam_auto", cost=COST, rate=1.0), list(range(10, 30))
    drafter.begin(int32([*lure, 1]))
    believed = []
    for other in range(40, 70):
        drafter.observe(int32(lure))
        believed.append(drafter.options()[0]["probability"])
        drafter.observe(int32([other]))
    assert believed[0] > 0.5 and believed[-1] < 0.2


# --- successors


def test_rows_of_tokens_and_pairs():
    successors = SamAuto(cost=COST)._foresight.successors
    assert successors.row(5) == [] and successors.row(5, before=4) == [] and successors.row(10**6) == []
    verified = Verified(int32([5, 6]), int32([[1, 2, 3], [4, 5, 6]]), None, None, int32([-1, 0]))
    successors.learn(4, verified)
    assert successors.row(5) == [1, 2, 3] and successors.row(5, before=4) == [1, 2, 3]
    assert successors.row(6) == [4, 5, 6] and successors.row(6, before=5) == [4, 5, 6]
    assert successors.row(6, before=4) == [] and successors.row(4) == []
    successors.learn(-1, Verified(int32([900]), int32([[7] * 12]), None, None, int32([-1])))
    assert successors.row(900) == [7] * 8 and successors.row(5) == [1, 2, 3]
    successors.reset()
    assert successors.row(5) == [] and successors.row(5, before=4) == []


def test_the_pairs_that_are_kept_take_a_fixed_room():
    """Of pairs that fall on one place the later one is kept, and none is taken for another."""
    successors = SamAuto(cost=COST)._foresight.successors
    for before in range(300):
        tokens = int32(range(300))
        parents = int32([-1] * 300)
        top = int32([[before, token, 0, 0, 0, 0, 0, 0] for token in range(300)])
        successors.learn(before, Verified(tokens, top, None, None, parents))
    rows = {(b, t): successors.row(t, before=b) for b in range(300) for t in range(300)}
    kept = {pair: row for pair, row in rows.items() if row}
    assert all(tuple(row[:2]) == pair for pair, row in kept.items())
    assert 20_000 < len(kept) <= 1 << 15


# --- the cost of a forward


def test_a_cheap_forward_drafts_more_and_a_dear_one_nothing():
    sizes = {}
    for name, cost in {"flat": FLAT, "usual": COST, "steep": STEEP}.items():
        proposals = replay(make_drafter("sam_auto", cost=cost), [1, 2, 3, 4], [5, 1, 2, 3, 4, 6, 1, 2, 3, 4] * 6)
        sizes[name] = [len(p.draft) for p in proposals]
    assert max(sizes["flat"]) > max(sizes["usual"]) and np.mean(sizes["flat"]) > np.mean(sizes["usual"])
    assert max(sizes["steep"]) == 0


def test_a_drafter_without_a_cost_says_so():
    with pytest.raises(ValueError, match="cost="):
        make_drafter("sam_auto").begin(int32([1]))


def test_the_decode_loop_gives_the_cost_once_and_outside_of_requests(monkeypatch):
    measured = []
    original = step_cost_module._measure
    monkeypatch.setattr(step_cost_module, "_measure", lambda model: measured.append(model) or original(model))
    monkeypatch.setattr(step_cost_module, "_known", type(step_cost_module._known)())
    model = random_model(seed=9)
    drafter = make_drafter("sam_auto")
    samlib.generate(model, [1, 2], drafter=drafter, max_new_tokens=0)
    assert measured == []
    results = []
    for _ in range(2):
        with counted_forwards(model) as widths:
            results.append(samlib.generate(model, random_prompt(1, 8), drafter=drafter, max_new_tokens=20))
    assert measured == [model]
    assert results[1].num_target_forwards == len(widths) == 1 + len(results[1].steps)
    samlib.generate(model, [1, 2], method="sam", max_new_tokens=3)
    assert isinstance(drafter.cost, StepCost) and measured == [model]


def test_a_given_cost_is_kept():
    drafter = make_drafter("sam_auto", cost=COST)
    samlib.generate(cycle_model(), cycle(0, 9), drafter=drafter, max_new_tokens=20)
    assert drafter.cost is COST and not drafter.needs_cost


@pytest.mark.parametrize("positions", [8, 40, 4096])
def test_costs_are_measured_within_the_models_positions(positions):
    cost = step_cost(random_model(seed=11, max_positions=positions))
    seconds = [cost.seconds(width) for width in range(1, 70)]
    assert all(value > 0 for value in seconds) and seconds == sorted(seconds)


def test_costs_between_the_measured_ones_are_linear_and_never_fall():
    cost = StepCost({1: 2.0, 4: 5.0, 8: 4.0})
    assert [cost.seconds(n) for n in (1, 2, 4, 8, 99)] == [2.0, 3.0, 5.0, 5.0, 5.0]
    assert cost.seconds(2, context=500) == 3.0
