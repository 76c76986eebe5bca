#!/usr/bin/env python3
"""Overloads a server for a long time, with disconnecting, hostile and frozen clients, and prints the result.

    soak_server.py --model smollm2-w8a8 --minutes 30
    soak_server.py --model smollm2-w8a8 --beside smollm2-w4a8 --models-memory 700MB --restarts 2

Measures the server's capacity, then sends 1.2 times as many requests (load_server.py, Poisson arrivals): 10 % of the
clients disconnect, 5 % of the requests are hostile. In addition, clients are repeatedly frozen (SIGSTOP) while they
receive answers, then killed or woken. Beside them, --agents clients use and misuse tools, schemas and all APIs
(load_apis.py), of all models: with a --models-memory that does not hold all, they are loaded and unloaded in turn. The
server is restarted --restarts times, and each time begins with the beginnings of texts that it left on disk.

All answers are compared with those of the same requests alone, and the server's memory is measured from the time when the
queue is full (after a tenth of the time between restarts). Exit code 1 if something failed, or if memory grew by more
than 2 % between the first and the last fifth of the remaining time (not checked with --beside, as models take turns). Needs
aiohttp.
"""

import argparse
import dataclasses
import json
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

from peers.runs import PeerError, reading, run
from peers.served_program import ServedProgram, free_port

HERE = pathlib.Path(__file__).resolve().parent
LOOK = 2  # seconds
GROWTH = 1.02


def load_command(url: str, arguments: argparse.Namespace, *options) -> list[str]:
    return [str(word) for word in (sys.executable, HERE / "load_server.py", "--url", url, "--json", "--salt", "--prompt-tokens",
                                   arguments.prompt_tokens, "--output-tokens", arguments.output_tokens, *options)]


def capacity(url: str, arguments: argparse.Namespace) -> float:
    """Returns how many requests per second the server answers."""
    output = run(load_command(url, arguments, "--concurrency", 32, "--requests", 320))
    with reading("the output of load_server.py"):
        return float(json.loads(output)["requests_per_second"])


def resident_bytes(process: subprocess.Popen) -> int:
    for line in pathlib.Path(f"/proc/{process.pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0


@dataclasses.dataclass
class FrozenClient:
    """A client that is stopped while it receives answers, and woken or killed after a while."""

    url: str
    arguments: argparse.Namespace
    process: subprocess.Popen | None = None
    began: float = 0
    frozen: bool = False
    count: int = 0

    def look(self, now: float) -> None:
        if self.process is None:
            self.process = subprocess.Popen(
                load_command(self.url, self.arguments, "--concurrency", 4, "--duration", 10, "--seed", 999 + self.count),
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            self.began, self.frozen = now, False
            self.count += 1
        elif not self.frozen and now - self.began > 5:
            self.process.send_signal(signal.SIGSTOP)
            self.frozen = True
        elif self.frozen and now - self.began > 25:
            if self.count % 2:
                self.process.kill()
            self.process.send_signal(signal.SIGCONT)
            if self.count % 2 or self.process.poll() is not None or now - self.began > 60:
                self.end()

    def end(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        self.process = None


def watch(server: ServedProgram, load: subprocess.Popen, arguments: argparse.Namespace,
          minutes: float) -> tuple[list[int], int]:
    """Returns the server's memory in bytes over the time of the load, and how many clients were frozen."""
    client = FrozenClient(server.url, arguments)
    begin = time.monotonic()
    sizes = []
    while load.poll() is None and server.process.poll() is None:
        time.sleep(LOOK)
        now = time.monotonic()
        if now - begin < minutes * 60:
            client.look(now)
            sizes.append(resident_bytes(server.process))
        else:
            client.end()
    client.end()
    return sizes, client.count


def tell_memory(sizes: list[int]) -> bool:
    """Prints the server's memory; returns whether it stayed the same."""
    sizes = sizes[len(sizes) // 10:]
    part = max(1, len(sizes) // 5)
    parts = [statistics.median(sizes[begin:begin + part]) for begin in range(0, part * (len(sizes) // part), part)]
    print("memory      " + ", ".join(f"{size / 1e6:.0f}" for size in parts) + " MB, in fifths of the time")
    return parts[-1] <= GROWTH * parts[0]


def tell_models(server: ServedProgram, log: pathlib.Path) -> None:
    """Prints how often the server loaded a model and how much came back from disk."""
    with urllib.request.urlopen(server.url + "/metrics", timeout=60) as answer:
        lines = answer.read().decode().splitlines()
    hits = sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith("ballast_disk_cache_hits_total"))
    loads = log.read_text(encoding="utf-8").count('"event":"model_loading"')
    print(f"models      loaded {loads} times; {hits:.0f} tokens of prompts came back from disk")


def soak(server: ServedProgram, arguments: argparse.Namespace) -> bool:
    able = capacity(server.url, arguments)
    rate = arguments.overload * able
    minutes = arguments.minutes / (arguments.restarts + 1)
    print(f"capacity    {able:.2f} requests/s; asked for {rate:.2f} for {minutes:g} minutes", flush=True)
    command = load_command(server.url, arguments, "--rate", rate, "--duration", minutes * 60, "--disconnect", 0.1,
                           "--hostile", 0.05, "--distinct", arguments.distinct, "--verify")
    agents = [sys.executable, str(HERE / "load_apis.py"), "--url", server.url, "--json", "--duration",
              str(minutes * 60), "--concurrency", str(arguments.agents)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as load, \
            subprocess.Popen(agents, stdout=subprocess.PIPE, text=True) as apis:
        sizes, frozen = watch(server, load, arguments, minutes)
        if server.process.poll() is not None:
            load.kill()
            apis.kill()
            raise PeerError(f"the server ended with code {server.process.returncode}")
        output, of_agents = load.stdout.read(), apis.stdout.read()
    with reading("the output of load_server.py"):
        told = json.loads(output)
    with reading("the output of load_apis.py"):
        by_agents = json.loads(of_agents)
    print(f"requests    {told['requests']}: {told['done']} done, {told['refused']} refused, {told['left']} left, "
          f"{told['failed']} failed; {frozen} clients frozen")
    print(f"hostile     {sum(told['hostile'].values())} of {told['hostile_kinds']} kinds: {told['hostile']}; "
          f"{len(told['hostile_failed'])} failed")
    print(f"verified    {told['verified']} answers, {len(told['different'])} differ when asked for alone")
    print(f"agents      {sum(by_agents['done'].values())} requests of {len(by_agents['done'])} kinds done, "
          f"{by_agents['refused']} refused, {sum(by_agents['failures'].values())} failed; {by_agents['verified']} verified, "
          f"{len(by_agents['different'])} differ when asked for alone")
    print(f"misuse      answered with {by_agents['misused']}")
    print(f"times       TTFT {told['ttft_ms']['median']:.0f} ms, between tokens p99 {told['itl_ms']['p99']:.0f} ms, "
          f"{told['output_tokens_per_second']:.0f} output tokens/s")
    for line in [*(f"{count} x {reason}" for reason, count in told["reasons"].items()), *told["hostile_failed"],
                 *told["different"], *(f"{count} x {reason}" for reason, count in by_agents["failures"].items()),
                 *by_agents["different"]][:20]:
        print(f"            {line}")
    tell_models(server, arguments.log)
    stayed = tell_memory(sizes) or bool(arguments.beside)
    return stayed and not (told["failed"] or told["hostile_failed"] or told["different"] or by_agents["failures"] or
                           by_agents["different"])


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ballast", default="build/release/ballast", help="the program (default %(default)s)")
    parser.add_argument("--model", type=pathlib.Path, required=True)
    parser.add_argument("--beside", type=pathlib.Path, action="append", default=[], metavar="MODEL",
                        help="another model that the clients of the APIs ask for, too; more than one is possible")
    parser.add_argument("--models-memory", metavar="SIZE", help="memory of the server for all models")
    parser.add_argument("--restarts", type=int, default=0, metavar="N",
                        help="restarts of the server, with its cache on disk (default %(default)s)")
    parser.add_argument("--minutes", type=float, default=30, metavar="N", help="(default %(default)s)")
    parser.add_argument("--overload", type=float, default=1.2, metavar="F",
                        help="factor of the capacity (default %(default)s)")
    parser.add_argument("--cache-memory", default="400MB", metavar="SIZE",
                        help="cache of the server; small, so that it is soon full (default %(default)s)")
    parser.add_argument("--distinct", type=int, default=300, metavar="N", help="different requests (default %(default)s)")
    parser.add_argument("--agents", type=int, default=3, metavar="N",
                        help="clients of all APIs (default %(default)s)")
    parser.add_argument("--prompt-tokens", default="32-256", metavar="LENGTH", help="(default %(default)s)")
    parser.add_argument("--output-tokens", default="16-96", metavar="LENGTH", help="(default %(default)s)")
    parser.add_argument("--log", type=pathlib.Path, default=pathlib.Path("build/soak.log"), metavar="FILE",
                        help="the server's (default %(default)s)")
    return parser.parse_args()


def serve_command(arguments: argparse.Namespace, port: int, cache: str) -> list:
    models = [arguments.model, *arguments.beside]
    command = [arguments.ballast, "serve", *models, "--port", port, "--cache-memory", arguments.cache_memory]
    if arguments.models_memory:
        command += ["--models-memory", arguments.models_memory]
    return command + (["--cache-dir", cache] if arguments.restarts else [])


def main() -> int:
    arguments = parse_arguments()
    server = None
    try:
        all_hold = True
        with tempfile.TemporaryDirectory() as cache:
            for _ in range(arguments.restarts + 1):
                port = free_port()
                server = ServedProgram("ballast", serve_command(arguments, port, cache), port, arguments.log)
                holds = soak(server, arguments)
                code = server.stop()
                print(f"the server  ended with code {code}", flush=True)
                all_hold = all_hold and holds and code == 0
        return 0 if all_hold else 1
    except PeerError as error:
        sys.exit(f"soak_server: {error}")
    except KeyboardInterrupt:
        return 130
    finally:
        if server is not None and server.process.poll() is None:
            server.process.kill()


if __name__ == "__main__":
    sys.exit(main())
