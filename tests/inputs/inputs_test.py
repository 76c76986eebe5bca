#!/usr/bin/env python3
"""Files, requests and loads that once broke ballast or another program, each reproduced as a small input.

    inputs_test.py KIND PROGRAM          runs all inputs of tests/inputs/KIND_inputs.py; EMULATOR [OPTION]... PROGRAM also works
    inputs_test.py KIND --only NAME PROGRAM    the inputs whose name contains NAME

For each input one line shows whether the program handled it, and the lines below it are the program's output. An input
that fails does not stop the others, so an older program can be run on the same inputs to compare.
"""

import argparse
import importlib
import os
import pathlib
import sys
import tempfile

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path += [str(HERE), str(HERE.parent / "tools"), str(HERE.parent / "serve")]

import reported

KINDS = sorted(path.name.removesuffix("_inputs.py") for path in HERE.glob("*_inputs.py"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="NAME", help="only inputs whose name contains NAME")
    parser.add_argument("kind", choices=KINDS, metavar="KIND", help=", ".join(KINDS))
    parser.add_argument("program", nargs="+", metavar="WORD", help="the program's command")
    arguments = parser.parse_args()
    # With tiny models, threads mostly wait for each other: active waiting takes minutes on a busy machine, sleeping
    # seconds.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    program = [os.path.abspath(word) if os.path.exists(word) else word for word in arguments.program]
    importlib.import_module(f"{arguments.kind}_inputs")
    with tempfile.TemporaryDirectory() as work:
        return reported.run_all(program, pathlib.Path(work), arguments.only)


if __name__ == "__main__":
    sys.exit(main())
