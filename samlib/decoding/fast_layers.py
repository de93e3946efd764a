"""Layers of a model that have a compiled path beside their own: which ones, and how the call reaches the kernels."""

import torch
from torch.nn.functional import linear

from samlib.decoding import kernels


class FastLinear:
    """A linear layer with a compiled path. `pays(tokens)`: is it to be taken for so many?"""

    num_linears = 1

    def __init__(self, module):
        self.module = module
        self.pays = _always
        self.refresh()

    def refresh(self):
        """Take the weights' addresses anew: they may have been replaced since."""
        self._kernel = kernels.Linear(*_addresses(self.module))

    def plain(self, x):
        """The module's own forward."""
        return linear(x, self.module.weight, self.module.bias)

    def forward(self, x):
        """The module's forward: by the kernel where it can be and pays."""
        tokens = x.numel() // self.module.in_features
        if torch.is_grad_enabled() or x.dtype != torch.float32 or tokens == 0 or not self.pays(tokens):
            return self.plain(x)
        x = x.contiguous()
        y = x.new_empty((*x.shape[:-1], self.module.out_features))
        self._kernel.run(x.data_ptr(), y.data_ptr(), tokens, torch.get_num_threads())
        return y


class FastDecoderLayer:
    """A decoder layer of Llama's kind with a compiled path. rooms: two kernels.Room that a model's layers share."""

    num_linears = 7

    def __init__(self, module, rooms):
        self.module = module
        self.pays = _always
        self.plain = module.forward  # the class's own, bound: not what `module.forward` is while it is replaced
        self._rooms = rooms
        self.refresh()

    def refresh(self):
        """Take the weights' addresses anew: they may have been replaced since."""
        layer, attention, mlp = self.module, self.module.self_attn, self.module.mlp
        projections = (attention.q_proj, attention.k_proj, attention.v_proj, attention.o_proj)
        head_norms = (getattr(attention, name, None) for name in ("q_norm", "k_norm"))
        norms = (*(getattr(layer, name, None) for name in _NORMS), *head_norms)
        self._kernel = kernels.DecoderLayer(
            *self._rooms,
            linears=[_addresses(module) for module in (*projections, mlp.gate_proj, mlp.up_proj, mlp.down_proj)],
            norms=[0 if norm is None else norm.weight.data_ptr() for norm in norms],
            epsilon=layer.post_attention_layernorm.variance_epsilon,
            scale=attention.scaling,
            head_size=attention.head_dim,
        )
        self._kv_heads = attention.k_proj.out_features // attention.head_dim
        self._head_size, self._index = attention.head_dim, attention.layer_idx

    def forward(self, hidden_states, attention_mask=None, *args, cache=None, position_embeddings=None, **kwargs):
        """The module's forward: by the kernels where it can be and they pay."""
        mask = _mask_arguments(attention_mask, hidden_states.shape[1])
        if args or mask is None or not self._can_run(hidden_states, position_embeddings, kwargs):
            return self.plain(
                hidden_states, attention_mask, *args, cache=cache, position_embeddings=position_embeddings, **kwargs
            )
        return self._run(hidden_states.contiguous(), mask, cache, position_embeddings)

    def _can_run(self, hidden, position_embeddings, kwargs):
        return (
            hidden.shape[0] == 1
            and hidden.shape[1] > 0
            and hidden.dtype == torch.float32
            and position_embeddings is not None
            and all(self._fits(part, hidden.shape[1]) for part in position_embeddings)
            and not torch.is_grad_enabled()
            and not self.module.training
            and not kwargs.get("output_attentions")
            and kwargs.get("past_key_values") is None
            and self.pays(hidden.shape[1])
        )

    def _fits(self, angles, tokens):
        """True for cosines or sines that turn whole heads: some models turn a part of each only."""
        return angles.shape == (1, tokens, self._head_size) and angles.dtype == torch.float32

    def _run(self, hidden, mask, cache, position_embeddings):
        threads, tokens = torch.get_num_threads(), hidden.shape[1]
        cosines, sines = (part.contiguous() for part in position_embeddings)
        new = hidden.new_empty((2, 1, self._kv_heads, tokens, self._head_size)).unbind()
        keys, values = new
        self._kernel.project(
            hidden.data_ptr(), cosines.data_ptr(), sines.data_ptr(), tokens, keys.data_ptr(), values.data_ptr(), threads
        )
        if cache is not None:
            keys, values = cache.update(keys, values, self._index)
        *mask, columns = mask
        _check_cached((keys, values), new[0], columns)
        # Without a mask a single token sees all that is cached; several are the first there, whatever room there is, as
        # for sdpa, whose causal mask begins at the first key.
        length = keys.shape[2] if columns >= 0 or tokens == 1 else tokens
        strides = (*keys.stride()[1:3], *values.stride()[1:3])
        out = torch.empty_like(hidden)
        self._kernel.finish(keys.data_ptr(), values.data_ptr(), strides, length, *mask, out.data_ptr(), threads)
        return out


def is_plain_linear(module):
    """True for a float32 linear layer on the CPU that nothing was put upon."""
    return type(module) is torch.nn.Linear and _is_untouched(module) and _is_readable(module.weight)


def is_llama_layer(module):
    """True if the module has the parts of a decoder layer of Llama's kind and no others; EAGLE's lacks the first norm.

    That it also computes the same is for the caller to try.
    """
    attention, mlp = getattr(module, "self_attn", None), getattr(module, "mlp", None)
    if attention is None or mlp is None:
        return False
    head_norms = {"q_norm", "k_norm"} & _parts(attention)
    norms = [module.get_submodule(name) for name in _NORMS if name in _parts(module)]
    return (
        "post_attention_layernorm" in _parts(module) <= {"self_attn", "mlp", *_NORMS}
        and len(head_norms) != 1
        and _parts(attention) - head_norms == {"q_proj", "k_proj", "v_proj", "o_proj"}
        and _parts(mlp) == {"gate_proj", "up_proj", "down_proj"}
        and all(is_plain_linear(getattr(part, name)) for part in (attention, mlp) for name in _parts(part) - head_norms)
        and all(map(_is_untouched, module.modules()))
        and all(_is_readable(parameter) for parameter in module.parameters())
        and len({getattr(norm, "variance_epsilon", None) for norm in norms} - {None}) == 1
        and all(hasattr(attention, name) for name in ("head_dim", "scaling", "layer_idx"))
        and attention.head_dim % 8 == 0
        and attention.head_dim <= kernels.LARGEST_HEAD
    )


_NORMS = ("input_layernorm", "post_attention_layernorm")


def _parts(module):
    """Names of the children that hold parameters."""
    return {name for name, child in module.named_children() if next(child.parameters(), None) is not None}


def _is_untouched(module):
    """True unless hooks or a forward of its own were put upon the module, which the kernels would pass by."""
    hooks = (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks)
    return "forward" not in vars(module) and not any(hooks)


def _is_readable(parameter):
    return parameter.dtype == torch.float32 and parameter.device.type == "cpu" and parameter.is_contiguous()


def _addresses(module):
    bias = 0 if module.bias is None else module.bias.data_ptr()
    return module.weight.data_ptr(), bias, module.in_features, module.out_features


def _mask_arguments(mask, tokens):
    """(additive, seen, row stride, causal) for the kernel, and the mask's columns; None for a mask it cannot read.

    Without a mask, which is told by -1 columns, each token sees what is before it and itself.
    """
    if mask is None:
        return 0, 0, 0, True, -1
    if mask.shape[:-1] != (1, 1, tokens) or mask.stride(3) != 1:
        return None
    if mask.dtype == torch.float32:
        return mask.data_ptr(), 0, mask.stride(2), False, mask.shape[3]
    if mask.dtype == torch.bool:
        return 0, mask.data_ptr(), mask.stride(2), False, mask.shape[3]
    return None


def _check_cached(cached, new, columns):
    """The cache is the caller's: what it returns is looked at before anything is read by address.

    cached: the keys and values of all tokens. new: the keys of those that were just added. columns: of the mask, or -1.
    """
    heads, tokens, size = new.shape[1:]
    for tensor in cached:
        fits = tensor.dim() == 4 and (tensor.shape[0], tensor.shape[1], tensor.shape[3]) == (1, heads, size)
        readable = tensor.dtype == torch.float32 and tensor.device.type == "cpu" and tensor.stride(-1) == 1
        if not fits or not readable or tensor.shape[2] < tokens:
            raise ValueError("the CPU kernels need a KV cache of float32 tensors in memory: leave CpuKernels out here")
    keys, values = cached
    if keys.shape != values.shape or columns not in (-1, keys.shape[2]):
        raise ValueError(f"an attention mask of {columns} columns does not fit a KV cache of {keys.shape[2]} tokens")


def _always(tokens):
    return True
