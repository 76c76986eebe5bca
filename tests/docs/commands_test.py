#!/usr/bin/env python3
"""Every `ballast` command of the README and of docs/ has existing options and the documented effect.

    commands_test.py PROGRAM        with an emulator: EMULATOR [OPTION]... PROGRAM
    commands_test.py --mpirun MPIRUN PROGRAM    the guides' jobs under mpirun run there; else as one process

The commands of a page run one after the other, each page in a folder of its own, on small models under the names that the
page uses: SmolLM2-135M has the shapes of its matrices, by which formats fit or do not.
"""

import argparse
import os
import pathlib
import re
import sys
import tempfile

sys.dont_write_bytecode = True
TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path += [str(TESTS / "tools"), str(TESTS / "docs")]

import page_runs
from golden.suite import Suite
from written_commands import Command, commands_in, spans_in

ROOT = TESTS.parent
GUIDES = sorted((ROOT / "docs" / "guides").glob("*.md"))
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *GUIDES]


def check_parses(suite: Suite, page: pathlib.Path, command: Command) -> None:
    """Without the files that it names, a command fails, but not because of wrong usage."""
    run = suite.run(*command.words)
    suite.check(f"{page.relative_to(ROOT)}:{command.line}: '{command.text}' is no wrong usage", run.code in (0, 1), run)


def check_options(suite: Suite, helps: dict[str, str], page: pathlib.Path, line: int, span: str) -> None:
    """Checks the options of a command within a sentence, such as `ballast eval --choices`, which may be incomplete."""
    words = span.split()
    name = next((word for word in words[1:] if word in helps), "")
    for option in re.findall(r"(?<![\w-])--?[a-z][\w-]*", span):
        suite.check(f"{page.relative_to(ROOT)}:{line}: '{span}' names an option of 'ballast {name}'",
                    re.search(rf"(?<![\w-]){re.escape(option)}(?![\w-])", helps[name]), helps[name])


def helps_of(suite: Suite) -> dict[str, str]:
    text = suite.succeeds("--help").out
    section = re.search(r"^Subcommands:\n((?:  .*\n)+)", text, re.M).group(1)
    return {"": text} | {name: suite.succeeds(name, "--help").out for name in re.findall(r"^  (\w+)", section, re.M)}


def check_pages(suite: Suite) -> None:
    helps = helps_of(suite)
    for page in PAGES:
        text = page.read_text()
        for command in commands_in(text):
            if command.program == "ballast":
                check_parses(suite, page, command)
        for line, span in spans_in(text):
            check_options(suite, helps, page, line, span)


def check_runs(suite: Suite, mpirun: str) -> None:
    for page in PAGES:
        commands = [command for command in commands_in(page.read_text()) if page_runs.is_run(page, command)]
        suite.check(f"{page.relative_to(ROOT)} has commands", commands or page not in GUIDES)
        if page.name == "README.md":
            suite.check("the README's commands are run", len(commands) > 12, commands)
        if not commands:
            continue
        with tempfile.TemporaryDirectory() as folder:
            page_runs.run_page(suite, page.relative_to(ROOT), commands, pathlib.Path(folder), mpirun)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mpirun", default="")
    parser.add_argument("program", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()
    program = [str(pathlib.Path(word).resolve()) if pathlib.Path(word).exists() else word for word in arguments.program]
    # With tiny models, threads mostly wait for each other: active waiting takes minutes on a busy machine, sleeping
    # seconds.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    with tempfile.TemporaryDirectory() as empty:
        suite = Suite(program, pathlib.Path(empty), False)
        suite.group(check_pages)
        suite.group(lambda suite: check_runs(suite, arguments.mpirun))
    print(f"{suite.passed} passed, {suite.failed} failed")
    return 1 if suite.failed or not suite.passed else 0


if __name__ == "__main__":
    sys.exit(main())
