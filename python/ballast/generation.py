"""What a model writes, whole or while it comes."""

from __future__ import annotations

import asyncio
import atexit
import threading
import weakref
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Generation:
    """A text that a model wrote; `str()` of it is the text."""

    text: str
    ids: np.ndarray = field(repr=False)
    """Token ids, int32 [tokens], one that ended the text included."""
    finish: str
    """"stop", "length" or "cancelled\""""
    prompt_tokens: int
    cached_tokens: int
    """Of the prompt: known from the last call, not read again."""
    draft_tokens: int
    """That were checked."""
    accepted_tokens: int
    """Of them, those that the model chose too."""
    prompt_seconds: float
    seconds: float
    """Of the generated tokens."""
    logprobs: np.ndarray | None = field(default=None, repr=False)
    """Natural logarithm of each token's probability, float64 [tokens]; with `logprobs`."""
    top: list[list[tuple[int, float]]] | None = field(default=None, repr=False)
    """For each token (id, logprob) of the most likely ones; with `logprobs` above 0."""

    def __str__(self) -> str:
        return self.text

    @property
    def tokens_per_second(self) -> float:
        return len(self.ids) / self.seconds if self.seconds > 0 else 0.0


def generation_of(result: Any, logprobs: int | None) -> Generation:
    tokens = result.tokens
    return Generation(
        text=result.text.decode(errors="replace"),
        ids=np.array([token.id for token in tokens], dtype=np.int32),
        finish=result.finish.name,
        prompt_tokens=result.prompt_tokens,
        cached_tokens=result.cached_tokens,
        draft_tokens=result.draft_tokens,
        accepted_tokens=result.accepted_tokens,
        prompt_seconds=result.prompt_seconds,
        seconds=result.seconds,
        logprobs=None if logprobs is None else np.array([token.logprob for token in tokens]),
        top=[[(top.id, top.logprob) for top in token.top] for token in tokens] if logprobs else None,
    )


class _Channel:
    """From the thread that generates to whoever reads, by `for` or by `async for`."""

    def __init__(self) -> None:
        self.cancelled = False
        self._items: deque[Any] = deque()
        self._filled = threading.Condition()
        self._waiter: tuple[asyncio.AbstractEventLoop, asyncio.Future[None]] | None = None

    def put(self, item: Any) -> None:
        with self._filled:
            self._items.append(item)
            self._filled.notify()
            waiter, self._waiter = self._waiter, None
        if waiter is not None:
            loop, future = waiter
            if not loop.is_closed():
                loop.call_soon_threadsafe(_wake, future)

    def get(self) -> Any:
        with self._filled:
            while not self._items:
                self._filled.wait()
            return self._items.popleft()

    async def get_async(self) -> Any:
        while True:
            with self._filled:
                if self._items:
                    return self._items.popleft()
                loop = asyncio.get_running_loop()
                future = loop.create_future()
                self._waiter = (loop, future)
            await future


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


_running: weakref.WeakKeyDictionary[threading.Thread, _Channel] = weakref.WeakKeyDictionary()


@atexit.register
def _end_all() -> None:
    """A generation that still runs must not outlive the interpreter, which it calls. It ends at its next token, after a
    prompt that it reads."""
    for thread, channel in list(_running.items()):
        channel.cancelled = True
        thread.join()


class Stream:
    """Pieces of a text while a model writes it, for `for` or `async for`; a piece is a str of whole characters.

    A thread of its own generates. Leaving a `with` block, close(), and forgetting the stream end the generation at its
    next token. Errors come out of the loop.
    """

    def __init__(self, generate: Callable[[Callable[[str], bool]], Generation]) -> None:
        channel = self._channel = _Channel()
        self._result: Generation | BaseException | None = None  # once it has ended

        def on_step(text: str) -> bool:
            if text:
                channel.put(text)
            return not channel.cancelled

        # It knows the channel and not the stream, so that a stream that nobody reads any more ends it.
        def run() -> None:
            try:
                channel.put(generate(on_step))
            except BaseException as error:
                channel.put(error)

        thread = threading.Thread(target=run, name="ballast-generation", daemon=True)
        _running[thread] = channel
        thread.start()

    @property
    def result(self) -> Generation:
        """The whole generation; waits for its end, and passes over pieces that were not read. Raises what ended it."""
        try:
            while self._result is None:
                self._took(self._channel.get())
        except KeyboardInterrupt:
            self.close()
            raise
        if isinstance(self._result, BaseException):
            raise self._result
        return self._result

    def close(self) -> None:
        """Ends the generation at its next token; `result` is then what there is."""
        self._channel.cancelled = True

    def _took(self, item: Any) -> str | None:
        """The piece; None at the end."""
        if isinstance(item, str):
            return item
        self._result = item
        if isinstance(item, BaseException):
            raise item
        return None

    def __iter__(self) -> Stream:
        return self

    def __next__(self) -> str:
        piece = None
        try:
            if self._result is None:
                piece = self._took(self._channel.get())
        except KeyboardInterrupt:
            self.close()
            raise
        if piece is None:
            raise StopIteration
        return piece

    def __aiter__(self) -> Stream:
        return self

    async def __anext__(self) -> str:
        piece = None
        try:
            if self._result is None:
                piece = self._took(await self._channel.get_async())
        except asyncio.CancelledError:
            self.close()
            raise
        if piece is None:
            raise StopAsyncIteration
        return piece

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Stream:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        channel = getattr(self, "_channel", None)
        if channel is not None:
            channel.cancelled = True
