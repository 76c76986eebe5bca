#!/usr/bin/env python3
"""Measures the prefix cache on disk of `ballast serve`: the time until the first token of a long prompt when the model
reads it, and after a restart, when it comes back from files. Checks that both answers are the same.

    scripts/measure_disk_cache.py build/release/ballast MODEL --text FILE [--tokens 8192] [--rounds 3] [--option ...]

Each round starts with an empty directory. `ballast serve` gets the words of --option. Unless --cold-files, the files are
still in the system's page cache after the restart; with it, they are dropped from there.
"""

import argparse
import os
import pathlib
import shutil
import statistics
import tempfile
import time

from local_server import LocalServer


def start(arguments, folder):
    return LocalServer(arguments.program, arguments.model,
                       ["--cache-dir", folder, "--context", str(arguments.tokens + 16), *(arguments.option or [])])


def first_token(server, ids):
    """Returns the seconds until the answer, and the answer with the number of tokens that were cached."""
    begin = time.monotonic()
    answer = server.post("/v1/completions", {"prompt": ids, "max_tokens": 1, "temperature": 0, "logprobs": 5})
    seconds = time.monotonic() - begin
    return seconds, answer["choices"][0], answer["usage"]["prompt_tokens_details"]["cached_tokens"]


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
        server = start(arguments, folder)
        text = arguments.text.read_text()[:arguments.tokens * 8]
        ids = server.post("/tokenize", {"prompt": text})["tokens"][:arguments.tokens]
        first_token(server, ids[:16])  # what is done once
        read, answer, _ = first_token(server, ids)
        server.stop()
        if arguments.cold_files:
            drop_from_memory(folder)
        size = sum(path.stat().st_size for path in pathlib.Path(folder).iterdir())
        server = start(arguments, folder)
        first_token(server, ids[1:17])
        back, same, cached = first_token(server, ids)
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
