#!/usr/bin/env python3
"""Checks names of models on the Hub, with a huggingface_hub of its own that has one model and one GGUF.

    hub_test.py PROGRAM MODEL GGUF

MODEL is a directory, GGUF a file.
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

PROGRAM, MODEL, GGUF = (pathlib.Path(word).resolve() for word in sys.argv[1:4])

LIBRARY = """
import os, pathlib
from . import errors
class constants:
    HF_HUB_OFFLINE = "HF_HUB_OFFLINE" in os.environ
def snapshot_download(repository, *, revision=None, allow_patterns, ignore_patterns):
    pathlib.Path(os.environ["CALLS"]).write_text(repr((repository, revision, allow_patterns)))
    print("some text of the library")
    if constants.HF_HUB_OFFLINE: raise errors.LocalEntryNotFoundError("a text\\nof many lines")
    if repository == "owner/gated": raise errors.GatedRepoError("")
    if repository == "owner/broken": raise errors.HfHubHTTPError("500\\n  Server Error")
    if revision not in (None, "main"): raise errors.RevisionNotFoundError("")
    if repository == "owner/model": return os.environ["MODEL"]
    if repository == "owner/model-GGUF": return str(pathlib.Path(os.environ["GGUF"]).parent)
    raise errors.RepositoryNotFoundError("")
"""
ERRORS = """
class HfHubHTTPError(Exception): pass
class RepositoryNotFoundError(HfHubHTTPError): pass
class GatedRepoError(RepositoryNotFoundError): pass
class RevisionNotFoundError(HfHubHTTPError): pass
class LocalEntryNotFoundError(FileNotFoundError): pass
"""


class HubTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        library = self.folder / "place" / "huggingface_hub"
        library.mkdir(parents=True)
        (library / "__init__.py").write_text(LIBRARY)
        (library / "errors.py").write_text(ERRORS)
        self.calls = self.folder / "calls"
        self.environment = os.environ | {"PYTHONPATH": str(library.parent), "CALLS": str(self.calls),
                                         "MODEL": str(MODEL), "GGUF": str(GGUF)}

    def ballast(self, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([PROGRAM, *words], cwd=self.folder, env=self.environment | environment, text=True,
                              capture_output=True, timeout=300)

    def fails(self, model: str, message: str, **environment: str) -> None:
        result = self.ballast("inspect", model, **environment)
        self.assertEqual((result.returncode, result.stderr), (1, f"ballast: {model}: {message}\n"))

    def test_a_model_is_fetched_and_a_line_says_so(self) -> None:
        result = self.ballast("inspect", "owner/model", "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stderr, f"owner/model is from the Hub, in {MODEL}\n")
        self.assertEqual(result.stdout, self.ballast("inspect", str(MODEL), "--json").stdout)

    def test_a_gguf_is_fetched_alone(self) -> None:
        result = self.ballast("inspect", f"owner/model-GGUF/{GGUF.name}@main")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.calls.read_text(), repr(("owner/model-GGUF", "main", [GGUF.name])))

    def test_all_parts_of_a_gguf_are_fetched(self) -> None:
        self.fails("owner/model-GGUF/q8/a-00001-of-00003.gguf", "is no file of this repository on the Hub")
        self.assertEqual(self.calls.read_text(), repr(("owner/model-GGUF", None, ["q8/a-*-of-00003.gguf"])))

    def test_other_models_of_a_command_are_fetched(self) -> None:
        text = self.folder / "text"
        text.write_text("The ship took on water in the night. " * 20)
        result = self.ballast("eval", "owner/model", "--reference", "owner/model", "--text", str(text))
        self.assertEqual(result.stderr.count("is from the Hub"), 2)  # and MODEL has no tokenizer

    def test_what_the_hub_refuses_is_one_line(self) -> None:
        self.fails("owner/none", "is no model on the Hub, or a private one: then run 'hf auth login'")
        self.fails("owner/gated", "is gated: accept its terms on its page on the Hub, then run 'hf auth login'")
        self.fails("owner/model@v2", "has no revision v2 on the Hub")
        self.fails("owner/broken", "cannot be fetched from the Hub: 500 Server Error")

    def test_offline_it_says_so(self) -> None:
        self.fails("owner/model", "is not in the Hub's cache, and HF_HUB_OFFLINE is set", HF_HUB_OFFLINE="1")

    def test_without_the_library_the_error_names_the_command(self) -> None:
        message = ("does not exist; a model of this name on the Hub is fetched if Python has huggingface_hub, or by 'hf "
                   "download owner/model'")
        self.fails("owner/model", message, PYTHONPATH="", PYTHONNOUSERSITE="1", BALLAST_PYTHON="/none/python3")
        (self.folder / "place" / "huggingface_hub" / "__init__.py").write_text("raise ImportError")
        self.fails("owner/model", message)

    def test_a_module_in_the_current_folder_is_not_run(self) -> None:
        (self.folder / "place" / "huggingface_hub").rename(self.folder / "huggingface_hub")
        self.ballast("inspect", "owner/model", PYTHONNOUSERSITE="1")
        self.assertFalse(self.calls.exists())

    def test_paths_are_not_looked_up(self) -> None:
        (self.folder / "owner").mkdir()
        self.assertIn("owner/model: does not exist; a model is", self.ballast("inspect", "owner/model").stderr)
        self.assertFalse(self.calls.exists())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
