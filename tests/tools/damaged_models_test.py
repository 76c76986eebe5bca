#!/usr/bin/env python3
"""Damages models' files and lets ballast read them: each is read, or refused in one line.

    damaged_models_test.py BALLAST MODEL... [--count 200] [--seed 1] [--file tekken.json] [--by chat]

Of each MODEL (a directory or a GGUF file) so many damaged copies are made, one file of it (--file: that one) cut off, with
a byte changed, a piece moved, or a number of its JSON replaced. Without --by, `ballast verify` reads a copy where
expected.safetensors is in the model or in the directory of a GGUF's name without .gguf, else `ballast embed` where
there
is a modules.json, else `ballast run`. What is neither status 0 nor status 1 with one line on standard error, and a model
that is not read undamaged, fails.
"""

import argparse
import collections
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile

NUMBERS = [b"0", b"-1", b"1", b"3", b"1e30", b"4294967295", b"9223372036854775807", b'"x"', b"null", b"[]", b"{}"]
READABLE = (".json", ".safetensors", ".gguf", ".txt", ".model", ".tiktoken", ".jinja")


def cut(rng: random.Random, data: bytes) -> bytes:
    return data[: rng.randrange(len(data))]


def change_byte(rng: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    # The beginning of a file describes the rest, so it is damaged more often.
    changed[rng.randrange(len(data) if rng.random() < 0.3 else min(len(data), 4096))] ^= rng.randrange(1, 256)
    return bytes(changed)


def move_piece(rng: random.Random, data: bytes) -> bytes:
    begin = rng.randrange(len(data))
    end = min(len(data), begin + rng.randrange(1, 64))
    to = rng.randrange(len(data))
    return data[:to] + data[begin:end] + data[to:]


def replace_number(rng: random.Random, data: bytes) -> bytes:
    numbers = list(re.finditer(rb"(?<=[:\[,])\s*-?\d+(\.\d+)?", data[: 1 << 16]))
    if not numbers:
        return change_byte(rng, data)
    found = rng.choice(numbers)
    return data[: found.start()] + rng.choice(NUMBERS) + data[found.end() :]


DAMAGES = (cut, change_byte, move_piece, replace_number)


def expected_of(model: pathlib.Path) -> pathlib.Path:
    return (model if model.is_dir() else model.with_suffix("")) / "expected.safetensors"


def reading(arguments: argparse.Namespace, model: pathlib.Path, copy: pathlib.Path, folder: pathlib.Path) -> list[str]:
    by = arguments.by or (
        "verify" if expected_of(model).exists() else "embed" if (model / "modules.json").exists() else "run")
    options = {
        # Only shapes matter here, not the effect of a flipped bit on a weight.
        "verify": ["--expected", str(expected_of(model)), "--tolerance", "1e30"],
        "embed": ["--text", str(folder / "text.txt"), "-o", str(folder / "out.npy"), "--force"],
        "run": ["-p", "a", "-n", "2"],
        "chat": ["--chat", "-p", "a", "-n", "2"],
    }
    return [arguments.ballast, "run" if by == "chat" else by, str(copy), *options[by]]


def damaged(
    rng: random.Random, model: pathlib.Path, folder: pathlib.Path, only: str | None
) -> tuple[pathlib.Path, str]:
    """Returns a damaged copy in `folder`, and a description of the damage."""
    copy = folder / model.name
    if model.is_dir():
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(model, copy)
        files = sorted(f for f in copy.rglob("*") if f.suffix in READABLE and not f.name.startswith("expected"))
        files = [f for f in files if only in (None, f.name)]
    else:
        shutil.copyfile(model, copy)
        files = [copy]
    file, damage = rng.choice(files), rng.choice(DAMAGES)
    file.write_bytes(damage(rng, file.read_bytes()))
    return copy, f"{file.relative_to(folder)}: {damage.__name__}"


def check(arguments: argparse.Namespace, model: pathlib.Path, folder: pathlib.Path) -> bool:
    rng = random.Random(f"{arguments.seed} {model.name}")
    (folder / "text.txt").write_text("a\n")
    subprocess.run(reading(arguments, model, model, folder), check=True, capture_output=True)
    ends = collections.Counter()
    for number in range(arguments.count):
        copy, what = damaged(rng, model, folder, arguments.file)
        command = reading(arguments, model, copy, folder)
        result = subprocess.run(command, capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL)
        lines = result.stderr.strip().splitlines()
        refused = result.returncode == 1 and len(lines) == 1
        if not refused and result.returncode != 0:
            print(f"{model.name}: damage {number}, {what}: status {result.returncode}, {lines[-3:]}", file=sys.stderr)
            ends["failed"] += 1
        else:
            ends["refused in one line" if refused else "read"] += 1
    found = ", ".join(f"{n} {end}" for end, n in sorted(ends.items()))
    print(f"{model.name}: {arguments.count} damaged: {found}", flush=True)
    return ends["failed"] == 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("ballast")
    parser.add_argument("models", type=pathlib.Path, nargs="+", metavar="MODEL")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--file", metavar="NAME", help="damage only files of this name")
    parser.add_argument("--by", choices=("verify", "embed", "run", "chat"), help="the command that reads copies")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        passed = [check(arguments, model, pathlib.Path(folder)) for model in arguments.models]
    sys.exit(0 if all(passed) else 1)


if __name__ == "__main__":
    main()
