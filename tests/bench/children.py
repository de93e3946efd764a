"""What the tests of samlib.bench.child call in a process of its own."""

import os
import sys
import time


def count(upto):
    print('{"noise": "on the standard output"}')
    yield from ({"number": number} for number in range(upto))


def fail():
    yield {"number": 0}
    raise ValueError("no such thing")


def abort():
    yield {"number": 0}
    print("thread panicked", file=sys.stderr, flush=True)
    os.abort()


def sleep():
    yield {"number": 0}
    time.sleep(60)
