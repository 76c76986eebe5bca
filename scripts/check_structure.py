#!/usr/bin/env python3
"""Checks the direction of includes: a room includes itself and the rooms left of it, and a folder the folders left of it.

    scripts/check_structure.py

Reads the C++ files that git knows or would add, and prints each include that goes the wrong way.
"""

import re
import subprocess
import sys
from pathlib import Path

# The rooms from left to right. CMakeLists.txt links them in the same order.
ROOMS = ["ballast", "kernels", "files", "formats", "text", "model", "engine", "jobs", "samples", "calib", "quant", "eval",
         "report", "serve", "tools"]

# The folders of a room from left to right; "." is the room's own files. A room without a row has no order inside.
FOLDERS = {
    "formats": ["blocks", ".", "codecs"],
    "model": ["arch", "roles", "cache", "block", "mixer", "structure", "forward", "experts", "source", "."],
    "quant": ["recipes", "rounding/grids", "rounding/scales", "rounding", "block", "quantize", "passes", "measure", "write",
              "search", "conversion"],
    "serve": ["http", "scheduler", "page", "api", "service", "."],
}

INCLUDE = re.compile(r'#include "(([a-z_]+)/[^"]*)"')


def room_of(path):
    """Returns the room of a file or of its test; None outside of the rooms."""
    parts = Path(path).parts
    if parts[0] == "tests" and len(parts) > 2 and parts[1] in ROOMS:
        return parts[1]
    if parts[0] == "include":
        return "ballast"
    return parts[0] if parts[0] in ROOMS else None


def folder_of(path, folders):
    """Returns the innermost of `folders` that contains a file of a room."""
    inside = Path(*Path(path).parts[1:]).parent
    return max((folder for folder in folders if folder == "." or Path(folder) in [inside, *inside.parents]), key=len)


def wrong_includes(path, source):
    room = room_of(path)
    if room is None:
        return []
    problems = []
    for number, line in enumerate(source.split("\n"), 1):
        match = INCLUDE.match(line)
        if match is None or match.group(2) not in ROOMS:
            continue
        included, included_room = match.groups()
        if ROOMS.index(included_room) > ROOMS.index(room):
            problems.append(f"{path}:{number}: {room}/ may not include {included_room}/, which is right of it")
        elif included_room == room and room in FOLDERS and not path.startswith("tests/"):
            folders = FOLDERS[room]
            one, other = folder_of(path, folders), folder_of(included, folders)
            if folders.index(other) > folders.index(one):
                problems.append(f"{path}:{number}: {room}/{one} may not include {included}: {other} is right of {one}")
    return problems


def cxx_files():
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.cc", "*.h"], check=True,
                            capture_output=True).stdout.decode()
    return [path for path in listed.split("\0") if path and Path(path).is_file()]


def main():
    files = cxx_files()
    problems = [problem for path in files for problem in wrong_includes(path, Path(path).read_text(encoding="utf-8"))]
    for problem in problems:
        print(problem)
    if problems:
        sys.exit(1)
    print(f"structure: the includes of {len(files)} files go to the left")


if __name__ == "__main__":
    main()
