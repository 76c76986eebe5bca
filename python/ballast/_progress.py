"""The progress of long jobs."""

from __future__ import annotations

import contextlib
import functools
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

Progress: TypeAlias = Callable[[str, int, int], None] | bool | None
"""`progress(stage, done, total)` is called a few times a second with the steps of a job's stage, and may raise to end
the job. True shows a bar of tqdm, False nothing; None shows a bar if tqdm is installed, in a notebook or if standard
error is a terminal."""


def in_notebook() -> bool:
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and type(shell).__name__ == "ZMQInteractiveShell"


class _Bars:
    """A bar of tqdm for each stage. In a notebook the next bar replaces a complete one, because a sweep has dozens."""

    def __init__(self, tqdm: Any) -> None:
        self._tqdm = functools.partial(tqdm, leave=not in_notebook())
        self._stage: str | None = None
        self._bar: Any = None

    def __call__(self, stage: str, done: int, total: int) -> None:
        if stage != self._stage:
            self.close()
            self._stage = stage
            self._bar = self._tqdm(total=total, desc=stage)
        self._bar.total = total
        self._bar.update(done - self._bar.n)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()


def tell(line: str) -> None:
    """Shows a job's message as a warning."""
    warnings.warn(line, RuntimeWarning, stacklevel=2)


@contextlib.contextmanager
def shown(progress: Progress) -> Iterator[Callable[[str, int, int], None] | None]:
    """Yields the callback for the job."""
    if callable(progress):
        yield progress
        return
    if progress is None:
        progress = in_notebook() or (sys.stderr is not None and sys.stderr.isatty())
        if progress:
            try:
                import tqdm.auto  # noqa: F401
            except ImportError:
                progress = False
    if not progress:
        yield None
        return
    from tqdm.auto import tqdm

    bars = _Bars(tqdm)
    try:
        yield bars
    finally:
        bars.close()
