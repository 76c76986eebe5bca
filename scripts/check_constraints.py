#!/usr/bin/env python3
"""Checks that texts under a JSON Schema's constraint are valid for Python's jsonschema.

For every schema a random model writes texts under the mask (the program constrain_lines of a build's tests), and
jsonschema must accept all of them; schemas that are refused are listed by reason. Takes the JSON-Schema-Test-Suite,
which the source distribution of jsonschema has, and schemas of real APIs: Google's discovery documents, AWS's resource
schemas and those of files that many programs have.

    pip install jsonschema
    pip download --no-deps --no-binary jsonschema jsonschema && tar xf jsonschema-*.tar.gz
    pip download --no-deps google-api-python-client cfn-lint check-jsonschema      # and unzip each
    scripts/check_constraints.py build/release/constrain_lines --suite jsonschema-4.26.0/json/tests/draft2020-12
    scripts/check_constraints.py build/release/constrain_lines --apis FOLDER --count 500
"""

import argparse
import collections
import json
import pathlib
import random
import re
import subprocess
import sys
import time

import jsonschema


def suite_schemas(folder):
    """The schemas of the suite's files, with their names."""
    for file in sorted(folder.glob("*.json")):
        for group in json.loads(file.read_text()):
            yield f"{file.stem}: {group['description']}", group["schema"]


def with_local_references(value, names):
    """Google's documents refer to schemas by their names, and have a type "any"."""
    if isinstance(value, list):
        return [with_local_references(item, names) for item in value]
    if not isinstance(value, dict):
        return value
    out = {}
    for key, item in value.items():
        if key == "$ref" and isinstance(item, str) and item in names:
            out[key] = f"#/$defs/{item}"
        elif (key, type(item)) in (("id", str), ("required", bool)) or (key, item) == ("type", "any"):
            continue
        else:
            out[key] = with_local_references(item, names)
    return out


def used_definitions(schema, definitions):
    """The definitions that a schema needs, itself or through others."""
    used, left = {}, [schema]
    while left:
        for name in re.findall(r'"#/\$defs/([^"]+)"', json.dumps(left.pop())):
            if name not in used:
                used[name] = definitions[name]
                left.append(definitions[name])
    return used


def google_schemas(folder, randomness):
    for file in sorted(folder.rglob("discovery_cache/documents/*.json")):
        schemas = json.loads(file.read_text()).get("schemas", {})
        if not schemas:
            continue
        definitions = {name: with_local_references(schema, schemas) for name, schema in schemas.items()}
        name = randomness.choice(sorted(definitions))
        yield f"{file.stem} {name}", {
            **definitions[name],
            "$defs": used_definitions(definitions[name], definitions),
        }


def file_schemas(folder, pattern):
    for file in sorted(folder.rglob(pattern)):
        schema = json.loads(file.read_text())
        if isinstance(schema, dict) and ("properties" in schema or "oneOf" in schema or "anyOf" in schema):
            yield file.stem, schema


def api_schemas(folder, count, seed):
    """At most `count` schemas, as many of each kind as there are."""
    randomness = random.Random(seed)
    kinds = [
        list(google_schemas(folder, randomness)),
        list(file_schemas(folder, "data/schemas/providers/**/*.json"))
        or list(file_schemas(folder, "cfnlint/data/schemas/resources/**/*.json")),
        list(file_schemas(folder, "builtin_schemas/vendor/*.json")),
    ]
    for schemas in kinds:
        randomness.shuffle(schemas)
    chosen = []
    while len(chosen) < count and any(kinds):
        for schemas in kinds:
            if schemas and len(chosen) < count:
                chosen.append(schemas.pop())
    return chosen


def reason(error):
    """A refusal without its place and its particular names."""
    return re.sub(r'"[^"]*"', "..", re.sub(r"at #[^ ]*:", "", error))[:100]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path, help="constrain_lines")
    parser.add_argument("--suite", type=pathlib.Path, help="the suite's folder of one draft")
    parser.add_argument("--apis", type=pathlib.Path, help="a folder with the unpacked packages")
    parser.add_argument("--count", type=int, default=500, help="schemas of APIs")
    parser.add_argument("--texts", type=int, default=20, help="of each schema")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--list", action="store_true", help="prints every refusal")
    arguments = parser.parse_args()
    schemas = []
    if arguments.suite:
        schemas += suite_schemas(arguments.suite)
    if arguments.apis:
        schemas += api_schemas(arguments.apis, arguments.count, arguments.seed)
    if not schemas:
        parser.error("nothing to check: --suite or --apis")

    process = subprocess.Popen([arguments.program, str(arguments.texts)], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True)
    refused, compiled, texts, unfinished, rejected, slowest = collections.Counter(), 0, 0, 0, 0, (0, "")
    for name, schema in schemas:
        start = time.monotonic()
        print(json.dumps({"kind": "json_schema", "text": json.dumps(schema)}), file=process.stdin, flush=True)
        line = process.stdout.readline()
        slowest = max(slowest, (time.monotonic() - start, name))
        if not line:
            sys.exit(f"{name}: the program ended")
        answer = json.loads(line)
        if "error" in answer:
            if answer.get("stuck"):
                print(f"STUCK {name}: {answer['error'][:300]}")
                rejected += 1
            refused[reason(answer["error"])] += 1
            if arguments.list:
                print(f"refused {name}: {answer['error']}")
            continue
        compiled += 1
        unfinished += answer["unfinished"]
        validator = jsonschema.Draft202012Validator(schema)
        for text in answer["texts"]:
            texts += 1
            try:
                error = next(validator.iter_errors(json.loads(text)), None)
            except (json.JSONDecodeError, RecursionError) as failure:
                error = failure
            if error is not None:
                rejected += 1
                print(f"REJECTED {name}: {text[:300]}: {str(error).splitlines()[0][:200]}")
    process.stdin.close()
    print(f"{compiled} of {len(schemas)} schemas compile ({100 * compiled / len(schemas):.1f} %); {texts} texts, "
          f"{rejected} rejected, {unfinished} not finished; slowest {slowest[0]:.2f} s: {slowest[1]}")
    for why, count in refused.most_common():
        print(f"{count:5} {why}")
    return 1 if rejected else 0


if __name__ == "__main__":
    sys.exit(main())
