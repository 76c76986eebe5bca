#!/usr/bin/env python3
"""Compares ballast's values of random GGUF blocks with those of the `gguf` package, bit for bit.

Every bit is random, so that one scale in 32 is infinite or not a number; values that are not numbers count as equal.
Needs build/release/decode_blocks and: pip install gguf safetensors numpy.
"""

import argparse
import pathlib
import subprocess
import sys

import numpy as np

from make_golden_ggml import SCALES, decoded, random_blocks

CHUNK = 10_000  # blocks


def main() -> None:
    default = pathlib.Path(__file__).resolve().parent.parent / "build/release/decode_blocks"
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--decoder", type=pathlib.Path, default=default)
    parser.add_argument("--blocks", type=int, default=100_000, help="blocks of each type")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()

    rng = np.random.default_rng(arguments.seed)
    failed = False
    for name in SCALES:
        different = odd = values = 0
        for start in range(0, arguments.blocks, CHUNK):
            blocks = random_blocks(rng, name, min(CHUNK, arguments.blocks - start))
            ours = subprocess.run([arguments.decoder, name], input=blocks.tobytes(), stdout=subprocess.PIPE, check=True)
            bits = np.frombuffer(ours.stdout, dtype=np.uint32)
            expected = decoded(blocks, name).ravel()
            floats = bits.view(np.float32)
            odd += int(np.sum(~np.isfinite(floats)))
            values += expected.size
            different += int(np.sum(np.where(np.isnan(floats), np.uint32(0x7FC00000), bits) != expected))
        failed |= different > 0
        print(f"{name:8} {arguments.blocks} blocks, {values} values, {odd} of them not finite: {different} differ")
    sys.exit(failed)


if __name__ == "__main__":
    main()
