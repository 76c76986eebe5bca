"""Generated text, as a whole or as a stream."""

from __future__ import annotations

import asyncio
import atexit
import json
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np

from ballast.errors import Error

PartKind: TypeAlias = Literal["answer", "thinking", "tool_name", "tool_arguments", "broken_call"]

OnStep: TypeAlias = Callable[[str, PartKind, int], bool]
"""Receives each piece of text, its kind, and the number of its call; returns whether the generation continues."""


@dataclass(frozen=True)
class ReplyPart:
    """A piece of generated text.

    A call of a tool is its whole name (tool_name) and then pieces of its arguments (tool_arguments), which are together
    the text of a JSON object. If it turns out to be malformed or is cut off, a broken_call follows: its text is a part of
    the answer, in place of the call.
    """

    kind: PartKind
    text: str
    call: int = 0
    """Counts the calls of a reply."""


@dataclass(frozen=True)
class ToolCall:
    """A call of a tool by the model."""

    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True)
class Generation:
    """A generated text; `str()` of it is the text."""

    text: str
    """In a chat only the answer."""
    ids: np.ndarray = field(repr=False)
    """Token ids, int32 [tokens], including the one that ended the text."""
    finish: str
    """"stop", "length" or "cancelled\""""
    prompt_tokens: int
    cached_tokens: int
    """Tokens of the prompt that were in the cache since the last call."""
    draft_tokens: int
    """Checked draft tokens."""
    accepted_tokens: int
    """Accepted draft tokens."""
    prompt_seconds: float
    seconds: float
    """For the generated tokens."""
    thinking: str = ""
    """In a chat: the model's thinking, without its marks."""
    tool_calls: list[ToolCall] = field(default_factory=list)
    """In a chat with tools."""
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
        thinking=result.thinking.decode(errors="replace"),
        tool_calls=[ToolCall(name.decode(errors="replace"), json.loads(arguments.decode(errors="replace")))
                    for name, arguments in result.tool_calls],
        logprobs=None if logprobs is None else np.array([token.logprob for token in tokens]),
        top=[[(top.id, top.logprob) for top in token.top] for token in tokens] if logprobs else None,
    )


_ANSWER = ("answer", "broken_call")


class _Channel:
    """A queue from the generating thread to the reader, which uses `for` or `async for`."""

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

    def end_in_child(self) -> None:
        """Resets the queue in a forked process, which does not have the generating thread: it may have held the
        lock."""
        self._filled = threading.Condition()
        self._waiter = None
        self.put(Error("stream: the process was forked while the model wrote this text: generate it again in this "
                       "process", "stream"))

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
    """Ends running generations before the interpreter, which they call. They end at their next token, after the prompt
    is read."""
    for thread, channel in list(_running.items()):
        channel.cancelled = True
        thread.join()


def _end_in_child() -> None:
    for channel in list(_running.values()):
        channel.end_in_child()
    _running.clear()


os.register_at_fork(after_in_child=_end_in_child)


class Stream:
    """Pieces of a text while it is generated, for `for` or `async for`; a piece is a str of whole characters. In a chat
    they are the answer's; parts() also has the thinking and the calls of tools.

    A separate thread generates. Leaving a `with` block, close(), and deleting the stream end the generation at its next
    token. Errors are raised in the loop.
    """

    def __init__(self, generate: Callable[[OnStep], Generation]) -> None:
        channel = self._channel = _Channel()
        self._result: Generation | BaseException | None = None  # once it has ended

        def on_step(text: str, kind: PartKind, call: int) -> bool:
            if text:
                channel.put(ReplyPart(kind, text, call))
            return not channel.cancelled

        # The thread refers to the channel and not to the stream, so that deleting the stream ends it.
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
        """The whole generation; waits for its end, and skips pieces that were not read. Raises the exception that ended
        it."""
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
        """Ends the generation at its next token; `result` is then the text so far."""
        self._channel.cancelled = True

    def _took(self, item: Any) -> ReplyPart | None:
        """The part; None at the end."""
        if isinstance(item, ReplyPart):
            return item
        self._result = item
        if isinstance(item, BaseException):
            raise item
        return None

    def __iter__(self) -> Stream:
        return self

    def __next__(self) -> str:
        while part := self._next_part():
            if part.kind in _ANSWER:
                return part.text
        raise StopIteration

    def parts(self) -> _Parts:
        """The rest of the reply as ReplyPart, also thinking and calls, for `for` or `async for`."""
        return _Parts(self)

    def _next_part(self) -> ReplyPart | None:
        """None at the end."""
        try:
            return None if self._result is not None else self._took(self._channel.get())
        except KeyboardInterrupt:
            self.close()
            raise

    async def _next_part_async(self) -> ReplyPart | None:
        try:
            return None if self._result is not None else self._took(await self._channel.get_async())
        except asyncio.CancelledError:
            self.close()
            raise

    def __aiter__(self) -> Stream:
        return self

    async def __anext__(self) -> str:
        while part := await self._next_part_async():
            if part.kind in _ANSWER:
                return part.text
        raise StopAsyncIteration

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


class _Parts:
    """Stream.parts()."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def __iter__(self) -> _Parts:
        return self

    def __next__(self) -> ReplyPart:
        if part := self._stream._next_part():
            return part
        raise StopIteration

    def __aiter__(self) -> _Parts:
        return self

    async def __anext__(self) -> ReplyPart:
        if part := await self._stream._next_part_async():
            return part
        raise StopAsyncIteration
