"""EAGLE, EAGLE-2 and SAM-Decoding over them in the decode loop: the ids of plain greedy `model.generate`."""

import threading

import numpy as np
import pytest
import torch
import transformers
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import samlib
from samlib import CpuKernels, Draft, Drafter, StaticAutomaton
from samlib.decoding import TargetModel
from samlib.drafters.eagle_checkpoint import save_head
from samlib.drafters.eagle_head import EagleHead, HeadConfig

from ..automaton.naive import tree_paths
from ..drafters.eagle import NaiveHead, final_hidden, head_config, head_tensors, random_head, write_head
from .models import (
    CYCLE_PROMPT,
    FAMILIES,
    FOLLOWING,
    HEADS,
    SIZES,
    VOCABULARY,
    Scripted,
    counted_forwards,
    cycle,
    cycle_model,
    draft_of,
    greedy,
    means_of,
    random_model,
    random_prompt,
)
from .test_lossless import NEAR_TIE, OPTIONS, _gap_at_first_difference
from .test_target import TREES, _ids, _path_to

EVERY_METHOD = pytest.mark.parametrize("method", HEADS)
EVERY_MODEL = pytest.mark.parametrize(
    ("family", "attention"), [(family, attention) for family in FAMILIES for attention in ("sdpa", "eager")]
)


# --- heads that are right ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["by the token", "by the hidden state"])
def cycle_head(request, tmp_path_factory):
    """Heads that know the cycle: from the next token alone, and from the last hidden state alone.

    Each is always right on what it is meant to be given, and wrong on that of any other place.
    """
    model, folder = cycle_model(), tmp_path_factory.mktemp("cycle")
    config = head_config(model)
    tensors = {name: torch.zeros_like(tensor) for name, tensor in head_tensors(config, own_embedding=False).items()}
    one = final_hidden(model, [0])[0, 0]  # the final hidden state of token i is that times its unit vector
    following = torch.eye(32)[list(FOLLOWING.values())]
    by_token = request.param == "by the token"
    tensors["fc.weight"] = torch.cat(
        [one * torch.eye(32), 0 * following] if by_token else [0 * following, following.T], 1
    )
    return write_head(folder, config, tensors)


@pytest.fixture(scope="module")
def distilled(tmp_path_factory):
    """(model, prompts, folder) of a head that was taught the answers to those prompts."""
    model = random_model(seed=3, initializer_range=0.2)
    prompts = [random_prompt(seed, 6) for seed in range(6)]
    texts = torch.tensor([[*prompt, *greedy(model, prompt, 40)] for prompt in prompts])
    with torch.no_grad():
        hidden = model.model(texts).last_hidden_state
    torch.manual_seed(0)
    head = EagleHead(HeadConfig(32, 64, 4, 2, 8, VOCABULARY))
    optimizer = torch.optim.Adam(head.parameters(), lr=1e-2)
    for _ in range(200):
        embedded = model.get_input_embeddings()(texts[:, 1:]).detach()
        features = head(embedded, hidden[:, :-1], torch.arange(texts.shape[1] - 1))[:, :-1]
        logits = model.lm_head(features)
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), texts[:, 2:].flatten())
        loss = loss + torch.nn.functional.smooth_l1_loss(features, hidden[:, 1:-1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    folder = tmp_path_factory.mktemp("distilled")
    save_head(head, folder)
    model.zero_grad(set_to_none=True)
    return model, prompts, folder


@EVERY_METHOD
def test_a_right_head_is_accepted_whole(cycle_head, method):
    """Tokens and hidden states are paired as they should be, at every step: one place off, and nothing is accepted."""
    options = {"l_threshold": 1000} if "sam" in method else {}
    with counted_forwards(cycle_model()) as widths:
        result = samlib.generate(
            cycle_model(), CYCLE_PROMPT, method=method, head=cycle_head, max_new_tokens=50, **options
        )
    assert result.tokens == cycle(4, 50)
    levels = 6 if "2" in method else 5
    assert [step.accepted for step in result.steps[:-1]] == [levels] * (len(result.steps) - 1)
    assert result.num_target_forwards == len(widths) == 1 + len(result.steps)
    assert {step.source for step in result.steps if step.drafted} == {"eagle2" if "2" in method else "eagle"}


@EVERY_METHOD
def test_paths_that_are_accepted_in_part(distilled, method):
    model, prompts, folder = distilled
    accepted = []
    for prompt in (*prompts, random_prompt(99, 6), random_prompt(98, 6)):  # two that it was not taught
        result = samlib.generate(model, prompt, method=method, head=folder, max_new_tokens=40)
        assert result.tokens == greedy(model, prompt, 40)
        accepted += [step.accepted for step in result.steps if step.source.startswith("eagle")]
    assert set(range(5)) <= set(accepted) and np.mean(accepted) > 1


class Watched(Drafter):
    """Another drafter, whose drafts are kept beside what was known then."""

    needs_hidden = True

    def __init__(self, drafter):
        self._drafter, self.reset = drafter, drafter.reset
        self.known, self.drafts = [], []

    def begin(self, prompt):
        self.known = prompt.tolist()
        self._drafter.begin(prompt)

    def observe(self, emitted, verified=None):
        self.known = self.known + emitted.tolist()
        self._drafter.observe(emitted, verified)

    def propose(self, room):
        draft = self._drafter.propose(room)
        self.drafts.append((self.known, room, draft))
        return draft


@EVERY_METHOD
def test_every_tree_is_that_of_the_known_tokens(distilled, method):
    """After whatever was accepted, the head's state is that of a head which sees the whole text for the first time."""
    model, prompts, folder = distilled
    naive = HalfHead(model, folder)
    drafter = Watched(samlib.make_drafter(method, model=model, head=folder))
    for prompt in prompts[:2]:
        samlib.generate(model, prompt, drafter=drafter, max_new_tokens=40)
    seen = 0
    for known, room, draft in drafter.drafts:
        if not draft.source.startswith("eagle"):
            continue
        seen += 1
        tokens, hidden = known[1:], final_hidden(model, known[:-1])
        paths = set(tree_paths(draft.tokens, draft.parents))
        if draft.source == "eagle":
            assert paths == {path for path in naive.static_tree(tokens, hidden) if len(path) <= room}
        else:
            assert paths == naive.dynamic_tree(tokens, hidden, depth=min(6, room))
    assert seen >= 8


class HalfHead(NaiveHead):
    """A NaiveHead of a head that was stored in float16."""

    def __init__(self, model, folder):
        super().__init__(model, folder)
        self.fc_weight, self.fc_bias = self.fc_weight.float(), self.fc_bias.float()
        self.layer.float()


# --- lossless ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("family", FAMILIES)
@EVERY_METHOD
def test_families_and_attentions(tmp_path, family, attention, method):
    """A random head on every family; wide weights for varied text, narrow ones for text that repeats itself."""
    accepted = 0
    for seed, width in [(0, 0.3), (1, 0.1)]:
        model = random_model(family, attention, seed=seed, initializer_range=width)
        prompt = random_prompt(seed, 9) * 2
        answer = greedy(model, prompt, 32)
        head, vocabulary = random_head(tmp_path, model), sorted(set(answer))  # so that some drafts are right
        result = samlib.generate(model, prompt, method=method, head=head, vocabulary=vocabulary, max_new_tokens=32)
        assert result.tokens == answer
        accepted += sum(step.accepted for step in result.steps if step.source.startswith("eagle"))
    assert accepted > 0


@pytest.fixture(scope="module")
def heads(tmp_path_factory):
    """{(seed, width, attention): (model, folder of a random head)}."""
    made = {}
    for seed, width in [(0, 0.3), (1, 0.12), (2, 0.08)]:
        for attention in ("sdpa", "eager"):
            model = random_model("llama", attention, seed=seed, initializer_range=width)
            made[seed, width, attention] = model, random_head(tmp_path_factory.mktemp("head"), model, seed=seed)
    return made


@settings(max_examples=60)
@given(data=st.data())
def test_any_request_equals_greedy(heads, data):
    """Random prompts, options, caps, vocabularies, stores and EOS ids; one drafter for two requests in a row."""
    model, folder = heads[data.draw(st.sampled_from(sorted(heads)))]
    token = st.integers(0, data.draw(st.sampled_from([1, 5, VOCABULARY - 1])))
    prompt = data.draw(st.lists(token, min_size=1, max_size=24))
    method = data.draw(st.sampled_from(HEADS))
    ids = st.lists(st.integers(0, VOCABULARY - 1), min_size=1, unique=True)
    cap = data.draw(st.integers(1, 30))
    eos = data.draw(st.lists(st.integers(0, VOCABULARY - 1), max_size=12, unique=True))
    expected = greedy(model, prompt, cap, eos_token_id=eos or None)
    drafter = samlib.make_drafter(
        method,
        model=model,
        head=folder,
        vocabulary=data.draw(st.none() | ids),
        static=StaticAutomaton.build([prompt + expected[:9]]),
        **data.draw(OPTIONS[method]),
    )
    request = {"drafter": drafter, "max_new_tokens": cap, "eos_token_id": eos or None}
    result = samlib.generate(model, prompt, **request)
    if result.tokens != expected:
        assume(_gap_at_first_difference(model, prompt, result.tokens, expected) >= NEAR_TIE)
    assert result.tokens == expected
    assert result.finish_reason == ("eos" if expected[-1] in eos else "length")
    assert samlib.generate(model, prompt, **request).steps == result.steps


@EVERY_METHOD
@pytest.mark.parametrize("eos", range(8))
def test_an_eos_inside_a_draft_ends_the_answer(cycle_head, method, eos):
    result = samlib.generate(
        cycle_model(), CYCLE_PROMPT, method=method, head=cycle_head, max_new_tokens=30, eos_token_id=eos
    )
    assert result.tokens == greedy(cycle_model(), CYCLE_PROMPT, 30, eos_token_id=eos)
    assert (result.tokens.count(eos), result.finish_reason) == (1, "eos")
    assert eos == 4 or any(step.drafted > len(step.tokens) for step in result.steps if eos in step.tokens)


@EVERY_METHOD
def test_one_drafter_for_requests_in_a_row(distilled, method):
    """Nothing of an older request shows in a later one, abandoned or not, with `reset` or without."""
    model, prompts, folder = distilled
    drafter = samlib.make_drafter(method, model=model, head=folder)
    for prompt in (prompts[0], prompts[1], prompts[0]):
        abandoned = samlib.stream(model, prompts[2], drafter=drafter, max_new_tokens=30)
        next(abandoned)
        next(abandoned)
        again = samlib.generate(model, prompt, drafter=drafter, max_new_tokens=40)
        fresh = samlib.generate(model, prompt, method=method, head=folder, max_new_tokens=40)
        assert again.tokens == greedy(model, prompt, 40)
        assert again.steps == fresh.steps
    drafter.reset()
    assert samlib.generate(model, prompts[0], drafter=drafter, max_new_tokens=40).steps == fresh.steps


@EVERY_METHOD
@pytest.mark.parametrize("cap", range(10))
def test_the_cap_is_exact(cycle_head, method, cap):
    with counted_forwards(cycle_model()) as widths:
        result = samlib.generate(cycle_model(), CYCLE_PROMPT, method=method, head=cycle_head, max_new_tokens=cap)
    assert result.tokens == cycle(4, cap)
    assert result.num_target_forwards == len(widths) <= cap


@EVERY_METHOD
def test_the_context_is_filled_to_its_last_position(cycle_head, method):
    result = samlib.generate(cycle_model(), CYCLE_PROMPT, method=method, head=cycle_head, max_new_tokens=1000)
    assert result.tokens == cycle(4, 64 - len(CYCLE_PROMPT))
    assert result.finish_reason == "context"


@EVERY_METHOD
def test_a_prompt_of_one_token(heads, method):
    model, folder = heads[0, 0.3, "sdpa"]
    result = samlib.generate(model, [5], method=method, head=folder, max_new_tokens=20)
    assert result.tokens == greedy(model, [5], 20)


@pytest.mark.parametrize("family", FAMILIES)
@EVERY_METHOD
def test_a_missing_head_is_refused_before_any_work(method, family):
    """By every way in; the message says what is missing, for which model, and how to get it."""
    model = random_model(family)
    words = f"needs an EAGLE head, and none is shipped for this {type(model).__name__}: give head=FOLDER with config"
    for call in (
        lambda: samlib.make_drafter(method, model=model),
        lambda: samlib.generate(model, CYCLE_PROMPT, method=method),
        lambda: samlib.stream(model, CYCLE_PROMPT, method=method),
    ):
        with pytest.raises(samlib.MissingAssetError, match=words) as caught:
            call()
        assert isinstance(caught.value, FileNotFoundError) and "\n" not in str(caught.value)


def test_retrieval_and_the_head_take_turns(distilled):
    model, prompts, folder = distilled
    answer = greedy(model, prompts[0], 40)
    index = StaticAutomaton.build([answer[8:30]])
    options = {"head": folder, "static": index, "l_bias": 0, "l_threshold": 3}
    for method, source in (("sam[e]", "eagle"), ("sam[e2]", "eagle2")):
        result = samlib.generate(model, prompts[0], method=method, max_new_tokens=40, **options)
        assert result.tokens == answer
        assert {"static", source} <= {step.source for step in result.steps}


# --- hidden states ----------------------------------------------------------------------------------------------------


@EVERY_MODEL
def test_hidden_states_are_those_that_the_lm_head_reads(family, attention):
    """Of the whole prompt, and of the root and every node of a tree: after the final norm, each on its own path."""
    model, prompt, draft = random_model(family, attention), random_prompt(3, 7), draft_of(*TREES["depth first"])
    target = TargetModel(model)
    prefill = target.prefill(_ids(prompt), hidden=True)
    torch.testing.assert_close(prefill.hidden, final_hidden(model, prompt), atol=1e-4, rtol=1e-4)
    found = target.verify(2, draft, hidden=True)
    for path, hidden in zip([(), *tree_paths(draft.tokens, draft.parents)], found.hidden, strict=True):
        torch.testing.assert_close(hidden, final_hidden(model, [*prompt, 2, *path])[-1], atol=1e-4, rtol=1e-4)
    with torch.no_grad():
        torch.testing.assert_close(model.get_output_embeddings()(found.hidden), found.logits)
    target.keep([0, *(index + 1 for index in _path_to(draft, 6))])
    assert target.verify(2, Draft.empty()).hidden is None
    assert target.num_forwards == 3


@EVERY_MODEL
def test_nothing_is_watched_where_nobody_asked(family, attention, monkeypatch):
    """And where somebody did, the LM head still runs once a forward, over the prompt's last token alone."""
    model = random_model(family, attention)
    rows = []
    hook = model.get_output_embeddings().register_forward_pre_hook(lambda module, args: rows.append(args[0].shape[1]))
    try:
        samlib.generate(
            model, random_prompt(1, 9), drafter=Scripted(lambda known, room: Draft.empty()), max_new_tokens=3
        )
        plain, rows[:] = list(rows), []
        target = TargetModel(model)
        target.prefill(_ids(random_prompt(1, 9)), hidden=True)
        target.verify(1, Draft.chain([2, 3], ""), hidden=True)
    finally:
        hook.remove()
    assert plain == [1, 1, 1] and rows == [1, 3]
    assert not model.base_model._forward_hooks and not model.get_output_embeddings()._forward_pre_hooks
    monkeypatch.setattr(torch.nn.Module, "register_forward_hook", None)
    samlib.generate(model, random_prompt(1, 9), method="sam[t]", max_new_tokens=9)


def test_who_asks_for_hidden_states(heads):
    model, folder = heads[0, 0.3, "sdpa"]
    for method in samlib.METHODS:
        options = {"head": folder} if method in HEADS else {}
        drafter = samlib.make_drafter(method, model=model, static=StaticAutomaton.build([[1, 2]]), **options)
        assert drafter.needs_hidden == (method in HEADS)
        drafter = Scripted(lambda known, room: Draft.empty())
        samlib.generate(model, [1, 2, 3], drafter=drafter, max_new_tokens=3)
        told = [verified for _, verified in drafter.observed]
        assert told[0] is None and all(verified.hidden is None for verified in told[1:])


def test_what_a_drafter_is_told(heads):
    """The prompt's states after the prefill; then those of the root and the draft, and the path that was accepted."""
    model, _ = heads[0, 0.3, "sdpa"]
    prompt = random_prompt(2, 7)
    answer = greedy(model, prompt, 9)
    drafter = Scripted(lambda known, room: draft_of([63 - answer[1], answer[1], 5], [-1, -1, 0]))
    drafter.needs_hidden = True
    samlib.generate(model, prompt, drafter=drafter, max_new_tokens=4)
    (first, prefill), (second, step), *_ = drafter.observed
    assert first == answer[:1] and second == answer[1:3]
    assert prefill.tokens.tolist() == prompt and prefill.path.tolist() == list(range(7)) and prefill.top is None
    torch.testing.assert_close(prefill.hidden, final_hidden(model, prompt), atol=1e-4, rtol=1e-4)
    assert step.tokens.tolist() == [answer[0], 63 - answer[1], answer[1], 5] and step.path.tolist() == [0, 2]
    expected = final_hidden(model, [*prompt, *answer[:2]])[-2:]
    torch.testing.assert_close(step.hidden[step.path], expected, atol=1e-4, rtol=1e-4)


def test_a_model_whose_lm_head_reads_something_else_is_refused(tmp_path):
    model = random_model(seed=11)
    folder = random_head(tmp_path, model)
    halves = model.lm_head.register_forward_pre_hook(lambda module, args: (args[0] / 2,))
    try:
        with pytest.raises(ValueError, match="before the LM head"):
            samlib.generate(model, [1, 2, 3], method="eagle", head=folder)
        assert not model.base_model._forward_hooks and len(model.lm_head._forward_pre_hooks) == 1
        assert samlib.generate(model, [1, 2, 3], method="sam", max_new_tokens=9).tokens == greedy(model, [1, 2, 3], 9)
    finally:
        halves.remove()


def without_base(model, monkeypatch):
    monkeypatch.setattr(type(model), "base_model_prefix", "nothing")


def without_lm_head(model, monkeypatch):
    monkeypatch.setattr(type(model), "get_output_embeddings", lambda self: None)


@pytest.mark.parametrize("call", [samlib.generate, samlib.stream])
@pytest.mark.parametrize("spoil", [without_base, without_lm_head])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_model_that_cannot_give_hidden_states_is_refused_before_any_work(family, spoil, call, monkeypatch):
    model, prompt = random_model(family), [1, 2, 3]
    drafters = {method: samlib.make_drafter(method, model=model, **means_of(method, model)) for method in HEADS}
    spoil(model, monkeypatch)
    words, forwards = f"{type(model).__name__} has no base model below an LM head.*: use a method without", []
    hook = model.register_forward_pre_hook(lambda module, args: forwards.append(1))
    try:
        for drafter in drafters.values():
            with pytest.raises(ValueError, match=words) as caught:
                call(model, prompt, drafter=drafter, max_new_tokens=4)
            assert "\n" not in str(caught.value)
        assert forwards == []
    finally:
        hook.remove()


def test_logits_that_are_scaled_after_the_lm_head_do_not_matter(tmp_path):
    """They are in the same order; Granite's hidden states are those that its LM head reads."""
    config = transformers.GraniteConfig(
        vocab_size=VOCABULARY,
        hidden_size=32,
        logits_scaling=8.0,
        embedding_multiplier=12.0,
        initializer_range=0.3,
        **SIZES,
    )
    torch.manual_seed(0)
    model = transformers.GraniteForCausalLM(config).eval()
    result = samlib.generate(model, [1, 2, 3], method="eagle2", head=random_head(tmp_path, model), max_new_tokens=40)
    assert result.tokens == greedy(model, [1, 2, 3], 40)


@EVERY_METHOD
@pytest.mark.parametrize("vocabulary", [None, range(0, VOCABULARY, 2)])
def test_cpu_kernels_give_the_same(distilled, method, vocabulary, monkeypatch):
    """Every layer on the kernels, the head's too; the drafts are then as good as on plain layers."""
    monkeypatch.setattr("samlib.decoding.cpu_kernels.GAIN", 0)
    model, prompts, folder = distilled
    options = {"head": folder, "vocabulary": vocabulary}
    drafter = samlib.make_drafter(method, model=model, **options)
    plain = [samlib.generate(model, prompt, drafter=drafter, max_new_tokens=40) for prompt in prompts]
    linears = [module for each in drafter.modules for module in each.modules() if isinstance(module, torch.nn.Linear)]
    assert len(linears) == 8 + (vocabulary is not None)
    with CpuKernels(model) as kernels:
        of_model = kernels.num_layers
        for _ in range(2):
            for prompt, expected in zip(prompts, plain, strict=True):
                result = samlib.generate(model, prompt, drafter=drafter, max_new_tokens=40)
                assert result.tokens == greedy(model, prompt, 40)
                assert result.steps == expected.steps
            assert kernels.num_layers == of_model + len(linears), "each once, however many requests"
    assert not any("forward" in vars(module) for each in drafter.modules for module in each.modules())
    with kernels:
        assert "forward" in vars(drafter.modules[0].layers[0]), "the whole layer, not its parts"
        assert samlib.generate(model, prompts[0], drafter=drafter, max_new_tokens=40).steps == plain[0].steps


def test_two_threads_on_one_model(distilled):
    """A request's hidden states are those of its own forwards."""
    model, prompts, folder = distilled
    alone = [samlib.generate(model, p, method="eagle2", head=folder, max_new_tokens=40).steps for p in prompts]
    found = {}

    def run(index):
        for _ in range(3):
            result = samlib.generate(model, prompts[index], method="eagle2", head=folder, max_new_tokens=40)
            found.setdefault(index, []).append(result.steps)

    threads = [threading.Thread(target=run, args=(index,)) for index in range(len(prompts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {index: [steps] * 3 for index, steps in enumerate(alone)}
