#!/usr/bin/env python3
"""Measures the prefix cache on disk of `ballast serve`: the time until the first token of a long prompt when the model
reads it, and after a restart, when it comes back from files. Checks that both answers are the same.

    scripts/measure_disk_cache.py build/release/ballast MODEL --text FILE [--tokens 8192] [--rounds 3] [--option ...]

Each round starts with an empty directory. `ballast serve` gets the words of --option. Unless --cold-files, the files are
still in the system's page cache after the restart; with it, they are dropped from there.
"""

import argparse
import http.client
import json
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import tempfile
import time


class Server:
    def __init__(self, arguments, folder):
        command = [arguments.program, "serve", arguments.model, "--port", "0", "--cache-dir", folder,
                   "--context", str(arguments.tokens + 16), *(arguments.option or [])]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            event = json.loads(line) if line.startswith("{") else {}
            if event.get("event") == "listening":
                self.port = event["port"]
                return
        raise SystemExit("the server did not start")

    def post(self, path, body):
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        response = connection.getresponse()
        answer = json.loads(response.read())
        if response.status != 200:
            raise SystemExit(f"{path}: {answer}")
        return answer

    def first_token(self, ids):
        """Returns the seconds until the answer, and the answer with the number of tokens that were cached."""
        start = time.monotonic()
        answer = self.post("/v1/completions", {"prompt": ids, "max_tokens": 1, "temperature": 0, "logprobs": 5})
        seconds = time.monotonic() - start
        return seconds, answer["choices"][0], answer["usage"]["prompt_tokens_details"]["cached_tokens"]

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.stderr.read()
        if self.process.wait() != 0:
            raise SystemExit("the server failed")


def drop_from_memory(folder):
    for path in pathlib.Path(folder).iterdir():
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--text", type=pathlib.Path, required=True, help="where the prompt is from")
    parser.add_argument("--tokens", type=int, default=8192)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=pathlib.Path, help="of the cache's directories; else the temporary folder")
    parser.add_argument("--cold-files", action="store_true")
    parser.add_argument("--option", action="append", help="a further word for serve; repeatable")
    arguments = parser.parse_args()
    ratios = []
    for _ in range(arguments.rounds):
        folder = tempfile.mkdtemp(dir=arguments.folder)
        server = Server(arguments, folder)
        text = arguments.text.read_text()[:arguments.tokens * 8]
        ids = server.post("/tokenize", {"prompt": text})["tokens"][:arguments.tokens]
        server.first_token(ids[:16])  # what is done once
        read, answer, _ = server.first_token(ids)
        server.stop()
        if arguments.cold_files:
            drop_from_memory(folder)
        size = sum(path.stat().st_size for path in pathlib.Path(folder).iterdir())
        server = Server(arguments, folder)
        server.first_token(ids[1:17])
        back, same, cached = server.first_token(ids)
        server.stop()
        shutil.rmtree(folder)
        if same != answer:
            raise SystemExit(f"another answer: {answer}, {same}")
        ratios.append(read / back)
        print(f"{len(ids)} tokens read in {read:.2f} s; {cached} of them came back from {size / 1e6:.0f} MB, first token "
              f"after {back:.3f} s: {ratios[-1]:.0f} times as fast", flush=True)
    print(f"median: {statistics.median(ratios):.0f} times as fast")


if __name__ == "__main__":
    main()
