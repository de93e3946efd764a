"""The record store under interruption: torn lines, second runs, several writers."""

import json
import multiprocessing

import pytest

from samlib.bench.records import RecordStore, settings_key
from samlib.errors import SetupError


@pytest.fixture
def path(tmp_path):
    return tmp_path / "records" / "table1.jsonl"


def test_what_is_appended_is_there_again(path):
    store = RecordStore(path)
    store.append({"key": "a", "value": "é\u2028 one line"})
    store.append({"key": "b", "value": 2})
    again = RecordStore(path)
    assert again.load() == [{"key": "a", "value": "é\u2028 one line"}, {"key": "b", "value": 2}]
    assert again.has("a") and not again.has("c") and len(again) == 2


@pytest.mark.parametrize("torn", [b'{"key": "c", "val', b'{"key": "c"}', b"{", '{"é'.encode()[:-1]])
def test_a_torn_last_line_is_dropped_and_the_file_repaired(path, torn):
    """A line without its newline was torn, even if what is left of it happens to parse."""
    RecordStore(path).append({"key": "a"})
    whole = path.read_bytes()
    path.write_bytes(whole + torn)
    store = RecordStore(path)
    assert store.load() == [{"key": "a"}]
    assert path.read_bytes() == whole
    store.append({"key": "d"})
    assert [record["key"] for record in RecordStore(path).load()] == ["a", "d"]


def test_a_file_that_is_one_torn_line_becomes_empty(path):
    path.parent.mkdir()
    path.write_bytes(b'{"key":')
    assert RecordStore(path).load() == []
    assert path.read_bytes() == b""


def test_a_damaged_line_in_the_middle_is_one_clear_error(path):
    path.parent.mkdir()
    path.write_text('{"key": "a"}\nnonsense\n{"key": "b"}\n')
    with pytest.raises(SetupError, match=r"table1.jsonl:2 is not a record"):
        RecordStore(path)


def test_a_record_measured_again_replaces_the_earlier_one(path):
    store = RecordStore(path)
    for value in (1, 2):
        store.append({"key": "a", "value": value})
    assert store.load() == RecordStore(path).load() == [{"key": "a", "value": 2}]


def test_numbers_that_are_not_json_are_refused_and_leave_the_file_alone(path):
    store = RecordStore(path)
    store.append({"key": "a"})
    with pytest.raises(ValueError):
        store.append({"key": "b", "value": float("nan")})
    assert [record["key"] for record in RecordStore(path).load()] == ["a"]


def _write_many(path, name):
    store = RecordStore(path)
    for i in range(50):
        store.append({"key": f"{name}{i}", "text": name * 3000})


def test_two_processes_do_not_mix_their_lines(path):
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=_write_many, args=(path, name)) for name in "xy"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    lines = path.read_text().splitlines()
    assert len(lines) == 100
    assert {json.loads(line)["key"] for line in lines} == {f"{name}{i}" for name in "xy" for i in range(50)}


def test_a_settings_key_depends_on_values_and_not_on_their_order():
    assert settings_key({"a": 1, "b": [1, 2]}) == settings_key({"b": [1, 2], "a": 1})
    assert settings_key({"a": 1, "b": [1, 2]}) != settings_key({"a": 1, "b": [2, 1]})
