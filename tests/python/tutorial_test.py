"""docs/tutorial.ipynb runs: its code on a tiny model, and as a notebook on the model that it is about.

The latter needs nbclient and ipykernel and takes minutes, so the weights have to be named:
BALLAST_TUTORIAL_MODEL=build/demo/SmolLM2-135M-Instruct.Q4_1.gguf, which scripts/demo.sh fetches.
"""

import json
import os
import pathlib
import subprocess
import sys
import unittest

from support import WithModel, require

NOTEBOOK = pathlib.Path(__file__).resolve().parents[2] / "docs" / "tutorial.ipynb"


def with_parameters(notebook, **values):
    """Sets parameters in the cell that is tagged for them."""
    (cell,) = [cell for cell in notebook["cells"] if "parameters" in cell["metadata"].get("tags", ())]
    given = "".join(f"\n{name} = {value!r}" for name, value in values.items())
    cell["source"] = "".join(cell["source"]) + given


class Tutorial(WithModel):
    def setUp(self):
        super().setUp()
        self.notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))

    def test_the_code_runs_on_a_tiny_model(self):
        require("matplotlib")
        require("pandas")
        with_parameters(self.notebook, MODEL=str(self.model), FOLDER=str(self.place), SAMPLES=2, LENGTH=32, CHUNKS=2,
                        CONTEXT=32, SIZES=["40kB", "44kB"])
        cells = ["".join(cell["source"]) for cell in self.notebook["cells"] if cell["cell_type"] == "code"]
        run = subprocess.run([sys.executable, "-"], input="\n".join(cells), capture_output=True, text=True,
                             env=os.environ | {"MPLBACKEND": "agg"})
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("llama: 2 layers of 32 channels", run.stdout)
        self.assertTrue((self.place / "sweep" / "index.html").exists())
        self.assertTrue((self.place / "w4a16" / "config.json").exists())

    def test_stored_outputs_are_small(self):
        self.assertLess(NOTEBOOK.stat().st_size, 250_000)
        for cell in self.notebook["cells"]:
            for output in cell.get("outputs", ()):
                self.assertNotEqual(output["output_type"], "error")

    def test_the_notebook_runs_with_its_model(self):
        weights = os.environ.get("BALLAST_TUTORIAL_MODEL", "")
        if not pathlib.Path(weights).is_file():
            self.skipTest("BALLAST_TUTORIAL_MODEL names no file with the weights")
        for module in ("matplotlib", "pandas", "ipykernel"):
            require(module)
        nbclient, nbformat = require("nbclient"), require("nbformat")
        with_parameters(self.notebook, MODEL=str(pathlib.Path(weights).resolve()), FOLDER=str(self.place))
        notebook = nbformat.reads(json.dumps(self.notebook), as_version=4)
        nbclient.NotebookClient(notebook, timeout=None, startup_timeout=600,
                                resources={"metadata": {"path": str(self.place)}}).execute()
        outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
        kinds = [kind for output in outputs for kind in output.get("data", ())]
        self.assertEqual(kinds.count("image/png"), 2)
        pages = [output for output in outputs if "<iframe" in str(output.get("data", {}).get("text/html", ""))]
        self.assertEqual(len(pages), 1)
        printed = "".join(output.get("text", "") for output in outputs)
        self.assertRegex(printed, r"[1-9]\d* layers with massive values")


if __name__ == "__main__":
    unittest.main()
