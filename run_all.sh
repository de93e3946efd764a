#!/usr/bin/env bash
# Prepares the environment, builds samlib, then runs the notebooks (or the tests). ./run_all.sh --help explains the flags.
set -euo pipefail

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)"
LOGS="$ROOT/build/logs"
VENV="$ROOT/.venv"
BUILD_STAMP="$ROOT/build/samlib.stamp"
DISK_GB=4

die() {
    printf 'run_all: %s\n' "$*" >&2
    exit 1
}

note() { printf '%s\n' "$*" >&2; }

# ---- Python ---------------------------------------------------------------------------------------------------------

is_recent_python() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }

# 3.11 first: the version that the pinned packages were tested with.
find_python() {
    local name
    for name in python3.11 python3.12 python3.13 python3 python; do
        if is_recent_python "$name"; then
            command -v "$name"
            return
        fi
    done
    die "no Python 3.11 or newer found: install one, e.g. apt-get install python3.11 python3.11-venv"
}

# The active environment's folder, if there is one that may be installed into.
active_environment() {
    if [[ -n "${VIRTUAL_ENV:-}" ]]; then
        printf '%s' "$VIRTUAL_ENV"
    elif [[ -n "${CONDA_PREFIX:-}" && "${CONDA_DEFAULT_ENV:-}" != base ]]; then
        printf '%s' "$CONDA_PREFIX"
    fi
}

require_usable() {
    is_recent_python "$1" ||
        die "$1 is not Python 3.11 or newer: deactivate that environment, or make it anew with Python 3.11"
    has_pip "$1" || die "$1 has no pip: run $1 -m ensurepip, or deactivate that environment"
}

has_pip() { "$1" -c 'import pip' >/dev/null 2>&1; }

# ---- steps with a log -----------------------------------------------------------------------------------------------

# show_progress PID TEXT LOG: on a terminal, one line with the seconds and the log's last line until PID ends.
show_progress() {
    local start=$SECONDS width
    while kill -0 "$1" 2>/dev/null; do
        width=$(($(tput cols 2>/dev/null || echo 80) - 1))
        printf '\r\033[K%.*s' "$width" "$2 ($((SECONDS - start)) s) $(tail -n 1 "$3" 2>/dev/null | tr -d '\r\033')" >&2
        sleep 0.5
    done
    printf '\r\033[K' >&2
}

reason_in() {
    if grep -qi 'no space left on device\|errno 28' "$1"; then
        printf 'no space left on the disk: free some and run again'
    elif grep -qi 'NewConnectionError\|NameResolutionError\|ConnectTimeout\|ReadTimeout\|Max retries\|unreachable\|ProxyError' "$1"; then
        printf 'the package index cannot be reached: check the network (or the proxy settings) and run again'
    else
        # The first line of a compiler (file:line:column: ...), or of pip.
        grep -m 1 -E '[a-z]:[0-9]+:[0-9]+: ' "$1" || grep -m 1 -iE '^ *(error|fatal)' "$1" || tail -n 1 "$1"
    fi | sed 's/^ *//' | cut -c 1-200
}

# run_step TEXT LOGNAME COMMAND...: runs it with its output in a log; dies with one line when it fails.
run_step() {
    local text="$1" log="$LOGS/$2.log" start=$SECONDS child
    shift 2
    mkdir -p "$LOGS" || die "cannot write to $ROOT"
    "$@" >"$log" 2>&1 </dev/null &
    child=$!
    trap 'kill '"$child"' 2>/dev/null || true; note "run_all: interrupted while $text; run again to go on"; exit 130' INT TERM
    if [[ -t 2 ]]; then show_progress "$child" "$text" "$log"; else note "$text ..."; fi
    wait "$child" || die "$text failed: $(reason_in "$log") (log: $log)"
    trap - INT TERM
    note "$text: done in $((SECONDS - start)) s"
}

# ---- environment ----------------------------------------------------------------------------------------------------

has_headers() { "$1" -c 'import os, sysconfig as s, sys; sys.exit(not os.path.isfile(s.get_paths()["include"] + "/Python.h"))'; }

find_compiler() {
    local name
    for name in "$@"; do
        if command -v "$name" >/dev/null 2>&1; then return; fi
    done
    return 1
}

require_compilers() {
    find_compiler ${CC:-} gcc clang cc || die "no C compiler (gcc or clang): install one, e.g. apt-get install gcc"
    if grep -rqE --include='*.pyx' 'distutils: *language *= *c\+\+' "$ROOT/samlib"; then
        find_compiler ${CXX:-} g++ clang++ c++ || die "no C++ compiler (g++ or clang++): install one, e.g. apt-get install g++"
    fi
    has_headers "$1" || die "the headers of $1 (Python.h) are missing: install them, e.g. apt-get install python3-dev"
}

require_space() {
    local free_kb
    free_kb=$(df -Pk "$ROOT" | awk 'NR == 2 { print $4 }')
    ((free_kb >= DISK_GB * 1024 * 1024)) ||
        die "no space: $ROOT has $((free_kb / 1024)) MB free, $DISK_GB GB are needed; free some and run again"
}

make_venv() {
    "$1" -c 'import venv, ensurepip' 2>/dev/null ||
        die "$1 has no venv module: install it, e.g. apt-get install python3-venv"
    run_step "making $VENV" venv "$1" -m venv --clear "$VENV"
}

pip_install() {
    local text="$1" name="$2"
    shift 2
    run_step "$text" "$name" "$PYTHON" -m pip install --disable-pip-version-check --no-input --retries 2 "$@"
}

# ask QUESTION...: answers that need Python but nothing installed.
ask() { "${PYTHON:-$SYSTEM_PYTHON}" "$ROOT/samlib/cli/before_install.py" "$@"; }

install_packages() {
    local index=()
    [[ -z "${TORCH_INDEX:-}" ]] || index=(--index-url "$TORCH_INDEX")
    rm -f "$STAMP"
    pip_install "installing build tools" pip-build $(ask requirements build)
    pip_install "installing torch" pip-torch ${index[@]+"${index[@]}"} $(ask requirements torch)
    pip_install "installing packages" pip-rest $(ask requirements rest)
}

build_package() {
    rm -f "$BUILD_STAMP"
    pip_install "building samlib" build --no-deps --no-build-isolation --editable "$ROOT"
}

choose_python() {
    local environment
    environment="$(active_environment)"
    if [[ -n "$environment" ]]; then
        PYTHON="$environment/bin/python"
        require_usable "$PYTHON"
        note "using the active environment $environment"
    else
        environment="$VENV"
        PYTHON="$VENV/bin/python"
        [[ "${CONDA_DEFAULT_ENV:-}" != base ]] || note "conda's base environment is left alone; using $VENV"
    fi
    STAMP="$environment/samlib-packages.stamp"
}

# start_environment: what can be known before anything is downloaded is checked first. A .venv without pip is one that
# an earlier call was stopped while making.
start_environment() {
    if is_recent_python "$PYTHON" && has_pip "$PYTHON"; then
        require_compilers "$PYTHON"
        require_space
    else
        require_compilers "$SYSTEM_PYTHON"
        require_space
        make_venv "$SYSTEM_PYTHON"
    fi
}

prepare_environment() {
    local wanted
    choose_python
    [[ -f "$STAMP" ]] && is_recent_python "$PYTHON" || start_environment
    wanted="$(ask stamp)"
    if [[ "$(cat "$STAMP" 2>/dev/null)" != "$wanted" ]]; then
        install_packages
        rm -f "$BUILD_STAMP"
        printf '%s\n' "$wanted" >"$STAMP"
    fi
    build_if_changed
}

build_if_changed() {
    local wanted complete=yes
    wanted="$(ask sources)" || complete=no
    if [[ $complete == no || "$(cat "$BUILD_STAMP" 2>/dev/null)" != "$wanted" ]]; then
        require_compilers "$PYTHON"
        build_package
        printf '%s\n' "$wanted" >"$BUILD_STAMP"
    fi
}

# ---- tests ----------------------------------------------------------------------------------------------------------

FAILED=()

# check NAME COMMAND...: runs it in the repository and keeps its name if it fails, so that one call shows all that is wrong.
check() {
    local name="$1" start=$SECONDS
    shift
    note "== $name"
    (cd "$ROOT" && "$@") || FAILED+=("$name")
    note "== $name: $((SECONDS - start)) s"
}

verify_stripped() {
    "$PYTHON" -m nbstripout --verify --extra-keys "metadata.papermill cell.metadata.papermill" notebooks/*.ipynb
}

# Tests on the default model and on HumanEval are skipped where these are missing; here none shall be.
fetch_model() { "$PYTHON" -P -c 'from samlib.bench import load_model; load_model("cpu")'; }
fetch_human_eval() { "$PYTHON" -P -c 'from samlib.bench.data import question_files; question_files("human_eval")'; }

run_tests() {
    check "ruff check" "$PYTHON" -m ruff check .
    check "ruff format" "$PYTHON" -m ruff format --check .
    check "notebooks are stripped" verify_stripped
    check "default model" fetch_model
    check "HumanEval" fetch_human_eval
    check "pytest" "$PYTHON" -P -m pytest -q -n 2 --dist worksteal -m "not slow"
    check "notebooks, profile smoke" "$PYTHON" -P -m samlib run --profile smoke --fresh
}

run_slow_tests() {
    check "default model" fetch_model
    check "pytest, slow" "$PYTHON" -P -m pytest -q -m slow
}

run_sanitized_tests() { check "tests under sanitizers" env PYTHON="$PYTHON" tests/sanitize.sh; }

# ---- main -----------------------------------------------------------------------------------------------------------

explain_missing_environment() {
    note "environment: not there yet; a run first makes .venv (about 2 GB, 3 to 5 minutes), then builds samlib"
    ask plan "$@"
    note "then downloads the model (profile cpu: 93 MB); once the environment is there, --dry-run says this exactly"
}

main() {
    local modes mode
    SYSTEM_PYTHON="$(find_python)"
    for mode in "$@"; do
        case "$mode" in -h | --help) ask help; return ;; esac
    done
    modes="$(ask check "$@")" || exit $?
    if [[ "$modes" == dry-run && -z "$(active_environment)" && ! -f "$VENV/samlib-packages.stamp" ]]; then
        explain_missing_environment "$@"
        return
    fi
    prepare_environment
    case "$modes" in
        run | dry-run) exec "$PYTHON" -P -m samlib run "$@" ;;
    esac
    unset SAMLIB_DATA
    for mode in $modes; do
        case "$mode" in
            test) run_tests ;;
            test-slow) run_slow_tests ;;
            test-sanitized) run_sanitized_tests ;;
        esac
    done
    ((${#FAILED[@]} == 0)) || die "failed: $(IFS=,; echo "${FAILED[*]}")"
    note "all tests passed"
}

main "$@"
