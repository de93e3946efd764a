"""EAGLE's head, its checkpoints, and the trees that are drafted with it, against transformers' own layer."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import samlib
from samlib import make_drafter
from samlib.drafters import Verified
from samlib.drafters.eagle import Candidates
from samlib.drafters.eagle_checkpoint import SAMPLED, load_head, save_head, shipped_head
from samlib.drafters.eagle_head import HeadCache

from ..automaton.naive import tree_paths
from ..decoding.models import VOCABULARY, cycle_model, greedy, random_model, random_prompt
from .eagle import STATIC_TREE, NaiveHead, final_hidden, head_config, head_tensors, random_head, write_head
from .replay import accepted_nodes, check_draft, ids

METHODS = ["eagle", "eagle2"]  # sam[e] and sam[e2] make the same drafters, with the same options
EVERY_METHOD = pytest.mark.parametrize("method", METHODS)


@pytest.fixture(scope="module")
def model():
    return random_model()


@pytest.fixture(scope="module")
def folder(model, tmp_path_factory):
    return random_head(tmp_path_factory.mktemp("head"), model)


def begun(drafter, model, prompt, first):
    """A drafter that has been told of a prompt's prefill and of the first token."""
    drafter.begin(ids(prompt))
    drafter.observe(ids([first]), Verified(ids(prompt), None, final_hidden(model, prompt), np.arange(len(prompt))))
    return drafter


def told(drafter, model, known, draft, following):
    """Tell of a verification by plain forwards: the known tokens (the root last), a draft, what the target says."""
    paths = [(), *tree_paths(draft.tokens, draft.parents)]
    hidden = torch.stack([final_hidden(model, [*known, *path])[-1] for path in paths])
    accepted = accepted_nodes(draft, following)
    emitted = following[: len(accepted) + 1]
    tokens = ids([known[-1], *draft.tokens.tolist()])
    drafter.observe(ids(emitted), Verified(tokens, None, hidden, np.array([0, *(node + 1 for node in accepted)])))
    return emitted


def expected_tree(method, naive, model, known, **options):
    """The token paths by definition, for a sequence of known tokens."""
    tokens, hidden = known[1:], final_hidden(model, known[:-1])
    if method == "eagle":
        return set(naive.static_tree(tokens, hidden))
    return naive.dynamic_tree(tokens, hidden, **options)


def random_hidden(n, seed=0):
    return 0.3 * torch.randn(n, 32, generator=torch.Generator().manual_seed(seed))


def assert_close(found, expected):
    """To 1e-5 of the largest number."""
    torch.testing.assert_close(found, expected, atol=1e-5 * float(expected.abs().max()), rtol=0)


def paths_of(draft):
    return set(tree_paths(draft.tokens, draft.parents))


# --- the head ---------------------------------------------------------------------------------------------------------

CONFIGS = {
    "as the target": {},
    "without a bias": {"bias": False},
    "wider heads": {"head_dim": 16},
    "no groups": {"num_key_value_heads": 4},
    "one group": {"num_key_value_heads": 1},
    "another base": {"rope_theta": 10000.0, "rms_norm_eps": 1e-5},
}


@pytest.mark.parametrize("changes", CONFIGS.values(), ids=CONFIGS)
def test_the_head_is_a_llama_layer_without_its_first_norm(model, tmp_path, changes):
    folder = random_head(tmp_path, model, **changes)
    head, naive = load_head(folder, model), NaiveHead(model, folder)
    tokens, hidden = random_prompt(1, 40), random_hidden(40)
    with torch.no_grad():
        found = head(head.embed_tokens(torch.tensor([tokens])), hidden[None], torch.arange(40))[0]
    assert_close(found, naive.features(tokens, hidden))


def test_pieces_and_trees_equal_the_whole_sequence(model, folder):
    """Through a cache in pieces, then a tree whose branches each equal a sequence of their own."""
    head, naive, cache = load_head(folder, model), NaiveHead(model, folder), HeadCache()
    tokens, hidden = random_prompt(1, 300), random_hidden(300)
    expected = naive.features(tokens, hidden)

    def run(piece, mask, positions, states):
        with torch.no_grad():
            return head(head.embed_tokens(torch.tensor([piece])), states[None], positions, mask, cache)[0]

    for start, end in ((0, 1), (1, 2), (2, 9), (9, 270), (270, 300)):
        mask = torch.ones(end - start, end, dtype=torch.bool).tril(start)
        found = run(tokens[start:end], mask, torch.arange(start, end), hidden[start:end])
        assert_close(found, expected[start:end])
    cache.truncate(100)
    tree, parents, states = [5, 9, 5, 9, 7], [-1, -1, 0, 1, 2], random_hidden(5, 1)
    sees, depths = torch.eye(5, dtype=torch.bool), [0, 0, 1, 1, 2]
    for node, parent in enumerate(parents):
        if parent >= 0:
            sees[node] |= sees[parent]
    mask = torch.cat([torch.ones(5, 100, dtype=torch.bool), sees], dim=1)
    found = run(tree, mask, 100 + torch.tensor(depths), states)
    for node in range(5):
        path = torch.nonzero(sees[node]).flatten().tolist()
        whole = naive.features([*tokens[:100], *(tree[i] for i in path)], torch.cat([hidden[:100], states[path]]))
        assert_close(found[node], whole[-1])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision(folder, dtype):
    model = cycle_model()
    config = head_config(model)
    with torch.no_grad():
        half = type(model)(model.config).to(dtype)
        head = load_head(write_head(folder.parent / f"half-{dtype}", config, head_tensors(config)), half)
        found = head(torch.randn(1, 4, 32, dtype=dtype), torch.randn(1, 4, 32, dtype=dtype), torch.arange(4))
    assert found.dtype == dtype and torch.isfinite(found).all()


# --- checkpoints ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("own_embedding", [True, False])
@pytest.mark.parametrize("form", ["safetensors", "bin"])
def test_both_forms_of_the_official_format_load(model, tmp_path, form, own_embedding):
    folder = random_head(tmp_path, model, form=form, own_embedding=own_embedding)
    other = random_head(tmp_path / "other", model, own_embedding=own_embedding)
    prompt = random_prompt(1, 9)
    draft = begun(make_drafter("eagle2", model=model, head=folder), model, prompt, 3).propose(9)
    assert paths_of(draft) == expected_tree("eagle2", NaiveHead(model, other), model, [*prompt, 3])


def test_computed_buffers_of_old_checkpoints_are_passed_over(model, tmp_path):
    config = head_config(model)
    tensors = head_tensors(config) | {"layers.0.self_attn.rotary_emb.inv_freq": torch.ones(4)}
    load_head(write_head(tmp_path, config, tensors, "bin"), model)


def test_a_head_with_weights_in_halves_gets_the_targets_precision(model, tmp_path):
    config = head_config(model)
    tensors = {name: tensor.half() for name, tensor in head_tensors(config).items()}
    head = load_head(write_head(tmp_path, config, tensors, "bin"), model)
    assert {parameter.dtype for parameter in head.parameters()} == {torch.float32}
    assert not any(parameter.requires_grad for parameter in head.parameters())


@pytest.mark.parametrize("method", ["eagle", "eagle2", "sam[e]", "sam[e2]"])
def test_missing_heads_are_missing_assets(model, folder, tmp_path, method):
    for head, words in ((None, "none is shipped"), (tmp_path / "nowhere", "no EAGLE head at")):
        with pytest.raises(samlib.MissingAssetError, match=words) as caught:
            make_drafter(method, model=model, head=head)
        assert "head=" in str(caught.value) and "\n" not in str(caught.value)
    with pytest.raises(samlib.MissingAssetError, match="head="):
        make_drafter(method)
    with pytest.raises(ValueError, match="model="):
        make_drafter(method, head=folder)


@pytest.mark.parametrize(
    ("left_out", "words"), [("config.json", "no config.json"), ("model.safetensors", "no weights")]
)
def test_missing_files_are_missing_assets(model, tmp_path, left_out, words):
    folder = random_head(tmp_path, model)
    (folder / left_out).unlink()
    with pytest.raises(samlib.MissingAssetError, match=words):
        load_head(folder, model)


def without(name):
    return lambda config, tensors: tensors.pop(name)


def changed(**values):
    return lambda config, tensors: config.update(values)


def replaced(name, shape):
    return lambda config, tensors: tensors.update({name: torch.zeros(shape)})


WRONG = {
    "a missing weight": (without("fc.weight"), "lacks fc.weight"),
    "a missing bias": (without("fc.bias"), "lacks fc.bias"),
    "a bias too many": (changed(bias=False), "has also fc.bias"),
    "an unknown weight": (replaced("layers.1.mlp.up_proj.weight", (48, 32)), "has also layers.1"),
    "a first norm": (replaced("layers.0.input_layernorm.weight", (32,)), "has also layers.0.input_layernorm"),
    "a wrong shape": (replaced("fc.weight", (32, 32)), r"fc.weight .*\(32, 32\)"),
    "another inner size": (changed(intermediate_size=64), r"mlp.*\(32, 48\)"),
    "another target's width": (changed(hidden_size=64), "hidden_size 64 and the target model 32"),
    "another target's vocabulary": (changed(vocab_size=100), "vocab_size 100 and the target model 64"),
    "two layers": (changed(num_hidden_layers=2), "num_hidden_layers"),
    "another activation": (changed(hidden_act="gelu"), "hidden_act"),
    "scaled rotary positions": (changed(rope_scaling={"rope_type": "llama3"}), "rotary"),
    "groups that do not divide": (changed(num_key_value_heads=3), "no multiple of num_key_value_heads"),
    "no attention heads": (changed(num_attention_heads=0), "num_attention_heads must be at least 1"),
    "a size that is no number": (changed(intermediate_size="48"), "intermediate_size must be an integer"),
    "a size left out": (lambda config, tensors: config.pop("intermediate_size"), "intermediate_size"),
}


@pytest.mark.parametrize(("spoil", "words"), WRONG.values(), ids=WRONG)
def test_heads_that_do_not_fit_are_refused_in_one_line(model, tmp_path, spoil, words):
    config = head_config(model)
    tensors = head_tensors(config)
    spoil(config, tensors)
    with pytest.raises(ValueError, match=words) as caught:
        load_head(write_head(tmp_path, config, tensors), model)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "pytorch_model.bin"])
@pytest.mark.parametrize("content", [b"", b"{]", b"garbage"])
def test_damaged_files_are_refused_in_one_line(model, tmp_path, name, content):
    folder = random_head(tmp_path, model, form="bin" if name.endswith("bin") else "safetensors")
    (folder / name).write_bytes(content)
    with pytest.raises(ValueError, match=name) as caught:
        load_head(folder, model)
    assert "\n" not in str(caught.value)


class Dangerous:
    def __reduce__(self):
        return (print, ("unpickled",))


def test_nothing_is_unpickled(model, tmp_path, capsys):
    folder = random_head(tmp_path, model, form="bin")
    torch.save({"fc.weight": Dangerous()}, folder / "pytorch_model.bin")
    with pytest.raises(ValueError, match="plain tensors"):
        load_head(folder, model)
    assert capsys.readouterr().out == ""


def test_a_saved_head_is_shipped_for_its_own_model_only(model, folder, tmp_path, monkeypatch):
    monkeypatch.setattr("samlib.paths.EAGLE_HEADS", tmp_path)
    head = load_head(folder, model)
    save_head(head, tmp_path / "tiny", model=model)
    assert shipped_head(model) == tmp_path / "tiny"
    assert shipped_head(random_model(seed=1)) is None and shipped_head(cycle_model()) is None
    assert len(json.loads((tmp_path / "tiny" / "target.json").read_text())["embedding_sample"]) == SAMPLED
    half = type(model)(model.config).half()
    half.load_state_dict(model.state_dict())
    assert shipped_head(half) == tmp_path / "tiny"
    saved = make_drafter("eagle", model=model).head
    assert {name for name in load_file(tmp_path / "tiny" / "model.safetensors")} == set(head.state_dict())
    for name, tensor in head.state_dict().items():
        torch.testing.assert_close(saved.state_dict()[name], tensor, atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize(
    "content",
    ["", "{]", "[]", "{}", '{"vocab_size": 64}', "null"],
    ids=["empty", "cut", "list", "bare", "part", "null"],
)
def test_a_shipped_head_that_does_not_say_whose_it_is(model, folder, tmp_path, monkeypatch, content):
    """Damaged, it is one line that names the file; a head that is given is not looked up there."""
    monkeypatch.setattr("samlib.paths.EAGLE_HEADS", tmp_path)
    save_head(load_head(folder, model), tmp_path / "tiny", model=model)
    (tmp_path / "tiny" / "target.json").write_text(content)
    with pytest.raises((ValueError, samlib.MissingAssetError), match=r"target\.json|none is shipped") as caught:
        make_drafter("eagle", model=model)
    assert "\n" not in str(caught.value) and "head=" in str(caught.value)
    make_drafter("eagle", model=model, head=folder)


# --- the trees --------------------------------------------------------------------------------------------------------


@EVERY_METHOD
@pytest.mark.parametrize("size", [1, 2, 17])
def test_the_tree_after_a_prompt(model, folder, method, size):
    naive, prompt = NaiveHead(model, folder), random_prompt(size, size)
    draft = begun(make_drafter(method, model=model, head=folder), model, prompt, 5).propose(99)
    check_draft(draft, room={"eagle": 5, "eagle2": 6}[method], size={"eagle": 25, "eagle2": 59}[method])
    assert paths_of(draft) == expected_tree(method, naive, model, [*prompt, 5])
    assert (draft.source, draft.match_length, len(draft)) == (method, 0, {"eagle": 25, "eagle2": 59}[method])


def test_the_static_tree_has_eagles_shape(model, folder):
    draft = begun(make_drafter("eagle", model=model, head=folder), model, [1, 2], 3).propose(99)
    assert np.bincount(draft.depths).tolist() == [0, 4, 8, 8, 3, 2]
    assert (np.diff(draft.depths) >= 0).all()


@EVERY_METHOD
def test_every_step_of_a_request_sees_the_targets_own_past(model, folder, method):
    """Trees after partly accepted ones, after rejected ones and after several at once that it did not draft."""
    naive, prompt = NaiveHead(model, folder), random_prompt(2, 6)
    answer = greedy(model, prompt, 60)
    drafter = begun(make_drafter(method, model=model, head=folder), model, prompt, answer[0])
    known, lengths = [*prompt, answer[0]], []
    while len(known) < len(prompt) + 40:
        following = answer[len(known) - len(prompt) :]
        if len(lengths) % 3:
            draft = drafter.propose(9)
            assert paths_of(draft) == expected_tree(method, naive, model, known)
        if len(lengths) % 3 != 1:  # another's draft is verified, right at first and wrong in the end
            draft = samlib.Draft.chain([*following[: len(lengths) % 4], 63 - following[len(lengths) % 4]], "other")
        known += told(drafter, model, known, draft, following)
        lengths.append(len(known))
    assert max(np.diff(lengths)) > 2
    assert paths_of(drafter.propose(9)) == expected_tree(method, naive, model, known)


@EVERY_METHOD
@pytest.mark.parametrize("room", range(7))
def test_the_room_clips_levels(model, folder, method, room):
    naive = NaiveHead(model, folder)
    draft = begun(make_drafter(method, model=model, head=folder), model, [1, 2, 3], 4).propose(max(room, 1))
    check_draft(draft, room=max(room, 1), size=59)
    whole = begun(make_drafter(method, model=model, head=folder), model, [1, 2, 3], 4).propose(99)
    if method == "eagle":
        assert paths_of(draft) == paths_of(whole.clipped(max(room, 1)))
    else:
        depth = min(max(room, 1), 6)
        assert paths_of(draft) == expected_tree(method, naive, model, [1, 2, 3, 4], depth=depth)


@pytest.mark.parametrize("tree_size", [1, 2, 3, 8, 16, 25])
def test_smaller_static_trees_keep_the_likeliest_nodes(model, folder, tree_size):
    """By an assumed chance of 0.5 / (rank + 1): a part of the whole tree, closed under parents."""
    draft = begun(make_drafter("eagle", model=model, head=folder, tree_size=tree_size), model, [1, 2], 3).propose(9)
    naive = NaiveHead(model, folder)
    chance = {node: np.prod([0.5 / (rank + 1) for rank in node]) for node in STATIC_TREE}
    paths = dict(zip(STATIC_TREE, naive.static_tree([2, 3], final_hidden(model, [1, 2])), strict=True))
    kept = {node for node, path in paths.items() if path in paths_of(draft)}
    assert len(draft) == len(kept) == tree_size
    left_out = [chance[node] for node in STATIC_TREE if node not in kept]
    assert min(chance[node] for node in kept) >= max(left_out, default=0)


@pytest.mark.parametrize(
    "options",
    [{"tree_size": 1}, {"tree_size": 7}, {"tree_size": 500}, {"depth": 1}, {"depth": 7}, {"top_k": 1}, {"top_k": 3}],
)
def test_options_of_the_dynamic_tree(model, folder, options):
    naive = NaiveHead(model, folder)
    draft = begun(make_drafter("eagle2", model=model, head=folder, **options), model, [1, 2, 3], 4).propose(99)
    named = {"size" if name == "tree_size" else name: value for name, value in options.items()}
    assert paths_of(draft) == expected_tree("eagle2", naive, model, [1, 2, 3, 4], **named)
    check_draft(draft, room=options.get("depth", 6), size=options.get("tree_size", 59))


@EVERY_METHOD
def test_a_part_of_the_vocabulary(model, folder, method):
    vocabulary = np.array([60, 3, 17, 44, 5, 31, 8, 9, 10, 22, 61, 0])
    drafter = begun(make_drafter(method, model=model, head=folder, vocabulary=vocabulary), model, [1, 2, 3], 4)
    naive = NaiveHead(model, folder, vocabulary.tolist())
    draft = drafter.propose(9)
    assert set(draft.tokens.tolist()) <= set(vocabulary.tolist())
    assert paths_of(draft) == expected_tree(method, naive, model, [1, 2, 3, 4])


@EVERY_METHOD
@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_vocabulary_of_fewer_tokens_than_ranks(model, folder, method, size):
    drafter = begun(make_drafter(method, model=model, head=folder, vocabulary=range(size)), model, [1, 2], 4)
    draft = drafter.propose(9)
    levels = 5 if method == "eagle" else 6
    check_draft(draft, room=levels, size=59)
    assert set(draft.tokens.tolist()) == set(range(size)) and draft.depths.max() == levels


@EVERY_METHOD
@pytest.mark.parametrize("bad", [[], [1, 1], [VOCABULARY], [-1], [[1, 2]]])
def test_wrong_vocabularies_are_refused(model, folder, method, bad):
    with pytest.raises(ValueError):
        make_drafter(method, model=model, head=folder, vocabulary=bad)
    with pytest.raises(TypeError):
        make_drafter(method, model=model, head=folder, vocabulary=[0.5])


@pytest.fixture
def ranked(model, tmp_path):
    """(folder of a head, the 40 ids that its vocabulary.json ranks)."""
    folder = random_head(tmp_path, model)
    order = np.random.default_rng(0).permutation(VOCABULARY)[:40].tolist()
    (folder / "vocabulary.json").write_text(json.dumps(order))
    return folder, order


@EVERY_METHOD
@pytest.mark.parametrize("n", [1, 3, 25, np.int64(40)])
def test_a_number_as_vocabulary_means_the_most_frequent_ids(model, ranked, method, n):
    (folder, order), prompt = ranked, random_prompt(1, 9)
    counted, listed = (
        begun(make_drafter(method, model=model, head=folder, vocabulary=part), model, prompt, 3).propose(9)
        for part in (n, order[:n])
    )
    assert (counted.tokens.tolist(), counted.parents.tolist()) == (listed.tokens.tolist(), listed.parents.tolist())
    assert set(counted.tokens.tolist()) <= set(order[:n])
    if n >= 10:  # below, the trees have fewer branches
        naive = NaiveHead(model, folder, order[:n])
        assert paths_of(counted) == expected_tree(method, naive, model, [*prompt, 3])


@EVERY_METHOD
@pytest.mark.parametrize(
    ("n", "error", "words"),
    [
        (0, ValueError, "vocabulary must be at least 1"),
        (-3, ValueError, "vocabulary must be at least 1"),
        (41, ValueError, "ranks 40 ids: give vocabulary=40 at most, not 41"),
        (2**40, ValueError, "ranks 40 ids"),
        (True, TypeError, "vocabulary must be an integer"),
        (2.5, TypeError, "integers"),
        ("7", TypeError, "integers"),
    ],
)
def test_numbers_that_no_vocabulary_has_are_refused(model, ranked, method, n, error, words):
    with pytest.raises(error, match=words) as caught:
        make_drafter(method, model=model, head=ranked[0], vocabulary=n)
    assert "\n" not in str(caught.value)


@EVERY_METHOD
def test_a_number_needs_the_heads_own_ranking(model, folder, method):
    with pytest.raises(samlib.MissingAssetError, match="has no vocabulary.json: give vocabulary= as ids") as caught:
        make_drafter(method, model=model, head=folder, vocabulary=5)
    assert str(folder) in str(caught.value) and "\n" not in str(caught.value)


@EVERY_METHOD
@pytest.mark.parametrize(
    "content",
    ["", "{]", "[1, 2", "null", "7", '"1234"', "{}", '{"ids": [1, 2]}', "[1.5, 2]", "[true, 2]", "[[1, 2]]"]
    + ['["a"]', "[-1, 2]", "[1, null]", "[99999999999, 1]"],
)
def test_a_damaged_ranking_is_refused_in_one_line(model, ranked, method, content):
    (ranked[0] / "vocabulary.json").write_text(content)
    with pytest.raises(ValueError, match=r"vocabulary\.json") as caught:
        make_drafter(method, model=model, head=ranked[0], vocabulary=1)
    assert "\n" not in str(caught.value)


@EVERY_METHOD
@pytest.mark.parametrize("content", ["[3, 3, 5]", f"[3, {VOCABULARY}, 5]"])
def test_a_ranking_of_repeated_or_foreign_ids_is_refused(model, ranked, method, content):
    (ranked[0] / "vocabulary.json").write_text(content)
    with pytest.raises(ValueError, match=f"different ids below {VOCABULARY}"):
        make_drafter(method, model=model, head=ranked[0], vocabulary=3)


def test_equal_scores_never_part_a_child_from_its_parent(model, tmp_path):
    """A head that is certain: every log-probability along its path is exactly 0, and far below it beside."""
    config = head_config(model)
    tensors = {name: torch.zeros_like(tensor) for name, tensor in head_tensors(config).items()}
    tensors["fc.bias"] = 1000 * model.lm_head.weight[7].detach()
    drafter = make_drafter("eagle2", model=model, head=write_head(tmp_path, config, tensors), tree_size=5)
    draft = begun(drafter, model, [1, 2, 3], 4).propose(9)
    check_draft(draft, room=5, size=5)
    best = int((model.lm_head.weight @ tensors["fc.bias"]).argmax())
    assert (draft.tokens.tolist(), draft.parents.tolist()) == ([best] * 5, [-1, 0, 1, 2, 3])


@EVERY_METHOD
def test_numbers_that_are_none_still_make_a_tree(model, tmp_path, method):
    config = head_config(model)
    tensors = head_tensors(config)
    tensors["fc.bias"][0] = torch.nan
    drafter = make_drafter(method, model=model, head=write_head(tmp_path, config, tensors))
    check_draft(begun(drafter, model, [1, 2], 3).propose(9), room=5, size=59)


def test_a_node_that_has_no_score_never_comes_before_its_parent():
    candidates = Candidates(torch.device("cpu"))
    candidates.add(torch.tensor([[1, 2]]), torch.tensor([[-1.0, -2.0]]))
    candidates.best(2)
    candidates.add(torch.tensor([[3, 4], [5, 6]]), torch.tensor([[-3.0, -4.0], [torch.nan, torch.nan]]))
    for size, tokens, parents in ((2, [1, 2], [-1, -1]), (4, [1, 2, 3, 4], [-1, -1, 0, 0])):
        found = candidates.rerank(size)
        assert (found[0].tolist(), found[1].tolist()) == (tokens, parents)


# --- its state --------------------------------------------------------------------------------------------------------


@EVERY_METHOD
def test_proposing_twice_gives_the_same_tree(model, folder, method):
    drafter = begun(make_drafter(method, model=model, head=folder), model, random_prompt(1, 9), 3)
    first, second = drafter.propose(9), drafter.propose(9)
    assert (first.tokens.tolist(), first.parents.tolist()) == (second.tokens.tolist(), second.parents.tolist())


@EVERY_METHOD
def test_nothing_of_a_request_shows_in_the_next(model, folder, method):
    """Neither what the head has seen nor what it had still to see."""
    fresh = begun(make_drafter(method, model=model, head=folder), model, [4, 5, 6], 7).propose(9)
    drafter = begun(make_drafter(method, model=model, head=folder), model, random_prompt(3, 20), 3)
    draft = drafter.propose(9)
    for proposed in (False, True):
        told(drafter, model, [*random_prompt(3, 20), 3], draft, [9, 9])
        if proposed:
            drafter.propose(9)
        again = begun(drafter, model, [4, 5, 6], 7).propose(9)
        assert (again.tokens.tolist(), again.parents.tolist()) == (fresh.tokens.tolist(), fresh.parents.tolist())
    drafter.reset()
    assert len(drafter.propose(9)) == 0


@EVERY_METHOD
def test_it_asks_for_hidden_states_and_says_so(model, folder, method):
    drafter = make_drafter(method, model=model, head=folder)
    assert drafter.needs_hidden and drafter.top_k == 0
    drafter.begin(ids([1, 2]))
    with pytest.raises(ValueError, match="hidden"):
        drafter.observe(ids([3]))


@pytest.mark.parametrize("method", ["eagle", "eagle2", "sam[e]", "sam[e2]"])
def test_sizes_are_checked(model, folder, method):
    sizes = ["tree_size"] + ["depth", "top_k"] * ("2" in method) + ["draft_size"] * ("sam" in method)
    for size in sizes:
        with pytest.raises(ValueError, match=size):
            make_drafter(method, model=model, head=folder, **{size: 0})
        with pytest.raises(TypeError, match=size):
            make_drafter(method, model=model, head=folder, **{size: 2.5})
    with pytest.raises(TypeError, match="tree_size"):
        make_drafter(method, model=model, head=folder, treesize=3)
    if method == "eagle":
        with pytest.raises(ValueError, match="tree_size"):
            make_drafter(method, model=model, head=folder, tree_size=26)
