#!/usr/bin/env python3
"""Sends the same load to ballast's server, llama-server and OpenVINO GenAI's continuous batching, in turns.

    compare_servers.py --model smollm2-w8a8 --llama-server llama.cpp/build/bin/llama-server --gguf smollm2-Q8_0.gguf \\
        --openvino-python openvino/bin/python --openvino-model smollm2-int8

Each round runs every level on every program, so that the state of the machine is the same for all; medians over the
rounds are printed, and ratios are medians of ratios within a round. A level is a number of clients, each of which waits
for an answer before its next request; load_server.py sends the load. OpenVINO is called without HTTP, in a loop around
its pipeline, which can only make it faster. Needs aiohttp.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import statistics
import sys

from peers.runs import PeerError, reading, run
from peers.served_program import ServedProgram, free_port

HERE = pathlib.Path(__file__).resolve().parent


@dataclasses.dataclass
class Figures:
    """The results of one level in one round."""

    tokens_per_second: float
    first_token: float = float("nan")  # ms, median
    between_tokens: float = float("nan")  # ms, p99


class HttpServer(ServedProgram):
    def measure(self, users: int, arguments: argparse.Namespace, seed: int) -> Figures:
        output = run([sys.executable, HERE / "load_server.py", "--url", self.url, "--json", "--concurrency", users,
                      "--requests", users * arguments.requests_of_user, "--prompt-tokens", arguments.prompt_tokens,
                      "--output-tokens", arguments.output_tokens, "--seed", seed])
        with reading(f"the output of load_server.py for {self.name}"):
            told = json.loads(output)
            return Figures(told["output_tokens_per_second"], told["ttft_ms"]["median"],
                           told["itl_ms"].get("p99", float("nan")))

class OpenVino:
    """Runs ContinuousBatchingPipeline in a separate process for each level, because it is not available in this one."""

    name = "OpenVINO"

    def __init__(self, python: pathlib.Path, model: pathlib.Path, threads: int):
        self._command = [python, HERE / "peers/openvino_serving_child.py", model, threads]

    def measure(self, users: int, arguments: argparse.Namespace, seed: int) -> Figures:
        output = run([*self._command, users, users * arguments.requests_of_user, arguments.prompt_tokens, arguments.output_tokens,
                      seed])
        with reading("output of openvino_serving_child.py"):
            return Figures(float(json.loads(output.splitlines()[-1])["tokens_per_second"]))

    def stop(self) -> None:
        pass


def start_programs(arguments: argparse.Namespace) -> list:
    arguments.logs.mkdir(parents=True, exist_ok=True)
    most = max(arguments.levels)
    port = free_port()
    programs = [HttpServer("ballast", [arguments.ballast, "serve", arguments.model, "--port", port,
                                       "-t", arguments.threads], port, arguments.logs / "ballast.log")]
    if arguments.llama_server:
        port = free_port()
        context = most * (arguments.prompt_tokens + arguments.output_tokens + 64)
        programs.append(HttpServer(
            "llama-server", [arguments.llama_server, "-m", arguments.gguf, "--port", port, "--parallel", most, "-c", context,
                             "-t", arguments.threads, "-tb", arguments.threads, "-fa", "on", *arguments.llama_options],
            port, arguments.logs / "llama-server.log"))
    if arguments.openvino_python:
        programs.append(OpenVino(arguments.openvino_python, arguments.openvino_model, arguments.threads))
    return programs


def measure_all(programs: list, arguments: argparse.Namespace) -> dict:
    """Returns results as [level][program][round]."""
    found = {level: {program.name: [] for program in programs} for level in arguments.levels}
    for number in range(arguments.rounds):
        for level in arguments.levels:
            for program in programs if number % 2 == 0 else programs[::-1]:
                figures = program.measure(level, arguments, seed=1000 * number + level)
                found[level][program.name].append(figures)
                print(f"compare_servers: round {number + 1}, {level} at once, {program.name}: "
                      f"{figures.tokens_per_second:.1f} tokens/s", file=sys.stderr, flush=True)
    return found


def median_of(all_figures: list[Figures], field: str) -> float:
    return statistics.median(getattr(figures, field) for figures in all_figures)


def print_table(found: dict) -> None:
    names = list(next(iter(found.values())))
    rivals = names[1:]
    print("| at once | " + " | ".join(f"{name}, tokens/s" for name in names) +
          "".join(f" | beside {name}" for name in rivals) + " | " +
          " | ".join(f"{name}: TTFT, ITL p99" for name in names if name != OpenVino.name) + " |")
    print("|---" * (len(names) + len(rivals) + 1 + sum(name != OpenVino.name for name in names)) + "|")
    for level, programs in found.items():
        cells = [str(level)] + [f"{median_of(programs[name], 'tokens_per_second'):.0f}" for name in names]
        for rival in rivals:
            ratios = [ours.tokens_per_second / theirs.tokens_per_second
                      for ours, theirs in zip(programs[names[0]], programs[rival])]
            cells.append(f"{statistics.median(ratios):.2f}x")
        cells += [f"{median_of(programs[name], 'first_token'):.0f} ms, {median_of(programs[name], 'between_tokens'):.0f} ms"
                  for name in names if name != OpenVino.name]
        print("| " + " | ".join(cells) + " |")


def levels(text: str) -> list[int]:
    values = [int(value) for value in text.split(",")]
    if min(values) < 1:
        raise ValueError
    return values


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ballast", default="build/release/ballast", help="the program (default %(default)s)")
    parser.add_argument("--model", type=pathlib.Path, required=True, help="the model for ballast")
    parser.add_argument("--llama-server", type=pathlib.Path, metavar="PROGRAM")
    parser.add_argument("--gguf", type=pathlib.Path, metavar="FILE", help="the model for llama-server")
    parser.add_argument("--llama-option", dest="llama_options", action="append", default=[], metavar="WORD",
                        help="an option for llama-server, repeatable: --llama-option=-ctk --llama-option=q8_0")
    parser.add_argument("--openvino-python", type=pathlib.Path, metavar="PYTHON",
                        help="Python of an environment with openvino-genai")
    parser.add_argument("--openvino-model", type=pathlib.Path, metavar="DIR", help="a model exported by optimum-cli")
    parser.add_argument("--levels", type=levels, default="1,2,4,8,16,32", metavar="LIST", help="(default %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="(default %(default)s)")
    parser.add_argument("--prompt-tokens", type=int, default=128, metavar="N", help="(default %(default)s)")
    parser.add_argument("--output-tokens", type=int, default=128, metavar="N", help="(default %(default)s)")
    parser.add_argument("--requests-of-user", type=int, default=4, metavar="N", help="(default %(default)s)")
    parser.add_argument("--threads", type=int, metavar="N", default=len(os.sched_getaffinity(0)),
                        help="threads of every program (default: the available processors, %(default)s)")
    parser.add_argument("--logs", type=pathlib.Path, default=pathlib.Path("build/servers"), metavar="DIR",
                        help="folder for the servers' logs (default %(default)s)")
    arguments = parser.parse_args()
    for program, file in (("llama_server", "gguf"), ("openvino_python", "openvino_model")):
        if (getattr(arguments, program) is None) != (getattr(arguments, file) is None):
            parser.error(f"--{program.replace('_', '-')} and --{file.replace('_', '-')} need each other")
    return arguments


def main() -> int:
    arguments = parse_arguments()
    programs = []
    try:
        programs = start_programs(arguments)
        print_table(measure_all(programs, arguments))
    except PeerError as error:
        sys.exit(f"compare_servers: {error}")
    except KeyboardInterrupt:
        return 130
    finally:
        for program in programs:
            program.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
