"""Measuring in a process of its own, which may have its memory counted, and may die without taking others along.

The child is `python -m samlib.bench.child`: it reads a call from its input and writes one line of JSON a result.
"""

import contextlib
import importlib
import json
import os
import signal
import subprocess
import sys

from samlib import paths

SHOWN = 160  # characters of a child's last words


def run_child(function, *, timeout=None, **arguments):
    """Call a generator function in a fresh process; returns (its results so far, None or why it ended early).

    function: "module:name"; arguments and results are JSON-like. The reason is one line: an exception's, a signal's
    name with the first line that the child wrote, or that `timeout` (seconds) ran out.
    """
    call = json.dumps({"function": function, "arguments": arguments})
    command = [sys.executable, "-m", "samlib.bench.child"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    child = subprocess.Popen(command, cwd=paths.ROOT, text=True, encoding="utf-8", errors="replace", **pipes)
    try:
        out, err = child.communicate(call, timeout=timeout)
        reason = _reason(child.returncode, err)
    except subprocess.TimeoutExpired:
        child.kill()
        out, _ = child.communicate()
        reason = f"took more than {timeout:g} seconds"
    except BaseException:
        child.kill()
        raise
    return [json.loads(line) for line in out.splitlines() if line.endswith("}")], reason


def _reason(status, err):
    """None for a child that ended well, else why it did not, in one line."""
    if status == 0:
        return None
    lines = [line.strip() for line in err.splitlines() if line.strip()] or ["it said nothing"]
    if status < 0:
        with contextlib.suppress(ValueError):
            return f"killed by {signal.Signals(-status).name}: {lines[0][:SHOWN]}"
    return lines[-1][:SHOWN] if status == 1 else f"exit status {status}: {lines[-1][:SHOWN]}"


def main():
    """The child's side: what the function itself prints goes to stderr, so that nothing mixes with the results."""
    call = json.load(sys.stdin)
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as results:
        os.dup2(2, 1)
        module, _, name = call["function"].partition(":")
        for result in getattr(importlib.import_module(module), name)(**call["arguments"]):
            print(json.dumps(result), file=results, flush=True)


if __name__ == "__main__":
    main()
