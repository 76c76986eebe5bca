#!/usr/bin/env python3
"""Starts a server and attacks it in all known ways at once, and prints how this affects streams of other clients.

    attack_server.py --model smollm2-w8a8
    attack_server.py --model smollm2-w8a8 --ballast OLDER --plain --only tokenize scores    to compare

Clients request streams repeatedly, first without attacks, then with them: clients that post 8 MB of one letter to
/tokenize, small requests for huge answers, large bodies that never end, requests for more choices than run at once, endless
TLS handshakes, requests whose log lines are not read, new schemas, grammars and tools that take long to compile, responses
that are stored, and all misuse of APIs that load_apis.py knows. Prints the longest gap between two events of a stream
without and with the attacks, the server's memory, and the answers to each attack. Exit code 1 if a stream was lost or
differs from that of the same request alone, if misuse was answered with 500 or a closed connection, if the longest gap has
doubled, or if the server ended. The attackers run
in a separate process with a low priority, to leave the processors to the server.
"""

import argparse
import asyncio
import collections
import dataclasses
import functools
import itertools
import json
import multiprocessing
import os
import pathlib
import queue
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time

from load_apis import Misuse, misuses

PATIENCE = 120  # seconds for an answer
WORDS = ("time year people way day man thing woman life child world school state family student group country problem "
         "hand part place case week company system program question work government number night point home water").split()


@dataclasses.dataclass
class Target:
    port: int
    tls: bool
    model: str

    @functools.cached_property
    def context(self) -> ssl.SSLContext | None:
        if not self.tls:
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return context

    async def connect(self):
        return await asyncio.open_connection("127.0.0.1", self.port, ssl=self.context, limit=1 << 20)


def request_bytes(path: str, body: bytes, length: int | None = None, method: str = "POST") -> bytes:
    return (f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body) if length is None else length}\r\n\r\n").encode() + body


# ---------------------------------------------------------------------------------------------------------------------
# Users


@dataclasses.dataclass
class Stream:
    text: str = ""
    done: bool = False
    gaps: list[float] = dataclasses.field(default_factory=list)  # seconds between events with text
    problem: str = ""


async def ask(target: Target, body: dict) -> Stream:
    stream = Stream()
    writer = None
    try:
        reader, writer = await target.connect()
        writer.write(request_bytes("/v1/completions", json.dumps(body | {"stream": True}).encode()))
        last = 0.0
        while line := await asyncio.wait_for(reader.readline(), PATIENCE):
            if line.startswith(b"HTTP/1.1 ") and b" 200 " not in line:
                stream.problem = line.decode().strip()
            if not line.startswith(b"data: "):
                continue
            if line.strip() == b"data: [DONE]":
                stream.done = True
                break
            chunk = json.loads(line[6:])
            if "error" in chunk:
                stream.problem = chunk["error"]["message"]
                break
            text = "".join(choice["text"] for choice in chunk["choices"])
            if text:
                now = time.perf_counter()
                if last:
                    stream.gaps.append(now - last)
                last = now
                stream.text += text
    except (OSError, asyncio.TimeoutError, ssl.SSLError) as error:
        stream.problem = f"{type(error).__name__}: {error}"
    finally:
        if writer is not None:
            writer.close()
    return stream


def user_requests(users: int, tokens: int) -> list[dict]:
    """Returns one request for each user, who repeats it; each time with another salt, so that the prompt is not
    cached."""
    return [{"prompt": " ".join(WORDS[(user * 7 + i * (user + 3)) % len(WORDS)] for i in range(60)), "max_tokens": tokens,
             "temperature": 0, "ignore_eos": True, "seed": user} for user in range(users)]


@dataclasses.dataclass
class Phase:
    streams: int = 0
    lost: list[str] = dataclasses.field(default_factory=list)
    changed: int = 0
    gaps: list[float] = dataclasses.field(default_factory=list)

    def longest(self) -> float:
        return max(self.gaps, default=0.0)

    def tell(self, name: str) -> None:
        ordered = sorted(self.gaps) or [0.0]
        print(f"{name:<16} {self.streams} streams, {len(self.lost)} lost, {self.changed} changed; between events: median "
              f"{1e3 * ordered[len(ordered) // 2]:.0f} ms, p99 {1e3 * ordered[int(0.99 * (len(ordered) - 1))]:.0f} ms, "
              f"longest {1e3 * self.longest():.0f} ms", flush=True)
        for problem, count in collections.Counter(self.lost).items():
            print(f"                 lost: {count} x {problem}")


async def stream_for(target: Target, requests: list[dict], seconds: float, alone: list[str]) -> Phase:
    phase = Phase()
    end = time.monotonic() + seconds

    async def user(number: int) -> None:
        count = 0
        while time.monotonic() < end:
            count += 1
            stream = await ask(target, requests[number] | {"cache_salt": f"{number} {count} {end}"})
            phase.streams += 1
            phase.gaps += stream.gaps
            if not stream.done:
                phase.lost.append(stream.problem or "the stream ended early")
            elif stream.text != alone[number]:
                phase.changed += 1

    await asyncio.gather(*(user(number) for number in range(len(requests))))
    return phase


# ---------------------------------------------------------------------------------------------------------------------
# Attacks: each runs until it is cancelled, and counts its answers


async def send(writer: asyncio.StreamWriter, data: bytes) -> None:
    """Sends pieces as the server accepts them."""
    piece = 1 << 18
    try:
        for begin in range(0, len(data), piece):
            writer.write(data[begin:begin + piece])
            await writer.drain()
    except OSError:
        pass  # refused before all was sent


async def post(target: Target, data: bytes) -> str:
    """Returns the status, or "closed"."""
    writer = None
    try:
        reader, writer = await target.connect()
        await send(writer, data)
        line = await asyncio.wait_for(reader.readline(), PATIENCE)
        size = len(line)
        while piece := await asyncio.wait_for(reader.read(1 << 20), PATIENCE):
            size += len(piece)
        return line.split(b" ")[1].decode() + (f" with {size / 1e6:.0f} MB" if size > 1e6 else "")
    except (OSError, asyncio.TimeoutError, IndexError, ssl.SSLError):
        return "closed"
    finally:
        if writer is not None:
            writer.close()


async def again_and_again(target: Target, answers: collections.Counter, data: bytes, pause: float = 0.05) -> None:
    while True:
        answers[await post(target, data)] += 1
        await asyncio.sleep(pause)


async def tokenize(target: Target, answers: collections.Counter) -> None:
    bodies = [json.dumps({"prompt": letter * 7_900_000}).encode() for letter in "ab9"]
    await asyncio.gather(*(again_and_again(target, answers, request_bytes("/tokenize", body)) for body in bodies))


async def scores(target: Target, answers: collections.Counter) -> None:
    body = {"prompt": [7] * 8000, "echo": True, "logprobs": 20, "max_tokens": 0, "n": 64}
    await asyncio.gather(*(again_and_again(target, answers, request_bytes("/v1/completions", json.dumps(each).encode()))
                           for each in (body, body | {"stream": True})))


async def bodies(target: Target, answers: collections.Counter, count: int = 80) -> None:
    """Sends bodies of 8 MB without their ends."""
    data = request_bytes("/v1/completions", b'{"prompt": "' + b"a" * 7_900_000, 8_000_000)

    async def one() -> None:
        while True:
            try:
                reader, writer = await target.connect()
                await send(writer, data)
                line = await asyncio.wait_for(reader.readline(), PATIENCE)
                answers[line.split(b" ")[1].decode() if line else "closed"] += 1
                writer.close()
            except (OSError, asyncio.TimeoutError, IndexError, ssl.SSLError):
                answers["closed"] += 1
            await asyncio.sleep(1)
    await asyncio.gather(*(one() for _ in range(count)))


async def choices(target: Target, answers: collections.Counter) -> None:
    body = {"prompt": "a", "max_tokens": 1, "n": 100, "temperature": 1}
    await again_and_again(target, answers, request_bytes("/v1/completions", json.dumps(body).encode()), 2)


async def handshakes(target: Target, answers: collections.Counter) -> None:
    """Does complete handshakes, one after the other, and some incomplete ones."""
    async def whole() -> None:
        while True:
            try:
                _, writer = await target.connect()
                answers["done"] += 1
                writer.close()
            except (OSError, ssl.SSLError):
                answers["closed"] += 1
            await asyncio.sleep(0)

    async def silent() -> None:
        while True:
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", target.port)
                writer.write(b"\x16\x03\x01\x02")
                await reader.read(10)
                writer.close()
            except OSError:
                pass
            answers["ended by the server"] += 1
            await asyncio.sleep(0.1)

    await asyncio.gather(*(whole() for _ in range(2)), *(silent() for _ in range(60)))


async def log_lines(target: Target, answers: collections.Counter) -> None:
    """Sends many requests over one connection, each of which is logged."""
    request = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 20
    while True:
        try:
            reader, writer = await target.connect()
            while True:
                writer.write(request)
                for _ in range(20):
                    answers[(await asyncio.wait_for(reader.readuntil(b'"ok"}'), PATIENCE))[9:12].decode()] += 1
                await asyncio.sleep(0.01)
        except (OSError, asyncio.TimeoutError, asyncio.IncompleteReadError, ssl.SSLError):
            answers["closed"] += 1
            await asyncio.sleep(1)


async def ever_new(target: Target, answers: collections.Counter, path: str, make) -> None:
    """Sends `make(number)` again and again, so that nothing is in a cache."""
    for number in itertools.count():
        answers[await post(target, request_bytes(path, json.dumps(make(number)).encode()))] += 1
        await asyncio.sleep(0.05)


def chat_with(**fields) -> dict:
    return {"messages": [{"role": "user", "content": "a"}], "max_tokens": 1} | fields


async def schemas(target: Target, answers: collections.Counter) -> None:
    def make(number: int) -> dict:
        properties = {f"p{number}_{i}": {"type": "string", "maxLength": 40 + i} for i in range(300)}
        return chat_with(guided_json={"type": "object", "properties": properties, "required": list(properties)})
    await ever_new(target, answers, "/v1/chat/completions", make)


async def grammars(target: Target, answers: collections.Counter) -> None:
    await ever_new(target, answers, "/v1/completions",
                   lambda number: {"prompt": "a", "max_tokens": 1, "guided_regex": f"[^x]{{1,100}}{number}[^y]{{1,100}}"})


async def tools(target: Target, answers: collections.Counter) -> None:
    def make(number: int) -> dict:
        schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": "^[^a]{1,9}$"}}, "required": ["a"]}
        return chat_with(tool_choice="required", tools=[
            {"type": "function", "function": {"name": f"f{number}_{i}", "parameters": schema}} for i in range(8)])
    await ever_new(target, answers, "/v1/chat/completions", make)


async def stored(target: Target, answers: collections.Counter) -> None:
    """Fills the memory of stored responses."""
    await ever_new(target, answers, "/v1/responses", lambda number: {
        "input": "a", "max_output_tokens": 1, "metadata": {"number": str(number), "text": "a" * 2_000_000}})


async def misuse(target: Target, answers: collections.Counter) -> None:
    async def one(each: Misuse) -> str:
        body = b"" if each.body is None else each.body if isinstance(each.body, bytes) else json.dumps(each.body).encode()
        status = await post(target, request_bytes(each.path, body, method=each.method))
        fine = status in ("429", "503") or (status.isdigit() and int(status) in each.statuses)
        return status if fine else f"{status} to {each.name}"

    for each in itertools.cycle(misuses(target.model)):
        answers[await one(each)] += 1
        await asyncio.sleep(0.02)


def wrong_answers(told: dict[str, dict[str, int]]) -> list[str]:
    """Returns what no attack of APIs may be answered with."""
    wrong = [f"misuse: {status}" for status in told.get("misuse", {}) if " to " in status]
    for name in ("schemas", "grammars", "tools", "stored"):
        wrong += [f"{name}: {status}" for status in told.get(name, {}) if status.startswith(("500", "closed"))]
    return wrong


ATTACKS = {"tokenize": tokenize, "scores": scores, "bodies": bodies, "choices": choices, "handshakes": handshakes,
           "log": log_lines, "schemas": schemas, "grammars": grammars, "tools": tools, "stored": stored, "misuse": misuse}


def attack(target: Target, names: list[str], niceness: int, answers, started) -> None:
    """Runs in a process: attacks until SIGTERM, then reports the answers."""
    os.nice(niceness)
    counters = {name: collections.Counter() for name in names}

    async def all_of_them() -> None:
        tasks = [asyncio.ensure_future(ATTACKS[name](target, counters[name])) for name in names]
        ended = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
        started.set()
        await ended.wait()
        # Tasks are not awaited: wait_for() may swallow their cancellation. The caller ends the process.
        answers.put({name: dict(counter) for name, counter in counters.items()})
        for task in tasks:
            task.cancel()

    asyncio.run(all_of_them())


# ---------------------------------------------------------------------------------------------------------------------


class Server:
    """A server whose log is read only until it listens."""

    def __init__(self, arguments: argparse.Namespace, work: pathlib.Path):
        options = []
        if not arguments.plain:
            key, certificate = work / "key.pem", work / "certificate.pem"
            subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate,
                            "-subj", "/CN=localhost", "-days", "2"], check=True, capture_output=True)
            options = ["--tls-certificate", certificate, "--tls-key", key]
        # The prefix cache is small, so that its growth does not look like an effect of an attack.
        options += ["--cache-memory", arguments.cache_memory]
        self.process = subprocess.Popen([arguments.ballast, "serve", arguments.model, "--port", "0", *options],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        event = {}
        while event.get("event") != "listening":
            line = self.process.stderr.readline()
            if not line:
                sys.exit("attack_server: the server did not start")
            event = json.loads(line) if line.startswith(b"{") else {}
        self.target = Target(event["port"], not arguments.plain, event.get("model", ""))

    def memory(self, field: str) -> float:
        """Returns the server's memory in MB; VmHWM is the maximum so far."""
        text = pathlib.Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        return next(int(line.split()[1]) * 1024 / 1e6 for line in text.splitlines() if line.startswith(field + ":"))

    def metrics(self) -> dict[str, float]:
        connection = socket.create_connection(("127.0.0.1", self.target.port), timeout=PATIENCE)
        if self.target.tls:
            connection = self.target.context.wrap_socket(connection)
        connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        data = b""
        while piece := connection.recv(1 << 16):
            data += piece
        lines = [line.rpartition(" ") for line in data.decode().splitlines() if line.startswith("ballast_")]
        return {name.split("{")[0]: float(value) for name, _, value in lines}


async def look(server: Server, arguments: argparse.Namespace) -> bool:
    requests = user_requests(arguments.users, arguments.tokens)
    alone = [(await ask(server.target, request)).text for request in requests]
    before = await stream_for(server.target, requests, arguments.seconds, alone)
    before.tell("without attacks")
    quiet = server.memory("VmHWM")
    answers, started = multiprocessing.Queue(), multiprocessing.Event()
    target = dataclasses.replace(server.target)  # without its context, which no other process can have
    attackers = multiprocessing.Process(target=attack, args=(target, arguments.only, arguments.nice, answers, started))
    attackers.start()
    started.wait()
    beside = await stream_for(server.target, requests, arguments.seconds, alone)
    attackers.terminate()
    try:
        told = answers.get(timeout=PATIENCE)
    except queue.Empty:
        sys.exit("attack_server: the attackers did not report what they were answered")
    finally:
        attackers.kill()
        attackers.join()
    beside.tell("with attacks")
    print(f"longest gap      {1e3 * before.longest():.0f} ms without and {1e3 * beside.longest():.0f} ms with attacks")
    print(f"memory           at most {quiet:.0f} MB without and {server.memory('VmHWM'):.0f} MB with attacks")
    for name, counted in told.items():
        print(f"  {name:<14} " + ", ".join(f"{count} x {status}" for status, count in sorted(counted.items())))
    counted = server.metrics()
    print(f"dropped          {counted.get('ballast_log_lines_dropped_total', 0):.0f} lines of the log; "
          f"{counted.get('ballast_request_memory_refusals_total', 0):.0f} requests refused for memory")
    wrong = wrong_answers(told)
    for line in wrong:
        print(f"wrong            {line}")
    return not (before.lost or before.changed or beside.lost or beside.changed or wrong) and \
        beside.longest() < 2 * before.longest()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ballast", default="build/release/ballast", help="the program (default %(default)s)")
    parser.add_argument("--model", type=pathlib.Path, required=True)
    parser.add_argument("--users", type=int, default=16, metavar="N", help="concurrent streams (default %(default)s)")
    parser.add_argument("--tokens", type=int, default=128, metavar="N", help="tokens of each stream (default %(default)s)")
    parser.add_argument("--seconds", type=float, default=30, metavar="S",
                        help="duration without attacks, and with them (default %(default)s)")
    parser.add_argument("--only", nargs="+", choices=list(ATTACKS), default=list(ATTACKS),
                        help="names of the attacks to run")
    parser.add_argument("--cache-memory", default="200MB", metavar="SIZE", help="the server's cache (default %(default)s)")
    parser.add_argument("--nice", type=int, default=5, metavar="N",
                        help="nice value of the attackers (default %(default)s)")
    parser.add_argument("--plain", action="store_true", help="connect without TLS")
    arguments = parser.parse_args()
    if arguments.plain:
        arguments.only = [name for name in arguments.only if name != "handshakes"]
    elif not shutil.which("openssl"):
        parser.error("the program openssl makes the certificate: install it, or give --plain")
    with tempfile.TemporaryDirectory() as work:
        server = Server(arguments, pathlib.Path(work))
        try:
            holds = asyncio.run(look(server, arguments))
            server.process.terminate()
            code = server.process.wait(timeout=PATIENCE)
            print(f"the server       ended with code {code}")
            return 0 if holds and code == 0 else 1
        finally:
            server.process.kill()


if __name__ == "__main__":
    sys.exit(main())
