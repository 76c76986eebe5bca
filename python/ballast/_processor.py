"""What of the machine is used."""

from __future__ import annotations

from ballast import _ballast


def use_processor(*, threads: int | None = None, pin: bool | None = None, target: str | None = None,
                  engine: str | None = None, bf16: bool | None = None) -> None:
    """For all models from now on; call it before the first one is loaded. What is not said stays as it is.

    threads: that compute; at first OMP_NUM_THREADS, else the physical cores available.
    pin: keep each on a core; at first not.
    target: instruction set to hold the kernels to, one of simd_targets(); at first the best.
    engine: who multiplies prompts in F32: "ballast", "onednn", or, as at first, "auto", whoever is faster.
    bf16: round floats to BF16 before they are multiplied: faster, less exact.
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
