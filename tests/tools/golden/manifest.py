"""Hashes of every tensor that conversions of all families write, so that two builds can be compared on one machine.

Not a golden file: what calibration measures, and with it the bytes, depends on the instruction set.
"""

import hashlib
import json
import pathlib

from golden import fixtures, safetensors
from golden.suite import Suite

# By name, the flags of conversions; the sized ones get the mean of the sizes that w4a16 and w8a8 give.
PLAIN = {"f32 --equalize --rotate-values": ["--scheme", "f32", "--equalize", "--rotate-values"],
         "w8a8, sampled": ["--scheme", "w8a8"]}
ON_TEXT = {"w8a8 --preset fast": ["--scheme", "w8a8", "--preset", "fast"],
           "w8a8": ["--scheme", "w8a8"],
           "w4a16": ["--scheme", "w4a16"]}
SIZED = {"w4a16 --target-size": ["--scheme", "w4a16"], "w4a8 --target-size": ["--scheme", "w4a8"]}


def conversions(suite: Suite, model: str) -> dict[str, dict[str, str]]:
    # A GGUF has no tokenizer here, so it writes its own samples.
    text = [] if model in fixtures.GGUFS else ["--text", "calibration.txt"]
    told = {name: conversion(suite, model, flags) for name, flags in PLAIN.items()}
    sizes = {}
    for name, flags in ON_TEXT.items():
        told[name] = conversion(suite, model, [*flags, *text])
        sizes[name] = (suite.work / "converted" / "model.safetensors").stat().st_size
    size = ["--target-size", (sizes["w4a16"] + sizes["w8a8"]) // 2]
    return told | {name: conversion(suite, model, [*flags, *size, *text]) for name, flags in SIZED.items()}


def conversion(suite: Suite, model: str, flags: list) -> dict[str, str]:
    run = suite.run("convert", model, "-o", "converted", "--force", *flags)
    if run.code != 0:
        return {"failed": run.err.splitlines()[-1]}
    folder = suite.work / "converted"
    files = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in ("config.json", "recipe.json")}
    return files | safetensors.hashes(folder / "model.safetensors")


def write(program: list[str], out: pathlib.Path, work: pathlib.Path) -> int:
    suite = Suite(program, work, renew=False)
    fixtures.write_inputs(work)
    manifest = {}
    for model in fixtures.FAMILIES + fixtures.GGUFS:
        for name, tensors in conversions(suite, model).items():
            manifest[f"{model}: {name}"] = tensors
    out.write_text(json.dumps(manifest, indent=1, sort_keys=True) + "\n")
    failed = [name for name, tensors in manifest.items() if "failed" in tensors]
    for name in failed:
        print(f"{name} fails: {manifest[name]['failed']}")
    print(f"{out}: {len(manifest)} conversions, {sum(map(len, manifest.values()))} hashes, {len(failed)} failed")
    return 1 if failed else 0


def compare(first: pathlib.Path, second: pathlib.Path) -> int:
    manifests = [json.loads(path.read_text()) for path in (first, second)]
    different = 0
    for name in sorted(manifests[0].keys() | manifests[1].keys()):
        one, other = (manifest.get(name, {}) for manifest in manifests)
        tensors = [tensor for tensor in sorted(one.keys() | other.keys()) if one.get(tensor) != other.get(tensor)]
        if tensors:
            different += 1
            print(f"{name}: {len(tensors)} of {len(one)} differ: {', '.join(tensors[:4])}"
                  f"{', ...' if len(tensors) > 4 else ''}")
    print(f"{len(manifests[0])} conversions compared, {different} differ")
    return 1 if different else 0
