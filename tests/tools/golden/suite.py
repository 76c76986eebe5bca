"""Runs the program, counts which checks held, and keeps the golden files."""

import difflib
import json
import pathlib
import re
import shlex
import subprocess
import traceback
from dataclasses import dataclass

GOLDEN = pathlib.Path(__file__).resolve().parent
PROGRESS = r"(?:[\w@-][^\n\r\x1b]*: [^\n\r\x1b]+\n)"  # a plain line of it
LONGEST_LINE = 118
LONGEST_DETAIL = 4000  # characters; a whole model's difference would hide the other failures


@dataclass
class Run:
    """The result of one run of the program."""

    words: tuple[str, ...]
    code: int
    out: str
    err: str

    def told(self) -> str:
        return f"{shlex.join(self.words)}\nexit code {self.code}\nstdout:\n{self.out}stderr:\n{self.err}"


class Suite:
    """`program` is the words that start it: an emulator and its options may come first. Runs happen in `work`."""

    def __init__(self, program: list[str], work: pathlib.Path, renew: bool):
        self.program = program
        self.work = work
        self.renew = renew
        self.passed = 0
        self.failed = 0
        self.version = self.run("--version").out.partition("\n")[0]  # with the name: "ballast 0.1.0"

    def run(self, *arguments, stdin: str = "", **options) -> Run:
        """`options` are those of subprocess.run."""
        words = tuple(str(argument) for argument in arguments)
        done = subprocess.run([*self.program, *words], input=stdin.encode(), capture_output=True, cwd=self.work,
                              check=False, **options)
        return Run(words, done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))

    def check(self, name: str, holds, detail="") -> None:
        """`name` describes the expected result."""
        if holds:
            self.passed += 1
            return
        self.failed += 1
        print(f"FAILED: {name}", flush=True)
        text = detail.told() if isinstance(detail, Run) else str(detail)
        for line in text[:LONGEST_DETAIL].splitlines():
            print("    " + line)

    def same(self, name: str, got, wanted) -> None:
        self.check(name, got == wanted, difference(got, wanted))

    def prints(self, name: str, out: str, err: str, run: Run) -> None:
        """`out` and `err` are regular expressions of all that is on the two streams."""
        self.check(name, re.fullmatch(out, run.out) and re.fullmatch(err, run.err), run)

    def group(self, function) -> None:
        """Runs checks that depend on each other; an exception in them is a failure with the group's name."""
        try:
            function(self)
        except Exception:
            self.check(f"{function.__module__}.{function.__name__} runs to its end", False, traceback.format_exc())

    def succeeds(self, *arguments, **options) -> Run:
        run = self.run(*arguments, **options)
        self.check(f"'{shlex.join(run.words)}' exits with 0", run.code == 0, run)
        return run

    def json(self, *arguments, shape) -> dict:
        """Returns the output of `arguments` with --json: exactly one object with the fields and types in `shape`."""
        run = self.succeeds(*arguments, "--json")
        name = shlex.join(run.words)
        value = json.loads(run.out)
        self.check(f"'{name}' prints one line", run.out.count("\n") == 1 and run.out.endswith("\n"), run.out)
        problems = shape.problems(value, "")
        self.check(f"'{name}' prints the fields of its contract", not problems, "\n".join(problems))
        return value

    def golden_text(self, name: str, file: str, text: str, essence=str) -> None:
        """Checks that `essence` of the text, a string, equals golden/`file`."""
        path = GOLDEN / file
        if self.renew:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        wanted = path.read_text() if path.exists() else ""
        self.check(f"{name} (golden/{file})", essence(text) == essence(wanted), difference(text, wanted))

    def golden_json(self, name: str, file: str, value, essence=str) -> None:
        self.golden_text(name, file, lines_of(value, "") + "\n", essence)

    def bytes_of(self, name: str) -> bytes:
        return (self.work / name).read_bytes()

    def hidden(self, *prefixes: str) -> list[str]:
        return [name for name in self.left_in(*prefixes) if name.startswith(".")]

    def left_in(self, *prefixes: str) -> list[str]:
        """Returns the names in the work directory that begin with one of `prefixes`, with or without a dot before
        it."""
        return sorted(entry.name for entry in self.work.iterdir() if entry.name.lstrip(".").startswith(prefixes))


def near(got: float, wanted: float) -> bool:
    """Returns whether two numbers agree as well as instruction sets do, whose order of sums differs."""
    return abs(got - wanted) <= 1e-3 * abs(wanted)


def lines_of(value, indent: str) -> str:
    """Returns JSON that is easy to compare: values that fit on a line are on one line."""
    line = json.dumps(value, sort_keys=True, ensure_ascii=False)
    if len(indent) + len(line) <= LONGEST_LINE or not isinstance(value, (dict, list)) or not value:
        return line
    entries = [f"{json.dumps(name)}: {lines_of(value[name], indent + ' ')}" for name in sorted(value)] \
        if isinstance(value, dict) else [lines_of(entry, indent + " ") for entry in value]
    brackets = "{}" if isinstance(value, dict) else "[]"
    return brackets[0] + "\n" + ",\n".join(f"{indent} {entry}" for entry in entries) + f"\n{indent}{brackets[1]}"


def difference(got, wanted) -> str:
    lines = [value.splitlines() if isinstance(value, str) else json.dumps(value, indent=1, default=str).splitlines()
             for value in (wanted, got)]
    return "\n".join(difflib.unified_diff(*lines, "wanted", "got", lineterm="", n=1))
