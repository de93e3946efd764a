"""Draft sizes for this device, from the measured cost T(n) of verifying n tokens in one forward.

A draft of n tokens needs a forward over n + 1 (the root is verified with them), and pays off by the tokens that it is
expected to emit. The size chosen maximises expected emitted tokens a second, under stated assumptions on acceptance:

* a copied draft: each token is accepted with probability `COPY_ACCEPTANCE`, given the ones before it, so that a draft
  of n emits (1 - a^(n+1)) / (1 - a) tokens on average;
* Token Recycling's tree: a node's token is the right successor of its parent's with probability
  `RANK_ACCEPTANCE[rank]`, whatever the depth, so that a tree emits one token plus, for each node, the product of these
  along its path. Trees of fewer nodes are what the drafter itself keeps of the paper's 60: the likeliest;
* REST's tree, merged by frequency: as Token Recycling's, since its first branches are a token's likeliest successors;
* SuffixDecoding's tree: it is bounded by the match length and by the probability of each node already, so that what is
  left of it is close to a copied draft; its cap is a copied draft's size;
* Lookahead's tree of W columns, n-grams of N tokens and G guesses: one step in `LOOKAHEAD_STEPS` finds guesses in the
  pool, G of them, each token of which is accepted with probability `LOOKAHEAD_ACCEPTANCE`, given the ones before it and
  whatever the other guesses hold. Such a step emits N - sum of (1 - a^i)^G, i = 1 … N - 1, tokens on average, and its
  forward is over (W + G)(N - 1) tokens, the root included; the other steps emit one, after a forward over the window
  alone, W(N - 1). W = G in all of `LOOKAHEAD_SIZES`: what one step verifies, as many steps must have found;
* EAGLE's trees: of the tokens after a node that is right, the one that the head ranks r-th is the target's with
  probability `EAGLE_ACCEPTANCE[r]`, whatever the depth; a tree emits one token plus, for each node, the product of
  these along its path. A tree of d levels is not free to draft: it takes the seconds of d passes of the head, measured
  as well (see head_cost.py), so that what is maximised is tokens over T(n + 1) and those together. Of EAGLE's static
  tree the likeliest nodes stay, and as many levels as they reach; of EAGLE-2's, which follows the head's own
  probabilities at each step, it is assumed to be the likeliest one that `EAGLE2_SIZES` allows, and the same at each
  step. Both draft over the most frequent part of the vocabulary alone, and it is as if the rest never came.

The assumptions are fixed numbers, not fitted to the benchmark; they set sizes only and never enter a reported speed.
T(n) is taken at the cost curve's main context. As a check after the fact, with SmolLM2 on two cores, in decode speed
over decoding token by token, on 12 questions: REST of 64, 15 and 7 nodes 0.53, 0.95 and 1.10; SuffixDecoding capped at
64, 15 and 7 tokens 1.43, 1.42 and 1.42; Lookahead of (W, N, G) = (7, 5, 7), (3, 3, 3), (2, 3, 2) and (1, 3, 1) 0.51,
1.00, 0.98 and 0.99, where the assumptions above say about 0.4, 1.0, 1.0 and 1.0.
"""

import pandas as pd

from samlib.drafters.eagle import StaticTree
from samlib.drafters.token_recycling import TreeTemplate

COPY_ACCEPTANCE = 0.7
RANK_ACCEPTANCE = (0.45, 0.15, 0.08, 0.05, 0.04, 0.03, 0.02, 0.02)
COPY_SIZES = (1, 2, 3, 5, 7, 11, 15, 23, 31, 40)
TREE_SIZES = (1, 2, 3, 5, 7, 11, 15, 23, 31, 40, 60)
LOOKAHEAD_ACCEPTANCE = 0.4
LOOKAHEAD_STEPS = 3
LOOKAHEAD_SIZES = ((1, 3, 1), (2, 3, 2), (3, 3, 3), (5, 3, 5), (5, 4, 5), (7, 5, 7), (15, 5, 15))  # (W, N, G)
EAGLE_ACCEPTANCE = (0.55, 0.12, 0.06, 0.04, 0.03, 0.02, 0.02, 0.01, 0.01, 0.01)
EAGLE_SIZES = (1, 2, 3, 5, 7, 10, 15, 20, 25)
EAGLE2_SIZES = (  # (depth, top_k, tree_size)
    *((1, 1, 1), (2, 1, 2), (3, 1, 3), (4, 1, 4), (5, 1, 5)),
    *((2, 2, 3), (3, 2, 5), (4, 3, 8), (5, 4, 15), (6, 10, 59)),
)


def device_options(paper_options, cost, head_cost=None):
    """The options of {method: options}, with every size replaced by the one that suits the device.

    cost: a CostCurve. head_cost: a HeadCost; None where there is no head: what EAGLE drafts then stays as in the paper.
    """
    copied, tree_size = {"draft_size": best_copy_size(cost)}, best_tree_size(cost)
    eagle, eagle2 = ({}, {}) if head_cost is None else (best_eagle(cost, head_cost), best_eagle2(cost, head_cost))
    others = {"rest": {"draft_size": tree_size}, "lookahead": best_lookahead(cost)}
    others |= {"sam_auto": {}}  # it weighs T(n) itself, at each step
    others |= {"eagle": eagle, "eagle2": eagle2, "sam[e]": copied | eagle, "sam[e2]": copied | eagle2}
    sizes = copied | {"tree_size": tree_size}
    return {
        method: {name: others.get(method, sizes).get(name, value) for name, value in options.items()}
        for method, options in paper_options.items()
    }


def best_copy_size(cost):
    """The draft size of COPY_SIZES with the most expected emitted tokens a second."""
    return max(COPY_SIZES, key=lambda n: expected_copy_tokens(n) / cost.seconds(n + 1))


def best_tree_size(cost):
    """The tree size of TREE_SIZES with the most expected emitted tokens a second."""
    return max(TREE_SIZES, key=lambda n: expected_tree_tokens(n) / cost.seconds(n + 1))


def best_lookahead(cost):
    """The options of Lookahead, among LOOKAHEAD_SIZES, with the most expected emitted tokens a second."""
    best = max(LOOKAHEAD_SIZES, key=lambda sizes: _lookahead_speed(cost, *sizes))
    return dict(zip(("window", "ngram", "guesses"), best, strict=True))


def _lookahead_speed(cost, window, ngram, guesses):
    """Expected emitted tokens a second: LOOKAHEAD_STEPS steps, one of them with guesses."""
    without, depth = LOOKAHEAD_STEPS - 1, ngram - 1
    seconds = without * cost.seconds(window * depth) + cost.seconds((window + guesses) * depth)
    return (without + expected_guessed_tokens(depth, guesses)) / seconds


def best_eagle(cost, head_cost):
    """The options of EAGLE, among EAGLE_SIZES, with the most expected emitted tokens a second."""
    size = max(EAGLE_SIZES, key=lambda size: _eagle_speed(cost, head_cost, *_static_nodes(size)))
    return {"tree_size": size, "vocabulary": head_cost.vocabulary}


def best_eagle2(cost, head_cost):
    """The options of EAGLE-2, among EAGLE2_SIZES, with the most expected emitted tokens a second."""
    best = max(EAGLE2_SIZES, key=lambda sizes: _eagle_speed(cost, head_cost, sizes[0], dynamic_nodes(*sizes)))
    return dict(zip(("depth", "top_k", "tree_size"), best, strict=True)) | {"vocabulary": head_cost.vocabulary}


def _eagle_speed(cost, head_cost, depth, chances):
    """Expected emitted tokens a second of a tree of that depth, whose nodes are right with these chances."""
    return (1 + sum(chances)) / (cost.seconds(len(chances) + 1) + head_cost.seconds(depth))


def _static_nodes(size):
    """(depth, the chance of each node) of EAGLE's static tree of `size` nodes."""
    tree, chances = StaticTree(size), []
    ranks = [rank for level in tree.levels for rank in level.ranks]
    for parent, rank in zip(tree.parents, ranks, strict=True):
        chances.append(EAGLE_ACCEPTANCE[rank] * (chances[parent] if parent >= 0 else 1.0))
    return len(tree.levels), chances


def dynamic_nodes(depth, top_k, size):
    """The chances of the nodes of EAGLE-2's tree, if the head's probabilities were EAGLE_ACCEPTANCE at each place."""
    above, every = [1.0], []
    for _ in range(depth):
        level = [chance * of_rank for chance in above for of_rank in EAGLE_ACCEPTANCE[:top_k]]
        above = sorted(level, reverse=True)[:top_k]
        every += level
    return sorted(every, reverse=True)[:size]


def size_table(cost):
    """What each size is expected to gain, a row a draft size: a DataFrame that shows how the best ones are chosen.

    cost: T(size + 1) / T(1). copied, tree: expected emitted tokens a step, divided by that cost, that is, the expected
    gain over decoding token by token; nan where a size is not on the list of that kind.
    """
    rows = [_size_row(cost, size) for size in sorted({*COPY_SIZES, *TREE_SIZES})]
    return pd.DataFrame(rows).set_index("draft size")


def _size_row(cost, size):
    ratio, nothing = cost.ratio(size + 1), float("nan")
    copied = expected_copy_tokens(size) / ratio if size in COPY_SIZES else nothing
    tree = expected_tree_tokens(size) / ratio if size in TREE_SIZES else nothing
    return {"draft size": size, "cost": ratio, "copied": copied, "tree": tree}


def expected_copy_tokens(size, acceptance=COPY_ACCEPTANCE):
    """Tokens that a step with a copied draft of `size` tokens emits on average, the bonus token included."""
    return (1 - acceptance ** (size + 1)) / (1 - acceptance)


def expected_guessed_tokens(size, guesses, acceptance=LOOKAHEAD_ACCEPTANCE):
    """Tokens that a step with several guesses of `size` tokens emits on average, the bonus token included.

    The guesses are right or wrong independently; i tokens are emitted besides the bonus token where any gets that far.
    """
    return 1 + sum(1 - (1 - acceptance**i) ** guesses for i in range(1, size + 1))


def expected_tree_tokens(size, ranks=RANK_ACCEPTANCE):
    """Tokens that a step with Token Recycling's tree of `size` nodes emits on average, the bonus token included."""
    template = TreeTemplate(size, len(ranks))
    chances = []
    for parent, rank in zip(template.parents, template.ranks, strict=True):
        chances.append(ranks[rank] * (chances[parent] if parent >= 0 else 1.0))
    return 1.0 + sum(chances)
