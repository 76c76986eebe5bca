"""Finds the commands in the indented and fenced blocks of a page."""

import re
import shlex
from dataclasses import dataclass

LAUNCHERS = ("mpirun", "srun")
ENDS = ("|", ">", ">>", "<", "&", "&&", ";")  # what follows is the shell's matter


@dataclass
class Command:
    line: int  # of the page, from 1
    text: str
    program: str  # "ballast" or "curl"
    words: list[str]  # its arguments
    launcher: list[str]  # "mpirun -n 2" in front of it


def code_blocks(text: str) -> list[list[tuple[int, str]]]:
    """Returns the numbered lines of blocks of shell commands, without fenced blocks in other languages."""
    blocks: list[list[tuple[int, str]]] = [[]]
    language = None
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith("```"):
            language = None if language is not None else line[3:].strip()
            blocks.append([])
        elif language is not None:
            if language in ("", "sh", "bash"):
                blocks[-1].append((number, line))
        elif line.startswith("    "):
            blocks[-1].append((number, line[4:]))
        elif line.strip():
            blocks.append([])
    return blocks


def joined(lines: list[tuple[int, str]]) -> list[tuple[int, str]]:
    """Joins lines that end with a backslash with the next ones."""
    whole: list[tuple[int, str]] = []
    goes_on = False
    for number, line in lines:
        if goes_on:
            first, begun = whole[-1]
            whole[-1] = (first, begun[:-1] + line.strip())
        else:
            whole.append((number, line.strip()))
        goes_on = line.rstrip().endswith("\\")
    return whole


def command_lines(text: str) -> list[tuple[int, str]]:
    """Returns the commands of a block. If it also shows output, commands follow "$ "."""
    lines = []
    for block in map(joined, code_blocks(text)):
        prompted = any(line.startswith("$ ") for _, line in block)
        lines += [(number, line.removeprefix("$ ")) for number, line in block if line.startswith("$ ") or not prompted]
    return lines


def commands_in(text: str) -> list[Command]:
    """Returns the commands of ballast and curl, except those with "...", which cannot be run."""
    commands = []
    for number, line in command_lines(text):
        if not re.match(r"(ballast|curl|mpirun|srun) ", line):
            continue
        words = shlex.split(line, comments=True)
        words = [word for word in words if not word.startswith("$")]  # what a script puts there, or nothing
        words = words[:next((i for i, word in enumerate(words) if word in ENDS), len(words))]
        launcher = []
        if words[0] in LAUNCHERS:
            start = words.index("ballast")
            launcher, words = words[:start], words[start:]
        if "..." not in words:
            commands.append(Command(number, line, words[0], words[1:], launcher))
    return commands


def spans_in(text: str) -> list[tuple[int, str]]:
    """Returns the text between backticks that begins with "ballast ", in sentences."""
    blocks = {number for block in code_blocks(text) for number, _ in block}
    # A span may begin on one line and end on the next.
    prose = "\n".join("" if number in blocks or line.startswith("```") else line
                      for number, line in enumerate(text.split("\n"), 1))
    return [(prose.count("\n", 0, match.start()) + 1, " ".join(match.group(1).split()))
            for match in re.finditer(r"`(ballast [^`]*)`", prose)]
