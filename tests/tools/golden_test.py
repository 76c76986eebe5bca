#!/usr/bin/env python3
"""Golden runs of every subcommand of ballast on the tiny checkpoints of tests/data/models.

    golden_test.py PROGRAM                       checks; with an emulator: EMULATOR [OPTION]... PROGRAM
    golden_test.py --renew PROGRAM               writes to golden/ what it does now; on x86-64; read it, then keep it
    golden_test.py --manifest PROGRAM OUT.json   writes hashes of all that conversions, exports and calibrations write
    golden_test.py --compare A.json B.json       compares two manifests: of two builds, on one machine
"""

import argparse
import os
import pathlib
import signal
import sys
import tempfile

sys.dont_write_bytecode = True

from golden import (calibrate_checks, convert_checks, eval_checks, failure_checks, fixtures, interrupt_checks, manifest,
                    model_checks, run_checks, sweep_checks, terminal_checks, usage_checks)
from golden.suite import Suite

CHECKS = (usage_checks, model_checks, calibrate_checks, convert_checks, eval_checks, sweep_checks, run_checks,
          failure_checks, interrupt_checks, terminal_checks)
# They run the code of other checks again.
LONG_GROUPS = (*sweep_checks.GROUPS, *terminal_checks.GROUPS, *interrupt_checks.LONG_GROUPS)


def run_checks_of(program: list[str], work: pathlib.Path, only: str, renew: bool, brief: bool) -> int:
    suite = Suite(program, work, renew)
    fixtures.write_inputs(work)
    for module in CHECKS:
        for group in module.GROUPS if only in module.__name__ else ():
            if not (brief and group in LONG_GROUPS):
                suite.group(group)
    print(f"{suite.passed} passed, {suite.failed} failed")
    return 1 if suite.failed or not suite.passed else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--renew", action="store_true", help="write the golden files again")
    parser.add_argument("--only", default="",
                        help="only modules of checks, or models of a manifest, whose name contains this")
    parser.add_argument("--brief", action="store_true",
                        help="with sanitizers or an emulator: without sweeps, terminals, and jobs that go on")
    parser.add_argument("--manifest", action="store_true", help="write a manifest of converted tensors")
    parser.add_argument("--compare", action="store_true", help="compare two manifests")
    parser.add_argument("words", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()
    if arguments.compare:
        return manifest.compare(*map(pathlib.Path, arguments.words))

    # With tiny models, threads mostly wait for each other: active waiting takes minutes on a busy machine, sleeping
    # seconds.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    # A shell that starts this in the background may make it ignore interrupts, and child processes would, too.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with tempfile.TemporaryDirectory() as work:
        if arguments.manifest:
            *program, out = arguments.words
            return manifest.write(absolute(program), pathlib.Path(out), pathlib.Path(work), arguments.only)
        return run_checks_of(absolute(arguments.words), pathlib.Path(work), arguments.only, arguments.renew,
                             arguments.brief)


def absolute(program: list[str]) -> list[str]:
    """Returns an absolute path, because runs happen in another directory."""
    return [os.path.abspath(word) if os.path.exists(word) else word for word in program]


if __name__ == "__main__":
    sys.exit(main())
