"""One verification forward, at the level of logits and cache: masks, positions, rollback."""

import pytest
import torch

from samlib import Draft
from samlib.decoding import TargetModel, cache, inputs

from ..automaton.naive import tree_paths
from .models import FAMILIES, VOCABULARY, cycle_model, draft_of, random_model, random_prompt

ATTENTIONS = ["sdpa", "eager"]
EVERY_MODEL = pytest.mark.parametrize(
    ("family", "attention"), [(family, attention) for family in FAMILIES for attention in ATTENTIONS]
)
TREES = {
    "two siblings, one with two children": ([5, 9, 11, 12], [-1, -1, 0, 0]),
    "children of the second sibling": ([5, 9, 11, 12, 3], [-1, -1, 1, 1, 3]),
    "the same token on three branches": ([5, 6, 5, 6, 5], [-1, 0, 1, -1, 3]),
    "a chain": ([5, 9, 11, 12], [-1, 0, 1, 2]),
    "level by level": ([1, 2, 3, 4, 5, 6, 7, 8, 9], [-1, -1, -1, 0, 0, 1, 2, 3, 5]),
    "depth first": ([1, 4, 8, 5, 2, 6, 9, 3, 7], [-1, 0, 1, 0, -1, 4, 5, -1, 7]),
    "one node": ([5], [-1]),
    "nothing": ([], []),
}


def plain_logits(model, tokens):
    """The logits after the last of `tokens`, by one forward over all of them."""
    with torch.no_grad():
        return model(torch.tensor([tokens])).logits[0, -1]


def assert_close(found, expected):
    assert torch.isfinite(found).all()
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)


@EVERY_MODEL
@pytest.mark.parametrize("shape", TREES)
def test_every_node_sees_its_own_path_and_nothing_else(family, attention, shape):
    model, prompt, root = random_model(family, attention), random_prompt(3, 7), 2
    draft = draft_of(*TREES[shape])
    target = TargetModel(model)
    assert_close(target.prefill(_ids(prompt)).logits[0], plain_logits(model, prompt))
    logits = target.verify(root, draft).logits
    assert logits.shape == (1 + len(draft.tokens), model.config.vocab_size)
    paths = [(), *tree_paths(draft.tokens, draft.parents)]
    for path, found in zip(paths, logits, strict=True):
        assert_close(found, plain_logits(model, [*prompt, root, *path]))


@EVERY_MODEL
@pytest.mark.parametrize("node", range(9))
def test_after_a_tree_the_cache_holds_the_accepted_path_alone(family, attention, node):
    """The next forward, a tree again, must not notice that there ever was a tree."""
    model, prompt, root = random_model(family, attention), random_prompt(4, 7), 2
    draft = draft_of(*TREES["depth first"])
    target = TargetModel(model)
    target.prefill(_ids(prompt))
    target.verify(root, draft)
    path = _path_to(draft, node)
    target.keep([0, *(index + 1 for index in path)])
    assert target.num_cached == len(prompt) + 1 + len(path)
    known = [*prompt, root, *draft.tokens[path].tolist()]
    logits = target.verify(31, draft).logits
    for kept, found in zip([(), *tree_paths(draft.tokens, draft.parents)], logits, strict=True):
        assert_close(found, plain_logits(model, [*known, 31, *kept]))


@pytest.mark.parametrize("attention", ATTENTIONS)
@pytest.mark.parametrize("kept", [5, 4, 1, 0])
def test_rollback_to_any_length(attention, kept):
    """A cache of one prompt token and five verified ones, cut to the prompt and `kept` of them, none included."""
    model, prompt = random_model("llama", attention), [7]
    target = TargetModel(model)
    target.prefill(_ids(prompt))
    target.verify(2, Draft.chain([3, 4, 5, 6], "scripted"))
    assert target.num_cached == 6
    target.keep(list(range(kept)))
    assert target.num_cached == 1 + kept
    found = target.verify(40, Draft.empty()).logits[0]
    torch.testing.assert_close(found, plain_logits(model, [*prompt, *[2, 3, 4, 5, 6][:kept], 40]), atol=1e-5, rtol=1e-5)


def test_many_steps_leave_no_trace():
    """Thirty trees in a row, each with another path kept: the cache stays that of the kept tokens."""
    model, known = random_model("llama", "eager"), random_prompt(5, 6)
    target, draft = TargetModel(model), draft_of(*TREES["level by level"])
    target.prefill(_ids(known))
    for step in range(30):
        target.verify(step, draft)
        path = _path_to(draft, (5 * step) % 9) if step % 4 else []
        target.keep([0, *(index + 1 for index in path)])
        known = [*known, step, *draft.tokens[path].tolist()]
        assert target.num_cached == len(known)
    assert_close(target.verify(1, Draft.empty()).logits[0], plain_logits(model, [*known, 1]))


def test_a_prefill_begins_anew():
    model = random_model()
    target = TargetModel(model)
    target.prefill(_ids(random_prompt(1, 20)))
    target.verify(3, draft_of(*TREES["depth first"]))
    assert_close(target.prefill(_ids([1, 2, 3])).logits[0], plain_logits(model, [1, 2, 3]))
    assert target.num_cached == 3


@pytest.mark.parametrize("attention", ATTENTIONS)
def test_a_request_that_outgrows_every_buffer(attention, monkeypatch):
    """Buffers that hold next to nothing at first: chains and trees, some wider than any before, over 200 tokens."""
    for module, name in ((cache, "SMALLEST"), (cache, "MULTIPLE"), (inputs, "WIDEST"), (inputs, "LONGEST")):
        monkeypatch.setattr(module, name, 2)
    model, known = random_model("llama", attention), random_prompt(5, 3)
    target = TargetModel(model)
    target.prefill(_ids(known))
    for step in range(12):
        tokens = random_prompt(step, 1 + 7 * step)
        chain, draft = step % 3 == 0, draft_of(tokens, [(7 * i) // 9 - 1 for i in range(len(tokens))])
        draft = Draft.chain(tokens, "scripted") if chain else draft
        found = target.verify(step, draft).logits
        path = _path_to(draft, len(tokens) - 1)
        for index, node in enumerate(path):
            tail = draft.tokens[path[: index + 1]].tolist()
            assert_close(found[node + 1], plain_logits(model, [*known, step, *tail]))
        target.keep([0, *(index + 1 for index in path)])
        known = [*known, step, *draft.tokens[path].tolist()]
    assert target.num_cached == len(known) > 200


@pytest.mark.parametrize("top_k", [1, 8, 1000])
def test_the_verification_names_the_choices_and_the_likeliest(top_k):
    target = TargetModel(random_model())
    for found in (
        target.prefill(_ids(random_prompt(1, 9)), top_k),
        target.verify(3, draft_of(*TREES["depth first"]), top_k),
    ):
        assert found.choices == found.logits.argmax(dim=-1).tolist()
        assert found.top.tolist() == found.logits.topk(min(top_k, VOCABULARY)).indices.tolist()
    target.keep([0])
    assert target.verify(3, Draft.empty()).top is None
    assert target.num_forwards == 3


def test_verification_leaves_gradients_and_the_model_alone():
    model = cycle_model()
    target = TargetModel(model)
    target.prefill(_ids([1, 2]))
    assert not target.verify(3, Draft.empty()).logits.requires_grad
    assert torch.is_grad_enabled() and not model.training


def _ids(tokens):
    return Draft.chain(tokens, "").tokens


def _path_to(draft, node):
    path = []
    while node >= 0:
        path.append(node)
        node = int(draft.parents[node])
    return path[::-1]
