"""What of the machine is used."""

from __future__ import annotations

from ballast import _ballast


def use_processor(*, threads: int | None = None, pin: bool = False, target: str | None = None, engine: str = "auto",
                  bf16: bool = False) -> None:
    """For all models from now on; call it before the first one is loaded.

    threads: that compute; None: OMP_NUM_THREADS, else the physical cores available. pin: keep each on a core.
    target: instruction set to hold the kernels to, one of simd_targets(); None: the best.
    engine: who multiplies prompts in F32: "ballast", "onednn", or "auto", whoever is faster.
    bf16: round floats to BF16 before they are multiplied: faster, less exact.
    """
    _ballast.use_threads(threads, pin)
    if target is not None:
        _ballast.use_simd_target(target)
    _ballast.use_engine(engine)
    _ballast.use_bf16_products(bf16)


def simd_targets() -> list[str]:
    """The instruction sets that kernels are compiled for and this processor has, the best first."""
    return list(_ballast.simd_targets())
