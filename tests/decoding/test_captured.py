"""Captured forwards, on the CPU without graphs: the same padded, fixed-shape forward against plain ones and greedy."""

import contextlib
import copy
import inspect

import pytest
import torch
import transformers

import samlib
from samlib import CapturedForwards, Draft
from samlib.decoding import TargetModel, captured, target_for

from ..automaton.naive import tree_paths
from .models import (
    FAMILIES,
    HEADS,
    METHODS,
    Scripted,
    assets,
    corpus_of,
    counted_forwards,
    cycle,
    cycle_model,
    draft_of,
    greedy,
    means_of,
    random_model,
    random_prompt,
)
from .test_target import TREES, _ids, _path_to, assert_close, plain_logits

EVERY_MODEL = pytest.mark.parametrize(
    ("family", "attention"), [(family, attention) for family in FAMILIES for attention in ("sdpa", "eager")]
)


@pytest.fixture(scope="module")
def llama():
    """The random Llama and its captured forwards, of a few small widths."""
    model = random_model()
    return model, CapturedForwards(model, max_length=128, widths=(1, 4, 8))


@EVERY_MODEL
@pytest.mark.parametrize("shape", TREES)
def test_every_node_sees_its_own_path_and_nothing_else(family, attention, shape):
    model, prompt, root, draft = random_model(family, attention), random_prompt(3, 7), 2, draft_of(*TREES[shape])
    with CapturedForwards(model, max_length=40, widths=(3, 7, 16)):
        target = target_for(model)
    assert_close(target.prefill(_ids(prompt)).logits[0], plain_logits(model, prompt))
    logits = target.verify(root, draft).logits
    assert logits.shape == (1 + len(draft), model.config.vocab_size)
    for path, found in zip([(), *tree_paths(draft.tokens, draft.parents)], logits, strict=True):
        assert_close(found, plain_logits(model, [*prompt, root, *path]))


@EVERY_MODEL
def test_many_steps_leave_no_trace(family, attention):
    """Trees, chains and padding of all widths, another path kept each time: the cache stays that of the kept tokens."""
    model, known = random_model(family, attention), random_prompt(5, 6)
    with CapturedForwards(model, max_length=120, widths=(2, 8)):
        target = target_for(model)
    target.prefill(_ids(known))
    for step in range(24):
        draft = draft_of(*list(TREES.values())[step % len(TREES)])
        logits = target.verify(step, draft).logits
        path = _path_to(draft, (5 * step) % len(draft)) if step % 4 and len(draft) else []
        nodes = [(), *tree_paths(draft.tokens, draft.parents)]
        assert_close(logits[-1], plain_logits(model, [*known, step, *nodes[-1]]))
        target.keep([0, *(index + 1 for index in path)])
        known = [*known, step, *draft.tokens[path].tolist()]
        assert target.num_cached == len(known)
    assert_close(target.verify(1, Draft.empty()).logits[0], plain_logits(model, [*known, 1]))


@pytest.mark.parametrize("kept", [5, 4, 1, 0])
def test_rollback_to_any_length(llama, kept):
    model, forwards = llama
    with forwards:
        target = target_for(model)
    target.prefill(_ids([7]))
    target.verify(2, Draft.chain([3, 4, 5, 6], "scripted"))
    assert target.num_cached == 6
    target.keep(list(range(kept)))
    assert target.num_cached == 1 + kept
    assert_close(target.verify(40, Draft.empty()).logits[0], plain_logits(model, [7, *[2, 3, 4, 5, 6][:kept], 40]))


def test_forwards_are_padded_to_the_next_width_and_wider_ones_are_not(llama):
    model, forwards = llama
    with forwards:
        target = target_for(model)
    target.prefill(_ids([1, 2, 3]))
    with counted_forwards(model) as widths:
        for size in (0, 1, 3, 4, 7, 8, 11):
            target.verify(5, Draft.chain(list(range(size)), "scripted"))
            target.keep([])
    assert widths == [1, 4, 4, 8, 8, 9, 12]
    assert target.num_forwards == 8 and target.num_cached == 3


def test_no_row_sees_padding_and_padding_is_finite(llama):
    """Whatever padding's inputs are: with other ids there, the draft's logits are the same to the last bit."""
    model, forwards = llama
    with forwards:
        target = target_for(model)
    target.prefill(_ids(random_prompt(1, 9)))
    draft = draft_of([5, 9, 11, 12], [-1, -1, 0, 0])
    with torch.inference_mode():
        given = forwards._forward.write(2, draft, 9, 8)
        first = forwards._forward.run(given, 8)
        given[1 + 5 : 1 + 8] = torch.tensor([60, 61, 62])
        second = forwards._forward.run(given, 8)
    assert torch.isfinite(first).all() and torch.isfinite(second).all()
    assert torch.equal(first[:5], second[:5])
    assert not torch.equal(first[5:], second[5:])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_half_precision_stays_finite(dtype, attention):
    model = copy.deepcopy(random_model("llama", attention)).to(dtype)
    with CapturedForwards(model, max_length=64, widths=(16,)):
        target = target_for(model)
    target.prefill(_ids(random_prompt(1, 9)))
    logits = target.verify(2, draft_of(*TREES["depth first"])).logits
    assert logits.dtype == dtype and torch.isfinite(logits).all()
    expected = plain_logits(model, [*random_prompt(1, 9), 2])
    torch.testing.assert_close(logits[0], expected, atol=0.1, rtol=0.05)


def test_padding_without_any_context_is_finite_too():
    """As when graphs are captured: what a NaN leaves in the cache no mask hides."""
    model = copy.deepcopy(random_model("llama", "eager", initializer_range=1.0)).to(torch.float16)
    forwards = CapturedForwards(model, max_length=64, widths=(8,))
    with torch.inference_mode():
        given = forwards._forward.write(0, Draft.empty(), 0, 8)
        logits = forwards._forward.run(given, 8)
    assert torch.isfinite(logits).all()
    assert all(torch.isfinite(layer.keys).all() for layer in forwards._forward._cache.layers)


SERVED = [method for method in METHODS if method not in HEADS]
MODEL_AND_METHOD = [(family, "sam[t]") for family in FAMILIES] + [("llama", method) for method in SERVED]


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize(("family", "method"), MODEL_AND_METHOD)
def test_every_model_and_method_returns_greedy_output(family, attention, method):
    model = random_model(family, attention)
    prompts = [random_prompt(seed, 12) * 2 for seed in range(2)]
    index = corpus_of(model, prompts[:1])
    with CapturedForwards(model, max_length=80):
        for prompt in prompts:  # the second request must not notice the first
            found = samlib.generate(model, prompt, method=method, static=index, max_new_tokens=40)
            assert found.tokens == greedy(model, prompt, 40)


@pytest.mark.parametrize("call", [samlib.generate, samlib.stream])
@pytest.mark.parametrize("method", HEADS)
def test_methods_that_need_hidden_states_are_refused_before_any_work(method, call):
    """At the call; the same request is served outside, and others inside."""
    model, options = cycle_model(), {"method": method, "max_new_tokens": 9, **means_of(method)}
    with CapturedForwards(model, max_length=40, widths=(1, 8)), counted_forwards(model) as widths:
        with pytest.raises(ValueError, match="give no hidden states.*decode without them") as caught:
            call(model, cycle(0, 9), **options)
        assert widths == [] and "\n" not in str(caught.value)
        for refused in (
            lambda: target_for(model).prefill(_ids([1, 2]), hidden=True),
            lambda: target_for(model).verify(1, Draft.empty(), hidden=True),
        ):
            with pytest.raises(ValueError, match="give no hidden states"):
                refused()
        assert samlib.generate(model, cycle(0, 9), method="sam", max_new_tokens=9).tokens == cycle(9, 9)
    assert samlib.generate(model, cycle(0, 9), **options).tokens == cycle(9, 9)


def test_long_drafts_are_accepted_whole_to_the_last_place():
    """Drafts beyond the largest width too, up to the very end of what fits."""
    model, prompt = cycle_model(), cycle(0, 9)
    drafter = Scripted(lambda known, room: Draft.chain(cycle(len(known), min(room, 12)), "scripted"))
    with CapturedForwards(model, max_length=40, widths=(1, 8)):
        found = samlib.generate(model, prompt, drafter=drafter, max_new_tokens=31)
    assert found.tokens == cycle(9, 31)
    assert found.num_target_forwards == 1 + 3


def test_it_is_off_by_default_and_off_again_afterwards(llama):
    model, forwards = llama
    assert type(target_for(model)) is TargetModel
    with forwards:
        assert type(target_for(model)) is not TargetModel
        assert type(target_for(random_model(seed=1))) is TargetModel
        with pytest.raises(RuntimeError, match="leave that with block first"), forwards:
            pass
    assert type(target_for(model)) is TargetModel
    with contextlib.suppress(KeyError), forwards:
        raise KeyError
    assert type(target_for(model)) is TargetModel


def test_a_request_that_does_not_fit_is_refused_before_any_work():
    model = random_model()
    with CapturedForwards(model, max_length=20, widths=(4,)), counted_forwards(model) as widths:
        with pytest.raises(ValueError, match="come to 21, beyond the 20 .* max_length=21 or more"):
            samlib.generate(model, list(range(10)), max_new_tokens=11)
        assert widths == []
        assert len(samlib.generate(model, list(range(10)), max_new_tokens=10).tokens) == 10
        with pytest.raises(ValueError, match="come to 21"):
            target_for(model).prefill(_ids(list(range(21))))


def test_a_draft_for_which_there_is_no_place_is_refused():
    with CapturedForwards(random_model(), max_length=64, widths=(4,)):  # 128 places behind those
        target = target_for(random_model())
    target.prefill(_ids(random_prompt(0, 64)))
    assert len(target.verify(1, draft_of([5] * 127, [-1] * 127)).choices) == 128
    target.keep([])
    with pytest.raises(ValueError, match="make them with a width of 129"):
        target.verify(1, draft_of([5] * 128, [-1] * 128))


def test_one_request_at_a_time():
    model = cycle_model()
    with CapturedForwards(model, max_length=40):
        first = samlib.stream(model, [0, 1, 2], method="autoregressive", max_new_tokens=9)
        next(first)
        samlib.generate(model, [4, 5], max_new_tokens=3)
        with pytest.raises(RuntimeError, match="another request has begun"):
            next(first)


@pytest.mark.parametrize("widths", [(), (0, 4), (2.5,), (True,), (-1,)])
def test_widths_must_be_whole_numbers(widths):
    with pytest.raises(ValueError, match="widths must be whole numbers"):
        CapturedForwards(random_model(), widths=widths)


@pytest.mark.parametrize("length", [1, 0, -5, 3.0, "long", True])
def test_a_length_must_be_a_whole_number(length):
    with pytest.raises(ValueError, match="max_length must be a whole number"):
        CapturedForwards(random_model(), max_length=length)


def test_the_default_length_is_the_models_up_to_2048():
    assert CapturedForwards(random_model(max_positions=512), widths=(1,)).max_length == 512
    assert captured._checked_length(random_model(max_positions=4096), None) == 2048


def test_models_and_devices_that_it_cannot_serve_are_refused(monkeypatch):
    sliding = random_model("mistral", sliding_window=8)
    with pytest.raises(ValueError, match="layers without full attention"):
        CapturedForwards(sliding)

    class OldLlama(transformers.LlamaForCausalLM):
        def forward(self, input_ids=None, position_ids=None, past_key_values=None):
            raise AssertionError

    with pytest.raises(ValueError, match="OldLlama takes no `cache`"):
        CapturedForwards(OldLlama(random_model().config))
    with pytest.raises(ValueError, match="not on mps"):
        captured._uses_graphs(torch.device("mps"))
    monkeypatch.delattr(torch.cuda, "CUDAGraph")
    with pytest.raises(RuntimeError, match="has no CUDA graphs: decode without CapturedForwards"):
        captured._uses_graphs(torch.device("cuda"))


def test_it_says_that_it_is_experimental():
    assert "Experimental." in inspect.getdoc(CapturedForwards).splitlines()[0]


@EVERY_MODEL
def test_the_forward_reads_no_value_off_the_device(family, attention):
    """On a device without values, where reading one raises; a capture demands the same of the forward."""
    model = random_model(family, attention)
    layers = CapturedForwards(model, max_length=64, widths=(8,))._forward._cache.layers
    rows = [(layer.keys.to("meta"), layer.values.to("meta")) for layer in layers]
    model = copy.deepcopy(model).to("meta")
    forward = captured.StaticForward(model, captured.PinnedCache(rows), 8)
    with torch.inference_mode():
        assert forward.run(torch.empty(captured._size(8), dtype=torch.long, device="meta"), 8).shape == (8, 64)


# ---- the replay, with a stand-in for CUDA graphs ----


class Recording:
    """Stands for a captured graph: a replay runs the recorded forward on the recorded addresses, into one tensor."""

    def __init__(self, forward, given, width):
        self.forward, self.given, self.width, self.replays = forward, given, width, 0
        self.logits = forward.run(given, width)

    def replay(self):
        self.replays += 1
        self.logits.copy_(self.forward.run(self.given, self.width))


def replaying(model, monkeypatch, **options):
    """CapturedForwards that replay recordings."""

    def capture(self, width, pool):
        recording = Recording(self._forward, self._forward.write(0, Draft.empty(), 0, width), width)
        return recording, recording.logits

    monkeypatch.setattr(captured, "_uses_graphs", lambda device: True)
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: None)
    monkeypatch.setattr(CapturedForwards, "_capture", capture)
    return CapturedForwards(model, **options)


@pytest.mark.parametrize("method", SERVED)
def test_replays_return_greedy_output(method, monkeypatch):
    """Inputs reach the addresses that were recorded, also after drafts too wide to be replayed."""
    model, prompt = random_model(), random_prompt(0, 12) * 2
    forwards = replaying(model, monkeypatch, max_length=80, widths=(1, 4, 8))
    options = {"method": method, "max_new_tokens": 40, **assets(method, model, [prompt])}
    with forwards:
        assert samlib.generate(model, prompt, **options).tokens == greedy(model, prompt, 40)
    assert sum(recording.replays for recording, _ in forwards._graphs.values()) > 0


def test_what_a_replay_returned_is_not_overwritten_by_the_next(monkeypatch):
    model = random_model()
    with replaying(model, monkeypatch, max_length=40, widths=(4,)):
        target = target_for(model)
    target.prefill(_ids([1, 2, 3]))
    first = target.verify(5, Draft.empty())
    before = first.logits.clone()
    target.verify(9, Draft.empty())
    assert torch.equal(first.logits, before)


# ---- on a GPU only ----

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device: graphs are captured there")


@needs_cuda
@pytest.mark.parametrize("method", SERVED)
def test_replayed_graphs_return_greedy_output(method):
    model, prompt = copy.deepcopy(random_model()).cuda(), random_prompt(0, 12) * 2
    forwards = CapturedForwards(model, max_length=80)
    assert forwards.is_captured
    options = {"method": method, "max_new_tokens": 40, **assets(method, random_model(), [prompt])}
    expected = samlib.generate(model, prompt, **options).tokens
    with forwards, counted_forwards(model) as widths:
        assert samlib.generate(model, prompt, **options).tokens == expected
    assert widths == [len(prompt)]  # all but the prefill were replayed
