"""Registers the inputs, runs each in a separate folder, and prints the results."""

import contextlib
import json
import pathlib
import subprocess
import traceback
from collections.abc import Callable, Iterator

from golden import fixtures
from server_process import Client, Server

PATIENCE = 300  # seconds for one run of the program; only one that hangs takes so long
LONGEST_LINE = 300  # characters of what the program printed
INPUTS: list[tuple[str, Callable]] = []


class Failure(Exception):
    """The program's result for the input is wrong."""


def reported(name: str) -> Callable:
    """Registers an input. `name` describes the input and the expected result; the function gets a Case."""
    def register(function: Callable) -> Callable:
        INPUTS.append((name, function))
        return function
    return register


class Case:
    """One input: `work` is an empty folder for its files."""

    def __init__(self, program: list[str], work: pathlib.Path):
        self.program = program
        self.work = work
        self.said: list[str] = []

    def says(self, text) -> None:
        """Notes what the program printed or answered, for the report."""
        self.said += [line[:LONGEST_LINE] for line in str(text).splitlines()]

    def must(self, what: str, holds) -> None:
        if not holds:
            raise Failure(what)

    def model(self, name: str = "llama3", folder: str = "model") -> pathlib.Path:
        """Returns a copy of a tiny model of tests/data/models, with a tokenizer."""
        path = self.work / folder
        fixtures.copy_model(name, path)
        return path

    def run(self, *arguments, stdin: str | bytes = b"", **options) -> subprocess.CompletedProcess:
        """Runs the program and notes its exit code and the last line of each stream. Output is bytes."""
        data = stdin.encode() if isinstance(stdin, str) else stdin
        done = subprocess.run([*self.program, *map(str, arguments)], input=data, capture_output=True, cwd=self.work,
                              check=False, timeout=PATIENCE, **options)
        for stream in (done.stdout, done.stderr):
            lines = stream.decode(errors="replace").strip().splitlines()
            if lines:
                self.says(lines[-1])
        self.says(f"exit code {done.returncode}")
        return done

    @contextlib.contextmanager
    def server(self, model: pathlib.Path, *options) -> Iterator[Client]:
        """Runs `ballast serve` for the block; the client has the process as .server."""
        server = Server(self.program, model, *options)
        client = Client(server.port)
        client.server = server
        try:
            yield client
        finally:
            if server.process.poll() is None:
                server.process.kill()
            server.end()

    def ask(self, client: Client, path: str, body, **options):
        """Posts `body`, notes status and answer, and returns the reply."""
        reply = client.post(path, body, **options)
        self.says(f"{reply.status} {reply.body.decode(errors='replace')}")
        return reply


def edit_json(path: pathlib.Path, **changes) -> None:
    """Sets fields of a JSON file; ... (Ellipsis) removes a field. A missing file begins empty."""
    value = json.loads(path.read_text()) if path.exists() else {}
    for name, new in changes.items():
        if new is ...:
            value.pop(name, None)
        else:
            value[name] = new
    path.write_text(json.dumps(value))


def run_all(program: list[str], work: pathlib.Path, only: str) -> int:
    passed = failed = 0
    for number, (name, function) in enumerate(INPUTS):
        if only not in name and only not in function.__name__:
            continue
        folder = work / f"{number}"
        folder.mkdir()
        case = Case(program, folder)
        try:
            function(case)
            problem = ""
        except Failure as failure:
            problem = f"must: {failure}"
        except Exception:
            problem = traceback.format_exc()
        passed += not problem
        failed += bool(problem)
        print(f"{'FAILED' if problem else 'ok'}: {name} [{function.__name__}]", flush=True)
        for line in case.said + problem.splitlines():
            print("    " + line, flush=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0
