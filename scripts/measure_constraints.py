#!/usr/bin/env python3
"""Measures what a constraint costs: tokens per second of `ballast run` with a JSON Schema and without, in turns.

The schema is a long list of objects, so that the answer goes on until it is cut off. No tokens are drafted.

    scripts/measure_constraints.py build/release/ballast MODEL [--tokens 200] [--rounds 5] [--threads 2]
"""

import argparse
import json
import pathlib
import re
import statistics
import subprocess
import tempfile

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 40},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "email": {"type": "string"},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["name", "age", "email", "tags"],
}
PROMPT = "A list of the people in a small town, as JSON:\n"


def speed(arguments, flags):
    command = [arguments.program, "run", arguments.model, "-p", PROMPT, "-n", str(arguments.tokens),
               "--draft-tokens", "0", *flags]
    if arguments.threads:
        command += ["--threads", str(arguments.threads)]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    found = re.search(r"generated: ([\d,]+) tokens, ([\d,.]+) tokens/s", run.stderr)
    if not found:
        raise SystemExit(f"no speed in: {run.stderr}")
    return int(found[1].replace(",", "")), float(found[2].replace(",", ""))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        schema = pathlib.Path(folder) / "schema.json"
        schema.write_text(json.dumps({"type": "array", "items": PERSON, "minItems": 1000}))
        ratios = []
        for _ in range(arguments.rounds):
            free, constrained = speed(arguments, []), speed(arguments, ["--json-schema", str(schema)])
            ratios.append(constrained[1] / free[1])
            print(f"without: {free[0]} tokens, {free[1]:.1f} tokens/s; with: {constrained[0]} tokens, "
                  f"{constrained[1]:.1f} tokens/s; {100 * (ratios[-1] - 1):+.1f} %")
        print(f"median {100 * (statistics.median(ratios) - 1):+.1f} % tokens per second")


if __name__ == "__main__":
    main()
