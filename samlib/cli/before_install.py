"""run_all.sh's questions, answered with the standard library alone, before anything is installed or built.

Run as a file: so it finds its neighbours without samlib itself, whose compiled parts may be missing.
    before_install.py check FLAGS...       prints "run", "dry-run", or the tests: "test", "test-slow", "test-sanitized"
    before_install.py help                 the flags explained
    before_install.py plan FLAGS...        the notebooks of a dry run
    before_install.py requirements GROUP   one requirement a line; GROUP is build, torch or rest
    before_install.py stamp                the key of an installed environment
    before_install.py sources              the key of the built package; 1 where an extension is missing
A wrong flag is one line on stderr and exit status 2.
"""

import os
import sys

import arguments
import environment
import plan


def check(flags: list[str]) -> int:
    """Prints the modes that the flags ask for."""
    options = arguments.parse(flags)
    asked = {"test": options.test, "test-slow": options.test_slow, "test-sanitized": options.test_sanitized}
    print(" ".join(mode for mode in asked if asked[mode]) or ("dry-run" if options.dry_run else "run"))
    return 0


def show_plan(flags: list[str]) -> int:
    """Prints one line a notebook."""
    options = arguments.parse(flags)
    for notebook in plan.notebooks(arguments.ROOT / "notebooks", options.only):
        print(plan.describe(notebook))
    return 0


def sources() -> int:
    """Prints the key of what the extensions are built from; 1 where one of them is missing."""
    print(environment.sources_stamp(debug=os.environ.get("SAMLIB_DEBUG_BUILD") == "1"))
    return int(bool(environment.missing_extensions()))


def main(argv: list[str]) -> int:
    """Answers one question; see the top of this file."""
    question, *rest = argv
    if question == "check":
        return check(rest)
    if question == "plan":
        return show_plan(rest)
    if question == "sources":
        return sources()
    texts = {
        "help": lambda: arguments.parser().format_help().rstrip(),
        "requirements": lambda: "\n".join(environment.group(rest[0])),
        "stamp": environment.environment_stamp,
    }
    print(texts[question]())
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except arguments.UsageError as error:
        print(f"run_all: {error}", file=sys.stderr)
        sys.exit(2)
