"""Draft sizes from a cost curve: free tokens want long drafts, dear ones none to speak of."""

import dataclasses

import numpy as np
import pytest

import samlib
from samlib.bench import load_model
from samlib.bench.cost import CostCurve
from samlib.bench.head_cost import HeadCost
from samlib.bench.heads import random_head, reduced_vocabulary
from samlib.bench.profiles import PAPER_SETTINGS
from samlib.bench.sizing import (
    COPY_SIZES,
    EAGLE2_SIZES,
    EAGLE_ACCEPTANCE,
    EAGLE_SIZES,
    LOOKAHEAD_ACCEPTANCE,
    LOOKAHEAD_SIZES,
    RANK_ACCEPTANCE,
    TREE_SIZES,
    _static_nodes,
    best_copy_size,
    best_eagle,
    best_eagle2,
    best_lookahead,
    best_tree_size,
    device_options,
    dynamic_nodes,
    expected_copy_tokens,
    expected_guessed_tokens,
    expected_tree_tokens,
    size_table,
)
from samlib.drafters.registry import needs_head


def curve(seconds):
    return CostCurve(T=seconds, T_plain=seconds, context=300, repeats=1, device="made up")


FREE = curve({1: 1.0, 61: 1.0})
PROPORTIONAL = curve({1: 1.0, 61: 61.0})
CPU_LIKE = curve({1: 1.0, 2: 1.66, 8: 1.74, 16: 2.2, 41: 3.9, 61: 5.0})


def head(level):
    """A head of which each level costs as much as the first."""
    return HeadCost(base=level, level=level, vocabulary=8000, repeats=1, device="made up")


NO_COST = head(0.0)


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
    sized = device_options(PAPER_SETTINGS, CPU_LIKE, head(0.1))
    assert all(sized[method].keys() == options.keys() for method, options in PAPER_SETTINGS.items())
    assert set(sized) == set(PAPER_SETTINGS)
    assert sized["sam[t]"] == PAPER_SETTINGS["sam[t]"] | {"draft_size": 7, "tree_size": best_tree_size(CPU_LIKE)}
    assert sized["token_recycling"].keys() == PAPER_SETTINGS["token_recycling"].keys()
    assert sized["rest"] == PAPER_SETTINGS["rest"] | {"draft_size": best_tree_size(CPU_LIKE)}
    assert sized["suffix_decoding"] == PAPER_SETTINGS["suffix_decoding"] | {"draft_size": 7}
    assert sized["lookahead"] == best_lookahead(CPU_LIKE)
    assert sized["eagle"] == best_eagle(CPU_LIKE, head(0.1))
    assert sized["eagle2"] == best_eagle2(CPU_LIKE, head(0.1))
    for name, auxiliary in (("sam[e]", "eagle"), ("sam[e2]", "eagle2")):
        assert sized[name] == PAPER_SETTINGS[name] | {"draft_size": 7} | sized[auxiliary]
    assert PAPER_SETTINGS["sam"]["draft_size"] == 40 and PAPER_SETTINGS["eagle"]["vocabulary"] is None


def test_without_a_head_eagle_keeps_the_papers_settings():
    sized = device_options(PAPER_SETTINGS, CPU_LIKE)
    assert {name: sized[name] for name in ("eagle", "eagle2")} == {
        name: PAPER_SETTINGS[name] for name in ("eagle", "eagle2")
    }
    assert sized["sam[e2]"] == PAPER_SETTINGS["sam[e2]"] | {"draft_size": 7}


def test_every_sized_method_can_be_made_with_its_options(tmp_path):
    static, model = samlib.StaticAutomaton.build([[1, 2, 3]]), load_model("smoke")[0]
    assets = {"head": random_head(model, tmp_path / "head")}
    for cost, level in ((FREE, 0.0), (FREE, 1.0), (PROPORTIONAL, 0.0), (CPU_LIKE, 0.1)):
        head_cost = dataclasses.replace(head(level), vocabulary=reduced_vocabulary(model))
        for method, options in device_options(PAPER_SETTINGS, cost, head_cost).items():
            given = assets if needs_head(method) else {}
            samlib.make_drafter(method, model=model, static=static, **options, **given)


# ---- EAGLE ----


def test_free_tokens_and_a_free_head_want_the_papers_trees():
    assert best_eagle(FREE, NO_COST) == {"tree_size": 25, "vocabulary": 8000}
    assert best_eagle2(FREE, NO_COST) == {"depth": 6, "top_k": 10, "tree_size": 59, "vocabulary": 8000}


def test_a_head_as_dear_as_the_target_wants_one_level():
    assert best_eagle2(FREE, head(1.0))["depth"] == 1
    assert best_eagle2(PROPORTIONAL, NO_COST)["tree_size"] == 1
    assert best_eagle(PROPORTIONAL, NO_COST)["tree_size"] == 1


def test_the_dearer_the_head_the_shallower_the_tree():
    """Forwards that cost hardly more with every token, so that it is the head that decides."""
    cost = curve({1: 1.0, 61: 1.6})
    depths = [best_eagle2(cost, head(level))["depth"] for level in (0.0, 0.3, 0.8)]
    assert depths == sorted(depths, reverse=True) and depths[0] > depths[-1]
    sizes = [best_eagle(cost, head(level))["tree_size"] for level in (0.0, 0.3, 0.8)]
    assert sizes == sorted(sizes, reverse=True) and sizes[0] > sizes[-1]


def accepted_of(paths, rng, draws=20_000):
    """How deep a tree, a set of paths of ranks, follows ranks drawn by the assumed chances, on average."""
    chances = [*EAGLE_ACCEPTANCE, 1 - sum(EAGLE_ACCEPTANCE)]
    drawn = rng.choice(len(chances), p=chances, size=(draws, 5)).tolist()
    return np.mean([sum(tuple(ranks[:depth]) in paths for depth in range(1, 6)) for ranks in drawn])


def test_expected_tokens_of_eagles_trees_agree_with_a_simulation():
    def all_paths(depth):
        return [(*above, r) for above in ([()] if depth == 1 else all_paths(depth - 1)) for r in range(10)]

    def chance(path):
        return np.prod([EAGLE_ACCEPTANCE[rank] for rank in path])

    rng = np.random.default_rng(7)
    every = [path for depth in (1, 2, 3) for path in all_paths(depth)]
    two = [path for path in every if max(path) < 2]  # with two expanded a level the likeliest five are among these
    best = set(sorted(two, key=chance, reverse=True)[:5])
    assert sum(dynamic_nodes(3, 2, 5)) == pytest.approx(accepted_of(best, rng), abs=0.02)
    depth, chances = _static_nodes(7)
    kept = {(0,), (1,), (2,), (3,), (0, 0), (0, 1), (1, 0)}
    assert depth == 2 and sum(chances) == pytest.approx(accepted_of(kept, rng), abs=0.02)


def test_chains_are_chains_and_every_size_is_reached():
    for depth, top_k, size in EAGLE2_SIZES:
        assert len(dynamic_nodes(depth, top_k, size)) == size
        if top_k == 1:
            assert dynamic_nodes(depth, top_k, size) == pytest.approx([0.55**level for level in range(1, depth + 1)])
    assert [len(_static_nodes(size)[1]) for size in EAGLE_SIZES] == list(EAGLE_SIZES)
