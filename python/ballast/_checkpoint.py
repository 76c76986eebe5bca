"""Models that lie in memory, as files that ballast reads."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ballast._options import PathLike


@contextlib.contextmanager
def files_of(model: PathLike | Any, tokenizer: Any = None) -> Iterator[Path]:
    """The path, or, for a model of transformers, a folder that it and its tokenizer are saved to meanwhile."""
    if isinstance(model, str | os.PathLike):
        if tokenizer is not None:
            raise TypeError("tokenizer: only beside a model object; a path has its own")
        yield Path(model)
        return
    if not hasattr(model, "save_pretrained"):
        raise TypeError(f"model: a path or a model of transformers is needed, not {type(model).__name__}")
    with tempfile.TemporaryDirectory(prefix="ballast-") as folder:
        place = Path(folder) / (getattr(model.config, "model_type", None) or "model")
        model.save_pretrained(place)
        if tokenizer is not None:
            tokenizer.save_pretrained(place)
        yield place
