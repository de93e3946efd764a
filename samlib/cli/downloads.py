"""What a profile still has to download, from data/manifest.yaml."""

from samlib import paths
from samlib.bench.packages import data_manifest
from samlib.bench.profiles import Profile


def wanted(profile: Profile) -> list[str]:
    """One line for each thing that is not there yet, with its size."""
    entry = data_manifest()["models"].get(profile.model)
    if entry is None or (paths.MODELS / profile.model / "checksums.json").exists():
        return ["nothing"]
    download, disk = entry["wheel_bytes"] / 1e6, entry["disk_bytes"] / 1e6
    return [f"{profile.model}: {download:.0f} MB, {disk:.0f} MB under data/cache afterwards ({entry['licence']})"]
