"""`python -m samlib run`: the notebooks of a profile, end to end."""

import sys

from samlib.cli.run import main

if __name__ == "__main__":
    if sys.argv[1:2] != ["run"]:
        print("run_all: the only command is `python -m samlib run`; add --help for its flags", file=sys.stderr)
        sys.exit(2)
    sys.exit(main(sys.argv[2:]))
