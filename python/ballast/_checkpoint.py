"""Finds or makes the files of a model."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ballast import _ballast
from ballast._hub import HubError, fetch
from ballast._options import PathLike
from ballast._progress import tell
from ballast.errors import Error


@dataclass(frozen=True)
class Files:
    path: Path
    identity: str = ""
    """Identifies the model in saved progress if its files are new; empty: the files identify it."""


def local_model(model: PathLike) -> Path:
    """The path; of a name on the Hub the place to which huggingface_hub has fetched it."""
    name = _ballast.parse_hub_name(Path(model))
    if name is None:
        return Path(model)
    try:
        place = fetch(*name)
    except ImportError:
        return Path(model)  # opening it fails with the command that fetches it
    except HubError as error:
        raise Error(f"{model}: {error}", str(model)) from None
    tell(f"{model} is from the Hub, in {place}")
    return place


def _content_digest(folder: Path) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        with path.open("rb") as file:
            name = str(path.relative_to(folder)).encode()
            digest.update(name + b"\0" + hashlib.file_digest(file, "blake2b").digest())
    return digest.hexdigest()


@contextlib.contextmanager
def files_of(model: PathLike | Any, tokenizer: Any = None) -> Iterator[Files]:
    """The path, or a temporary folder with a model of transformers and its tokenizer."""
    if isinstance(model, str | os.PathLike):
        if tokenizer is not None:
            raise TypeError("tokenizer: only for a model object; a path has its own")
        yield Files(local_model(model))
        return
    if not hasattr(model, "save_pretrained"):
        raise TypeError(f"model: a path or a model of transformers is needed, not {type(model).__name__}")
    with tempfile.TemporaryDirectory(prefix="ballast-") as folder:
        place = Path(folder) / (getattr(model.config, "model_type", None) or "model")
        model.save_pretrained(place)
        if tokenizer is not None:
            tokenizer.save_pretrained(place)
        yield Files(place, _content_digest(place))
