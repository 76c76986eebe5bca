#!/usr/bin/env python3
"""Measures the cost of Python relative to the program: generation and conversion in turns, and the medians of both.

    PYTHONPATH=build/release/python measure_cost.py smollm2-w8a8 --original SmolLM2-135M --stats smollm2.stats

Each round continues a text of MODEL by `ballast run`, by Model.generate and by a stream, without drafts, whose number
hangs on how long things take; and, with --original, converts that by `ballast convert` and by ballast.convert, each in
a process of its own. Speeds are of the tokens after the prompt, by Generation.seconds as the program prints them, of a
stream by Python's clock from its first piece to its end. The time of a call besides prompt and tokens is printed
separately.
Conversions are timed from the process' start to its end, so that Python's have its imports in them. Needs a machine
that does nothing else.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

PROMPT = "The ship took on water faster than the crew could pump it out, and"

GENERATE = """
import sys, time, ballast
model = ballast.Model(sys.argv[1])
begin = time.perf_counter()
if sys.argv[4] == "stream":
    stream = model.generate(sys.argv[2], max_tokens=int(sys.argv[3]), draft_tokens=0, stream=True)
    sys.stdout.write(next(stream, ""))
    first = time.perf_counter()
    for piece in stream:
        sys.stdout.write(piece)
    generation = stream.result
    speed = len(generation.ids) / (time.perf_counter() - first)  # as Generation.seconds: from the first token on
else:
    generation = model.generate(sys.argv[2], max_tokens=int(sys.argv[3]), draft_tokens=0)
    speed = generation.tokens_per_second
besides = time.perf_counter() - begin - generation.prompt_seconds - generation.seconds
print(f"generated: {len(generation.ids)} tokens, {speed:.3f} tokens/s, besides {besides:.4f} s", file=sys.stderr)
"""

CONVERT = """
import sys, ballast
ballast.convert(sys.argv[1], sys.argv[2], scheme=sys.argv[3], preset=sys.argv[4], stats=sys.argv[5], progress=False)
"""


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path, help="what to generate with")
    parser.add_argument("--original", type=pathlib.Path, help="what to convert; needs --stats")
    parser.add_argument("--stats", type=pathlib.Path, help="statistics of the original")
    parser.add_argument("--scheme", default="w8a8", help="of the conversion (default %(default)s)")
    parser.add_argument("--preset", default="fast", help="of the conversion (default %(default)s)")
    parser.add_argument("--program", default=os.environ.get("BALLAST_PROGRAM", "build/release/ballast"),
                        help="(default %(default)s)")
    parser.add_argument("--tokens", type=int, default=128, metavar="N", help="to generate (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=7, metavar="N", help="(default %(default)s)")
    arguments = parser.parse_args()
    if arguments.original is not None and arguments.stats is None:
        parser.error("--original needs --stats, or each conversion would calibrate")
    return arguments


def speed(*command: object) -> tuple[int, float, float]:
    """Returns tokens generated, tokens per second, and the remaining seconds if known."""
    run = subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True)
    told = re.search(r"generated: ([\d,]+) tokens?, ([\d.,]+) tokens/s", run.stderr)
    if told is None:
        sys.exit(f"measure_cost: no speed in what this printed: {' '.join(map(str, command))}\n{run.stderr}")
    besides = re.search(r"besides ([-\d.]+) s", run.stderr)
    return int(told[1].replace(",", "")), float(told[2].replace(",", "")), float(besides[1]) if besides else 0.0


def seconds(*command: object) -> float:
    begin = time.perf_counter()
    subprocess.run(list(map(str, command)), check=True, capture_output=True)
    return time.perf_counter() - begin


def generations(arguments: argparse.Namespace) -> dict[str, list[float]]:
    by_python = (sys.executable, "-c", GENERATE, arguments.model, PROMPT, arguments.tokens)
    commands = {
        "ballast run": (arguments.program, "run", arguments.model, "-p", PROMPT, "-n", arguments.tokens,
                        "--draft-tokens", 0),
        "Model.generate": (*by_python, "whole"),
        "Model.generate, stream": (*by_python, "stream"),
    }
    speeds: dict[str, list[float]] = {name: [] for name in commands}
    besides: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(arguments.rounds):
        told = {name: speed(*command) for name, command in commands.items()}
        if len({tokens for tokens, *_ in told.values()}) != 1:
            sys.exit(f"measure_cost: different numbers of tokens: {told}")
        for name, (_, tokens_per_second, seconds_besides) in told.items():
            speeds[name].append(tokens_per_second)
            besides[name].append(seconds_besides)
    for name in list(commands)[1:]:
        print(f"{name}: {1000 * statistics.median(besides[name]):.1f} ms besides prompt and tokens")
    print()
    return speeds


def conversions(arguments: argparse.Namespace) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {"ballast convert": [], "ballast.convert": []}
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(arguments.rounds):
            theirs, ours = pathlib.Path(folder) / f"program{turn}", pathlib.Path(folder) / f"python{turn}"
            times["ballast convert"].append(seconds(
                arguments.program, "convert", arguments.original, "-o", theirs, "--scheme", arguments.scheme,
                "--preset", arguments.preset, "--stats", arguments.stats, "--quiet"))
            times["ballast.convert"].append(seconds(sys.executable, "-c", CONVERT, arguments.original, ours,
                                                    arguments.scheme, arguments.preset, arguments.stats))
    return times


def print_table(unit: str, measured: dict[str, list[float]]) -> None:
    """Medians, and the median over rounds of the ratio to the first."""
    first = next(iter(measured.values()))
    print(f"| | {unit} | of the program's | from | to |\n|---|---|---|---|---|")
    for name, values in measured.items():
        ratio = statistics.median(own / other for own, other in zip(values, first, strict=True))
        print(f"| {name} | {statistics.median(values):.2f} | {100 * ratio:.1f} % | {min(values):.2f} | "
              f"{max(values):.2f} |")
    print()


def main() -> None:
    arguments = parse_arguments()
    print(f"{arguments.rounds} rounds, load {os.getloadavg()[0]:.2f} before\n")
    print_table("tokens/s", generations(arguments))
    if arguments.original is not None:
        print_table("s", conversions(arguments))


if __name__ == "__main__":
    main()
