"""The limits of a forward: counted by hand for tiny models, read the right way round, measured on this machine."""

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from samlib.bench import roofline
from samlib.bench.roofline import ForwardLimits, MachineProbe, count_forward

VOCABULARY, HIDDEN, INNER, LAYERS, HEADS, KEY_HEADS, HEAD = 11, 8, 20, 3, 4, 2, 2


def llama(*, tied, dtype=torch.float32):
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=HIDDEN,
        intermediate_size=INNER,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=KEY_HEADS,
        tie_word_embeddings=tied,
    )
    return LlamaForCausalLM(config).to(dtype)


# A layer: queries and output 8 x 8, keys and values 8 x 4, three matrices of 8 x 20; the output layer 8 x 11.
MATRICES = LAYERS * (2 * 8 * 8 + 2 * 8 * 4 + 3 * 8 * 20) + 8 * 11
NORMS = (2 * LAYERS + 1) * HIDDEN


@pytest.mark.parametrize("tied", [True, False])
def test_a_llama_reads_matrices_and_norms_once_and_no_embedding_table(tied):
    counts = count_forward(llama(tied=tied))
    assert counts.weight_bytes == 4 * (MATRICES + NORMS)
    assert counts.operations == 2 * MATRICES


def test_the_cache_holds_keys_and_values_of_its_own_heads_and_all_heads_attend():
    counts = count_forward(llama(tied=True))
    assert counts.cache_bytes == 2 * LAYERS * KEY_HEADS * HEAD * 4
    assert counts.attention_operations == LAYERS * HEADS * (2 * HEAD + 2 * HEAD)


def test_half_precision_halves_the_bytes_and_not_the_operations():
    whole, half = count_forward(llama(tied=True)), count_forward(llama(tied=True, dtype=torch.bfloat16))
    assert 2 * half.weight_bytes == whole.weight_bytes and 2 * half.cache_bytes == whole.cache_bytes
    assert half.operations == whole.operations


def test_a_gpt2_reads_neither_tokens_nor_positions_but_its_output_layer():
    model = GPT2LMHeadModel(GPT2Config(vocab_size=11, n_positions=50, n_embd=8, n_layer=1, n_head=2))
    matrices = 8 * 24 + 8 * 8 + 8 * 32 + 32 * 8 + 8 * 11
    vectors = 24 + 8 + 32 + 8 + 3 * 2 * 8  # biases, and three norms with weight and bias
    counts = count_forward(model)
    assert counts.weight_bytes == 4 * (matrices + vectors)
    assert counts.operations == 2 * matrices
    assert counts.cache_bytes == 2 * 8 * 4


def test_the_cache_counted_is_the_cache_there_is():
    from samlib.decoding.forward import prefilled

    model = llama(tied=True).eval()
    layers = prefilled(model, 7)._cache.layers
    held = sum(tensor.nbytes for layer in layers for tensor in (layer.keys, layer.values))
    assert held == 7 * count_forward(model).cache_bytes


LIMITS = ForwardLimits(
    weight_bytes=1000, cache_bytes=10, operations=400, attention_operations=2, bandwidth=100.0, rate=200.0
)


def test_reading_does_not_depend_on_the_width_and_operations_do():
    assert LIMITS.memory_seconds(0) == 10.0
    assert LIMITS.memory_seconds(50) == 15.0
    assert LIMITS.compute_seconds(1, 50) == 2.5
    assert LIMITS.compute_seconds(8, 50) == 20.0


def test_the_larger_limit_counts():
    assert LIMITS.seconds(2, 50) == LIMITS.memory_seconds(50)
    assert LIMITS.seconds(8, 50) == LIMITS.compute_seconds(8, 50)


def test_the_best_reading_is_kept(monkeypatch):
    monkeypatch.setitem(roofline.READ_FLOATS, "cpu", 1 << 12)
    monkeypatch.setitem(roofline.MATRIX_SIDE, "cpu", 10)
    probe = MachineProbe(llama(tied=True))
    # Two readings of each of two reads, then five products, a call; the second call is slower throughout.
    times = iter([4.0, 3.0, 2.0, 5.0] + [1.0, 0.5, 1.0, 1.0, 1.0] + [9.0] * 9)
    monkeypatch.setattr(probe, "_seconds", lambda call: next(times))
    for _ in range(2):
        probe.measure()
        assert probe.bandwidth == (1 << 14) / 2.0
        assert probe.rate == 2 * 10**3 / 0.5
    assert probe.limits().weight_bytes == 4 * (MATRICES + NORMS)


def test_both_reads_go_over_all_of_the_memory(monkeypatch):
    monkeypatch.setitem(roofline.READ_FLOATS, "cpu", 1 << 12)
    probe = MachineProbe(llama(tied=True))
    as_integer = int(torch.ones(2).view(torch.int64))
    assert int(probe._reads[0]()) == ((1 << 11) * as_integer + (1 << 63)) % (1 << 64) - (1 << 63)
    assert float(probe._reads[1]().sum()) == 1 << 12


def test_a_machine_reads_and_multiplies():
    probe = MachineProbe(llama(tied=True))
    probe.measure()
    assert 1e8 < probe.bandwidth < 1e14 and 1e8 < probe.rate < 1e16
