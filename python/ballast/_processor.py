"""The use of the machine's processors."""

from __future__ import annotations

from typing import Any

from ballast import _ballast

_defaults: dict[str, Any] = {"engine": "auto", "bf16": False}


def use_processor(*, threads: int | None = None, pin: bool | None = None, target: str | None = None,
                  engine: str | None = None, bf16: bool | None = None) -> None:
    """Sets the process's threads and instruction set, and the defaults of `engine` and `bf16` for models that are
    loaded later. Must be called before the first one is loaded. Absent options are not changed.

    threads: number of compute threads; default OMP_NUM_THREADS, else the available physical cores.
    pin: bind each to a core; default False.
    target: the kernels' instruction set, one of simd_targets(); default the best.
    engine: the implementation of F32 products of prompts: "ballast", "onednn", or "auto" (default), the faster one.
    bf16: round floats to BF16 before they are multiplied: faster, less accurate.
    """
    _ballast.use_threads(threads, pin)
    if target is not None:
        _ballast.use_simd_target(target)
    asked = {"engine": engine, "bf16": bf16}
    defaults = {**_defaults, **{name: value for name, value in asked.items() if value is not None}}
    _ballast.compute_options(**defaults)  # raises for what this machine lacks
    _defaults.update(defaults)


def compute_options(engine: str | None = None, bf16: bool | None = None) -> Any:
    """How a model's floats are multiplied: what is None is the default that use_processor set. Raises Error for what
    this machine lacks."""
    return _ballast.compute_options(_defaults["engine"] if engine is None else engine,
                                    _defaults["bf16"] if bf16 is None else bf16)


def simd_targets() -> list[str]:
    """The instruction sets that kernels are compiled for and this processor has, the best first."""
    return list(_ballast.simd_targets())
