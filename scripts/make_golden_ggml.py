#!/usr/bin/env python3
"""Writes tests/data/ggml_blocks.safetensors: blocks of every GGUF type that ballast decodes, and their values.

The values come from gguf.quants.dequantize of the `gguf` package. Blocks are random bits under finite 16-bit scales, so
that every bit of a block counts. Needs: pip install gguf safetensors numpy.
"""

import argparse
import pathlib

import gguf
import numpy as np
from safetensors.numpy import save_file

# Byte positions of the 16-bit floats in a block.
SCALES = {"Q8_0": [0], "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q4_K": [0, 2], "Q5_K": [0, 2],
          "Q6_K": [208]}


def random_blocks(rng: np.random.Generator, name: str, count: int) -> np.ndarray:
    _, block_bytes = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[name]]
    blocks = rng.integers(0, 256, size=(count, block_bytes), dtype=np.uint8)
    for position in SCALES[name]:
        bits = rng.integers(0, 1 << 16, size=count, dtype=np.uint16)
        bits[(bits & 0x7C00) == 0x7C00] &= 0x83FF  # neither infinite nor NaN; subnormal instead
        blocks[:, position:position + 2] = bits.view(np.uint8).reshape(count, 2)
    return blocks


def main() -> None:
    default = pathlib.Path(__file__).resolve().parent.parent / "tests/data/ggml_blocks.safetensors"
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=pathlib.Path, default=default)
    parser.add_argument("--blocks", type=int, default=4, help="blocks of each type")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()

    rng = np.random.default_rng(arguments.seed)
    tensors = {}
    for name in SCALES:
        blocks = random_blocks(rng, name, arguments.blocks)
        values = gguf.quants.dequantize(blocks, gguf.GGMLQuantizationType[name])
        tensors[f"{name}.blocks"] = blocks
        tensors[f"{name}.values"] = np.ascontiguousarray(values, dtype=np.float32)
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    save_file(tensors, arguments.output)
    arguments.output.chmod(0o644)  # save_file makes files that only their owner can read


if __name__ == "__main__":
    main()
