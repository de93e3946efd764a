"""Draft sizes from a cost curve: free tokens want long drafts, dear ones none to speak of."""

import numpy as np
import pytest

import samlib
from samlib.bench.cost import CostCurve
from samlib.bench.profiles import PAPER_SETTINGS
from samlib.bench.sizing import (
    COPY_SIZES,
    LOOKAHEAD_ACCEPTANCE,
    LOOKAHEAD_SIZES,
    RANK_ACCEPTANCE,
    TREE_SIZES,
    best_copy_size,
    best_lookahead,
    best_tree_size,
    device_options,
    expected_copy_tokens,
    expected_guessed_tokens,
    expected_tree_tokens,
    size_table,
)


def curve(seconds):
    return CostCurve(T=seconds, T_plain=seconds, context=300, repeats=1, device="made up")


FREE = curve({1: 1.0, 61: 1.0})
PROPORTIONAL = curve({1: 1.0, 61: 61.0})
CPU_LIKE = curve({1: 1.0, 2: 1.66, 8: 1.74, 16: 2.2, 41: 3.9, 61: 5.0})


def test_free_tokens_want_the_longest_draft():
    assert best_copy_size(FREE) == max(COPY_SIZES)
    assert best_tree_size(FREE) == max(TREE_SIZES)
    assert best_lookahead(FREE) == {"window": 15, "ngram": 5, "guesses": 15} != LOOKAHEAD_SIZES[0]


def test_tokens_at_full_price_want_the_shortest():
    assert best_copy_size(PROPORTIONAL) == min(COPY_SIZES)
    assert best_tree_size(PROPORTIONAL) == min(TREE_SIZES)
    assert best_lookahead(PROPORTIONAL) == {"window": 1, "ngram": 3, "guesses": 1}


def test_a_cpus_plateau_is_used_and_not_passed():
    assert best_copy_size(CPU_LIKE) == 7  # a forward of 8, the end of the plateau
    assert best_tree_size(CPU_LIKE) < 60
    assert best_lookahead(CPU_LIKE) == {"window": 3, "ngram": 3, "guesses": 3}  # forwards of 7, and of 13 with guesses


def test_a_gpus_forward_is_long_enough_for_the_authors_window():
    assert best_lookahead(curve({1: 1.0, 57: 1.2, 61: 1.4, 200: 4.0}))["window"] == 7


def test_expected_copy_tokens_is_the_mean_over_accepted_lengths():
    a, n = 0.7, 4
    by_cases = sum((k + 1) * a**k * (1 - a) for k in range(n)) + (n + 1) * a**n
    assert expected_copy_tokens(n, a) == pytest.approx(by_cases)


def test_expected_guessed_tokens_agrees_with_a_simulation():
    """Draw for each guess how many of its tokens are right; the longest is accepted."""
    rng = np.random.default_rng(5)
    for size, guesses in ((2, 1), (2, 3), (4, 7)):
        right = rng.random((20_000, guesses, size)) < LOOKAHEAD_ACCEPTANCE
        accepted = right.cumprod(axis=2).sum(axis=2).max(axis=1)
        assert expected_guessed_tokens(size, guesses) == pytest.approx(1 + accepted.mean(), abs=0.03)


def test_one_guess_is_a_copied_draft():
    assert expected_guessed_tokens(4, 1, 0.6) == pytest.approx(expected_copy_tokens(4, 0.6))


def test_expected_tree_tokens_agrees_with_a_simulation():
    """Draw the right path by the stated chances and count how deep the tree follows it."""
    from samlib.drafters.token_recycling import TreeTemplate

    rng = np.random.default_rng(3)
    template = TreeTemplate(15, len(RANK_ACCEPTANCE))
    children = {(int(p), int(r)): i for i, (p, r) in enumerate(zip(template.parents, template.ranks, strict=True))}
    chances = [*RANK_ACCEPTANCE, 1 - sum(RANK_ACCEPTANCE)]
    emitted = []
    for _ in range(20_000):
        node, count = -1, 1
        while (node := children.get((node, int(rng.choice(len(chances), p=chances))), None)) is not None:
            count += 1
        emitted.append(count)
    assert expected_tree_tokens(15) == pytest.approx(np.mean(emitted), abs=0.03)


def test_a_larger_tree_emits_more_and_one_node_emits_its_chance():
    assert expected_tree_tokens(1) == pytest.approx(1 + RANK_ACCEPTANCE[0])
    sizes = [expected_tree_tokens(n) for n in TREE_SIZES]
    assert sizes == sorted(sizes)


def test_the_table_of_sizes_shows_why_the_best_are_the_best():
    table = size_table(CPU_LIKE)
    assert sorted(table.index) == sorted({*COPY_SIZES, *TREE_SIZES})
    assert table["copied"].idxmax() == best_copy_size(CPU_LIKE)
    assert table["tree"].idxmax() == best_tree_size(CPU_LIKE)
    assert table.loc[7, "cost"] == pytest.approx(1.74)
    assert table.loc[7, "copied"] == pytest.approx(expected_copy_tokens(7) / 1.74)
    assert np.isnan(table.loc[60, "copied"]) and table.loc[60, "tree"] > 0


def test_sizes_follow_the_main_context():
    further = {900: {"T": PROPORTIONAL.T, "T_plain": PROPORTIONAL.T}}
    cost = CostCurve(T=FREE.T, T_plain=FREE.T, context=300, repeats=1, device="made up", further=further)
    assert best_copy_size(cost) == max(COPY_SIZES)


def test_only_sizes_change():
    sized = device_options(PAPER_SETTINGS, CPU_LIKE)
    assert set(sized) == set(PAPER_SETTINGS)
    assert sized["sam[t]"] == PAPER_SETTINGS["sam[t]"] | {"draft_size": 7, "tree_size": best_tree_size(CPU_LIKE)}
    assert sized["token_recycling"].keys() == PAPER_SETTINGS["token_recycling"].keys()
    assert sized["rest"] == PAPER_SETTINGS["rest"] | {"draft_size": best_tree_size(CPU_LIKE)}
    assert sized["suffix_decoding"] == PAPER_SETTINGS["suffix_decoding"] | {"draft_size": 7}
    assert sized["lookahead"] == best_lookahead(CPU_LIKE)
    assert PAPER_SETTINGS["sam"]["draft_size"] == 40


def test_every_sized_method_can_be_made_with_its_options():
    static = samlib.StaticAutomaton.build([[1, 2, 3]])
    for cost in (FREE, PROPORTIONAL, CPU_LIKE):
        for method, options in device_options(PAPER_SETTINGS, cost).items():
            samlib.make_drafter(method, static=static, **options)
