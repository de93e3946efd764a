"""A question, whatever the data set, and reading the rows of a data set's file."""

import dataclasses
import gzip
import json
import zlib

from samlib import paths
from samlib.bench.records import jsonl_lines
from samlib.errors import SetupError


@dataclasses.dataclass(frozen=True)
class Question:
    """One question: its id in its data set, its task, and what the user says in each turn.

    category: one of Spec-Bench's TASKS, or the name of a data set that is a single task ("human_eval", "mbpp",
    "hagrid"). question_id: an integer; HAGRID's may be a text where its file has ids that are no numbers.
    """

    question_id: int | str
    category: str
    turns: tuple[str, ...]


def own_file(names):
    """[the first of these files that the user's data folder holds], else []."""
    folder = paths.external_data()
    return [folder / name for name in names if (folder / name).is_file()][:1] if folder else []


def embedded_file(path):
    """The path, if the file is there; else SetupError."""
    if not path.is_file():
        raise SetupError(f"missing data file {path}: restore it from git")
    return path


def read_rows(file):
    """Yield ("file:line", JSON object) for every line of a JSONL file that is not blank.

    The file may be gzip-compressed, with a name that ends in `.gz`. SetupError, one line with file and line number:
    not readable, not UTF-8, not a JSON object.
    """
    for number, line in enumerate(_lines(file), start=1):
        if line.strip():
            where = f"{file}:{number}"
            yield where, _object(line, where)


def required_text(row, field):
    """The field's value, a text that is not blank. KeyError: no such field; ValueError: something else."""
    value = row[field]
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{field} is not a text, or is blank")
    return value


def required_list(row, field):
    """The field's value, a list that is not empty. KeyError: no such field; ValueError: something else."""
    value = row[field]
    if not isinstance(value, list) or not value:
        raise ValueError(f"{field} is not a list, or is empty")
    return value


def parsed(parse, row, where, shape):
    """Return `parse(row)`; where the row is not as it must be, SetupError says where, what is wrong, and the shape."""
    try:
        return parse(row)
    except (KeyError, TypeError, ValueError) as error:
        wrong = f"no field {error}" if isinstance(error, KeyError) else error
        raise SetupError(f"{where}: {wrong}; a line must be JSON with {shape}") from error


def _lines(file):
    try:
        if file.suffix == ".gz":
            return gzip.decompress(file.read_bytes()).decode("utf-8").removesuffix("\n").split("\n")
        return jsonl_lines(file)
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise SetupError(f"cannot read {file} ({error}): replace it by a whole UTF-8 file") from error


def _object(line, where):
    try:
        row = json.loads(line)
    except ValueError as error:
        raise SetupError(f"{where}: not JSON ({error}); a line must be one JSON object") from error
    if not isinstance(row, dict):
        raise SetupError(f"{where}: not a JSON object")
    return row
