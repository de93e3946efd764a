"""EAGLE heads on disk, in the format of the official checkpoints: config.json beside safetensors or pytorch_model.bin.

A shipped head, a folder below data/eagle/, has besides these a `target.json` that says which model it was trained for,
and a `vocabulary.json`: the ids of the text that it was trained on, the most frequent first.
"""

import json
import pickle
from pathlib import Path

import torch

from samlib import paths
from samlib.automaton.ids import as_ids, check_limit
from samlib.drafters.eagle_head import EagleHead, HeadConfig
from samlib.errors import MissingAssetError

CONFIG, TARGET, VOCABULARY = "config.json", "target.json", "vocabulary.json"
WEIGHTS = ("model.safetensors", "pytorch_model.bin")
EMBEDDING = "embed_tokens.weight"
SAMPLED = 64  # numbers of the target's embedding by which a shipped head knows its model
SAME = 0.02  # relative difference of these: more than half precision makes, less than another training does


def load_head(folder, model):
    """The EagleHead of a checkpoint folder, in the dtype and on the device of the target `model`.

    Nothing is unpickled: safetensors, or `weights_only`. Raises MissingAssetError for a missing folder or file,
    ValueError for a head that is damaged, not EAGLE's, or made for another target.
    """
    folder = Path(folder)
    config = read_config(_existing(folder), model)
    tensors = _read_weights(folder)
    with torch.device("meta"):
        head = EagleHead(config, own_embedding=EMBEDDING in tensors)
    _check_tensors(folder, tensors, head.state_dict())
    head.load_state_dict(tensors, assign=True)
    return head.to(model.device, model.dtype).requires_grad_(False).eval()


def save_head(head, folder, *, model=None):
    """Write a head as `load_head` reads it, in float16; with the target `model`, also what makes it a shipped one."""
    from safetensors.torch import save

    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    config = {**vars(head.config), "num_hidden_layers": 1, "hidden_act": "silu", "model_type": "llama"}
    _write_json(folder / CONFIG, config)
    tensors = {name: tensor.to(torch.float16).contiguous() for name, tensor in head.state_dict().items()}
    (folder / WEIGHTS[0]).write_bytes(save(tensors))
    if model is not None:
        _write_json(folder / TARGET, target_facts(model))


def frequent_ids(folder, n):
    """The n most frequent ids of the text that a head was trained on, as its `vocabulary.json` ranks them.

    Raises MissingAssetError for a head without that file, ValueError where it ranks fewer than n or is damaged.
    """
    path = Path(folder) / VOCABULARY
    n = check_limit("vocabulary", n)
    if not path.is_file():
        raise MissingAssetError(f"the EAGLE head {folder} has no {VOCABULARY}: give vocabulary= as ids, no number")
    try:
        ranked = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(ranked, list):
            raise TypeError(f"it holds one {type(ranked).__name__}")
        ranked = as_ids(ranked)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path} is not a list of ids: {_reason(error)}") from error
    if len(ranked) < n:
        raise ValueError(f"{path} ranks {len(ranked)} ids: give vocabulary={len(ranked)} at most, not {n}")
    return ranked[:n]


def head_folder(method, head, model):
    """The folder of the head that `method` is to use: the one given, else the shipped one of the model.

    Raises MissingAssetError where there is none.
    """
    if head is not None:
        return Path(head)
    folder = None if model is None else shipped_head(model)
    if folder is None:
        name = "the target model" if model is None else f"this {type(model).__name__}"
        raise MissingAssetError(
            f"{method} needs an EAGLE head, and none is shipped for {name}: give head=FOLDER with config.json and "
            f"model.safetensors or pytorch_model.bin, a published head of the model or one that you train"
        )
    return folder


def weights_file(folder):
    """The file that holds the weights of a checkpoint folder; StopIteration where there is none."""
    return next(folder / name for name in WEIGHTS if (folder / name).is_file())


def shipped_head(model, root=None):
    """The folder below data/eagle/ whose head was trained for `model`, or None; ValueError for a damaged one."""
    facts = target_facts(model)
    for path in sorted((root or paths.EAGLE_HEADS).glob(f"*/{TARGET}")):
        try:
            same = _is_same_model(json.loads(path.read_text(encoding="utf-8")), facts)
        except (ValueError, KeyError, TypeError, RuntimeError) as error:
            raise ValueError(f"{path} does not say which model the head is for: restore it, or give head=") from error
        if same:
            return path.parent
    return None


def target_facts(model):
    """What a shipped head knows its target by: sizes, and evenly spaced numbers of the embedding."""
    weight = model.get_input_embeddings().weight.detach()
    places = torch.linspace(0, weight.numel() - 1, SAMPLED, dtype=torch.float64).long()
    places = places.to(weight.device)
    sample = weight[places // weight.shape[1], places % weight.shape[1]]
    config = model.config.get_text_config()
    return {
        "vocab_size": weight.shape[0],
        "hidden_size": weight.shape[1],
        "num_hidden_layers": config.num_hidden_layers,
        "embedding_sample": [round(value, 6) for value in sample.float().tolist()],
    }


def _is_same_model(facts, others):
    if {**facts, "embedding_sample": None} != {**others, "embedding_sample": None}:
        return False
    ours, theirs = (torch.tensor(each["embedding_sample"]) for each in (facts, others))
    return float((ours - theirs).norm()) <= SAME * float(ours.norm())


def _existing(folder):
    """The folder, if it and both of its files are there."""
    if not folder.is_dir():
        raise MissingAssetError(f"no EAGLE head at {folder}: head= names a folder with {CONFIG} and {_either()}")
    if not (folder / CONFIG).is_file():
        raise MissingAssetError(f"the EAGLE head {folder} has no {CONFIG}: copy it from where the weights are from")
    if not any((folder / name).is_file() for name in WEIGHTS):
        raise MissingAssetError(f"the EAGLE head {folder} has no weights: put {_either()} beside its {CONFIG}")
    return folder


def read_config(folder, model):
    """The HeadConfig of a folder; ValueError unless it is one of EAGLE's, of the target's sizes."""
    try:
        raw = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
        config = _config_of(raw)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{folder / CONFIG} is not the config of an EAGLE head: {_reason(error)}") from error
    for name, size in _target_sizes(model).items():
        if getattr(config, name) != size:
            raise ValueError(
                f"the EAGLE head {folder} has {name} {getattr(config, name)} and the target model {size}: "
                f"use the head that was trained for this model"
            )
    return config


def _config_of(raw):
    """HeadConfig of a Llama's config.json as a dict; KeyError or ValueError where it is none that a head can have."""
    rope = raw.get("rope_parameters") or raw.get("rope_scaling") or {}
    kind = rope.get("rope_type", rope.get("type", "default"))
    for name, value, wanted in (
        ("num_hidden_layers", raw.get("num_hidden_layers", 1), 1),
        ("hidden_act", raw.get("hidden_act", "silu"), "silu"),
        ("attention_bias", raw.get("attention_bias", False), False),
        ("the type of its rotary positions", kind, "default"),
    ):
        if value != wanted:
            raise ValueError(f"{name} is {value!r}, must be {wanted!r}")
    sizes = {name: raw[name] for name in ("hidden_size", "intermediate_size", "num_attention_heads", "vocab_size")}
    heads = sizes["num_attention_heads"]
    sizes["num_key_value_heads"] = raw.get("num_key_value_heads") or heads
    for name, size in sizes.items():
        check_limit(name, size)
    if heads % sizes["num_key_value_heads"]:
        raise ValueError(f"num_attention_heads {heads} is no multiple of num_key_value_heads")
    return HeadConfig(
        **sizes,
        head_dim=raw.get("head_dim") or sizes["hidden_size"] // heads,
        rms_norm_eps=raw.get("rms_norm_eps", HeadConfig.rms_norm_eps),
        rope_theta=float(raw.get("rope_theta") or rope.get("rope_theta") or HeadConfig.rope_theta),
        bias=raw.get("bias", True),
    )


def _target_sizes(model):
    vocab_size, hidden_size = model.get_output_embeddings().weight.shape
    return {"hidden_size": hidden_size, "vocab_size": vocab_size}


def _read_weights(folder):
    """{name: tensor} of the weights; the buffers that some versions stored for the rotary positions are left out."""
    path = weights_file(folder)
    try:
        tensors = _read_tensors(path)
    except (OSError, EOFError, RuntimeError, ValueError, KeyError, pickle.UnpicklingError) as error:
        raise ValueError(f"{path} cannot be read as plain tensors: {_reason(error)}") from error
    if not isinstance(tensors, dict) or not all(isinstance(value, torch.Tensor) for value in tensors.values()):
        raise ValueError(f"{path} does not hold named tensors: download the head anew")
    return {name: value for name, value in tensors.items() if not name.endswith("rotary_emb.inv_freq")}


def _read_tensors(path):
    if path.suffix == ".bin":
        return torch.load(path, map_location="cpu", weights_only=True)
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(path)
    except SafetensorError as error:
        raise ValueError(str(error)) from error


def _check_tensors(folder, tensors, expected):
    missing, unexpected = sorted(expected.keys() - tensors.keys()), sorted(tensors.keys() - expected.keys())
    if missing or unexpected:
        parts = [f"lacks {', '.join(missing)}"] * bool(missing) + [f"has also {', '.join(unexpected)}"] * bool(
            unexpected
        )
        raise ValueError(
            f"the weights in {folder} are not an EAGLE head's as its config says: {folder.name} {' and '.join(parts)}"
        )
    for name, tensor in tensors.items():
        shape, wanted = tuple(tensor.shape), tuple(expected[name].shape)
        if shape != wanted:
            raise ValueError(
                f"{name} in {folder} has the shape {shape}, its config says {wanted}: take both from one head"
            )


def _write_json(path, content):
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def _either():
    return " or ".join(WEIGHTS)


def _reason(error):
    """An exception as part of one line."""
    words = f"it has no {error}" if isinstance(error, KeyError) else str(error)
    return " ".join(words.split())[:160]
