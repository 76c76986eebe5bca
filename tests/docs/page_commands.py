"""Runs one command of a page: ballast itself, its server, or curl."""

import json
import os
import pathlib
import signal
import subprocess
import urllib.request

from golden.suite import Run, Suite
from written_commands import Command

# A container has no agent that starts ranks, and may have fewer cores than ranks; root must confirm its intention.
MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_plm_rsh_agent": "",
       "OMPI_MCA_rmaps_base_oversubscribe": "1", "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
       "PRTE_MCA_hwloc_default_binding_policy": "none", "OMPI_MCA_hwloc_base_binding_policy": "none",
       "OMPI_MCA_mpi_yield_when_idle": "1"}


# Upper limits of amounts that take minutes and do not matter for a test of a command.
MOST = {"--stream": 3000, "-n": 100, "-r": 1, "--chunks": 2, "--samples": 8}


def shortened(words: list[str]) -> list[str]:
    """Returns the command with little to compute. Its formats are not changed, because they must fit the model's
    shapes."""
    words = list(words)
    for i, flag in enumerate(words[:-1]):
        if flag in MOST and words[i + 1].isdigit():
            words[i + 1] = str(min(MOST[flag], int(words[i + 1])))
        # Two recipes of a list are sufficient; a sweep without speeds only lacks a column.
        if flag in ("--schemes", "--sizes"):
            words[i + 1] = ",".join(words[i + 1].split(",")[:2])
    writes = words[0] == "convert" and "-o" in words
    if (writes or words[0] == "sweep") and "--preset" not in words:
        words += ["--preset", "fast"]
    if words[0] == "sweep" and "--no-bench" not in words:
        words.append("--no-bench")
    return words


class PageCommands:
    """The commands of one page, run in a folder, and the server that one of them started."""

    def __init__(self, suite: Suite, page: pathlib.Path, folder: pathlib.Path, mpirun: str):
        self.suite = suite
        self.page = page
        self.folder = folder
        self.mpirun = mpirun
        self.environment = os.environ | MPI
        self.server: subprocess.Popen | None = None
        self.address = ""

    def run(self, command: Command, stdin: str = "") -> None:
        name = f"{self.page}:{command.line}: '{command.text}'"
        if command.program == "curl":
            self.ask(name, command)
        elif command.words[0] == "serve":
            self.serve(name, command)
        else:
            self.run_to_end(name, command, stdin)

    def run_to_end(self, name: str, command: Command, stdin: str) -> None:
        launcher = []
        if command.launcher and command.launcher[0] == "mpirun" and self.mpirun:
            launcher = [self.mpirun, *command.launcher[1:]]
        words = shortened(command.words)
        done = subprocess.run([*launcher, *self.suite.program, *words], cwd=self.folder, env=self.environment,
                              input=stdin, capture_output=True, text=True, check=False)
        run = Run(tuple(words), done.returncode, done.stdout, done.stderr)
        self.suite.check(f"{name} exits with 0", run.code == 0, run)
        for flag, value in zip(command.words, command.words[1:], strict=False):
            if flag in ("-o", "--report"):
                self.suite.check(f"{name} writes {value}", (self.folder / value).exists(), run)

    def serve(self, name: str, command: Command) -> None:
        """Starts a server at a free port, which is in its log when it listens."""
        self.stop()
        self.server = subprocess.Popen([*self.suite.program, *command.words, "--port", "0"], cwd=self.folder, text=True,
                                       env=self.environment, stderr=subprocess.PIPE)
        log = ""
        for line in self.server.stderr:
            log += line
            event = json.loads(line) if line.startswith("{") else {}
            if event.get("event") == "listening":
                self.address = f"http://127.0.0.1:{event['port']}"
                break
        self.suite.check(f"{name} listens", self.address, log)

    def ask(self, name: str, command: Command) -> None:
        address, body, headers = "", None, {}
        words = iter(command.words)
        for word in words:
            if word == "-H":
                header, value = next(words).split(": ", 1)
                headers[header] = value
            elif word == "-d":
                body = next(words).encode()
            else:
                address = word.replace("localhost:8080", self.address)
        with urllib.request.urlopen(urllib.request.Request(address, body, headers)) as answer:
            self.suite.check(f"{name} is answered", answer.status == 200 and answer.read(), answer.status)

    def stop(self) -> None:
        if self.server is None:
            return
        self.server.send_signal(signal.SIGTERM)
        self.server.stderr.read()
        self.suite.check(f"{self.page}: the server ends when it is asked to", self.server.wait() == 0, self.server.returncode)
        self.server = None
        self.address = ""
