#!/usr/bin/env python3
"""Counts the instructions of the inner loops of quantized products, from the disassembly of a program.

    scripts/count_instructions.py build/release/ballast
    scripts/count_instructions.py build/aarch64/ballast

Each line is a kernel's tile for the largest number of tokens: its loop over blocks of 32 columns, or over whole groups
if each is one block, with the instructions for scales and sums. A dot product is one instruction that multiplies bytes;
the fewer instructions a loop needs for each of them, the closer it can come to the peak. SVE is counted with vectors of
128 bits.
"""

import argparse
import dataclasses
import re
import subprocess
import sys

FUNCTION = re.compile(r"^[0-9a-f]+ <void ballast::kernels::N_(\w+)::multiply_tokens_of<"
                      r"ballast::kernels::N_\w+::(\w+), (\d+)ul, (\d+), (\d+), (\d+)ul, "
                      r"ballast::kernels::N_\w+::(\w+)>")
INSTRUCTION = re.compile(r"^\s*([0-9a-f]+):\s+(?:\{\w+\}\s+)?([a-z][\w.]*)\s*(.*)$")
JUMP_TARGET = re.compile(r"\b([0-9a-f]+) <")
# For each instruction, how often it multiplies every byte of its registers. sadalp is the last of four instructions of
# NEON without sdot.
DOTS = {"vpdpbusd": 1, "vpmaddubsw": 1, "pmaddubsw": 1, "sdot": 1, "sadalp": 1, "smmla": 2}
REGISTER_BYTES = {"z": 64, "y": 32, "x": 16}
ELF_MACHINE = slice(18, 20)
OBJDUMPS = {62: "objdump", 183: "aarch64-linux-gnu-objdump"}


@dataclasses.dataclass
class Kernel:
    target: str
    dots: str
    planes: int
    bits: int
    code_bits: int
    group_blocks: int
    fetch: str
    instructions: list = dataclasses.field(default_factory=list)  # (address, mnemonic, operands)

    def tokens(self) -> str:
        return "few" if self.fetch == "FetchWithBlocks" else "many"

    def order(self) -> tuple:
        return (self.target, self.dots, self.planes, self.tokens(), self.code_bits, self.group_blocks)

    def weights(self) -> str:
        return f"{self.code_bits} bits" if self.bits == self.code_bits else f"{self.code_bits} bits in bytes"


@dataclasses.dataclass
class Loop:
    instructions: int
    dots: int
    multiply_adds: int


def read_kernels(program: str) -> list[Kernel]:
    with open(program, "rb") as file:
        machine = int.from_bytes(file.read(20)[ELF_MACHINE], "little")
    objdump = OBJDUMPS.get(machine, "objdump")
    listing = subprocess.run([objdump, "-d", "-C", "--no-show-raw-insn", program], capture_output=True, text=True,
                             check=True).stdout
    kernels, kernel = [], None
    for line in listing.splitlines():
        if line.endswith(">:"):
            match = FUNCTION.match(line)
            kernel = Kernel(match[1], match[2], *map(int, match.groups()[2:6]), match[7]) if match else None
            if kernel:
                kernels.append(kernel)
        elif kernel and (match := INSTRUCTION.match(line)):
            kernel.instructions.append((int(match[1], 16), match[2], match[3]))
    return kernels


def inner_loops(kernel: Kernel) -> list[Loop]:
    """Returns the innermost loops with dot products."""
    addresses = {address: index for index, (address, _, _) in enumerate(kernel.instructions)}
    dots = [index for index, (_, name, _) in enumerate(kernel.instructions) if name in DOTS]
    ranges = set()
    for index, (address, name, operands) in enumerate(kernel.instructions):
        match = JUMP_TARGET.search(operands) if name.startswith(("j", "b", "cb", "tb")) else None
        begin = addresses.get(int(match[1], 16)) if match else None
        if begin is not None and begin < index and any(begin <= dot <= index for dot in dots):
            ranges.add((begin, index))
    inner = [(begin, end) for begin, end in ranges
             if not any((b, e) != (begin, end) and begin <= b and e <= end for b, e in ranges)]
    return [measure(kernel, begin, end) for begin, end in inner]


def measure(kernel: Kernel, begin: int, end: int) -> Loop:
    loop = kernel.instructions[begin:end + 1]
    dots = [(name, re.search(r"%([xyz])mm\d+$", operands)) for _, name, operands in loop if name in DOTS]
    multiply_adds = sum(DOTS[name] * (REGISTER_BYTES[register[1]] if register else 16) for name, register in dots)
    return Loop(len(loop), len(dots), multiply_adds)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    kernels = read_kernels(parser.parse_args().program)
    if not kernels:
        print("count_instructions: the program has no such kernels, or no symbols", file=sys.stderr)
        return 1
    print("| instruction set | dot product | tokens | codes | activations | loop over | instructions | dot products "
          "| instructions per dot product | multiply-adds per instruction |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for kernel in sorted(kernels, key=Kernel.order):
        loops = inner_loops(kernel)
        if not loops:
            continue
        loop = max(loops, key=lambda each: (each.dots, -each.instructions))
        print(f"| {kernel.target} | {kernel.dots} | {kernel.tokens()} | {kernel.weights()} | {8 * kernel.planes} bits | "
              f"{'groups of 32' if kernel.group_blocks == 1 else 'blocks'} | {loop.instructions} | {loop.dots} | "
              f"{loop.instructions / loop.dots:.2f} | {loop.multiply_adds / loop.instructions:.1f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
