#!/usr/bin/env python3
"""Measures what a constraint costs a server: tokens per second with a JSON Schema and without, and the first token.

    scripts/measure_constraints.py build/release/ballast MODEL [--users 1 16] [--rounds 5] [--tokens 200]

The schema is a long list of objects, so that the answer goes on until it is cut off. Nothing is drafted. Each round has
both kinds of answers, one after the other. The first token's time is that of requests for one token whose prompt and
schema are cached.
"""

import argparse
import statistics
import time

from local_server import LocalServer

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 40},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "email": {"type": "string"},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["name", "age", "email", "tags"],
}
SCHEMA = {"type": "json_schema", "json_schema": {"name": "people", "schema": {
    "type": "array", "items": PERSON, "minItems": 1000}}}
FIRST_TOKENS = 9  # requests whose first token is timed


def bodies_of(users, tokens, constrained):
    bodies = []
    for user in range(users):
        question = f"Write a list of the people in small town number {user}, as JSON."
        body = {"messages": [{"role": "user", "content": question}], "max_tokens": tokens, "ignore_eos": True}
        bodies.append(body | ({"response_format": SCHEMA} if constrained else {}))
    return bodies


def first_token_seconds(server, body):
    times = []
    for _ in range(FIRST_TOKENS):
        begin = time.monotonic()
        server.chat(body | {"max_tokens": 1})
        times.append(time.monotonic() - begin)
    return statistics.median(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("model")
    parser.add_argument("--users", type=int, nargs="+", default=[1, 16])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=200)
    arguments = parser.parse_args()
    server = LocalServer(arguments.program, arguments.model, ["--draft-tokens", "0"])
    try:
        begin = time.monotonic()
        server.chat(bodies_of(1, 1, True)[0])
        print(f"first request with the schema, which is compiled: {1000 * (time.monotonic() - begin):.0f} ms")
        for users in arguments.users:
            ratios = []
            for _ in range(arguments.rounds):
                free = server.chats(bodies_of(users, arguments.tokens, False))[1]
                constrained = server.chats(bodies_of(users, arguments.tokens, True))[1]
                ratios.append(constrained / free)
                print(f"{users} users: without {free:.1f} tokens/s, with {constrained:.1f}: {100 * (ratios[-1] - 1):+.1f} %",
                      flush=True)
            print(f"{users} users: median {100 * (statistics.median(ratios) - 1):+.1f} % tokens per second", flush=True)
        free, constrained = (first_token_seconds(server, bodies_of(1, 1, kind)[0]) for kind in (False, True))
        print(f"first token: {1000 * free:.1f} ms, with a cached schema {1000 * constrained:.1f} ms")
    finally:
        server.stop()


if __name__ == "__main__":
    main()
