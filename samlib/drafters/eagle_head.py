"""EAGLE's head: one decoder layer that predicts the target's next hidden state from its last one and the next token.

Source: Li et al. 2024 (arXiv 2401.15077). Position t takes the final hidden state of token t (after the target's final
norm) and the embedding of token t + 1, and predicts the hidden state of token t + 1; the target's own LM head turns
that into the distribution of token t + 2.
"""

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention, silu

SMALLEST = 256  # tokens in a cache's first buffers


@dataclass(frozen=True)
class HeadConfig:
    """The sizes of a head, named as in the config.json of a Llama; bias: whether `fc` has one."""

    hidden_size: int
    intermediate_size: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    vocab_size: int
    rms_norm_eps: float = 1e-6
    rope_theta: float = 10000.0
    bias: bool = True


class EagleHead(nn.Module):
    """The head; its parameters are named as in EAGLE's checkpoints. Not thread-safe with a cache, else it is.

    embed_tokens: nn.Embedding of the head's own, or None where the target's is to be used.
    """

    def __init__(self, config, *, own_embedding=False):
        super().__init__()
        self.config = config
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size) if own_embedding else None
        self.fc = nn.Linear(2 * config.hidden_size, config.hidden_size, bias=config.bias)
        self.layers = nn.ModuleList([HeadLayer(config)])

    def forward(self, embedded, hidden, positions, mask=None, cache=None):
        """The predicted hidden states, shape (rows, n, hidden).

        embedded: the embeddings of tokens t + 1. hidden: the hidden states of tokens t; both (rows, n, hidden).
        positions: long, shape (n,): t. mask: bool, shape (n, cached + n), true where an input sees a column; None for
        the first inputs, each of which sees those before it. cache: a HeadCache, which the inputs are appended to.
        """
        x = self.fc(torch.cat([embedded, hidden], dim=-1))
        angles = rotary(positions, self.config.head_dim, self.config.rope_theta, x.dtype)
        mask = None if mask is None else mask[None, None]
        for layer in self.layers:
            x = layer(x, mask, cache=cache, position_embeddings=angles)
        return x


class HeadLayer(nn.Module):
    """A Llama decoder layer without the norm before its attention; named and called as those of transformers.

    So that what takes over Llama's layers (CpuKernels) can take over this one.
    """

    def __init__(self, config):
        super().__init__()
        self.self_attn = HeadAttention(config)
        self.mlp = HeadMLP(config)
        self.post_attention_layernorm = RMSNorm(config)

    def forward(self, hidden_states, attention_mask=None, *, cache=None, position_embeddings):
        """hidden_states: shape (rows, n, hidden); returns the same shape.

        attention_mask: shape (1, 1, n, cached + n), truth values or what is added to scores; None: each input sees
        those before it. position_embeddings: (cosines, sines), each (1, n, head_dim).
        """
        x = hidden_states + self.self_attn(hidden_states, position_embeddings, attention_mask, cache)
        return x + self.mlp(self.post_attention_layernorm(x))


class HeadAttention(nn.Module):
    """Grouped-query attention with rotary positions."""

    layer_idx = 0  # in a cache

    def __init__(self, config):
        super().__init__()
        size, dim = config.hidden_size, config.head_dim
        self.head_dim, self.scaling = dim, dim**-0.5
        self.q_proj = nn.Linear(size, config.num_attention_heads * dim, bias=False)
        self.k_proj = nn.Linear(size, config.num_key_value_heads * dim, bias=False)
        self.v_proj = nn.Linear(size, config.num_key_value_heads * dim, bias=False)
        self.o_proj = nn.Linear(config.num_attention_heads * dim, size, bias=False)

    def forward(self, x, rotation, mask, cache):
        """x: shape (rows, n, hidden); returns the same shape."""
        queries = rotated(self._by_head(self.q_proj(x)), rotation)
        keys, values = rotated(self._by_head(self.k_proj(x)), rotation), self._by_head(self.v_proj(x))
        if cache is not None:
            keys, values = cache.update(keys, values, self.layer_idx)
        out = scaled_dot_product_attention(
            queries, keys, values, attn_mask=mask, is_causal=mask is None, enable_gqa=True
        )
        return self.o_proj(out.transpose(1, 2).flatten(2))

    def _by_head(self, x):
        return x.unflatten(-1, (-1, self.head_dim)).transpose(1, 2)


class HeadMLP(nn.Module):
    """Llama's gated MLP."""

    def __init__(self, config):
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, x):
        """x: shape (rows, n, hidden); returns the same shape."""
        return self.down_proj(silu(self.gate_proj(x)) * self.up_proj(x))


class RMSNorm(nn.Module):
    """Root-mean-square norm, computed in float32 as Llama does."""

    def __init__(self, config):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(config.hidden_size))
        self.variance_epsilon = config.rms_norm_eps

    def forward(self, x):
        """x: shape (rows, n, hidden); returns the same shape."""
        wide = x.float()
        wide = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.variance_epsilon)
        return self.weight * wide.to(x.dtype)


def rotary(positions, head_dim, theta, dtype):
    """(cosines, sines) of the rotary angles, each of shape (1, n, head_dim), for long positions of shape (n,)."""
    exponents = torch.arange(0, head_dim, 2, device=positions.device, dtype=torch.float32) / head_dim
    angles = positions[:, None].float() * (1 / theta**exponents)
    angles = torch.cat([angles, angles], dim=-1)[None]
    return angles.cos().to(dtype), angles.sin().to(dtype)


def rotated(x, rotation):
    """x, shape (rows, heads, n, head_dim), turned by its positions: the two halves of a head are a pair each."""
    cosines, sines = rotation
    first, second = x.chunk(2, dim=-1)
    return x * cosines + torch.cat([-second, first], dim=-1) * sines


class HeadCache:
    """Keys and values of the head's inputs so far, for one row; `length` of them. Not thread-safe.

    Buffers grow by doubling; what is behind `length` is overwritten by the next inputs.
    """

    def __init__(self):
        self.length = 0
        self._buffers = None  # keys and values, shape (2, 1, heads, capacity, head_dim)

    def update(self, keys, values, layer_idx=0):
        """Append inputs, shape (1, heads, n, head_dim); return the keys and values of all, as transformers' caches."""
        end = self.length + keys.shape[2]
        if self._buffers is None or end > self._buffers.shape[3]:
            self._grow(keys, end)
        self._buffers[0, :, :, self.length : end] = keys
        self._buffers[1, :, :, self.length : end] = values
        self.length = end
        return self._buffers[0, :, :, :end], self._buffers[1, :, :, :end]

    def truncate(self, length):
        """Forget all but the first `length` inputs."""
        self.length = min(self.length, length)

    def _grow(self, like, length):
        capacity = max(SMALLEST, 2 * length)
        larger = like.new_empty((2, *like.shape[:2], capacity, like.shape[3]))
        if self.length:
            larger[:, :, :, : self.length] = self._buffers[:, :, :, : self.length]
        self._buffers = larger


class LanguageHead:
    """The target's LM head, over all of its vocabulary or over a part of it (the idea of FR-Spec, arXiv 2502.14856).

    vocabulary: the ids to draft, a one-dimensional sequence of different ones; None for all. Thread-safe.
    """

    def __init__(self, model, vocabulary=None):
        self.module = model.get_output_embeddings()
        self.own_modules = ()  # what is not the target's
        self._ids = None
        self.size = self.module.weight.shape[0]
        if vocabulary is not None:
            self._ids = torch.as_tensor(vocabulary, dtype=torch.long, device=self.module.weight.device)
            self.size = len(self._ids)
            self.module = _rows_of(self.module, self._ids)
            self.own_modules = (self.module,)

    def logits(self, features):
        """Logits of shape (n, size) for hidden states of shape (n, hidden)."""
        return self.module(features[None])[0]

    def likeliest(self, logits, k):
        """(ids, their logits), each of shape (n, k), best first."""
        values, places = logits.topk(k)
        return (places if self._ids is None else self._ids[places]), values


def _rows_of(module, ids):
    """A linear layer with only the rows `ids` of another; nothing of it is trained."""
    part = nn.Linear(module.in_features, len(ids), bias=module.bias is not None, device="meta")
    part.weight = nn.Parameter(module.weight.detach()[ids], requires_grad=False)
    if module.bias is not None:
        part.bias = nn.Parameter(module.bias.detach()[ids], requires_grad=False)
    return part
