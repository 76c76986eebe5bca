"""Shared by the tests of the package: models of tests/data/models with a tokenizer, texts, and the program."""

from __future__ import annotations

import importlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import types
import unittest

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "tools"), str(TESTS / "inputs")]

from golden import fixtures  # noqa: E402

MODELS = fixtures.MODELS
PROGRAM = os.environ.get("BALLAST_PROGRAM")


def program_json(*arguments: object) -> dict:
    """Returns the program's output with --json."""
    if PROGRAM is None:
        raise unittest.SkipTest("BALLAST_PROGRAM is not set")
    command = [PROGRAM, *map(str, arguments), "--json"]
    if arguments[0] not in ("inspect", "verify"):
        command.append("-q")
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)


def require(module: str) -> types.ModuleType:
    """Returns the module; skips the test if it is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise unittest.SkipTest(f"{module} is not installed") from None


class WithModel(unittest.TestCase):
    """A test with a folder that has the model llama3, expected logits, and two texts."""

    @classmethod
    def setUpClass(cls) -> None:
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.model = cls.folder / "llama3"
        fixtures.copy_model("llama3", cls.model)
        cls.expected = cls.folder / "llama3.expected.safetensors"
        cls.text = cls.folder / "text.txt"
        cls.text.write_text(fixtures.text(400, 1))
        cls.calibration = cls.folder / "calibration.txt"
        cls.calibration.write_text(fixtures.text(600, 2))
        cls.questions = cls.folder / "questions.jsonl"
        cls.questions.write_text("".join(
            json.dumps({"question": f"what is {word}", "choices": ["the one", "another"], "answer": i % 2}) + "\n"
            for i, word in enumerate(["rain", "tin", "hat"])))

    def setUp(self) -> None:
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.place = pathlib.Path(place.name)


def file_bytes(folder: pathlib.Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
