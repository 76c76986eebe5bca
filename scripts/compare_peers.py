#!/usr/bin/env python3
"""Measures the speed of ballast, llama.cpp and OpenVINO GenAI on one model, in turns, and writes a table and a chart.

    compare_peers.py --model SmolLM2-135M --ballast build/release/ballast --out build/peers \\
        --llama-bin llama.cpp/build/bin --openvino-python openvino/bin/python

Each round runs every program once on every test, so that the state of the machine is the same for all. Results are
medians over the rounds, and ratios are taken within a round. Peers without an option, and unusable ones, are left out.
Converted models stay in OUT/models and are reused, for the same --model and --gguf only. docs/performance.md describes
the requirements of the peers and the tests.

Writes OUT/speed.md, OUT/speed.svg and OUT/runs.json (every single run). Needs only Python.
"""

import argparse
import dataclasses
import itertools
import json
import os
import pathlib
import sys

from peers import bar_chart, programs, summary
from peers.runs import PeerError, Run, parse_tests


def say(text: str) -> None:
    print(f"compare_peers: {text}", file=sys.stderr, flush=True)


def positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise ValueError
    return value


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=pathlib.Path, required=True, help="Hugging Face directory")
    parser.add_argument("--ballast", default="build/release/ballast", help="the program (default %(default)s)")
    parser.add_argument("--llama-bin", type=pathlib.Path, metavar="DIR", help="folder with llama-bench and llama-quantize")
    parser.add_argument("--gguf", type=pathlib.Path, metavar="FILE",
                        help="the model as an F16 or BF16 GGUF; by default one is written (llama, mistral, qwen2)")
    parser.add_argument("--openvino-python", type=pathlib.Path, metavar="PYTHON",
                        help="Python of an environment with openvino-genai, optimum-intel and nncf")
    parser.add_argument("--tests", default="pp512,tg128,pp512@4096,tg128@4096", metavar="LIST",
                        help="prompts and generations, @ tokens in an INT8 cache (default %(default)s)")
    parser.add_argument("--schemes", default="w8a8,w4a8,w4a16", metavar="LIST", help="schemes of ballast (default %(default)s)")
    parser.add_argument("--rounds", type=positive, default=5, metavar="N", help="(default %(default)s)")
    parser.add_argument("--threads", type=positive, metavar="N", default=len(os.sched_getaffinity(0)),
                        help="threads of every program (default: the available processors, %(default)s)")
    parser.add_argument("--out", type=pathlib.Path, required=True, metavar="DIR")
    arguments = parser.parse_args()
    try:
        arguments.workloads = parse_tests(arguments.tests.split(","))
    except ValueError as error:
        parser.error(str(error))
    arguments.schemes = arguments.schemes.split(",")
    for scheme in arguments.schemes:
        if scheme not in summary.RIVALS:
            parser.error(f"{scheme}: the schemes are {', '.join(summary.RIVALS)}")
    return arguments


def find_peers(arguments: argparse.Namespace) -> list:
    """Returns the peers that are requested and usable; names the others."""
    makers = {
        "llama.cpp": (arguments.llama_bin, "--llama-bin",
                      lambda given: programs.LlamaCpp(given, arguments.gguf, arguments.threads)),
        "OpenVINO": (arguments.openvino_python, "--openvino-python",
                     lambda given: programs.OpenVino(given, arguments.threads)),
    }
    found = []
    for name, (given, flag, maker) in makers.items():
        try:
            if given is None:
                raise PeerError(f"no {flag}")
            found.append(maker(given))
        except PeerError as error:
            say(f"{name} is left out: {error}")
    return found


def prepare(ballast: programs.Ballast, peers: list, arguments: argparse.Namespace) -> list[tuple]:
    """Returns the (program, variant) pairs to measure, each with its own model. A peer that fails is left out."""
    work = arguments.out / "models"
    wanted = {variant for scheme in arguments.schemes for variant in summary.RIVALS[scheme][1].values()}
    contestants = []
    for program in [ballast, *peers]:
        variants = arguments.schemes if program is ballast else [v for v in program.variants if v in wanted]
        for variant in variants:
            say(f"{program.name} {variant}: model")
            try:
                program.prepare(variant, arguments.model, work)
            except PeerError as error:
                if program is ballast:
                    raise
                say(f"{program.name} {variant} is left out: {error}")
                continue
            contestants.append((program, variant))
    return contestants


def measure(contestants: list[tuple], arguments: argparse.Namespace) -> list[Run]:
    runs, failed = [], set()
    turns = range(1, arguments.rounds + 1)
    for turn, load, (program, variant) in itertools.product(turns, arguments.workloads, contestants):
        if (program, variant) in failed:
            continue
        try:
            speeds = program.measure(variant, load)
        except PeerError as error:
            if isinstance(program, programs.Ballast):
                raise
            say(f"{program.name} {variant} is left out from here: {error}")
            failed.add((program, variant))
            continue
        for speed in speeds:
            say(f"round {turn} of {arguments.rounds}: {program.name} {variant} {speed.test} "
                f"{summary.format_speed(speed.tokens_per_second)} tokens/s")
            runs.append(Run(turn, program.name, variant, speed))
    return runs


def compare(arguments: argparse.Namespace) -> None:
    ballast = programs.Ballast(arguments.ballast, arguments.threads)
    contestants = prepare(ballast, find_peers(arguments), arguments)
    runs = measure(contestants, arguments)
    rows = summary.summarize(runs)
    machine = summary.describe_machine(ballast.machines, arguments.rounds)
    table = summary.markdown_table(rows)
    caption = f"{arguments.model.resolve().name}: {machine}"
    (arguments.out / "speed.md").write_text(f"{caption}\n\n{table}", encoding="utf-8")
    (arguments.out / "speed.svg").write_text(bar_chart.draw(rows, caption), encoding="utf-8")
    record = {"model": arguments.model.resolve().name, "machines": ballast.machines,
              "runs": [dataclasses.asdict(run) for run in runs]}
    (arguments.out / "runs.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(f"{caption}\n\n{table}", end="")


def main() -> None:
    try:
        compare(parse_arguments())
    except PeerError as error:
        sys.exit(f"compare_peers: {error}")
    except OSError as error:
        sys.exit(f"compare_peers: {error.filename}: {error.strerror}" if error.filename else f"compare_peers: {error}")
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
