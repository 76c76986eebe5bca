"""Hashes of all that calibrations, conversions and exports of all families write, so that two builds can be compared on one
machine.

Not a golden file: what calibration measures, and with it the bytes, depends on the instruction set.
"""

import hashlib
import json
import pathlib
import shutil

from golden import fixtures, safetensors
from golden.suite import Run, Suite

# Flags of conversions by name; those with a size get the mean of the sizes of w4a16 and w8a8.
PLAIN = {"f32 --equalize --rotate-values": ["--scheme", "f32", "--equalize", "--rotate-values"],
         "w8a8, sampled": ["--scheme", "w8a8"]}
ON_TEXT = {"w8a8 --preset fast": ["--scheme", "w8a8", "--preset", "fast"],
           "w8a8": ["--scheme", "w8a8"],
           "w4a16": ["--scheme", "w4a16"]}
SIZED = {"w4a16 --target-size": ["--scheme", "w4a16"], "w4a8 --target-size": ["--scheme", "w4a8"]}

# Formats of other programs' files. The tiny families' rows are too short for most of them, which refuse them with unchanged
# messages. Models of the WIDE families have rows that all of them can store, and no tokenizer, which some could not write.
FOREIGN = {"gguf": ["--scheme", "w4a8"],
           "gguf --bits 8": ["--scheme", "w8a8", "--bits", "8"],
           "compressed-tensors": ["--scheme", "w4a16", "--group-size", "32"],
           "compressed-tensors --bits 8": ["--scheme", "w8a8"],
           "mlx": ["--scheme", "w4a16", "--group-size", "32"],
           "awq": ["--scheme", "w4a16", "--group-size", "32"],
           "gptq": ["--scheme", "w4a16", "--group-size", "32"],
           "gptq --bits 8": ["--scheme", "w8a16", "--group-size", "32"]}
EXPORTED = ["--bits", "4", "--group-size", "32", "--symmetric", "--outliers", "none", "--preset", "fast"]
EXPORTS = {"gguf": ["--scheme", "w4a8", "--embedding", "int8-g32"],
           "compressed-tensors": ["--scheme", "w4a16", "--embedding", "f16"],
           "mlx": ["--scheme", "w4a16", "--embedding", "f16"],
           "awq": ["--scheme", "w4a16", "--embedding", "f16"],
           "gptq": ["--scheme", "w4a16", "--embedding", "f16"]}
WIDE = {f"wide_{family}": family for family in ("llama", "qwen2", "qwen3")}
FAST = ["--preset", "fast"]

Hashes = dict[str, str]


def conversions(suite: Suite, model: str) -> dict[str, Hashes]:
    """Hashes the conversions of a model to ballast's own formats."""
    text = samples(model)
    told = {name: conversion(suite, model, flags) for name, flags in PLAIN.items()}
    sizes = {}
    for name, flags in ON_TEXT.items():
        told[name] = conversion(suite, model, [*flags, *text])
        # A model that was not converted has no size; its failure is reported above.
        file = suite.work / "converted" / "model.safetensors"
        sizes[name] = file.stat().st_size if file.exists() else 0
    size = ["--target-size", (sizes["w4a16"] + sizes["w8a8"]) // 2]
    return told | {name: conversion(suite, model, [*flags, *size, *text]) for name, flags in SIZED.items()}


def foreign_conversions(suite: Suite, model: str) -> dict[str, Hashes]:
    """Hashes the conversions of a model to other programs' files, and the values that ballast reads from them."""
    told = {}
    for name, flags in FOREIGN.items():
        output = "converted.gguf" if name.startswith("gguf") else "converted"
        run = suite.run("convert", model, "-o", output, "--force", "--to", name.split()[0], *FAST, *flags, *samples(model))
        told[f"--to {name}"] = hashes_of(suite, run, output)
        if run.code == 0:
            again = ["convert", output, "-o", "read", "--force", "--scheme", "f32"]
            told[f"--to {name}, read"] = hashes_of(suite, suite.run(*again), "read")
    return told


def exports(suite: Suite, model: str) -> dict[str, Hashes]:
    """Hashes the exports of a model without 16-bit columns."""
    told = {}
    for name, flags in EXPORTS.items():
        output = "converted.gguf" if name == "gguf" else "converted"
        run = suite.run("convert", model, "-o", "exported", "--force", *EXPORTED, *flags, *samples(model))
        if run.code == 0:
            run = suite.run("export", "exported", "-o", output, "--force", "--to", name)
        told[f"export --to {name}"] = hashes_of(suite, run, output)
    return told


def statistics(suite: Suite, model: str) -> Hashes:
    run = suite.run("calibrate", model, "-o", "stats.safetensors", "--force", "--samples", "4", "--length", "32",
                    *samples(model))
    return hashes_of(suite, run, "stats.safetensors")


def samples(model: str) -> list[str]:
    """Returns flags for the text of a calibration. Models without a tokenizer write their own samples."""
    return [] if model in fixtures.GGUFS or model in WIDE else ["--text", "calibration.txt"]


def conversion(suite: Suite, model: str, flags: list) -> Hashes:
    shutil.rmtree(suite.work / "converted", ignore_errors=True)
    return hashes_of(suite, suite.run("convert", model, "-o", "converted", "--force", *flags), "converted")


def hashes_of(suite: Suite, run: Run, output: str) -> Hashes:
    """Returns the hash of a run's output, or its message if it failed."""
    if run.code != 0:
        return {"refused": run.err.splitlines()[-1]}
    path = suite.work / output
    files = sorted(file for file in path.iterdir() if file.is_file()) if path.is_dir() else [path]
    told = {}
    for file in files:
        if file.suffix == ".safetensors":
            metadata = json.dumps(safetensors.read(file)[0], sort_keys=True)
            told[f"{file.name}: metadata"] = hashlib.sha256(metadata.encode()).hexdigest()
            told |= safetensors.hashes(file)
        else:
            told[file.name] = hashlib.sha256(file.read_bytes()).hexdigest()
    return told


def write(program: list[str], out: pathlib.Path, work: pathlib.Path, only: str = "") -> int:
    """Hashes everything. `only`: restricts this to models whose name contains the text."""
    suite = Suite(program, work, renew=False)
    fixtures.write_inputs(work)
    for name, family in WIDE.items():
        fixtures.write_large_model(work / name, family=family)
        for file in (work / name).glob("tokenizer*"):
            file.unlink()
    manifest = {}
    for model in filter(lambda name: only in name, [*fixtures.FAMILIES, *fixtures.GGUFS, *WIDE]):
        own = conversions(suite, model)
        failed = [f"{model}: {name}: {told['refused']}" for name, told in own.items() if "refused" in told]
        told = own | foreign_conversions(suite, model) | exports(suite, model) | {"calibrate": statistics(suite, model)}
        manifest |= {f"{model}: {name}": hashes for name, hashes in told.items()}
        print("\n".join([f"{model}: {len(told)} outputs", *failed]), flush=True)
    out.write_text(json.dumps(manifest, indent=1, sort_keys=True) + "\n")
    refused = [name for name, hashes in manifest.items() if "refused" in hashes]
    # Every family converts to ballast's own formats, and wide models to all others. `export` refuses columns
    # that a format cannot store exactly.
    wrong = [name for name in refused if ": export" not in name and (name.split(":")[0] in WIDE or "--to" not in name)]
    for name in wrong:
        print(f"{name} fails: {manifest[name]['refused']}")
    print(f"{out}: {len(manifest)} outputs, {sum(map(len, manifest.values()))} hashes, {len(refused)} refused")
    return 1 if wrong else 0


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
    print(f"{len(manifests[0])} outputs compared, {different} differ")
    return 1 if different else 0
