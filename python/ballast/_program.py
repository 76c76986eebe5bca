"""The program `ballast`, which is part of the package."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def main() -> None:
    os.environ["BALLAST_PYTHON"] = sys.executable  # has huggingface_hub, if it was installed with this package
    program = Path(__file__).parent / "bin" / "ballast"
    os.execv(program, ["ballast", *sys.argv[1:]])


if __name__ == "__main__":
    main()
