"""Every location of the repository, anchored to this file, so that the caller's folder never matters."""

import os
from pathlib import Path

from samlib.errors import SetupError

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "data"
CACHE = DATA / "cache"
MODELS = CACHE / "models"
CORPUS = DATA / "corpus"
MINI_BENCH = DATA / "mini_bench"
MBPP_LIKE = DATA / "mbpp_like"
HAGRID_LIKE = DATA / "hagrid_like"
EAGLE_HEADS = DATA / "eagle"
NOTEBOOKS = ROOT / "notebooks"
FIGURES = ROOT / "figures"
RUNS = ROOT / "runs"


def runs_dir(profile_name: str) -> Path:
    """The folder of a profile's records, manifests and executed notebooks (it may not exist yet)."""
    return RUNS / profile_name


def figures_dir(profile_name: str) -> Path:
    """The folder of a profile's figures and tables (it may not exist yet)."""
    return FIGURES / profile_name


def eagle_head_dir(model_name: str) -> Path:
    """The folder of the EAGLE head that is shipped for a model (there may be none)."""
    return EAGLE_HEADS / model_name


def external_data() -> Path | None:
    """The user's own data folder, from the variable SAMLIB_DATA; None where it is unset or empty.

    Raises SetupError where the variable names something that is not a folder.
    """
    value = os.environ.get("SAMLIB_DATA")
    if not value:
        return None
    folder = Path(value).expanduser().resolve()
    if not folder.is_dir():
        raise SetupError(f"SAMLIB_DATA names no folder: {value}; set it to the folder of your data sets")
    return folder
