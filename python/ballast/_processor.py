"""The use of the machine's processors."""

from __future__ import annotations

from ballast import _ballast


def use_processor(*, threads: int | None = None, pin: bool | None = None, target: str | None = None,
                  engine: str | None = None, bf16: bool | None = None) -> None:
    """Sets options for all models; must be called before the first one is loaded. Absent options are not changed.

    threads: number of compute threads; default OMP_NUM_THREADS, else the available physical cores.
    pin: bind each to a core; default False.
    target: the kernels' instruction set, one of simd_targets(); default the best.
    engine: the implementation of F32 products of prompts: "ballast", "onednn", or "auto" (default), the faster one.
    bf16: round floats to BF16 before they are multiplied: faster, less accurate.
    """
    _ballast.use_threads(threads, pin)
    if target is not None:
        _ballast.use_simd_target(target)
    if engine is not None:
        _ballast.use_engine(engine)
    if bf16 is not None:
        _ballast.use_bf16_products(bf16)


def simd_targets() -> list[str]:
    """The instruction sets that kernels are compiled for and this processor has, the best first."""
    return list(_ballast.simd_targets())
