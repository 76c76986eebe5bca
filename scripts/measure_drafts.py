#!/usr/bin/env python3
"""Measures what drafts bring to a server: tokens per second of users who edit code, with drafts and without, in turns.

    scripts/measure_drafts.py build/release/ballast MODEL [--draft MODEL] [--users 1 16] [--rounds 5] [--tokens 200]

Starts two servers of the model, one of which drafts nothing. In each round both get the same requests, one after the
other: each user sends a piece of this script with the task to write it again with a change. Prints the tokens per second
of both and their ratio, the accepted share of drafts, and fails if an answer differs.
"""

import argparse
import concurrent.futures
import json
import pathlib
import re
import statistics
import subprocess
import sys
import time
import urllib.request

TASKS = ["Rename the variable `user` to `person`.", "Add a comment above each function.", "Rename `rounds` to `turns`.",
         "Use double quotes for all strings.", "Add a parameter `verbose` to the last function.",
         "Translate the comments to French.", "Remove the docstrings.", "Rename the functions to camelCase."]


class Server:
    """A server of a model, and its figures."""

    def __init__(self, program, model, flags):
        self.process = subprocess.Popen([program, "serve", model, "--port", "0", *flags], stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            event = json.loads(line) if line.startswith("{") else {}
            if event.get("event") == "listening":
                self.url = f"http://127.0.0.1:{event['port']}"
                break
        else:
            sys.exit(f"measure_drafts: {program} did not start")

    def answer(self, body):
        request = urllib.request.Request(self.url + "/v1/chat/completions", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=600) as reply:
            answer = json.load(reply)
        return answer["choices"][0]["message"]["content"], answer["usage"]["completion_tokens"]

    def metric(self, name):
        with urllib.request.urlopen(self.url + "/metrics", timeout=60) as reply:
            return float(re.search(rf"^ballast_{name} (\S+)", reply.read().decode(), re.M)[1])

    def stop(self):
        self.process.terminate()
        self.process.wait(60)


def piece_of_code(seed, lines=25):
    """Returns some lines of this script, beginning at a function."""
    source = pathlib.Path(__file__).read_text().splitlines()
    starts = [i for i, line in enumerate(source) if line.lstrip().startswith("def ")]
    start = starts[seed % len(starts)]
    return "\n".join(source[start:start + lines])


def requests_of(users, round_number, tokens):
    bodies = []
    for user in range(users):
        seed = round_number * users + user
        task = f"{TASKS[seed % len(TASKS)]} Answer with the whole code.\n\n```python\n{piece_of_code(seed)}\n```"
        bodies.append({"messages": [{"role": "user", "content": task}], "max_tokens": tokens, "temperature": 0,
                       "cache_salt": str(seed)})
    return bodies


def run(server, bodies):
    """Returns the answers and their tokens per second, after the prompts were read."""
    with concurrent.futures.ThreadPoolExecutor(len(bodies)) as pool:
        list(pool.map(lambda body: server.answer(body | {"max_tokens": 1}), bodies))
        begin = time.monotonic()
        answers = list(pool.map(server.answer, bodies))
    return [text for text, _ in answers], sum(count for _, count in answers) / (time.monotonic() - begin)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("model")
    parser.add_argument("--draft", help="a draft model")
    parser.add_argument("--users", type=int, nargs="+", default=[1, 16])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=200)
    arguments = parser.parse_args()
    plain = Server(arguments.program, arguments.model, ["--draft-tokens", "0"])
    drafting = Server(arguments.program, arguments.model, ["--draft", arguments.draft] if arguments.draft else [])
    try:
        for users in arguments.users:
            ratios = []
            for round_number in range(arguments.rounds + 1):
                bodies = requests_of(users, round_number, arguments.tokens)
                expected, plain_speed = run(plain, bodies)
                answers, speed = run(drafting, bodies)
                if answers != expected:
                    sys.exit("measure_drafts: an answer differs with drafts")
                if round_number == 0:
                    continue  # warms up
                ratios.append(speed / plain_speed)
                print(f"{users} users: without drafts {plain_speed:.1f} tokens/s, with {speed:.1f}: {ratios[-1]:.2f}x",
                      flush=True)
            print(f"{users} users: median {statistics.median(ratios):.2f}x", flush=True)
        drafted = drafting.metric("spec_decode_num_draft_tokens_total")
        accepted = drafting.metric("spec_decode_num_accepted_tokens_total")
        print(f"{drafted:.0f} tokens drafted, {100 * accepted / max(drafted, 1):.0f} % accepted")
    finally:
        plain.stop()
        drafting.stop()


if __name__ == "__main__":
    main()
