"""Records on disk: one JSON line each, appended whole, read back with what a crash tore off removed."""

import fcntl
import hashlib
import json
import os
import tempfile
from pathlib import Path

from samlib.errors import SetupError


def settings_key(settings):
    """A short hash of a JSON-like object that does not depend on the order of its keys."""
    text = json.dumps(settings, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def sources_key(folder):
    """A short hash of the Python, Cython and C sources in a folder: part of the key of what is measured of them."""
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.iterdir() if path.suffix in (".py", ".pyx", ".pxd", ".h")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:20]


def write_whole(path, content):
    """Write bytes so that `path` holds either the old file or the whole new one, never a part."""
    handle, partial = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.chmod(partial, 0o644)  # mkstemp makes it private to the user
        os.replace(partial, path)
    except BaseException:
        Path(partial).unlink(missing_ok=True)
        raise


def jsonl_lines(path):
    """The lines of a JSONL file, cut at "\\n" alone: JSON strings may hold the other separators of `splitlines`."""
    return path.read_text(encoding="utf-8").removesuffix("\n").split("\n")


class RecordStore:
    """An append-only JSONL file of records that carry a `key`.

    A record measured again replaces the earlier one of its key, so that nothing is counted twice. Appending is
    atomic: one write under a file lock, then a sync; the last line that an interrupted write left torn is removed when
    the file is next opened. Safe for several processes.
    """

    def __init__(self, path):
        self.path = Path(path)
        self._records = {record["key"]: record for record in self._read()}

    def __len__(self):
        return len(self._records)

    def has(self, key):
        """True if a record of that key is on file."""
        return key in self._records

    def get(self, key):
        """The record of that key; KeyError where there is none."""
        return self._records[key]

    def load(self):
        """The records, the latest of each key, in the order in which the keys first appeared."""
        return list(self._records.values())

    def append(self, record):
        """Write one record (a dict with a string `key`) as one line."""
        line = json.dumps(record, ensure_ascii=False, allow_nan=False).encode() + b"\n"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with open(self.path, "ab", buffering=0) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.write(line)
            os.fsync(file.fileno())
        self._records[record["key"]] = record

    def _read(self):
        if not self.path.exists():
            return []
        self._drop_torn_line()
        return [self._parse(line, number) for number, line in enumerate(jsonl_lines(self.path), start=1) if line]

    def _drop_torn_line(self):
        """Cut the file after its last newline; every whole line ends in one."""
        with open(self.path, "r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            content = file.read()
            whole = content.rfind(b"\n") + 1
            if whole < len(content):
                file.truncate(whole)

    def _parse(self, line, number):
        try:
            record = json.loads(line)
            record["key"]
        except (ValueError, KeyError, TypeError) as error:
            where = f"{self.path}:{number}"
            raise SetupError(f"{where} is not a record: delete that line or the file, and rerun") from error
        return record
