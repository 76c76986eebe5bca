"""What the tests of `ballast serve` from outside share: their list of checks, their model, and their command line."""

import argparse
import json
import os
import pathlib
import tempfile
from collections.abc import Callable

from golden import fixtures


class Checks:
    """The checks of a script, in the order in which they are registered."""

    def __init__(self):
        self.functions = []

    def __call__(self, function):
        """Registers a check; a decorator."""
        self.functions.append(function)
        return function

    def run(self, suite, only: str) -> None:
        """Runs the checks in whose name `only` is found."""
        for function in self.functions:
            if only in function.__name__:
                suite.group(function)


def copy_with_context(model: pathlib.Path, folder: pathlib.Path, context: int) -> pathlib.Path:
    """Copies a model of tests/data/models, with a tokenizer and a longer context."""
    fixtures.copy_model(model.name, folder)
    config = json.loads((folder / "config.json").read_text())
    config["max_position_embeddings"] = context
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def outcome(suite) -> int:
    """Prints how many checks passed, and returns the exit code."""
    print(f"{suite.passed} passed, {suite.failed} failed")
    return 1 if suite.failed or not suite.passed else 0


def main(description: str, run: Callable[..., int], takes_model: bool = True) -> int:
    """Calls run(program, model, work, only), or run(program, work, only) for a script that takes no model."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="only checks whose name contains this")
    parser.add_argument("words", nargs="+", metavar="WORD",
                        help="the program's command" + (", then MODEL" if takes_model else ""))
    arguments = parser.parse_args()
    program = arguments.words[:-1] if takes_model else arguments.words
    if not program:
        parser.error("PROGRAM and MODEL are needed")
    program = [os.path.abspath(word) if os.path.exists(word) else word for word in program]
    models = [pathlib.Path(arguments.words[-1]).resolve()] if takes_model else []
    # With tiny models, threads mostly wait for each other: active waiting takes minutes on a busy machine, sleeping
    # seconds.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    with tempfile.TemporaryDirectory() as work:
        return run(program, *models, pathlib.Path(work).resolve(), arguments.only)
