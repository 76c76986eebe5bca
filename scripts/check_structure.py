#!/usr/bin/env python3
"""The sizes of functions, classes and folders, and the direction of includes.

    scripts/check_structure.py            names what is over a limit, and fails if anything is
    scripts/check_structure.py --largest  also lists the largest of each kind

Reads the C++ files that git knows or would add. It matches braces, so it needs no compiler; it refuses a file whose
braces do not match, as where a macro opens one and another closes it.
"""

import argparse
import dataclasses
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

MOST_FUNCTION_LINES = 60
MOST_CLASS_LINES = 250
MOST_FILES = 30
LARGEST_SHOWN = 12

# From left to right: a room includes only itself and what is left of it (CMakeLists.txt).
ROOMS = ["ballast", "kernels", "files", "text", "model", "engine", "jobs", "samples", "calib", "quant", "eval", "report", "serve", "tools"]

# A register tile keeps its sums in registers, which it can only as one function.
REGISTER_TILES = re.compile(r"^kernels/.*tile")

# Folders of data, whose names come from elsewhere.
DATA = re.compile(r"^tests/(data|fuzz/(corpus|seeds)|tools/golden/(calibrated|conversions|models))\b")


@dataclasses.dataclass(frozen=True)
class Block:
    kind: str  # "function" or "class"
    name: str
    path: str
    line: int  # counted from 1, of the first line of the declaration
    lines: int

    def __str__(self):
        return f"{self.path}:{self.line}: {self.kind} {self.name} has {self.lines} lines"


def blanked(source):
    """The source with comments, literals and preprocessor lines as spaces; lines stay where they are."""
    pattern = re.compile(
        r'//[^\n]*|/\*.*?\*/|R"([^()\\ ]{0,16})\(.*?\)\1"|"(?:\\.|[^"\\\n])*"'
        r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*",
        re.DOTALL | re.MULTILINE,
    )
    return pattern.sub(lambda match: re.sub(r"[^\n]", " ", match.group(0)), source)


def kind_of(header):
    """What a brace opens, of the text between the last declaration and it."""
    header = re.sub(r"\[\[.*?\]\]", "", header).strip()
    # Arguments of templates and functions say nothing here, but that there are some of a function does.
    flat = re.sub(r"^(template\s*<.*?>\s*)+(?=\w)", "", header, flags=re.DOTALL)
    if re.match(r"(inline\s+)?namespace\b|extern\b\s*$", flat):
        return "namespace"
    if re.match(r"(class|struct|union)\b[^()=]*$", flat):
        return "class"
    if re.match(r"enum\b", flat) or header.endswith("="):
        return "value"
    return "function" if "(" in flat else "value"


def name_of(kind, header):
    if kind == "class":
        words = re.findall(r"(?:class|struct|union)\s+(?:alignas\([^)]*\)\s*)?([\w:]+)", header)
        return words[0] if words else "without a name"
    before = re.match(r"(?:.*?)([\w:~]+|operator[^(]*)\s*\(", header, flags=re.DOTALL)
    return before.group(1) if before else "without a name"


def blocks_of(path, source):
    """Functions and classes of namespaces and classes; what a function holds is a part of it."""
    text = blanked(source)
    found = []
    open_blocks = []  # kind, position of the header
    begin = 0  # of the declaration at hand
    parentheses = 0
    for position, character in enumerate(text):
        in_body = bool(open_blocks) and open_blocks[-1][0] in ("function", "value")
        if character == "{":
            if in_body or parentheses > 0:
                open_blocks.append(("value", begin))
                continue
            header = text[begin:position]
            kind = kind_of(header)
            start = begin + len(header) - len(header.lstrip())
            open_blocks.append((kind, start))
            if kind in ("namespace", "class"):
                begin = position + 1
        elif character == "}" and open_blocks:
            kind, start = open_blocks.pop()
            if open_blocks and open_blocks[-1][0] in ("function", "value") or parentheses > 0:
                continue
            rest = text[position + 1 :].lstrip()
            if kind == "function" and rest[:1] in (",", "{"):
                continue  # a member's value; the constructor's body comes
            if kind in ("function", "class"):
                line = text.count("\n", 0, start) + 1
                header = text[start : text.index("{", start)]
                lines = text.count("\n", start, position) + 1
                found.append(Block(kind, test_name(source, line) or name_of(kind, header), path, line, lines))
            begin = position + 1
        elif not in_body and character in "()":
            parentheses += 1 if character == "(" else -1
        elif not in_body and parentheses == 0 and (character == ";" or access_ends(text, position)):
            begin = position + 1
    if open_blocks or parentheses != 0:
        sys.exit(f"{path}: its braces do not match, which this script cannot read")
    return found


def access_ends(text, position):
    """Whether the colon of "public:" and the like is here."""
    return text[position] == ":" and re.search(r"\b(public|protected|private)$", text[max(0, position - 9) : position])


def test_name(source, line):
    """A test's, of its line in the source."""
    match = re.match(r"\s*(?:TEST_CASE|SUBCASE)\w*\((.*)", source.split("\n")[line - 1])
    return match.group(1).rstrip("{ )") if match else None


def room_of(path):
    parts = Path(path).parts
    if parts[0] == "tests" and len(parts) > 2 and parts[1] in ROOMS:
        return parts[1]
    if parts[0] == "include":
        return "ballast"
    return parts[0] if parts[0] in ROOMS else None


def wrong_includes(path, source):
    room = room_of(path)
    if room is None:
        return []
    problems = []
    for number, line in enumerate(source.split("\n"), 1):
        match = re.match(r'#include "([a-z_]+)/', line)
        if match and match.group(1) in ROOMS and ROOMS.index(match.group(1)) > ROOMS.index(room):
            problems.append(f"{path}:{number}: {room}/ may not include {match.group(1)}/, which is right of it")
    return problems


def git_files():
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], check=True, capture_output=True
    ).stdout.decode()
    return [path for path in listed.split("\0") if path and Path(path).is_file()]


def print_largest(blocks, folders):
    for kind in ("function", "class"):
        largest = sorted((b for b in blocks if b.kind == kind), key=lambda b: -b.lines)[:LARGEST_SHOWN]
        print(f"largest of kind {kind}:")
        for block in largest:
            print(f"  {block.lines:4}  {block.name}  {block.path}:{block.line}")
    print("fullest folders:")
    for folder, files in folders.most_common(LARGEST_SHOWN):
        print(f"  {files:4}  {folder}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--largest", action="store_true", help="also list the largest of each kind")
    options = parser.parse_args()

    files = git_files()
    folders = Counter(str(Path(path).parent) for path in files if not DATA.match(path))
    blocks = []
    problems = []
    for path in files:
        if Path(path).suffix not in (".cc", ".h"):
            continue
        source = Path(path).read_text(encoding="utf-8")
        blocks += blocks_of(path, source)
        problems += wrong_includes(path, source)

    limits = {"function": MOST_FUNCTION_LINES, "class": MOST_CLASS_LINES}
    for block in blocks:
        if block.lines > limits[block.kind] and not REGISTER_TILES.match(block.path):
            problems.append(f"{block}, at most {limits[block.kind]} are allowed")
    for folder, count in sorted(folders.items()):
        if count > MOST_FILES:
            problems.append(f"{folder}: {count} files side by side, at most {MOST_FILES} are allowed")

    if options.largest:
        print_largest(blocks, folders)
    for problem in problems:
        print(problem)
    if problems:
        sys.exit(1)
    print(f"structure: {len(blocks)} functions and classes, {len(folders)} folders are within their limits")


if __name__ == "__main__":
    main()
