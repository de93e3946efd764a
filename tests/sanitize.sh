#!/usr/bin/env bash
# The compiled code under the address and undefined-behaviour sanitizers: builds samlib with them, with bounds checks and
# with assertions into build/sanitized/, and runs the tests of the automata, the drafters and the CPU kernels on that build.
# The working tree's own extensions and the installed package are left alone. Words are handed to pytest in their place;
# with --keep-build first, what was built last is tested again. PYTHON names the interpreter (default: .venv).
set -euo pipefail

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)"
PYTHON="${PYTHON:-$ROOT/.venv/bin/python}"
CC="${CC:-gcc}"
FOLDER="$ROOT/build/sanitized"
TREE="$FOLDER/tree" # samlib as built, and the tests beside it, so that nothing is imported from the working tree
LOG="$FOLDER/build.log"
REPORTS="$FOLDER/report"
# Not here: memory, since the sanitizer's own is many times what is measured; and the tests that are large only so that
# superlinear work would show.
KNOWN_FAULTS=tests/automaton/test_known_faults.py
NOT_HERE=(
    --ignore tests/automaton/test_memory.py
    --deselect "$KNOWN_FAULTS::test_building_slows_down_with_the_corpus"
    --deselect "$KNOWN_FAULTS::test_a_long_query_slows_the_lookup_down"
)

die() {
    printf 'sanitize: %s\n' "$*" >&2
    exit 1
}

# library NAME: where the compiler keeps it; it prints the bare name back where it has none.
library() {
    local path
    path="$("$CC" -print-file-name="$1")"
    [[ "$path" == /* ]] || return 1
    printf '%s' "$path"
}

require_tools() {
    [[ -x "$PYTHON" ]] || die "no $PYTHON: run ./run_all.sh --test once, or name an interpreter, e.g. PYTHON=python3"
    command -v "$CC" >/dev/null 2>&1 || die "no $CC: install gcc, e.g. apt-get install gcc"
    "$CC" --version | grep -qi 'gcc\|free software' || die "$CC is not gcc: run with CC=gcc"
    ASAN="$(library libasan.so)" || die "$CC has no libasan: install it, e.g. apt-get install libgcc-12-dev libasan8"
    library libubsan.so >/dev/null || die "$CC has no libubsan: install it, e.g. apt-get install libubsan1"
}

build() {
    rm -rf "$FOLDER"
    mkdir -p "$FOLDER"
    (cd "$ROOT" && SAMLIB_SANITIZE=1 CC="$CC" "$PYTHON" -P setup.py -q build --build-base "$FOLDER" --build-lib "$TREE") \
        >"$LOG" 2>&1 || die "the build failed: $(tail -n 1 "$LOG") (log: $LOG)"
}

copy_tests() {
    rm -rf "$TREE/tests"
    cp -R "$ROOT/tests" "$ROOT/pyproject.toml" "$TREE/"
}

# Leaks are not looked for: CPython, numpy and torch keep memory to the end of the process by design, and it would be all
# of the report. test_memory.py counts what building and dropping leaves behind instead. Every buffer of Python's comes
# from malloc, so that a step past its end is seen as well. A finding ends its process at once, with status 99: pytest must
# not hold back what was said on stderr, and the address sanitizer's reports go to files, those of child processes too.
sanitized_python() {
    local options="halt_on_error=1:exitcode=99:handle_sigbus=0:log_path='$REPORTS'"
    LD_PRELOAD="$ASAN $(library libstdc++.so.6 || true)" \
        ASAN_OPTIONS="$options:detect_leaks=0:strict_string_checks=1" UBSAN_OPTIONS="$options:print_stacktrace=1" \
        PYTHONMALLOC=malloc PYTHONPATH="$TREE" OMP_NUM_THREADS=1 "$PYTHON" -P "$@"
}

run_tests() {
    cd "$TREE"
    rm -f "$REPORTS".*
    sanitized_python -c "import samlib, sys; sys.exit(not samlib.__file__.startswith('$TREE/'))" ||
        die "the build in $TREE is not what Python imports: unset PYTHONPATH and PYTHONHOME, and run again"
    sanitized_python -m pytest -q --capture=sys -m "not slow" -p no:cacheprovider -p no:faulthandler "${NOT_HERE[@]}" "$@"
}

# A report fails the run even where the tests pass: the process that it ended may have been a child's child.
show_reports() {
    local report
    for report in "$REPORTS".*; do
        [[ -f "$report" ]] || return 0
        head -n 40 "$report" >&2
        die "the sanitizers found something (the whole report: $report)"
    done
}

require_tools
if [[ "${1:-}" == --keep-build ]]; then shift; else build; fi
copy_tests
(($#)) || set -- tests/automaton tests/drafters tests/decoding/test_kernels.py
status=0
run_tests "$@" || status=$?
show_reports
exit "$status"
