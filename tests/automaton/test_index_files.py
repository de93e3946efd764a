"""Saved indexes: what goes in comes out; damaged, foreign or mismatched files are one catchable error."""

import os
import pickle
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from hypothesis import given

import samlib
from samlib import DynamicAutomaton, FingerprintError, IndexFormatError, StaticAutomaton
from samlib.automaton.index_file import NODE_FIELDS, read_index, write_index

from .strategies import corpora_and_queries
from .test_static import answers

RNG = np.random.default_rng(1)
DOCUMENTS = [RNG.integers(0, 30, RNG.integers(0, 40)).tolist() for _ in range(12)] + [[1, 2, 3] * 5, []]
LOADS = pytest.mark.parametrize("options", [{}, {"mmap": False}, {"verify": True}, {"mmap": False, "verify": True}])


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """The path of a whole index file."""
    path = tmp_path_factory.mktemp("index") / "whole.sam"
    StaticAutomaton.build(DOCUMENTS, vocab_size=30, fingerprint="letters").save(path)
    return path


@pytest.fixture()
def damaged(saved, tmp_path):
    """A function from bytes to the path of a file that holds them."""

    def write(content):
        path = tmp_path / "damaged.sam"
        path.write_bytes(content)
        return path

    return write


def walk(index):
    """Everything that a cursor says along a walk through all documents."""
    cursor, seen = index.cursor(), []
    for document in DOCUMENTS:
        for token in document:
            cursor.advance(token)
            seen.append(answers(cursor))
    return seen


# --- round trip -----------------------------------------------------------------------------------------------------


@LOADS
def test_a_loaded_index_answers_like_the_built_one(saved, options):
    built, loaded = StaticAutomaton.build(DOCUMENTS), StaticAutomaton.load(saved, **options)
    assert walk(loaded) == walk(built)
    for name in ("num_documents", "num_states"):
        assert getattr(loaded, name) == getattr(built, name)
    assert (len(loaded), loaded.vocab_size, loaded.fingerprint) == (len(built), 30, "letters")


@given(case=corpora_and_queries())
def test_round_trip_of_any_corpus(case, tmp_path):
    documents, query = case
    path = tmp_path / "any.sam"
    built = StaticAutomaton.build(documents)
    built.save(path)
    for options in ({"verify": True}, {"mmap": False}):
        before, after = built.cursor(), StaticAutomaton.load(path, **options).cursor()
        before.advance(query)
        after.advance(query)
        assert answers(after) == answers(before)


@pytest.mark.parametrize("documents", [[], [[]], [[5]]])
def test_the_smallest_indexes(documents, tmp_path):
    StaticAutomaton.build(documents).save(tmp_path / "small.sam")
    for options in ({}, {"mmap": False, "verify": True}):
        index = StaticAutomaton.load(tmp_path / "small.sam", **options)
        assert (len(index), index.num_documents) == (sum(map(len, documents)), len(documents))


def test_paths_may_be_strings(tmp_path):
    StaticAutomaton.build([[1, 2]]).save(str(tmp_path / "a.sam"))
    assert len(StaticAutomaton.load(str(tmp_path / "a.sam"))) == 2


def test_saving_twice_gives_the_same_bytes(saved, tmp_path):
    StaticAutomaton.build(DOCUMENTS, vocab_size=30, fingerprint="letters").save(tmp_path / "again.sam")
    assert (tmp_path / "again.sam").read_bytes() == saved.read_bytes()


def test_a_loaded_index_can_be_saved(saved, tmp_path):
    StaticAutomaton.load(saved).save(tmp_path / "copy.sam")
    assert (tmp_path / "copy.sam").read_bytes() == saved.read_bytes()


def test_a_mapped_index_survives_a_new_save_over_its_file(saved, tmp_path):
    path = tmp_path / "live.sam"
    path.write_bytes(saved.read_bytes())
    mapped = StaticAutomaton.load(path, mmap=True)
    StaticAutomaton.build([[1, 2]]).save(path)
    assert walk(mapped) == walk(StaticAutomaton.load(saved))
    assert len(StaticAutomaton.load(path)) == 2


def test_a_mapped_index_may_be_saved_over_itself(saved, tmp_path):
    path = tmp_path / "live.sam"
    path.write_bytes(saved.read_bytes())
    StaticAutomaton.load(path, mmap=True).save(path)
    assert path.read_bytes() == saved.read_bytes()


# --- pickles: a path, or a remedy -----------------------------------------------------------------------------------


def test_a_saved_index_and_its_cursor_pickle_as_the_path(saved):
    index = StaticAutomaton.load(saved)
    cursor = index.cursor()
    cursor.advance(DOCUMENTS[0][:3])
    again, walked = pickle.loads(pickle.dumps((index, cursor)))
    assert walk(again) == walk(index)
    assert answers(walked) == answers(cursor)
    assert len(pickle.dumps(index)) < 1000


def test_what_cannot_be_pickled_says_what_to_do():
    index = StaticAutomaton.build(DOCUMENTS)
    for thing, remedy in [(index, "save"), (index.cursor(), "save"), (DynamicAutomaton(), "extend")]:
        with pytest.raises(TypeError, match=remedy) as caught:
            pickle.dumps(thing)
        assert "\n" not in str(caught.value)


# --- vocabulary and fingerprint -------------------------------------------------------------------------------------


@pytest.mark.parametrize("asked", [{"vocab_size": 31}, {"fingerprint": "other"}, {"vocab_size": 30, "fingerprint": ""}])
def test_another_tokenizers_index_is_refused(saved, asked):
    with pytest.raises(FingerprintError, match=saved.name):
        StaticAutomaton.load(saved, **asked)


def test_the_right_tokenizers_index_is_accepted(saved):
    assert len(StaticAutomaton.load(saved, vocab_size=30, fingerprint="letters"))


def test_an_index_without_fingerprint_does_not_pass_for_one_with(tmp_path):
    StaticAutomaton.build([[1, 2]]).save(tmp_path / "plain.sam")
    with pytest.raises(FingerprintError):
        StaticAutomaton.load(tmp_path / "plain.sam", fingerprint="letters")


def test_the_errors_are_value_errors():
    assert issubclass(IndexFormatError, ValueError) and issubclass(FingerprintError, ValueError)
    assert samlib.IndexFormatError is IndexFormatError


# --- damage ---------------------------------------------------------------------------------------------------------


@LOADS
def test_truncation_is_found_on_any_load(saved, damaged, options):
    whole = saved.read_bytes()
    cuts = {*range(0, min(len(whole), 300)), *range(0, len(whole), 97), *range(len(whole) - 40, len(whole))}
    for size in sorted(cuts):
        path = damaged(whole[:size])
        with pytest.raises(IndexFormatError, match="damaged.sam"):
            StaticAutomaton.load(path, **options)


@pytest.mark.parametrize("mapped", [True, False])
def test_verify_finds_every_flipped_byte(saved, damaged, mapped, tmp_path):
    """Only the padding between sections may differ unnoticed; saving again shows that nothing that counts did."""
    whole = saved.read_bytes()
    for position in sorted({*range(0, min(len(whole), 400)), *range(0, len(whole), 41)}):
        broken = bytearray(whole)
        broken[position] ^= 1 << (position % 8)
        try:
            index = StaticAutomaton.load(damaged(bytes(broken)), mmap=mapped, verify=True)
        except IndexFormatError as error:
            assert "damaged.sam" in str(error)
        else:
            index.save(tmp_path / "again.sam")
            assert (tmp_path / "again.sam").read_bytes() == whole, f"the flip at byte {position} went unnoticed"


@pytest.mark.parametrize(
    "content", [b"", b"\0" * 5000, b"PK\x03\x04" + b"x" * 5000, b'{"json": true}', bytes(range(256)) * 40]
)
@LOADS
def test_foreign_files_are_refused(damaged, content, options):
    with pytest.raises(IndexFormatError, match="damaged.sam") as caught:
        StaticAutomaton.load(damaged(content), **options)
    assert "\n" not in str(caught.value)


@LOADS
def test_a_longer_file_is_refused(saved, damaged, options):
    with pytest.raises(IndexFormatError):
        StaticAutomaton.load(damaged(saved.read_bytes() + b"more"), **options)


def test_a_missing_file_and_a_folder(tmp_path):
    with pytest.raises(FileNotFoundError):
        StaticAutomaton.load(tmp_path / "nothing.sam")
    with pytest.raises((OSError, IndexFormatError)):
        StaticAutomaton.load(tmp_path)


WALK_DAMAGED = textwrap.dedent(
    """
    import pathlib, sys
    import numpy as np
    from samlib import StaticAutomaton

    whole, path, seed = pathlib.Path(sys.argv[1]).read_bytes(), pathlib.Path(sys.argv[2]), int(sys.argv[3])
    rng = np.random.default_rng(seed)
    opened = 0
    for trial in range(400):
        broken = np.frombuffer(whole, dtype=np.uint8).copy()
        start = 64 if trial % 4 else 0
        where = rng.integers(start, len(broken), rng.choice([1, 1, 4, 200]))
        broken[where] = rng.choice([0, 1, 127, 128, 255, rng.integers(256)], len(where))
        path.write_bytes(broken.tobytes())
        try:
            index = StaticAutomaton.load(path, mmap=bool(trial % 2))
        except ValueError:
            continue
        opened += 1
        cursor = index.cursor()
        for token in np.concatenate([rng.integers(0, 30, 60), np.tile([1, 2, 3], 8)]):
            try:
                cursor.advance(int(token))
                for choice in ("first", "latest", "frequent"):
                    cursor.draft(50, choice=choice)
                cursor.draft_tree(30)
            except ValueError:
                cursor.reset()
    print("opened", opened)
    """
)


@pytest.mark.parametrize("seed", range(3))
def test_an_unverified_damaged_file_never_takes_the_process_down(saved, tmp_path, seed):
    """Walk and draft on hundreds of damaged files; a crash or an endless loop ends the child, not this process."""
    child = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", WALK_DAMAGED, str(saved), str(tmp_path / "broken.sam"), str(seed)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert child.returncode == 0, child.stderr[-2000:]
    assert int(child.stdout.split()[1]) > 0, "nothing was opened, so nothing was tested"


# --- damage that a walk meets ---------------------------------------------------------------------------------------

FORKED = [[1, 2, 3], [1, 2, 4]]  # nodes: root, [1, 2]; inner edges: 1 2 and 2; leaf edges: 3, 4 of either node
WIDE = [[token, 50] for token in range(40)] * 2  # the root has 41 inner edges, in a hash table of 64 entries
LINK, LENGTH, _COUNT, FIRST, LATEST, INNER, LEAF = range(len(NODE_FIELDS))


def load_with(tmp_path, documents, section, where, value):
    """The index of `documents`, one number of which is wrong, opened from a file whose checksums do not show it."""
    StaticAutomaton.build(documents).save(tmp_path / "right.sam")
    arrays = {name: array.copy() for name, array in read_index(tmp_path / "right.sam")[0].items()}
    assert np.all(arrays[section][where] != value)
    arrays[section][where] = value
    write_index(tmp_path / "wrong.sam", arrays, vocab_size=None, fingerprint=None)
    return StaticAutomaton.load(tmp_path / "wrong.sam")


@pytest.mark.parametrize(
    ("documents", "section", "where", "value"),
    [
        pytest.param(FORKED, "inner_target", 0, 2, id="an edge to the node after the last"),
        pytest.param(FORKED, "inner_target", 0, 2**31 - 1, id="an edge far from any node"),
        pytest.param(FORKED, "inner_target", 0, -1, id="an edge to no node"),
        pytest.param(FORKED, "inner_length", 0, 0, id="an empty label"),
        pytest.param(FORKED, "nodes", (1, FIRST), 1, id="a label that begins before the text"),
        pytest.param(FORKED, "nodes", (1, FIRST), 7, id="a label that ends after the text"),
        pytest.param(FORKED, "nodes", (1, LATEST), -1, id="a last occurrence before the text"),
        pytest.param(FORKED, "nodes", (2, INNER), 3, id="more inner edges than there are"),
        pytest.param(FORKED, "nodes", (2, LEAF), 5, id="more leaf edges than there are"),
        pytest.param(FORKED, "nodes", (1, LINK), 2, id="a link to the node after the last"),
        pytest.param(FORKED, "nodes", (0, LENGTH), 2, id="a link that does not shorten the match"),
        pytest.param(FORKED, "leaf_start", 2, -1, id="a leaf that begins before the text"),
        pytest.param(FORKED, "leaf_start", 2, 6, id="a leaf that begins at the end of the text"),
        pytest.param(FORKED, "document_ends", 1, 7, id="a document that ends after the text"),
        pytest.param(WIDE, "table_start", 1, 128, id="a hash table that is larger than all"),
        pytest.param(WIDE, "table_start", 1, 63, id="a hash table of an odd size"),
        pytest.param(WIDE, "table", slice(None), 41, id="hash table entries without an edge"),
    ],
)
def test_a_number_out_of_range_is_refused_where_a_walk_meets_it(tmp_path, documents, section, where, value):
    """Out of range by one, where nothing would crash and an answer might even look right."""
    cursor = load_with(tmp_path, documents, section, where, value).cursor()
    with pytest.raises(IndexFormatError, match="damaged"):
        for token in [token for document in documents for token in document]:
            cursor.advance(token)
            cursor.draft(9, choice="latest")
            cursor.draft_tree(9)


def test_an_advance_that_meets_damage_leaves_the_cursor_where_it_was(tmp_path):
    cursor = load_with(tmp_path, FORKED, "nodes", (1, LINK), 2).cursor()
    cursor.advance([1])
    with pytest.raises(IndexFormatError):
        cursor.advance([2, 9])
    assert (cursor.match_length, cursor.draft(9).tolist()) == (1, [2, 3])


@pytest.mark.parametrize(
    "place",
    [
        pytest.param((2, 0, 0, 2), id="the node after the last"),
        pytest.param((2**31 - 1, 0, 0, 2), id="a node far from any"),
        pytest.param((-1, 0, 0, 0), id="no node"),
        pytest.param((0, 4, 1, 1), id="the edge after the last"),
        pytest.param((0, -1, 1, 1), id="no edge"),
        pytest.param((0, 0, 3, 3), id="below the end of a label"),
        pytest.param((0, 0, -1, 1), id="above a label"),
        pytest.param((0, 0, 1, 0), id="deeper than long"),
        pytest.param((1, 0, 1, 3), id="the end of a document"),
    ],
)
def test_a_place_that_the_index_does_not_have_is_refused(place):
    """Of a cursor that was pickled before another index took its file's place."""
    index = StaticAutomaton.build(FORKED)
    restore, (_, *known) = index.cursor().__reduce__()
    assert restore(index, *known).match_length == 0
    with pytest.raises(IndexFormatError, match="another index"):
        restore(index, *place)


# --- interrupted saves ----------------------------------------------------------------------------------------------


def other_files(path):
    return [entry.name for entry in path.parent.iterdir() if entry != path]


def test_a_save_that_fails_at_the_last_moment_leaves_the_old_file(saved, tmp_path, monkeypatch):
    path = tmp_path / "kept.sam"
    path.write_bytes(saved.read_bytes())

    def fail(*_args, **_kwargs):
        raise OSError("interrupted")

    for name in ("replace", "rename"):
        monkeypatch.setattr(os, name, fail)
    with pytest.raises(OSError):
        StaticAutomaton.build([[1, 2]]).save(path)
    assert path.read_bytes() == saved.read_bytes()
    assert other_files(path) == []


SAVE_ON_A_FULL_DISK = textwrap.dedent(
    """
    import resource, signal, sys
    from samlib import StaticAutomaton

    index = StaticAutomaton.build([list(range(5000))])
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
    try:
        index.save(sys.argv[1])
    except OSError:
        sys.exit(7)
    """
)


def test_a_save_on_a_full_disk_leaves_the_old_file(saved, tmp_path):
    path = tmp_path / "kept.sam"
    path.write_bytes(saved.read_bytes())
    child = subprocess.run([sys.executable, "-c", SAVE_ON_A_FULL_DISK, str(path)], capture_output=True, text=True)
    assert child.returncode == 7, child.stderr[-2000:]
    assert path.read_bytes() == saved.read_bytes()
    assert other_files(path) == []


def test_saving_into_a_missing_folder(tmp_path):
    with pytest.raises(OSError):
        StaticAutomaton.build([[1, 2]]).save(tmp_path / "no" / "such" / "folder.sam")
