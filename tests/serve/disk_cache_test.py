#!/usr/bin/env python3
"""Tests the prefix cache on disk: `ballast serve --cache-dir` with a tiny model, restarted.

    disk_cache_test.py PROGRAM MODEL              checks; with an emulator: EMULATOR [OPTION]... PROGRAM MODEL
    disk_cache_test.py --only keys PROGRAM MODEL      the checks in whose name this is found

MODEL is a directory of tests/data/models; its copy gets a tokenizer and a longer context.
"""

import contextlib
import json
import os
import pathlib
import stat
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools"))

import server_checks
from golden.suite import Suite
from server_process import PATIENCE, Client, Server

CONTEXT = 2048
PAGE = 128
check = server_checks.Checks()


def prompt(seed: int, tokens: int = 1000) -> list[int]:
    return [(i * i * 7 + i * seed) % 30 + 3 for i in range(tokens)]


class Disk(Suite):
    def __init__(self, program: list[str], work: pathlib.Path, model: pathlib.Path):
        super().__init__(program, work, renew=False)
        self.model = model

    @contextlib.contextmanager
    def serving(self, folder: pathlib.Path, *options):
        """Starts a server, which is ended with SIGTERM and must exit with 0."""
        server = Server(self.program, self.model, "--cache-dir", folder, *options)
        try:
            yield server
            if server.process.poll() is None:
                self.same("SIGTERM ends the server with exit code 0", server.stop(), 0)
        finally:
            if server.process.poll() is None:
                server.process.kill()
                server.end()

    def answer(self, server: Server, ids: list[int], key: str | None = None, **fields) -> dict:
        body = {"prompt": ids, "max_tokens": 12, "temperature": 0, "logprobs": 3, "ignore_eos": True} | fields
        reply = Client(server.port, key).post("/v1/completions", body)
        if reply.status != 200:
            raise RuntimeError(f"a completion was answered with {reply}")
        answer = reply.json()
        return {"choice": answer["choices"][0],
                "cached": answer["usage"]["prompt_tokens_details"]["cached_tokens"]}

    def problems(self, server: Server) -> list[str]:
        events = [json.loads(line) for line in server.lines if line.startswith("{")]
        return [event["problem"] for event in events if event["event"] == "disk_cache" and "problem" in event]


def wait_for(condition) -> bool:
    """Waits until a condition holds, for a limited time."""
    end = time.monotonic() + PATIENCE
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)
    return condition()


def files_in(folder: pathlib.Path) -> list[pathlib.Path]:
    return sorted(folder.glob("*.state"))


@check
def check_restart(disk: Disk) -> None:
    folder = disk.work / "restart"
    for options in ([], ["--kv", "f32"], ["--kv", "int8"]):
        ids = prompt(len(options) + len("".join(options)))
        with disk.serving(folder, *options) as server:
            first = disk.answer(server, ids)
            disk.same("the first time the prompt is read", first["cached"], 0)
        with disk.serving(folder, *options) as server:
            second = disk.answer(server, ids)
            disk.same(f"after a restart the full pages come back ({options})", second["cached"], len(ids) // PAGE * PAGE)
            disk.same(f"the answer is the same, with its log-probabilities ({options})", second["choice"],
                      first["choice"])
            longer = disk.answer(server, ids + prompt(9, 300))
            disk.check("a longer text continues from the memory", longer["cached"] >= len(ids), longer["cached"])
            metrics = Client(server.port).metrics()
            disk.same("/metrics counts the tokens that came back", metrics["ballast_disk_cache_hits_total"],
                      len(ids) // PAGE * PAGE)
            disk.check("/metrics has the bytes and the files", wait_for(
                lambda: Client(server.port).metrics()["ballast_disk_cache_files"] == len(files_in(folder))))
            disk.same("no file was refused", disk.problems(server), [])
            disk.same("no file of the cache is damaged", metrics["ballast_disk_cache_unreadable_total"], 0)
    modes = {stat.S_IMODE(path.stat().st_mode) for path in [*files_in(folder), folder]}
    disk.same("files and directory belong to the user alone", modes, {0o600, 0o700})


@check
def check_killed(disk: Disk) -> None:
    folder = disk.work / "killed"
    ids = prompt(5)
    with disk.serving(folder) as server:
        first = disk.answer(server, ids)
        disk.check("pages are written while the server runs", wait_for(lambda: len(files_in(folder)) == len(ids) // PAGE))
        server.process.kill()
        server.end()
    with disk.serving(folder) as server:
        second = disk.answer(server, ids)
        disk.same("after a kill the pages come back", second["cached"], len(ids) // PAGE * PAGE)
        disk.same("with the same answer", second["choice"], first["choice"])


@check
def check_keys(disk: Disk) -> None:
    folder = disk.work / "keys-cache"
    keys = disk.work / "keys"
    keys.write_text("alice secret-of-alice\nbob secret-of-bob\n")
    keys.chmod(0o600)
    ids = prompt(6)
    with disk.serving(folder, "--api-keys", keys) as server:
        disk.answer(server, ids, "secret-of-alice")
        disk.answer(server, ids, "secret-of-alice", cache_salt="other")
    with disk.serving(folder, "--api-keys", keys) as server:
        disk.same("one user's texts do not come back for another", disk.answer(server, ids, "secret-of-bob")["cached"], 0)
        disk.check("but for the user", disk.answer(server, ids, "secret-of-alice")["cached"] > 0)
        disk.check("and the user's other salt", disk.answer(server, ids, "secret-of-alice", cache_salt="other")["cached"] > 0)


@check
def check_damage(disk: Disk) -> None:
    folder = disk.work / "damage"
    ids = prompt(7)
    with disk.serving(folder) as server:
        first = disk.answer(server, ids)
    files = files_in(folder)
    for number, path in enumerate(files):
        content = bytearray(path.read_bytes())
        if number % 3 == 0:
            content[len(content) // 2] ^= 1
        elif number % 3 == 1:
            content = content[:len(content) // 2]
        else:
            content[8] += 1  # the version
        path.write_bytes(content)
    with disk.serving(folder) as server:
        second = disk.answer(server, ids)
        disk.same("a damaged file is a miss", (second["cached"], second["choice"]), (0, first["choice"]))
    problems = disk.problems(server)
    disk.check("and one line of the log, with its name", len(problems) == 1 and str(folder) in problems[0], problems)
    with disk.serving(folder) as server:
        for path in files_in(folder)[::2]:
            path.unlink()
        disk.same("a missing file is a miss, too", disk.answer(server, ids)["choice"], first["choice"])
    disk.check("at most one line for each damaged file", len(disk.problems(server)) <= 1, disk.problems(server))


@check
def check_two_servers(disk: Disk) -> None:
    folder = disk.work / "two"
    with disk.serving(folder, "--cache-disk", "400KB") as one, disk.serving(folder, "--cache-disk", "400KB") as other:
        answers = {}
        for round_ in range(4):
            for seed in range(3):
                for server in (one, other):
                    answer = disk.answer(server, prompt(seed + 20, 700))["choice"]
                    disk.same(f"two servers on one directory give the same answers ({round_})", answer,
                              answers.setdefault(seed, answer))
        disk.same("without problems", disk.problems(one) + disk.problems(other), [])
    with disk.serving(folder, "--cache-disk", "100KB"):
        total = sum(path.stat().st_size for path in folder.iterdir())
        disk.check("a server removes files beyond its budget", 0 < total <= 100_000, total)


@check
def check_refusals(disk: Disk) -> None:
    def refused(name: str, code: int, words: str, *options) -> None:
        run = disk.run("serve", disk.model, "--port", "0", *options)
        disk.check(name, run.code == code and words in run.err, run)

    file = disk.work / "file"
    file.write_text("x")
    refused("a file is no directory", 1, str(file), "--cache-dir", file)
    refused("a directory in a missing one", 1, "cannot create", "--cache-dir", disk.work / "none" / "cache")
    refused("a budget that holds no page", 1, "hold no text", "--cache-dir", disk.work / "tiny", "--cache-disk", "1KB")
    refused("a budget without a directory", 2, "--cache-dir", "--cache-disk", "1GB")
    refused("a size that is none", 2, "--cache-disk", "--cache-dir", disk.work / "tiny", "--cache-disk", "much")
    if os.geteuid() != 0:
        locked = disk.work / "locked"
        locked.mkdir(mode=0o500)
        refused("a directory that is not writable", 1, str(locked), "--cache-dir", locked)


def run(program: list[str], model: pathlib.Path, work: pathlib.Path, only: str) -> int:
    disk = Disk(program, work, server_checks.copy_with_context(model, work / "model", CONTEXT))
    check.run(disk, only)
    return server_checks.outcome(disk)


if __name__ == "__main__":
    sys.exit(server_checks.main(__doc__, run))
