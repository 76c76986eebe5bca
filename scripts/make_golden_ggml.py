#!/usr/bin/env python3
"""Writes tests/data/ggml_blocks.safetensors: blocks of every GGUF type that ballast decodes, and hashes of their values.

The values come from gguf.quants.dequantize of the `gguf` package. Blocks are random bits, so that every bit of a block
counts; the scales of the first ones are infinite, not a number, subnormal and the largest. Needs: pip install gguf
safetensors numpy.
"""

import argparse
import pathlib

import gguf
import numpy as np
from safetensors.numpy import save_file

# Byte positions of the 16-bit floats in a block. IQ1_M has a quarter of one in each of four words.
SCALES = {"Q8_0": [0], "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q2_K": [80, 82], "Q3_K": [108],
          "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "IQ1_S": [0], "IQ1_M": [], "IQ2_XXS": [0], "IQ2_XS": [0],
          "IQ2_S": [0], "IQ3_XXS": [0], "IQ3_S": [0], "IQ4_NL": [0], "IQ4_XS": [0], "TQ1_0": [52], "TQ2_0": [64],
          "MXFP4": [], "NVFP4": []}
ODD_SCALES = [0x7C00, 0xFE00, 0x0001, 0xFBFF]
GRIDS = ["IQ1_S", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S"]


def random_blocks(rng: np.random.Generator, name: str, count: int) -> np.ndarray:
    _, block_bytes = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[name]]
    return rng.integers(0, 256, size=(count, block_bytes), dtype=np.uint8)


def set_odd_scales(blocks: np.ndarray, name: str) -> None:
    for block, bits in zip(blocks, ODD_SCALES):
        for position in SCALES[name]:
            block[position:position + 2] = np.array([bits], dtype=np.uint16).view(np.uint8)
    if name == "IQ1_M":
        for block, bits in zip(blocks, ODD_SCALES):
            for quarter in range(4):
                block[49 + 2 * quarter] = block[49 + 2 * quarter] & 0x0F | (bits >> 4 * quarter & 0x0F) << 4
    elif name == "MXFP4":
        blocks[:4, 0] = [0, 1, 254, 255]
    elif name == "NVFP4":
        blocks[:4, 0] = [0, 0x7F, 0xFF, 7]


def decoded(blocks: np.ndarray, name: str) -> np.ndarray:
    """Returns the bits of the values, with one pattern for all NaNs."""
    with np.errstate(all="ignore"):
        values = gguf.quants.dequantize(blocks, gguf.GGMLQuantizationType[name])
    values = np.ascontiguousarray(values, dtype=np.float32)
    return np.where(np.isnan(values), np.uint32(0x7FC00000), values.view(np.uint32))


def fnv1a(words: np.ndarray) -> np.ndarray:
    """Returns the 64-bit FNV-1a hash over whole words, as 8 bytes."""
    value = 0xCBF29CE484222325
    for word in words.tolist():
        value = (value ^ word) * 0x100000001B3 % (1 << 64)
    return np.array([value], dtype=np.uint64).view(np.uint8)


def main() -> None:
    default = pathlib.Path(__file__).resolve().parent.parent / "tests/data/ggml_blocks.safetensors"
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=pathlib.Path, default=default)
    parser.add_argument("--blocks", type=int, default=6, help="blocks of each type")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()

    rng = np.random.default_rng(arguments.seed)
    tensors = {}
    for name in SCALES:
        blocks = random_blocks(rng, name, arguments.blocks)
        set_odd_scales(blocks, name)
        hashes = np.stack([fnv1a(values) for values in decoded(blocks, name)])
        tensors[name] = np.concatenate([blocks, hashes], axis=1)  # each row is a block and the hash of its values
    for name in GRIDS:
        grid = getattr(gguf.quants, name).grid  # made when the type was first decoded
        tensors[f"{name}.grid"] = fnv1a(grid.astype(np.int8).view(np.uint8).ravel())
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    save_file(tensors, arguments.output)
    arguments.output.chmod(0o644)  # save_file makes files that only their owner can read


if __name__ == "__main__":
    main()
