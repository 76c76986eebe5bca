#!/usr/bin/env python3
"""Sends load to a server with OpenAI's streaming completions API, and prints its performance.

    pip install aiohttp
    load_server.py --url http://127.0.0.1:8080 --rate 2 --requests 200          random arrivals (Poisson)
    load_server.py --url http://127.0.0.1:8080 --concurrency 8 --duration 60    8 users who wait for their answers
    load_server.py ... --prompt-tokens 64-512 --output-tokens exp:128 --shared-prefix 256 --goodput ttft:2000 itl:200
    load_server.py ... --disconnect 0.1 --hostile 0.1 --verify                  disconnecting and hostile clients

Prompts are words chosen by a seed, or pieces of --text. The server is asked first how many tokens a word has. Lengths
are N, A-B (uniform), exp:MEAN or lognormal:MEDIAN:SIGMA.

TTFT: from sending to the first text; ITL: between two events with text; TPOT: (E2EL - TTFT) / (tokens - 1); E2EL: to
the end. A request is good if all its times are within --goodput, in ms; the longest ITL counts. Answers with status 429
and 503 count as refused. Hostile requests fail if the status is 5xx or there is no answer. With --verify each request
is sent again, alone (those of --distinct once, in advance), and the answer must be the same text. Exit code 1 if
something failed.
"""

import argparse
import asyncio
import collections
import dataclasses
import json
import pathlib
import random
import socket
import statistics
import struct
import sys
import time
import urllib.parse

try:
    import aiohttp
except ImportError:
    sys.exit("load_server: aiohttp is missing; pip install aiohttp")

WORDS = ("time year people way day man thing woman life child world school state family student group country "
         "problem hand part place case week company system program question work government number night point home "
         "water room mother area money story fact month lot right study book eye job word business issue side kind "
         "head house service friend father power hour game line end member law car city community name president "
         "team minute idea kid body information back parent face others level office door health person art war "
         "history party result change morning reason research girl guy moment air teacher force education").split()
HOSTILE_PATIENCE = 60  # seconds
FIGURES = {"ttft": "TTFT", "tpot": "TPOT", "itl": "ITL", "e2el": "E2EL"}


@dataclasses.dataclass
class Request:
    prompt: str
    tokens: int
    seed: int
    salt: str = ""
    leaves_after: int | None = None  # events


@dataclasses.dataclass
class Record:
    """The outcome of a request. Times are in seconds since it was sent."""

    request: Request
    outcome: str = "failed"  # or "done", "refused", "left"
    reason: str = ""
    text: str = ""
    events: list[float] = dataclasses.field(default_factory=list)  # those with text
    seconds: float = 0
    usage: dict = dataclasses.field(default_factory=dict)

    def output_tokens(self) -> int:
        return self.usage.get("completion_tokens", len(self.events))

    def figures(self) -> dict[str, list[float]]:
        """Returns the times in ms."""
        if not self.events:
            return {"e2el": [1e3 * self.seconds]}
        gaps = [1e3 * (b - a) for a, b in zip(self.events, self.events[1:])]
        rest = 1e3 * (self.seconds - self.events[0])
        return {"ttft": [1e3 * self.events[0]], "itl": gaps, "e2el": [1e3 * self.seconds],
                "tpot": [rest / (self.output_tokens() - 1)] if self.output_tokens() > 1 else []}


# ---------------------------------------------------------------------------------------------------------------------
# Requests


def length(text: str):
    """Returns a function that draws lengths from a random source."""
    kind, _, rest = text.partition(":")
    try:
        if kind == "exp":
            mean = float(rest)
            return lambda source: max(1, round(source.expovariate(1 / mean)))
        if kind == "lognormal":
            median, sigma = map(float, rest.split(":"))
            return lambda source: max(1, round(median * source.lognormvariate(0, sigma)))
        low, _, high = text.partition("-")
        first, last = int(low), int(high or low)
        if not 1 <= first <= last:
            raise ValueError
    except (ValueError, ZeroDivisionError):
        raise argparse.ArgumentTypeError(f"{text}: not N, A-B, exp:MEAN or lognormal:MEDIAN:SIGMA") from None
    return lambda source: source.randint(first, last)


def goodput(text: str) -> tuple[str, float]:
    name, _, limit = text.partition(":")
    if name not in FIGURES:
        raise argparse.ArgumentTypeError(f"{text}: not one of {', '.join(FIGURES)}, a colon and milliseconds")
    return name, float(limit)


class Prompts:
    """Requests, the same for the same seed."""

    def __init__(self, arguments: argparse.Namespace):
        self.arguments = arguments
        self.source = random.Random(arguments.seed)
        self.words = arguments.text.read_text(encoding="utf-8").split() if arguments.text else []
        self.words_per_token = 1.0
        self.shared = ""
        self.count = 0
        self.known = []  # of --distinct

    def piece(self, words: int) -> str:
        if not self.words:
            return " ".join(self.source.choices(WORDS, k=words))
        start = self.source.randrange(max(1, len(self.words) - words))
        return " ".join(self.words[start:start + words])

    def learn(self, words: int, tokens: int) -> None:
        self.words_per_token = words / tokens
        if self.arguments.shared_prefix:
            self.shared = self.piece(max(1, round(self.arguments.shared_prefix * self.words_per_token))) + "\n"

    def make(self, seed: int) -> Request:
        words = max(1, round(self.arguments.prompt_tokens(self.source) * self.words_per_token))
        return Request(self.shared + self.piece(words), self.arguments.output_tokens(self.source), seed)

    def make_known(self) -> list[Request]:
        self.known = [self.make(seed) for seed in range(1, self.arguments.distinct + 1)]
        return self.known

    def next(self) -> Request:
        self.count += 1
        request = self.source.choice(self.known) if self.known else self.make(self.count)
        leaves = self.source.random() < self.arguments.disconnect
        return dataclasses.replace(
            request, salt=str(self.count) if self.arguments.salt else "",
            leaves_after=self.source.randint(0, max(1, request.tokens // 2)) if leaves else None)


# ---------------------------------------------------------------------------------------------------------------------
# Sending


class Server:
    def __init__(self, arguments: argparse.Namespace, session: aiohttp.ClientSession):
        self.url = arguments.url.rstrip("/")
        self.session = session
        self.temperature = arguments.temperature
        self.model = arguments.model

    async def find_model(self) -> None:
        if not self.model:
            async with self.session.get(self.url + "/v1/models") as response:
                self.model = (await response.json())["data"][0]["id"]

    def body(self, request: Request) -> dict:
        body = {"model": self.model, "prompt": request.prompt, "max_tokens": request.tokens, "seed": request.seed,
                "temperature": self.temperature, "ignore_eos": True}
        return body | ({"cache_salt": request.salt} if request.salt else {})

    async def ask_alone(self, request: Request) -> dict:
        """Sends a request without streaming."""
        async with self.session.post(self.url + "/v1/completions", json=self.body(request)) as response:
            if response.status != 200:
                raise RuntimeError(f"{response.status} {(await response.text())[:200]}")
            return await response.json()

    async def text_alone(self, request: Request) -> str:
        return (await self.ask_alone(request))["choices"][0]["text"]

    async def ask(self, request: Request) -> Record:
        record = Record(request)
        begin = time.perf_counter()
        try:
            body = self.body(request) | {"stream": True, "stream_options": {"include_usage": True}}
            async with self.session.post(self.url + "/v1/completions", json=body) as response:
                if response.status == 200:
                    await self.follow(response, record, begin)
                else:
                    record.outcome = "refused" if response.status in (429, 503) else "failed"
                    record.reason = f"{response.status} {(await response.text())[:200]}"
        except (aiohttp.ClientError, asyncio.TimeoutError, ValueError, LookupError, OSError) as error:
            record.reason = f"{type(error).__name__}: {error}"
        record.seconds = time.perf_counter() - begin
        return record

    async def follow(self, response: aiohttp.ClientResponse, record: Record, begin: float) -> None:
        finished = False
        if record.request.leaves_after == 0:
            record.outcome = "left"
            return response.close()
        async for line in response.content:
            if not line.startswith(b"data:"):
                continue
            if line[5:].strip() == b"[DONE]":
                record.outcome = "done" if finished else "failed"
                record.reason = "" if finished else "[DONE] before a finish_reason"
                return None
            chunk = json.loads(line[5:])
            if "error" in chunk:
                raise ValueError(f"in the stream: {chunk['error']}")
            record.usage = chunk.get("usage") or record.usage
            for choice in chunk["choices"]:
                finished = finished or choice.get("finish_reason") is not None
                if choice["text"]:
                    record.text += choice["text"]
                    record.events.append(time.perf_counter() - begin)
            if record.request.leaves_after and len(record.events) >= record.request.leaves_after:
                record.outcome = "left"
                return response.close()
        record.reason = "the stream ended without [DONE]"
        return None


# ---------------------------------------------------------------------------------------------------------------------
# Hostile requests: their bytes, and how they are sent

WRONG_VALUES = (None, True, "x", "", -1, 0, 1.5, 2**31, 2**63, 2**64, -2**63, 10**30, 1e308, [], {}, [[]], [None],
                {"a": 1}, "\u0000", "\ud83d" * 50)
FIELDS = ("max_tokens", "n", "logprobs", "temperature", "top_p", "top_k", "seed", "stop", "logit_bias", "best_of",
          "stop_token_ids", "min_tokens", "repetition_penalty", "prompt")
BODIES = {
    "nothing": b"", "cut short": b'{"prompt": "a", "max_tok', "no object": b'["prompt"]', "a string": b'"prompt"',
    "depth 100": b'{"prompt":' + b"[" * 100 + b"]" * 100 + b"}", "depth 1,000,000": b"[" * 1_000_000,
    "objects in objects": b'{"a":' * 200_000, "invalid UTF-8": b'{"prompt": "\xff\xfe\xfa"}',
    "overlong UTF-8": b'{"prompt": "\xc0\x80"}', "half a pair": b'{"prompt": "\\udfff"}', "NULs": bytes(1000),
    "NaN": b'{"prompt": "a", "temperature": NaN}', "Infinity": b'{"prompt": "a", "top_p": -Infinity}',
    "1e9999": b'{"prompt": "a", "temperature": 1e9999}',
    "10,000 digits": b'{"prompt": "a", "seed": ' + b"9" * 10_000 + b"}",
    "a field twice": b'{"prompt": "a", "prompt": [1], "max_tokens": 1, "max_tokens": -1}',
    "100,000 fields": b'{"prompt": 5, ' + b", ".join(b'"f%d": 1' % i for i in range(100_000)) + b"}",
    "a huge key": b'{"' + b"k" * 1_000_000 + b'": 1}', "9 MB": b" " * 9_000_000,
    "text after it": b'{"prompt": "a"}}}}}',
    "100,000 prompts and a number": b'{"prompt": [' + b'"a", ' * 100_000 + b"5]}",
    "a million ids": b'{"max_tokens": 1, "prompt": [' + b", ".join([b"1"] * 1_000_000) + b"]}",
    "huge ids": b'{"prompt": [4294967296, 9223372036854775807, -9223372036854775808]}',
    "a long stop": b'{"prompt": "a", "max_tokens": 1, "stop": ["' + b"s" * 500_000 + b'"]}',
    "a grammar": b'{"prompt": "a", "grammar": "' + b"(" * 60_000 + b'", "max_tokens": 1}',
    "a pattern": b'{"prompt": "a", "response_format": {"type": "json_schema", "json_schema": {"pattern": "(((("}}}',
}
PLAIN = b'{"prompt": "a", "max_tokens": 1}'
LONG = b'{"prompt": "a", "max_tokens": 500, "stream": true, "ignore_eos": true}'


@dataclasses.dataclass
class Hostile:
    name: str
    data: bytes
    manner: str = "at once"  # or "slowly", "silent", "unread", "half closed", "reset"


def http_request(body: bytes, path="/v1/completions", method="POST", length: object = None, headers=()) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: HOST", "Connection: close", "Content-Type: application/json",
             f"Content-Length: {len(body) if length is None else length}", *headers]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


def hostile_heads() -> dict[str, bytes]:
    line = b"POST /v1/completions HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n"
    kind = b"Content-Type: application/json\r\n"
    heads = {f"length {value}": http_request(PLAIN, length=value) for value in
             ("-1", "99999999999999999999", "1e3", "0x20", "", "1 1", "+32", 2**63, 1000)}
    return heads | {
        "two lengths": http_request(PLAIN, headers=["Content-Length: 1"]),
        "length and chunks": http_request(PLAIN, headers=["Transfer-Encoding: chunked"]),
        "a bad chunk": line + kind + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n" + PLAIN + b"\r\n0\r\n\r\n",
        "a huge chunk": line + kind + b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n" + PLAIN,
        "a negative chunk": line + kind + b"Transfer-Encoding: chunked\r\n\r\n-5\r\n" + PLAIN,
        "chunk extensions": line + kind + b"Transfer-Encoding: chunked\r\n\r\n1;" + b"a" * 100_000,
        "a long header": http_request(PLAIN, headers=["X-Long: " + "x" * 100_000]),
        "10,000 headers": http_request(PLAIN, headers=[f"X-{i}: y" for i in range(10_000)]),
        "a header without colon": http_request(PLAIN, headers=["nothing"]),
        "NUL in a header": http_request(PLAIN, headers=["X: a\0b"]),
        "a folded header": http_request(PLAIN, headers=["X: a", " b"]),
        "a long path": http_request(PLAIN, path="/" + "a" * 100_000),
        "a path upwards": http_request(b"", path="/../../../../etc/passwd", method="GET"),
        "an encoded path": http_request(b"", path="/%00%2e%2e%2f", method="GET"),
        "another method": http_request(PLAIN, method="BREW"), "a long method": http_request(PLAIN, method="A" * 10_000),
        "another host": http_request(PLAIN).replace(b"HOST", b"evil.example"),
        "no host": http_request(PLAIN).replace(b"Host: HOST\r\n", b""),
        "another origin": http_request(PLAIN, headers=["Origin: http://evil.example"]),
        "a strange key": http_request(PLAIN, headers=["Authorization: Bearer " + "\xff" * 1000]),
        "another type": http_request(PLAIN).replace(b"application/json", b"multipart/form-data"),
        "HTTP/9.9": http_request(PLAIN).replace(b"HTTP/1.1", b"HTTP/9.9"), "no HTTP": b"hello\r\n\r\n",
        "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(50),
        "TLS": b"\x16\x03\x01\x02\x00\x01" + bytes(range(256)),
        "noise": random.Random(1).randbytes(5000), "line feeds": b"\n" * 5000, "an upgrade": http_request(
            PLAIN, headers=["Upgrade: websocket", "Sec-WebSocket-Key: x"]),
    }


def greedy_requests(name: dict) -> list[Hostile]:
    """Returns requests that need more time or memory than they should get."""
    scored = {"prompt": [7] * 8000, "echo": True, "logprobs": 20, "max_tokens": 0, "n": 64}
    numbers = {"messages": [{"role": "user", "content": "a"}], "max_tokens": 1,
               "chat_template_kwargs": {"width": 2**63 - 1, "count": -2**63, "add_generation_prompt": 2**62}}
    asked = {
        "8 MB of one letter to /tokenize": ("/tokenize", {"prompt": "a" * 7_900_000}),
        "8 MB of digits to /tokenize": ("/tokenize", {"prompt": "9" * 7_900_000}),
        "8 MB of spaces to /tokenize": ("/tokenize", {"content": " " * 7_900_000}),
        "a prompt of 8 MB": ("/v1/completions", {"prompt": "ab " * 2_600_000}),
        "a message of 8 MB": ("/v1/chat/completions", {"messages": [{"role": "user", "content": "a" * 7_900_000}]}),
        "64 scored prompts of 8,000 ids": ("/v1/completions", scored),
        "the same as a stream": ("/v1/completions", scored | {"stream": True}),
        "2,048 prompts with long stops": ("/v1/completions", {"prompt": [[7]] * 2048, "max_tokens": 1,
                                                              "stop": [f"{i}" + "s" * 1000 for i in range(16)]}),
        "a million empty lists": ("/v1/completions", {"prompt": "a", "max_tokens": 1, "user": [[]] * 1_000_000}),
        "100 choices": ("/v1/completions", {"prompt": "a", "max_tokens": 1, "n": 100}),
        "a million ids to /detokenize": ("/detokenize", {"tokens": [7] * 1_000_000}),
        "a salt of 1 MB": ("/v1/completions", {"prompt": "a", "max_tokens": 1, "cache_salt": "s" * 1_000_000}),
        "template arguments near 2^63": ("/v1/chat/completions", numbers),
    }
    found = [Hostile(what, http_request(json.dumps(name | body).encode(), path)) for what, (path, body) in asked.items()]
    found += [Hostile(f"8 MB of a body that never ends, {i}", http_request(b'{"prompt": "' + b"a" * 7_900_000, length=8_000_000),
                      "silent") for i in range(4)]
    return [*found, Hostile("1,000 requests on one connection", b"GET /health HTTP/1.1\r\nHost: HOST\r\n\r\n" * 1000 +
                            http_request(PLAIN))]


def hostile_requests(model: str) -> list[Hostile]:
    name = {"model": model}
    found = [Hostile(f"{field} {json.dumps(value)[:30]}", http_request(json.dumps(
                 name | {"prompt": "a", "max_tokens": 1} | {field: value}).encode()))
             for field in FIELDS for value in WRONG_VALUES[:12 if field != "prompt" else None]]
    found += [Hostile(f"messages {json.dumps(value)[:30]}", http_request(json.dumps(
                  name | {"messages": value, "max_tokens": 1}).encode(), "/v1/chat/completions"))
              for value in (None, 5, [], [5], [{}], [{"role": "user"}], [{"role": 5, "content": "a"}],
                            [{"role": "user", "content": [{"type": "image_url"}]}],
                            [{"role": "user", "content": "a"}] * 50_000)]
    found += [Hostile(f"{path} with {value!r}", http_request(json.dumps(name | {field: value}).encode(), path))
              for path, field in (("/v1/embeddings", "input"), ("/detokenize", "tokens"), ("/tokenize", "prompt"))
              for value in (5, [-1], [2**40], [[]], {}, "a" * 1_000_000)]
    found += [Hostile(f"a body of {what}", http_request(body)) for what, body in BODIES.items()]
    found += greedy_requests(name)
    found += [Hostile(what, data) for what, data in hostile_heads().items()]
    found += [Hostile(f"{what}, {manner}", data, manner) for manner, what, data in (
        ("slowly", "a head", http_request(PLAIN)), ("slowly", "a body", http_request(PLAIN + b" " * 500)),
        ("silent", "nothing", b""), ("silent", "half a head", b"POST /v1/comp"),
        ("silent", "half a body", http_request(PLAIN, length=5000)), ("unread", "a stream", http_request(LONG)),
        ("half closed", "a request", http_request(PLAIN)), ("half closed", "half of it", http_request(PLAIN)[:60]),
        ("reset", "a stream", http_request(LONG)), ("reset", "a request", http_request(PLAIN)),
        ("reset", "nothing", b""))]
    return found


async def send_slowly(writer: asyncio.StreamWriter, data: bytes) -> None:
    """Sends one byte at a time, for as long as the server accepts them."""
    for byte in data[:30]:
        writer.write(bytes([byte]))
        await writer.drain()
        await asyncio.sleep(1)


async def attack(url: urllib.parse.SplitResult, hostile: Hostile, key: str | None) -> tuple[str, str]:
    """Returns the status, "closed", "left" or "no answer"; and the answer."""
    data = hostile.data.replace(b"HOST", url.netloc.encode())
    if key and b"Authorization" not in data:
        line = b"Connection: close\r\n"
        data = data.replace(line, line + b"Authorization: Bearer " + key.encode() + b"\r\n", 1)
    try:
        reader, writer = await asyncio.open_connection(url.hostname, url.port or 80)
    except OSError as error:
        return "no connection", str(error)
    try:
        if hostile.manner == "slowly":
            await send_slowly(writer, data)
        elif data:
            writer.write(data)
            await writer.drain()
        if hostile.manner in ("silent", "unread"):
            await asyncio.sleep(20)
        if hostile.manner == "half closed":
            writer.write_eof()
        if hostile.manner == "reset":
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        if hostile.manner in ("silent", "unread", "slowly", "reset"):
            return "left", ""
        answer = await asyncio.wait_for(reader.read(65536), HOSTILE_PATIENCE)
        status = answer.split(b" ", 2)[1:2]
        return (status[0].decode("latin-1") if answer.startswith(b"HTTP/") and status else "closed",
                answer[-300:].decode(errors="replace"))
    except (ConnectionError, OSError):
        return "closed", ""
    except asyncio.TimeoutError:
        return "no answer", ""
    finally:
        writer.close()


# ---------------------------------------------------------------------------------------------------------------------
# Load


class Load:
    """Sends requests when they are due, and records their outcomes."""

    def __init__(self, arguments: argparse.Namespace, server: Server, prompts: Prompts):
        self.arguments = arguments
        self.server = server
        self.prompts = prompts
        self.records = []
        self.attacks = []  # name, status, answer
        self.source = random.Random(arguments.seed + 1)
        self.hostile = hostile_requests(server.model)
        self.source.shuffle(self.hostile)
        self.begin = time.perf_counter()
        self.seconds = 1e-9  # until the last answer
        self.given = 0

    def due(self) -> bool:
        if self.arguments.duration and time.perf_counter() - self.begin >= self.arguments.duration:
            return False
        return self.given < self.arguments.requests if self.arguments.requests else True

    async def one(self) -> None:
        self.given += 1
        if self.source.random() < self.arguments.hostile:
            hostile = self.hostile[len(self.attacks) % len(self.hostile)]
            place = len(self.attacks)
            self.attacks.append((hostile.name, "no answer", ""))
            found = await attack(urllib.parse.urlsplit(self.server.url), hostile, self.arguments.key)
            self.attacks[place] = (hostile.name, *found)
        else:
            self.records.append(await self.server.ask(self.prompts.next()))
            self.seconds = time.perf_counter() - self.begin  # hostile requests may take longer

    async def run(self) -> None:
        if self.arguments.rate:
            tasks = set()
            due_at = self.begin
            while self.due():
                tasks.add(asyncio.create_task(self.one()))
                due_at += self.source.expovariate(self.arguments.rate)
                await asyncio.sleep(max(0.0, due_at - time.perf_counter()))
            await asyncio.gather(*tasks)
        else:
            await asyncio.gather(*(self.user() for _ in range(self.arguments.concurrency)))

    async def user(self) -> None:
        while self.due():
            await self.one()

    def failed_attacks(self) -> list[tuple[str, str, str]]:
        return [one for one in self.attacks if one[1].startswith("no ") or
                one[1][0] == "5" and one[1] not in ("501", "503", "505")]

    async def verify(self, alone: dict[int, str]) -> list[str]:
        """Returns the answers that differ when asked for alone; `alone` has answers by seed and gets the missing
        ones."""
        told = []
        for record in self.records:
            if record.outcome == "done":
                seed = record.request.seed
                if seed not in alone:
                    alone[seed] = await self.server.text_alone(record.request)
                if alone[seed] != record.text:
                    told.append(f"seed {seed}: {record.text[:200]!r} became {alone[seed][:200]!r}")
        return told


# ---------------------------------------------------------------------------------------------------------------------
# Output


def spread(values: list[float]) -> dict[str, float]:
    if not values:
        return {}
    ordered = sorted(values)
    return {"mean": statistics.fmean(values), "median": statistics.median(values),
            "p99": ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))]}


def is_good(record: Record, limits: list[tuple[str, float]]) -> bool:
    figures = record.figures()
    return all(max(figures.get(name) or [0.0]) <= limit for name, limit in limits)


def summary(load: Load, different: list[str] | None) -> dict:
    done = [record for record in load.records if record.outcome == "done"]
    output = sum(record.output_tokens() for record in done)
    prompt = sum(record.usage.get("prompt_tokens", 0) for record in done)
    cached = sum((record.usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0) for record in done)
    told = {"seconds": load.seconds, "requests": len(load.records)}
    told |= {outcome: sum(record.outcome == outcome for record in load.records)
             for outcome in ("done", "refused", "left", "failed")}
    told |= {"reasons": dict(collections.Counter(record.reason for record in load.records if record.reason)),
             "prompt_tokens": prompt, "cached_tokens": cached, "output_tokens": output,
             "requests_per_second": len(done) / load.seconds, "output_tokens_per_second": output / load.seconds,
             "total_tokens_per_second": (output + prompt) / load.seconds}
    if load.arguments.goodput:
        good = sum(is_good(record, load.arguments.goodput) for record in done)
        told |= {"good": good, "goodput_requests_per_second": good / load.seconds}
    for name in FIGURES:
        told[f"{name}_ms"] = spread([value for record in done for value in record.figures().get(name, ())])
    if load.attacks:
        told |= {"hostile": dict(collections.Counter(status for _, status, _ in load.attacks)),
                 "hostile_kinds": len({name for name, _, _ in load.attacks}),
                 "hostile_failed": [f"{name}: {status} {answer}" for name, status, answer in load.failed_attacks()]}
    if different is not None:
        told |= {"verified": len(done), "different": different}
    return told


def print_summary(told: dict) -> None:
    rows = [("requests", f"{told['requests']}: {told['done']} done, {told['refused']} refused, {told['left']} left, "
                         f"{told['failed']} failed"),
            ("time", f"{told['seconds']:.1f} s"),
            ("tokens", f"{told['prompt_tokens']:,} of prompts, {told['cached_tokens']:,} of them cached; "
                       f"{told['output_tokens']:,} generated"),
            ("throughput", f"{told['requests_per_second']:.3f} requests/s, {told['output_tokens_per_second']:.1f} "
                           f"output tokens/s, {told['total_tokens_per_second']:.1f} tokens/s in all")]
    if "good" in told:
        rows.append(("goodput", f"{told['goodput_requests_per_second']:.3f} requests/s, {told['good']} requests"))
    if "hostile" in told:
        counts = ", ".join(f"{count} x {status}" for status, count in sorted(told["hostile"].items()))
        rows.append(("hostile", f"{told['hostile_kinds']} kinds: {counts}"))
    if "verified" in told:
        rows.append(("verified", f"{told['verified']} answers, {len(told['different'])} differ when asked for alone"))
    for name, text in rows:
        print(f"{name:<11} {text}")
    print(f"\n{'ms':<11} {'mean':>10} {'median':>10} {'p99':>10}")
    for name, title in FIGURES.items():
        if told[f"{name}_ms"]:
            print(f"{title:<11} " + " ".join(f"{value:>10.1f}" for value in told[f"{name}_ms"].values()))
    for reason, count in told["reasons"].items():
        print(f"{count} x {reason}")
    for line in told.get("hostile_failed", []) + told.get("different", []):
        print(f"FAILED: {line}")


# ---------------------------------------------------------------------------------------------------------------------


def fraction(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text}: not from 0 to 1")
    return value


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", required=True)
    parser.add_argument("--key", help="an API key of the server")
    parser.add_argument("--model", help="name of the model (default: the server's first)")
    pace = parser.add_mutually_exclusive_group()
    pace.add_argument("--rate", type=float, metavar="R", help="requests per second, on average, independent of answers")
    pace.add_argument("--concurrency", type=int, default=1, metavar="N", help="requests at once (default %(default)s)")
    parser.add_argument("--requests", type=int, metavar="N", help="(default: 100 without --duration)")
    parser.add_argument("--duration", type=float, metavar="S", help="seconds during which requests start")
    for name, default in (("--prompt-tokens", "128"), ("--output-tokens", "64")):
        parser.add_argument(name, type=length, default=default, metavar="LENGTH", help="(default %(default)s)")
    parser.add_argument("--shared-prefix", type=int, default=0, metavar="N",
                        help="common tokens at the beginning of all prompts")
    parser.add_argument("--distinct", type=int, default=0, metavar="N",
                        help="number of different requests, which are repeated (default: all differ)")
    parser.add_argument("--salt", action="store_true", help="a cache_salt for each request: nothing is cached")
    parser.add_argument("--text", type=pathlib.Path, metavar="FILE", help="text from which prompts are taken")
    parser.add_argument("--temperature", type=float, default=0, metavar="T", help="(default %(default)s)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of all random choices (default %(default)s)")
    parser.add_argument("--disconnect", type=fraction, default=0, metavar="F",
                        help="fraction of the clients that disconnect before the end")
    parser.add_argument("--hostile", type=fraction, default=0, metavar="F", help="fraction of hostile requests")
    parser.add_argument("--goodput", type=goodput, nargs="+", default=[], metavar="NAME:MS")
    parser.add_argument("--verify", action="store_true", help="send each request again, alone, and compare the answers")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args()
    if arguments.requests is None and not arguments.duration:
        arguments.requests = 100
    if arguments.hostile and not arguments.url.startswith("http://"):
        parser.error("--hostile needs a URL without TLS")
    return arguments


async def put_load(arguments: argparse.Namespace) -> dict:
    headers = {"Authorization": f"Bearer {arguments.key}"} if arguments.key else {}
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=60, sock_read=600)
    # Each request has its own connection: the server may close a kept one just when it is used again.
    connector = aiohttp.TCPConnector(limit=0, force_close=True)
    async with aiohttp.ClientSession(headers=headers, timeout=timeout, read_bufsize=1 << 20,
                                     connector=connector) as session:
        server = Server(arguments, session)
        await server.find_model()
        prompts = Prompts(arguments)
        sample = " ".join(prompts.words[:200]) if prompts.words else prompts.piece(200)
        usage = (await server.ask_alone(Request(sample, 1, 0)))["usage"]
        prompts.learn(len(sample.split()), usage["prompt_tokens"])
        alone = {}
        for request in prompts.make_known():
            if arguments.verify:
                alone[request.seed] = await server.text_alone(request)
        load = Load(arguments, server, prompts)
        await load.run()
        return summary(load, await load.verify(alone) if arguments.verify else None)


def main() -> int:
    arguments = parse_arguments()
    try:
        told = asyncio.run(put_load(arguments))
    except (aiohttp.ClientError, OSError, RuntimeError, LookupError) as error:
        sys.exit(f"load_server: {arguments.url}: {type(error).__name__}: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
    if arguments.json:
        print(json.dumps(told))
    else:
        print_summary(told)
    return 1 if told["failed"] or told.get("hostile_failed") or told.get("different") else 0


if __name__ == "__main__":
    sys.exit(main())
