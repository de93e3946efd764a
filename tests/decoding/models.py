"""Tiny models whose greedy output is the oracle, and what the decoding tests share around them.

Models are made once a process: a test that changes one puts it back.
"""

import tempfile
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

import samlib
from samlib import Draft, Drafter, StaticAutomaton
from samlib.decoding.step_cost import StepCost

from ..drafters.eagle import bigram_head, random_head

METHODS = samlib.METHODS
HEADS = ("eagle", "eagle2", "sam[e]", "sam[e2]")  # methods that draft with an EAGLE head
#: Of the methods with a static store, settings under which short matches draft, so that there is something to branch.
EAGER = {
    "rest": {"max_ngram": 2, "min_ngram": 1},
    "sam": {"l_bias": 0, "l_threshold": 1},
    "sam[t]": {"l_bias": 0, "l_threshold": 1},
    "sam[e]": {"l_bias": 0, "l_threshold": 1},
    "sam[e2]": {"l_bias": 0, "l_threshold": 1},
    "suffix_decoding": {"max_match_length": 2, "max_spec_factor": 12.0, "min_token_prob": 0.01},
}
VOCABULARY = 64
COST = StepCost({1: 1.0, 8: 1.3, 16: 1.7, 64: 5.5})  # about that of a small model on two cores
FOLLOWING = {i: (i + 1) % 8 if i < 8 else i for i in range(32)}  # of the cycle model
CYCLE_PROMPT = [1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3]
FAMILIES = {
    "llama": (transformers.LlamaConfig, transformers.LlamaForCausalLM),
    "mistral": (transformers.MistralConfig, transformers.MistralForCausalLM),
    "qwen2": (transformers.Qwen2Config, transformers.Qwen2ForCausalLM),
    "qwen3": (transformers.Qwen3Config, transformers.Qwen3ForCausalLM),
    "gemma": (transformers.GemmaConfig, transformers.GemmaForCausalLM),  # scales its embeddings
    "phi3": (transformers.Phi3Config, transformers.Phi3ForCausalLM),  # one matrix for queries, keys and values
    "gpt2": (transformers.GPT2Config, transformers.GPT2LMHeadModel),  # learnt positions
    "gpt_neox": (transformers.GPTNeoXConfig, transformers.GPTNeoXForCausalLM),  # rotates a part of each head
}
SIZES = {
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 64,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": None,
}


@cache
def random_model(family="llama", attention="sdpa", *, seed=0, max_positions=512, **config):
    """A random model of two layers; its wide weights keep the top logits apart and its attention far from uniform."""
    make_config, make_model = FAMILIES[family]
    if family == "mistral":
        config.setdefault("sliding_window", None)
    config = make_config(
        vocab_size=VOCABULARY,
        hidden_size=32,
        head_dim=8,
        max_position_embeddings=max_positions,
        tie_word_embeddings=False,
        attn_implementation=attention,
        **SIZES | {"initializer_range": 0.3} | config,
    )
    torch.manual_seed(seed)
    return make_model(config).eval()


@cache
def cycle_model(attention="sdpa", *, max_positions=64):
    """A Llama whose greedy output is known beforehand: 0 -> 1 -> ... -> 7 -> 0, any other id repeats itself.

    Embedding and head are permutations and every layer adds nothing, so any copied draft of the cycle is accepted
    whole. It cannot reveal mistakes of mask or position: that is what the random models are for.
    """
    config = transformers.LlamaConfig(
        vocab_size=32,
        hidden_size=32,
        max_position_embeddings=max_positions,
        tie_word_embeddings=False,
        attn_implementation=attention,
        **SIZES,
    )
    model = transformers.LlamaForCausalLM(config).eval()
    with torch.no_grad():
        model.model.embed_tokens.weight.copy_(torch.eye(32))
        model.lm_head.weight.copy_(torch.eye(32)[list(FOLLOWING.values())].T)
        for layer in model.model.layers:
            layer.self_attn.o_proj.weight.zero_()
            layer.mlp.down_proj.weight.zero_()
    return model


def cycle(start, n):
    """n tokens of the cycle, from `start` on."""
    return [(start + i) % 8 for i in range(n)]


@contextmanager
def generation_defaults(model, **values):
    """The model's generation config with some values replaced for the time of a with block."""
    before = {name: getattr(model.generation_config, name) for name in values}
    for name, value in values.items():
        setattr(model.generation_config, name, value)
    try:
        yield model
    finally:
        for name, value in before.items():
            setattr(model.generation_config, name, value)


def greedy(model, prompt, max_new_tokens, *, eos_token_id=None, **options):
    """The oracle: the new ids of plain greedy `model.generate`."""
    eos = tuple(eos_token_id) if isinstance(eos_token_id, list) else eos_token_id
    if options:
        return _greedy(model, prompt, max_new_tokens, eos, **options)
    return list(_greedy_once(model, tuple(prompt), max_new_tokens, eos))


@cache
def _greedy_once(model, prompt, max_new_tokens, eos_token_id):
    return _greedy(model, prompt, max_new_tokens, eos_token_id)


def _greedy(model, prompt, max_new_tokens, eos_token_id, **options):
    eos_token_id = list(eos_token_id) if isinstance(eos_token_id, tuple) else eos_token_id
    with generation_defaults(model, eos_token_id=eos_token_id, pad_token_id=0), torch.no_grad():
        ids = torch.tensor([list(prompt)])
        output = model.generate(
            ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=max_new_tokens, **options
        )
    return output[0, ids.shape[1] :].tolist()


@contextmanager
def counted_forwards(model):
    """Count the calls of the model's decoder; yields a list with the number of tokens of each call."""
    widths, decoder = [], model.model
    original = decoder.forward

    def forward(*args, **kwargs):
        given = args[0] if args else kwargs.get("input_ids")
        given = kwargs.get("inputs_embeds") if given is None else given
        widths.append(given.shape[1])
        return original(*args, **kwargs)

    decoder.forward = forward
    try:
        yield widths
    finally:
        del decoder.forward


def letters(*more):
    """A tokenizer with one letter an id (0 = a, 1 = b, ...); `more` are longer tokens with the ids after z."""
    vocabulary = {chr(ord("a") + i): i for i in range(26)}
    vocabulary |= {token: 26 + i for i, token in enumerate(more)}
    vocabulary |= {f"<{i}>": i for i in range(len(vocabulary), VOCABULARY)}
    core = Tokenizer(models.WordLevel(vocabulary, unk_token="a"))
    core.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    core.decoder = decoders.Fuse()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=core, unk_token="a")


def random_prompt(seed, size, vocabulary=VOCABULARY):
    """`size` random ids."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, vocabulary, (size,), generator=generator).tolist()


class Scripted(Drafter):
    """A drafter that proposes what it is told to: a function from the tokens known so far to a Draft."""

    def __init__(self, propose, top_k=0):
        self.script, self.top_k = propose, top_k
        self.known, self.begun, self.observed = [], [], []

    def begin(self, prompt):
        self.known = prompt.tolist()
        self.begun.append(prompt.tolist())

    def propose(self, room):
        return self.script(self.known, room)

    def observe(self, emitted, verified=None):
        self.known = self.known + emitted.tolist()
        self.observed.append((emitted.tolist(), verified))


class Watched(Drafter):
    """Another drafter, whose drafts are kept."""

    def __init__(self, drafter):
        self.begin, self.observe, self.reset = drafter.begin, drafter.observe, drafter.reset
        self.top_k, self.needs_hidden = drafter.top_k, drafter.needs_hidden
        self._drafter, self.drafts = drafter, []

    def propose(self, room):
        self.drafts.append(self._drafter.propose(room))
        return self.drafts[-1]


def draft_of(tokens, parents):
    """A Draft of plain lists."""
    return Draft(np.array(tokens, dtype=np.int32), np.array(parents, dtype=np.int32), "scripted", 0)


def assets(method, model=None, prompts=()):
    """What a method cannot do without, as keyword arguments: a static store for rest, and what `means_of` gives.

    The store holds the cycle, or where prompts are given, what the model answers to them.
    """
    if method != "rest":
        return means_of(method, model, prompts)
    return {"static": corpus_of(model, prompts, 20) if prompts else StaticAutomaton.build([cycle(0, 40)])}


def means_of(method, model=None, prompts=()):
    """{"head": folder} for a method that drafts with an EAGLE head, {"cost": …} for sam_auto, {} for any other.

    The cost is fixed, so that drafts do not depend on what a forward takes at the moment. Without a model the head is
    one for the cycle model, which is always right. With prompts it knows which token follows which in what the model
    answers to them, so that some of its drafts are accepted; else it is random.
    """
    if method == "sam_auto":
        return {"cost": COST}
    return {"head": _head(model, tuple(map(tuple, prompts)))} if method in HEADS else {}


_folders = tempfile.TemporaryDirectory()


@cache
def _head(model, prompts):
    """The folder of a head, made once a process."""
    folder = Path(tempfile.mkdtemp(dir=_folders.name))
    if model is None:
        return bigram_head(folder, cycle_model(), FOLLOWING)
    if not prompts:
        return random_head(folder, model)
    texts = [[*prompt, *greedy(model, prompt, 20)] for prompt in prompts]
    return bigram_head(folder, model, {token: following for text in texts for token, following in pairwise(text)})


def corpus_of(model, prompts, size=40):
    """A static index over the model's own greedy answers, each with its prompt, so that static drafts get accepted."""
    return StaticAutomaton.build([[*prompt, *greedy(model, prompt, size)] for prompt in prompts])
