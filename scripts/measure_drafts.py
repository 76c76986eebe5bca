#!/usr/bin/env python3
"""Measures what drafts bring to a server: tokens per second of users who edit code, with drafts and without, in turns.

    scripts/measure_drafts.py build/release/ballast MODEL [--draft MODEL] [--users 1 16] [--rounds 5] [--tokens 200]

Starts two servers of the model, one of which drafts nothing. In each round both get the same requests, one after the
other: each user sends a piece of this script with the task to write it again with a change. Prints the tokens per second
of both and their ratio, the accepted share of drafts, and fails if an answer differs.
"""

import argparse
import pathlib
import statistics
import sys

from local_server import LocalServer

TASKS = ["Rename the variable `user` to `person`.", "Add a comment above each function.", "Rename `rounds` to `turns`.",
         "Use double quotes for all strings.", "Add a parameter `verbose` to the last function.",
         "Translate the comments to French.", "Remove the docstrings.", "Rename the functions to camelCase."]


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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("model")
    parser.add_argument("--draft", help="a draft model")
    parser.add_argument("--users", type=int, nargs="+", default=[1, 16])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=200)
    arguments = parser.parse_args()
    plain = LocalServer(arguments.program, arguments.model, ["--draft-tokens", "0"])
    drafting = LocalServer(arguments.program, arguments.model, ["--draft", arguments.draft] if arguments.draft else [])
    try:
        for users in arguments.users:
            ratios = []
            for round_number in range(arguments.rounds + 1):
                bodies = requests_of(users, round_number, arguments.tokens)
                expected, plain_speed = plain.chats(bodies)
                answers, speed = drafting.chats(bodies)
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
