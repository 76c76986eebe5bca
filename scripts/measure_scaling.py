#!/usr/bin/env python3
"""Measures `ballast bench` with 1, 2, ... threads and after increasing numbers of tokens, and prints Markdown tables.

    measure_scaling.py --model smollm2-w8a8 --ballast build/release/ballast --lengths 0,4096,8192,16384,32768

Each round runs all settings in turns; results are medians over the rounds. Lengths may exceed the context of models
with RoPE, because the cost does not depend on positions. The cache is INT8. Needs only Python.
"""

import argparse
import collections
import pathlib
import statistics
import sys

from peers.programs import ballast_bench
from peers.runs import PeerError, Workload
from peers.summary import format_speed, markdown_rows


def numbers(least: int):
    def parse(text: str) -> list[int]:
        values = [int(word) for word in text.split(",")]
        if min(values) < least:
            raise ValueError
        return values

    parse.__name__ = f"list of numbers from {least}"  # for the messages of argparse
    return parse


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=pathlib.Path, required=True, help="directory that ballast wrote")
    parser.add_argument("--ballast", default="build/release/ballast", help="the program (default %(default)s)")
    parser.add_argument("--threads", type=numbers(1), default=[1, 2], metavar="LIST", help="(default 1,2)")
    parser.add_argument("--lengths", type=numbers(0), default=[0, 4096, 8192, 16384, 32768], metavar="LIST",
                        help="tokens in the cache (default 0,4096,8192,16384,32768), with the most threads")
    parser.add_argument("--prompt", type=int, default=512, metavar="N", help="(default %(default)s)")
    parser.add_argument("--generate", type=int, default=64, metavar="N", help="(default %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="(default %(default)s)")
    arguments = parser.parse_args()
    if min(arguments.rounds, arguments.prompt, arguments.generate) < 1:
        parser.error("--rounds, --prompt and --generate are at least 1")
    return arguments


def measure(arguments: argparse.Namespace) -> dict[tuple[int, int], tuple[float, float]]:
    """Returns (threads, depth) -> median tokens/s of the prompt and of generation."""
    most = max(arguments.threads)
    settings = list(dict.fromkeys([(threads, 0) for threads in arguments.threads] +
                                  [(most, depth) for depth in arguments.lengths]))
    speeds = collections.defaultdict(list)
    for turn in range(1, arguments.rounds + 1):
        for threads, depth in settings:
            load = Workload(depth, arguments.prompt, arguments.generate)
            prompt, generate = (result["tokens_per_second"] for result in ballast_bench(
                arguments.ballast, arguments.model, load, threads, "int8")["results"])
            speeds[threads, depth].append((prompt, generate))
            print(f"measure_scaling: round {turn} of {arguments.rounds}: {threads} threads after {depth} tokens: "
                  f"{format_speed(prompt)} and {format_speed(generate)} tokens/s", file=sys.stderr, flush=True)
    return {key: tuple(map(statistics.median, zip(*values))) for key, values in speeds.items()}


def print_tables(arguments: argparse.Namespace, speeds: dict) -> None:
    prompt, generate = f"pp{arguments.prompt}", f"tg{arguments.generate}"
    base = speeds[arguments.threads[0], 0]
    rows = [["threads", f"{prompt}, tokens/s", "ratio", f"{generate}, tokens/s", "ratio"]]
    for threads in arguments.threads:
        own = speeds[threads, 0]
        rows.append([str(threads), format_speed(own[0]), f"{own[0] / base[0]:.2f}x", format_speed(own[1]),
                     f"{own[1] / base[1]:.2f}x"])
    print(markdown_rows(rows))
    rows = [["tokens in the cache", f"{prompt}, tokens/s", "ms per token", f"{generate}, tokens/s", "ms per token"]]
    for depth in arguments.lengths:
        own = speeds[max(arguments.threads), depth]
        rows.append([f"{depth:,}", format_speed(own[0]), f"{1e3 / own[0]:.2f}", format_speed(own[1]),
                     f"{1e3 / own[1]:.2f}"])
    print(markdown_rows(rows), end="")


def main() -> None:
    arguments = parse_arguments()
    try:
        print_tables(arguments, measure(arguments))
    except PeerError as error:
        sys.exit(f"measure_scaling: {error}")
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
