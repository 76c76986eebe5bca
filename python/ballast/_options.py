"""Converts keyword arguments to the structs of the C++ API."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeAlias

from ballast import _ballast
from ballast._processor import compute_options

PathLike: TypeAlias = str | os.PathLike[str]
Size: TypeAlias = int | str
"""Bytes, or a string like "92MB" or "1.5GiB"."""


def filled(options: Any, **values: Any) -> Any:
    """Returns the struct with these fields set, except those that are None."""
    for name, value in values.items():
        if value is not None:
            setattr(options, name, value)
    return options


def named(kind: Any, option: str, name: str) -> Any:
    """Returns the enumerator of that name. Raises ValueError listing the names."""
    if name not in kind.__members__:
        raise ValueError(f"{option}: {name!r} is unknown; there are {', '.join(kind.__members__)}")
    return kind[name]


def one_of(option: str, name: str, names: Iterable[str]) -> str:
    known = list(names)
    if name not in known:
        raise ValueError(f"{option}: {name!r} is unknown; there are {', '.join(known)}")
    return name


def byte_count(option: str, size: Size) -> int:
    """Raises ValueError for an invalid size."""
    return _ballast.parse_bytes(option, str(size))


def paths(files: PathLike | Iterable[PathLike]) -> list[Path]:
    return [Path(files)] if isinstance(files, str | os.PathLike) else [Path(file) for file in files]


def cache_options(kv: str | None, window: int | None = None, sinks: int | None = None) -> Any:
    cache = filled(_ballast.CacheOptions(), window=window, sinks=sinks)
    if kv is not None:
        cache.type = named(_ballast.CacheType, "kv", kv)
    return cache


def model_options(activations: str | None = None, expert_memory: Size | None = None,
                  chat_template: PathLike | None = None, context: int | None = None,
                  generation_config: str = "auto", engine: str | None = None, bf16: bool | None = None) -> Any:
    options = filled(_ballast.ModelOptions(), context=context, compute=compute_options(engine, bf16))
    options.generation_config = one_of("generation_config", generation_config, ("auto", "none")) == "auto"
    if activations is not None:
        options.activations = named(_ballast.Activations, "activations", activations)
    if expert_memory is not None:
        options.expert_bytes = byte_count("expert_memory", expert_memory)
    if chat_template is not None:
        options.chat_template = Path(chat_template)
    return options
