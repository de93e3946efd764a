"""One index for many: threads that walk it at once, processes that map the same file, files that change underneath."""

import multiprocessing
import os
import pickle
import re
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import numpy as np
import pytest

from samlib import StaticAutomaton

THREADS = 8
RNG = np.random.default_rng(3)
DOCUMENTS = [RNG.integers(0, 40, 2000).astype(np.int32) for _ in range(60)]
QUERIES = [
    np.concatenate([np.concatenate([DOCUMENTS[RNG.integers(60)][:900], RNG.integers(0, 44, 300)]) for _ in range(20)])
    for _ in range(THREADS)
]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """The path of an index file of some megabytes."""
    path = tmp_path_factory.mktemp("shared") / "shared.sam"
    StaticAutomaton.build(DOCUMENTS).save(path)
    return path


def answers(cursor):
    """What a cursor says, as plain values."""
    tree = cursor.draft_tree(40)
    drafts = [cursor.draft(20, choice=choice).tolist() for choice in ("first", "latest", "frequent")]
    return cursor.match_length, drafts, tree.tokens.tolist(), tree.parents.tolist()


def walk(index, query, piece=1000):
    """The answers along a query that is handed over in long pieces, during which no thread holds the GIL."""
    cursor, seen = index.cursor(), []
    for start in range(0, len(query), piece):
        cursor.advance(query[start : start + piece].astype(np.int32))
        seen.append(answers(cursor))
    return seen


# --- threads --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mapped", [True, False])
def test_eight_threads_walk_long_queries_over_one_index(saved, mapped):
    index = StaticAutomaton.load(saved, mmap=mapped)
    expected = [walk(index, query) for query in QUERIES]
    results, together = [[] for _ in QUERIES], threading.Barrier(THREADS)

    def work(number):
        together.wait()
        for _ in range(5):
            results[number].append(walk(index, QUERIES[number]))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [[one] * 5 for one in expected]


def test_threads_build_at_the_same_time():
    """Builders share nothing: each result is that of building alone."""
    parts = [DOCUMENTS[number::THREADS] for number in range(THREADS)]
    expected = [walk(StaticAutomaton.build(part), QUERIES[0]) for part in parts]
    results = [None] * THREADS

    def work(number):
        results[number] = walk(StaticAutomaton.build(parts[number]), QUERIES[0])

    threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == expected


# --- processes ------------------------------------------------------------------------------------------------------


def _walk_and_answer(index, cursor, query, queue):
    """In a child process: what the index and the cursor that came along say."""
    queue.put((walk(index, query), answers(cursor)))


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_processes_share_a_pickled_index_and_go_on_from_a_pickled_cursor(saved, method):
    context, index = multiprocessing.get_context(method), StaticAutomaton.load(saved)
    cursor = index.cursor()
    cursor.advance(QUERIES[0][:700])
    queue = context.Queue()
    workers = [context.Process(target=_walk_and_answer, args=(index, cursor, query, queue)) for query in QUERIES[:2]]
    for worker in workers:
        worker.start()
    found = [queue.get(timeout=120) for _ in workers]
    for worker in workers:
        worker.join()
    walked = sorted(pickle.dumps(one) for one, _ in found)
    assert walked == sorted(pickle.dumps(walk(index, query)) for query in QUERIES[:2])
    assert [told for _, told in found] == [answers(cursor)] * 2


READ_ALL_AND_SAY = textwrap.dedent(
    """
    import sys
    from samlib import StaticAutomaton
    from tests.automaton.test_sharing import QUERIES, private_bytes, walk

    index = StaticAutomaton.load(sys.argv[1], verify=True)  # which reads every page
    walk(index, QUERIES[0])
    print(*private_bytes(sys.argv[1]))
    """
)


def private_bytes(path):
    """(private, dirty, resident) bytes of this process's mappings of a file, as /proc/self/smaps counts them."""
    counted = {"Private_Clean": 0, "Private_Dirty": 0, "Rss": 0}
    inside = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
            inside = line.endswith(str(path))
        field, _, rest = line.partition(":")
        if inside and field in counted:
            counted[field] += int(rest.split()[0]) * 1024
    return counted["Private_Clean"] + counted["Private_Dirty"], counted["Private_Dirty"], counted["Rss"]


@pytest.mark.skipif(not os.access("/proc/self/smaps", os.R_OK), reason="shared pages are counted in Linux's /proc")
def test_processes_share_the_pages_of_a_mapped_index(saved):
    index = StaticAutomaton.load(saved, verify=True)
    if private_bytes(saved)[2] == 0:
        pytest.skip("this system does not say which pages of a mapping are resident")
    folder = Path(__file__).resolve().parents[2]
    child = subprocess.run([sys.executable, "-c", READ_ALL_AND_SAY, saved], cwd=folder, capture_output=True, text=True)
    assert child.returncode == 0, child.stderr[-2000:]
    private, dirty, resident = map(int, child.stdout.split())
    assert dirty == 0
    assert resident > 0.9 * saved.stat().st_size
    assert private < 0.05 * resident
    assert len(index) == sum(map(len, DOCUMENTS))  # held to the end, so that there was somebody to share with


# --- files that change while they are mapped ------------------------------------------------------------------------

TRUNCATE_AND_WALK = textwrap.dedent(
    """
    import os, sys
    from samlib import StaticAutomaton
    from tests.automaton.test_sharing import QUERIES, walk

    index = StaticAutomaton.load(sys.argv[1], mmap=sys.argv[2] == "mapped")
    os.truncate(sys.argv[1], 0)
    print(walk(index, QUERIES[0])[-1])
    """
)


def truncate_and_walk(saved, tmp_path, how):
    path, folder = tmp_path / "cut.sam", Path(__file__).resolve().parents[2]
    path.write_bytes(saved.read_bytes())
    command = [sys.executable, "-c", TRUNCATE_AND_WALK, str(path), how]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


def test_an_index_that_was_read_does_not_need_its_file(saved, tmp_path):
    child = truncate_and_walk(saved, tmp_path, "read")
    assert child.returncode == 0, child.stderr[-2000:]
    assert child.stdout.strip() == str(walk(StaticAutomaton.load(saved), QUERIES[0])[-1])


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="what a cut mapping does is the system's own affair")
def test_cutting_off_a_mapped_file_ends_the_process_and_never_answers_wrongly(saved, tmp_path):
    """A limit of every memory-mapped file, which no check of ours can lift: mmap=False is for files that others cut.

    `save` never does this: it writes a new file and renames it, which leaves what is mapped alone.
    """
    child = truncate_and_walk(saved, tmp_path, "mapped")
    assert child.returncode == -signal.SIGBUS
    assert child.stdout == ""


def test_a_replaced_file_keeps_its_old_content_where_it_is_mapped(saved, tmp_path):
    path = tmp_path / "replaced.sam"
    path.write_bytes(saved.read_bytes())
    index = StaticAutomaton.load(path)
    before = walk(index, QUERIES[0])
    for _ in range(3):
        StaticAutomaton.build([[1, 2, 3]]).save(path)
        assert walk(index, QUERIES[0]) == before
    path.unlink()
    assert walk(index, QUERIES[0]) == before
