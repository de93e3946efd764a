"""The index file: a JSON header and flat little-endian arrays, each with a checksum. See INDEX_FORMAT.md.

Opening reads the header only, and checks the file's size against it; `verify` reads everything. Nothing is unpickled.
"""

import hashlib
import json
import mmap as mmap_module
import os
import struct
from pathlib import Path

import numpy as np

from samlib.errors import IndexFormatError

MAGIC = b"SAMINDEX"
VERSION = 2
_PREFIX = struct.Struct("<8sII16s")
_ALIGNMENT = 64
NODE_FIELDS = ("link", "length", "count", "first", "latest", "inner", "leaf")  # the columns of `nodes`
_DTYPES = {"<i4": 4, "<u2": 2}


def _digest(data):
    return hashlib.blake2b(data, digest_size=16)


def _aligned(offset):
    return -(-offset // _ALIGNMENT) * _ALIGNMENT


def write_index(path, arrays, *, vocab_size, fingerprint):
    """Write the arrays (name -> int32 array) to `path`, atomically: an interrupted call leaves the old file whole."""
    path = Path(path)
    header, offsets = _header(arrays, vocab_size, fingerprint)
    partial = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(partial, "wb") as file:
            file.write(_PREFIX.pack(MAGIC, VERSION, len(header), _digest(header).digest()))
            file.write(header)
            for name, array in arrays.items():
                file.seek(offsets[name])
                file.write(_bytes(array))
            file.truncate(max(file.tell(), json.loads(header)["size"]))
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def _bytes(array):
    return np.ascontiguousarray(array).data.cast("B") if array.size else b""


def _header(arrays, vocab_size, fingerprint):
    """The JSON header, padded so that its own length does not depend on the offsets that it states."""
    sections = {
        name: {
            "dtype": array.dtype.str,
            "shape": list(array.shape),
            "offset": 0,
            "blake2b": _digest(_bytes(array)).hexdigest(),
        }
        for name, array in arrays.items()
    }
    content = {"size": 0, "vocab_size": vocab_size, "fingerprint": fingerprint, "sections": sections}
    room = len(json.dumps(content)) + 20 * (len(arrays) + 1)
    end = _PREFIX.size + room
    for name, array in arrays.items():
        sections[name]["offset"] = _aligned(end)
        end = _aligned(end) + array.nbytes
    content["size"] = end
    offsets = {name: section["offset"] for name, section in sections.items()}
    return json.dumps(content).ljust(room).encode(), offsets


def read_index(path, *, mmap=True, verify=False):
    """Return (arrays, header) of an index file; the arrays are read-only.

    Raises IndexFormatError for a damaged, truncated, foreign or newer file, FileNotFoundError where there is none.
    """
    path = Path(path)
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        header = _read_header(path, file, size)
        data = mmap_module.mmap(file.fileno(), 0, access=mmap_module.ACCESS_READ) if mmap else _read_all(file)
    arrays = {}
    for name, section in header["sections"].items():
        arrays[name] = _section(path, data, name, section, size)
        if verify and _digest(_bytes(arrays[name])).hexdigest() != section["blake2b"]:
            raise IndexFormatError(f"{path}: section {name!r} is damaged (checksum differs): build the index again")
    return arrays, header


def _read_all(file):
    file.seek(0)
    return file.read()


def _read_header(path, file, size):
    prefix = file.read(_PREFIX.size)
    if len(prefix) < _PREFIX.size or prefix[:8] != MAGIC:
        raise IndexFormatError(f"{path}: not an index of samlib: build one with StaticAutomaton.build(...).save(path)")
    _, version, length, digest = _PREFIX.unpack(prefix)
    if version != VERSION:
        raise IndexFormatError(f"{path}: index format {version}, this samlib reads {VERSION}: build the index again")
    text = file.read(length) if length <= size else b""
    if len(text) != length or _digest(text).digest() != digest:
        raise IndexFormatError(f"{path}: the header is damaged or cut off: build the index again")
    header = json.loads(text)
    if header["size"] != size:
        raise IndexFormatError(f"{path}: {size} bytes where {header['size']} are due (cut off?): build the index again")
    return header


def _section(path, data, name, section, size):
    dtype, count = section["dtype"], int(np.prod(section["shape"], dtype=np.int64))
    if dtype not in _DTYPES or section["offset"] + _DTYPES[dtype] * count > size:
        raise IndexFormatError(f"{path}: section {name!r} does not fit the file: build the index again")
    array = np.frombuffer(data, dtype=dtype, count=count, offset=section["offset"])
    array.flags.writeable = False
    return array.reshape(section["shape"])
