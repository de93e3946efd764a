"""EAGLE by its definition: checkpoints written by hand, transformers' own layer, and trees grown path by path."""

import json

import numpy as np
import torch
from safetensors.torch import save_file
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaRotaryEmbedding

STATIC_TREE = [
    *[(0,), (1,), (2,), (3,)],
    *[(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (2, 0), (2, 1), (3, 0)],
    *[(0, 0, 0), (0, 0, 1), (0, 0, 2), (0, 1, 0), (0, 1, 1), (0, 2, 0), (0, 2, 1), (1, 0, 0)],
    *[(0, 0, 0, 0), (0, 0, 0, 1), (0, 0, 0, 2), (0, 0, 0, 0, 0), (0, 0, 0, 0, 1)],
]


def head_config(model, **changes):
    """A config.json as it stands beside an official head, of the target's sizes."""
    vocab_size, hidden_size = model.get_output_embeddings().weight.shape
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "num_hidden_layers": 1,
        "vocab_size": vocab_size,
        "hidden_size": hidden_size,
        "intermediate_size": 48,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-6,
        "rope_theta": 500.0,
        "torch_dtype": "float16",
        **changes,
    }


def head_tensors(config, *, seed=0, own_embedding=True, scale=0.3):
    """Random weights under the names of an official checkpoint."""
    size, inner = config["hidden_size"], config["intermediate_size"]
    dim = config.get("head_dim") or size // config["num_attention_heads"]
    wide, narrow = config["num_attention_heads"] * dim, config["num_key_value_heads"] * dim
    shapes = {
        "fc.weight": (size, 2 * size),
        "layers.0.self_attn.q_proj.weight": (wide, size),
        "layers.0.self_attn.k_proj.weight": (narrow, size),
        "layers.0.self_attn.v_proj.weight": (narrow, size),
        "layers.0.self_attn.o_proj.weight": (size, wide),
        "layers.0.mlp.gate_proj.weight": (inner, size),
        "layers.0.mlp.up_proj.weight": (inner, size),
        "layers.0.mlp.down_proj.weight": (size, inner),
        "layers.0.post_attention_layernorm.weight": (size,),
    }
    if own_embedding:
        shapes["embed_tokens.weight"] = (config["vocab_size"], size)
    if config.get("bias", True):
        shapes["fc.bias"] = (size,)
    generator = torch.Generator().manual_seed(seed)
    return {name: scale * torch.randn(shape, generator=generator) for name, shape in shapes.items()}


def write_head(folder, config, tensors, form="safetensors"):
    """Write config.json and the weights; returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    if form == "bin":
        torch.save(tensors, folder / "pytorch_model.bin")
    else:
        save_file(tensors, folder / "model.safetensors")
    return folder


def random_head(folder, model, *, seed=0, form="safetensors", own_embedding=True, **changes):
    """A random checkpoint for a model; returns its folder."""
    config = head_config(model, **changes)
    return write_head(folder, config, head_tensors(config, seed=seed, own_embedding=own_embedding), form)


def bigram_head(folder, model, following):
    """A checkpoint that knows what follows a token: its prediction after each is the LM head's row of the next.

    following: {token: next token}; after any other the head guesses. What it is not made of is small random numbers.
    """
    config = head_config(model)
    tensors = head_tensors(config, scale=0.01)
    tensors["fc.weight"][:, : config["hidden_size"]] = torch.eye(config["hidden_size"])
    rows = model.get_output_embeddings().weight.detach().float()
    for token, successor in following.items():
        tensors["embed_tokens.weight"][token] = 5 * rows[successor] / rows[successor].norm()
    return write_head(folder, config, tensors)


class NaiveHead:
    """The same head out of transformers' Llama layer, over whole sequences, without any cache."""

    def __init__(self, model, folder, vocabulary=None):
        from safetensors.torch import load_file

        raw = json.loads((folder / "config.json").read_text())
        tensors = load_file(folder / "model.safetensors")
        config = LlamaConfig(**raw, attn_implementation="eager")
        self.layer, self.rotary = LlamaDecoderLayer(config, 0), LlamaRotaryEmbedding(config)
        self.layer.input_layernorm = torch.nn.Identity()
        weights = {name.removeprefix("layers.0."): value for name, value in tensors.items() if "layers" in name}
        self.layer.load_state_dict(weights)
        self.fc_weight, self.fc_bias = tensors["fc.weight"], tensors.get("fc.bias", torch.zeros(()))
        self.embedding = tensors.get("embed_tokens.weight", model.get_input_embeddings().weight)
        self.language_head = model.get_output_embeddings()
        self.vocabulary = vocabulary

    @torch.no_grad()
    def features(self, tokens, hidden):
        """tokens: n ids; hidden: (n, hidden), of the token before each. Returns the predictions, (n, hidden)."""
        x = torch.cat([self.embedding[torch.tensor(tokens)], hidden], dim=1) @ self.fc_weight.T + self.fc_bias
        n = len(tokens)
        mask = torch.full((n, n), torch.finfo(torch.float32).min).triu(1)[None, None]
        angles = self.rotary(x[None], torch.arange(n)[None])
        return self.layer(x[None], attention_mask=mask, position_embeddings=angles)[0]

    @torch.no_grad()
    def chances(self, tokens, hidden, path=()):
        """Log-probabilities, all the vocabulary, after drafting `path` behind the known pairs."""
        tokens, hidden = list(tokens), hidden
        for token in path:
            hidden = torch.cat([hidden, self.features(tokens, hidden)[-1:]])
            tokens.append(token)
        logits = self.language_head(self.features(tokens, hidden)[-1])
        chances = torch.full_like(logits, -torch.inf)
        part = slice(None) if self.vocabulary is None else torch.tensor(self.vocabulary)
        chances[part] = logits[part].log_softmax(dim=-1)
        return chances

    def static_tree(self, tokens, hidden, nodes=STATIC_TREE):
        """The token path of each node."""
        by_ranks = {(): ()}
        for ranks in nodes:
            above = by_ranks[ranks[:-1]]
            order = self.chances(tokens, hidden, above).argsort(descending=True).tolist()
            by_ranks[ranks] = (*above, order[ranks[-1]])
        return [by_ranks[ranks] for ranks in nodes]

    def dynamic_tree(self, tokens, hidden, *, size=59, depth=6, top_k=10):
        """The token paths with the best scores, as a set."""
        frontier, candidates = {(): 0.0}, {}
        for _ in range(depth):
            level = {}
            for path, score in frontier.items():
                values, ids = self.chances(tokens, hidden, path).topk(top_k)
                level |= {
                    (*path, token): score + value
                    for token, value in zip(ids.tolist(), values.tolist(), strict=True)
                    if value > -np.inf
                }
            candidates |= level
            frontier = dict(sorted(level.items(), key=lambda item: -item[1])[:top_k])
        return set(sorted(candidates, key=candidates.get, reverse=True)[:size])


@torch.no_grad()
def final_hidden(model, tokens):
    """The final hidden states of a sequence, (n, hidden), by one plain forward of the base model."""
    return model.base_model(torch.tensor([list(tokens)])).last_hidden_state[0]
