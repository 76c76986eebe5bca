"""Checks of convert: its output and its files, which are read without ballast."""

import json
import platform
import re
import shutil

from golden import fixtures, safetensors, shapes
from golden.suite import PROGRESS, Suite

TEXT = ("--text", "calibration.txt")
# These bytes do not depend on statistics, only on products, sums in F64 and rounding: they are the same for each
# instruction set.
INDEPENDENT = {
    "f32": ["--scheme", "f32"],
    "f32 rotated": ["--scheme", "f32", "--equalize", "--rotate", "--rotate-values", "--untie-head"],
    "bf16 unfolded": ["--scheme", "bf16", "--no-fold-norms", "--no-fold-biases", "--no-center-norms"],
    "w4a8 nearest": ["--scheme", "w4a8", "--rounding", "nearest", "--no-smooth", "--outliers", "none", *TEXT,
                     "--samples", 2],
}
CALIBRATED = {"w8a8": 8, "w4a16": 4, "w4a8": 4}  # bits that are named, which keeps the scheme's formats
SIZED = ("w4a16", "w4a8")
WITH_SIZES = ("llama3", "gpt2")  # large enough that a size between those of w4a16 and w8a8 leaves a choice
DETAILED = (*WITH_SIZES, "deepseek_v3")  # families that are calibrated; together they have what the others have
FLOAT_FIELDS = {"dtype", "torch_dtype", "tie_word_embeddings"}


def written_config(suite: Suite, model: str, folder: str) -> dict:
    """Returns the fields that the conversion added to config.json; the original's fields must be unchanged."""
    original = json.loads((suite.work / model / "config.json").read_text())
    config = json.loads((suite.work / folder / "config.json").read_text())
    added = {name: config.pop(name, None) for name in ("ballast", "quantization_config")}
    signed = [part.pop("written_by", None) for part in added.values() if part]
    suite.same(f"{folder}: each part with a version has the program's version", set(signed), {suite.version})
    suite.same(f"{folder}: config.json keeps the original's fields",
               {name: value for name, value in config.items() if name not in FLOAT_FIELDS},
               {name: value for name, value in original.items() if name not in FLOAT_FIELDS})
    return added | {name: config.get(name) for name in ("dtype", "tie_word_embeddings")}


def check_files(suite: Suite, model: str, folder: str) -> None:
    suite.same(f"{folder} contains only its files", sorted(p.name for p in (suite.work / folder).iterdir()),
               ["config.json", "folds.safetensors", "model.safetensors", "recipe.json", "tokenizer.json", "tokenizer_config.json"])
    for name in ("tokenizer.json", "tokenizer_config.json"):
        suite.check(f"{folder}: {name} is the original's",
                    suite.bytes_of(f"{folder}/{name}") == suite.bytes_of(f"{model}/{name}"))
    metadata, tensors = safetensors.read(suite.work / folder / "model.safetensors")
    suite.same(f"{folder}: every tensor has a checksum", sorted(metadata),
               sorted(["format", *(f"xxh3.{name}" for name in tensors)]))


def check_independent(suite: Suite) -> None:
    # Other processors may fuse products with sums, so only names, types and shapes are compared there.
    exact = platform.machine() == "x86_64" and len(suite.program) == 1
    recipes = {}
    for model in fixtures.FAMILIES:
        told = {}
        for name, flags in INDEPENDENT.items():
            folder = f"{model}-{name.replace(' ', '-')}"
            suite.succeeds("convert", model, "-o", folder, "-q", *flags)
            check_files(suite, model, folder)
            told[name] = {"config": written_config(suite, model, folder),
                          "tensors": safetensors.structure(suite.work / folder / "model.safetensors")}
            recipe = json.loads(suite.bytes_of(f"{folder}/recipe.json"))
            suite.same(f"{folder}: the recipe is the same as for other models", recipe,
                       recipes.setdefault(name, recipe))
        suite.golden_json(f"{model} is converted to the same tensors{' and bytes' if exact else ''} as before",
                          f"conversions/{model}.json", told, str if exact else without_hashes)
    suite.golden_json("the recipes written are what they were", "conversions/recipes.json", recipes)


def without_hashes(text: str) -> str:
    return re.sub(r" [0-9a-f]{16}\b", "", text)


def check_exact_passes(suite: Suite) -> None:
    """Must run after check_independent."""
    for model in fixtures.FAMILIES:
        for folder in (f"{model}-f32", f"{model}-f32-rotated"):
            run = suite.run("verify", folder, "--expected", f"{model}.expected.safetensors", "--json")
            suite.check(f"{folder} gives the original's logits", run.code == 0 and '"ok":true' in run.out, run)


def check_calibrated(suite: Suite) -> None:
    for model in DETAILED:
        told = {}
        for scheme, bits in CALIBRATED.items():
            folder = f"{model}-{scheme}"
            report = suite.json("convert", model, "-o", folder, "--scheme", scheme, "--bits", bits, *TEXT,
                                "--samples", 8, shape=shapes.CONVERT)
            check_files(suite, model, folder)
            check_report(suite, folder, report, sized=False)
            told[scheme] = written_config(suite, model, folder)
            # The statistics determine which columns stay in 16 bits.
            told[scheme]["tensors"] = {tensor: kind for tensor, kind in
                                     safetensors.structure(suite.work / folder / "model.safetensors", False).items()
                                     if ".outlier_" not in tensor}
        suite.golden_json(f"{model}, calibrated, has the same formats as before", f"calibrated/{model}.json", told)


def check_report(suite: Suite, folder: str, report: dict, sized: bool) -> None:
    _, tensors = safetensors.read(suite.work / folder / "model.safetensors")
    suite.same(f"{folder}: the printed groups add up to the written tensors",
               sum(group["bytes_after"] for group in report["groups"]),
               sum(len(data) for _, _, data in tensors.values()))
    suite.same(f"{folder}: the printed size is the file's", report["bytes_after"],
               (suite.work / folder / "model.safetensors").stat().st_size)
    suite.check(f"{folder}: expected divergence and costs are printed {'' if sized else 'only '}with a target size",
                sized == ("expected_divergence" in report) and
                all(sized == ("cost" in group) for group in report["groups"]), report)


def check_sizes(suite: Suite) -> None:
    """Runs after check_calibrated, whose sizes allow a choice between them."""
    for model in WITH_SIZES:
        size = sum((suite.work / f"{model}-{name}/model.safetensors").stat().st_size for name in ("w4a16", "w8a8")) // 2
        for scheme in SIZED:
            folder = f"{model}-{scheme}-sized"
            report = suite.json("convert", model, "-o", folder, "--scheme", scheme, "--target-size", size, *TEXT,
                                "--samples", 8, shape=shapes.CONVERT)
            check_files(suite, model, folder)
            check_report(suite, folder, report, sized=True)
            suite.check(f"{folder} has at most the target size, and at least 90% of it",
                        0.9 * size < report["bytes_after"] <= size, f"{report['bytes_after']} bytes of {size}")
            config = written_config(suite, model, folder)["quantization_config"]
            # A table of positions is not multiplied: it has the embedding's format.
            suite.check(f"{folder}: the chosen formats have 8-bit scales", all(
                re.fullmatch(r"(int8|nl[4567])-g(32|64|128)-s8", format) for module, format in
                config["tensors"].items() if not module.endswith("wpe")), config)
    natural = (suite.work / "llama3-w4a16/model.safetensors").stat().st_size
    report = suite.json("convert", "llama3", "-o", "llama3-natural", "--scheme", "w4a16", *TEXT, "--samples", 8,
                        shape=shapes.CONVERT)
    check_report(suite, "llama3-natural", report, sized=True)
    suite.check("without a size formats are chosen for the bytes of the scheme's own format",
                0.9 * natural < report["bytes_after"] <= natural, f"{report['bytes_after']} bytes of {natural}")
    suite.same("the recipe of a model without a size names none",
               json.loads(suite.bytes_of("llama3-natural/recipe.json"))["target_bytes"], "natural")
    report = suite.json("convert", "llama3", "-o", "llama3-bits", "--scheme", "w4a16", "--target-bpw", 10, *TEXT,
                        "--samples", 8, shape=shapes.CONVERT)
    suite.check("--target-bpw is a size in bits per weight of the original", 0.9 * 10 / 8 * 26528 <
                report["bytes_after"] <= 10 / 8 * 26528, report)


def check_written_format(suite: Suite) -> None:
    """Must run after check_calibrated and check_sizes: tensors have the types and shapes of docs/format.md."""
    for model in DETAILED:
        plain = safetensors.read(suite.work / f"{model}-bf16-unfolded" / "model.safetensors")[1]
        sized = SIZED if model in WITH_SIZES else ()
        for name in [*CALIBRATED, *(f"{scheme}-sized" for scheme in sized)]:
            folder = f"{model}-{name}"
            config = json.loads(suite.bytes_of(f"{folder}/config.json"))["quantization_config"]
            tensors = safetensors.read(suite.work / folder / "model.safetensors")[1]
            problems = [problem for module, format in config["tensors"].items()
                        for problem in matrix_problems(module, format, tensors, plain[module + ".weight"][1])]
            suite.check(f"{folder}: every matrix has the tensors of its format", not problems, "\n".join(problems))


def matrix_problems(module: str, format: str, tensors: dict, shape: list[int]) -> list[str]:
    rows, cols = shape
    bits = int(format.split("-")[0][-1])
    group = cols if "channel" in format else int(format.split("-")[1][1:])
    groups = -(-cols // group)
    wanted = {"weight": (["U8"], [rows, -(-cols * bits // 8)]),
              "weight_scale": (["U8"] if format.endswith("-s8") else ["F16", "BF16"], [rows, groups])}
    if format.endswith("-s8"):
        wanted["weight_row_scale"] = (["F16", "BF16"], [rows])
    if "-asym" in format:
        wanted["weight_zero"] = (["U8"], [rows, -(-groups * bits // 8)])
    if module + ".outlier_columns" in tensors:
        count = tensors[module + ".outlier_columns"][1]
        wanted |= {"outlier_columns": (["I32"], count), "outlier_weight": (["F16", "BF16"], [rows, *count])}
    found = {name.removeprefix(module + "."): tensor for name, tensor in tensors.items()
             if name.startswith(module + ".") and not name.endswith(".bias")}
    problems = [f"{module} ({format}) has {sorted(found)}"] if found.keys() != wanted.keys() else []
    return problems + [f"{module}.{part} ({format}) is {found[part][:2]}" for part, (types, dims) in wanted.items()
                       if part in found and (found[part][0] not in types or found[part][1] != dims)]


def check_page(suite: Suite) -> None:
    convert = ("convert", "llama3", "--samples", 8, "-o")
    run = suite.succeeds(*convert, "page", *TEXT)
    told = [line.split(":")[0] for line in run.out.splitlines() if line.startswith("- ")]
    suite.same("convert prints its passes in order", told,
               ["- activations", "- fold_biases", "- fold_norms", "- smooth", "- quantize"])
    suite.prints("convert prints notes, a table and the size; plans and progress in plain lines on standard error",
                 r"(- [^\n]+\n)+\ntensors +format +count +before +after +bits/weight +costs KL +next MB saves\n([^\n]+\n)+\n"
                 r"page: 56\.5 kB became [\d.]+ kB, [\d.]+ bits per weight\n",
                 "".join(rf"ballast: {job}: expecting [^\n]+\n{PROGRESS}+" for job in ("calibration", "conversion")),
                 run)
    recipe = json.loads(suite.bytes_of("page/recipe.json"))
    suite.same("w8a8 is the default scheme", recipe["scheme"], "w8a8")
    quiet = suite.succeeds(*convert, "one-thread", *TEXT, "-q", "-t", 1)
    suite.check("with -q convert prints nothing on standard error", quiet.err == "", quiet)
    suite.succeeds(*convert, "same-recipe", *TEXT, "-q", "--recipe", "page/recipe.json")
    suite.succeeds("calibrate", "llama3", "-o", "eight.stats", *TEXT, "--samples", 8, "--length", 64, "-q")
    suite.succeeds(*convert, "same-statistics", "-q", "--stats", "eight.stats")
    for folder in ("one-thread", "same-recipe", "same-statistics"):
        suite.check(f"{folder.replace('-', ' ')}: the bytes are the same",
                    suite.bytes_of(f"{folder}/model.safetensors") == suite.bytes_of("page/model.safetensors"))
    suite.same("finished conversions leave no hidden files", suite.hidden(""), [])


def check_inspection(suite: Suite) -> None:
    """Must run after check_page."""
    told = suite.json("inspect", "page", shape=shapes.INSPECT)
    suite.same("inspect has the recipe of a written model", told["recipe"],
               json.loads(suite.bytes_of("page/recipe.json")))
    suite.same("inspect lists the matrices of a written model by their format",
               sum(group["tensors"] for group in told["tensor_groups"] if group["type"].endswith("-s8")), 16)
    suite.same("inspect counts weights independently of their bytes, without 64 of folded biases",
               told["parameters"], 26528 - 64)
    run = suite.succeeds("inspect", "page")
    suite.check("inspect prints the recipe", "\nThe recipe that made it:\n  {\n" in run.out, run)


def check_gguf(suite: Suite) -> None:
    """Uses a model without a tokenizer, because a GGUF cannot hold that of the other fixtures."""
    (suite.work / "untold").mkdir()
    for name in ("config.json", "model.safetensors"):
        shutil.copy(suite.work / "llama" / name, suite.work / "untold" / name)
    convert = ("convert", "untold", "--to", "gguf", "--scheme", "f32", "-o")
    report = suite.json(*convert, "written.gguf", shape=shapes.CONVERT)
    file = suite.work / "written.gguf"
    suite.same("the printed size of a GGUF is the file's", report["bytes_after"], file.stat().st_size)
    suite.check("a GGUF begins with its magic number and version", file.read_bytes()[:8] == b"GGUF\x03\0\0\0")
    run = suite.run("verify", "written.gguf", "--expected", "llama.expected.safetensors", "--json")
    suite.check("a written GGUF gives the original's logits", run.code == 0 and '"ok":true' in run.out, run)
    suite.succeeds(*convert, "written.gguf", "--force", "-q")
    failed = ((("convert", "llama", "--to", "gguf", "-o", "made"),
               r"llama: tokenizer: has no token for some bytes, [^\n]+"),
              (("convert", "gpt2", "--to", "gguf", "-o", "made"), r"gpt2: is a model of the family gpt2, [^\n]+"),
              ((*convert, "written.gguf"), r"written\.gguf: exists; use --force to replace it, or choose another name"),
              ((*convert, "llama", "--force"), r"llama: is no file: it is not replaced, choose another name"),
              ((*convert, "made", "--prefix", "5"), r"prefix: a GGUF cannot hold [^\n]+"),
              (("convert", "untold", "--to", "gguf", "-o", "made"),
               r"model\.layers\.0\.mlp\.down_proj: cannot be stored as q8_0: \d+ columns are not a multiple of 32, the values "
               r"of a block; choose f16 for it \(--format 'NAME=FORMAT'\)"))
    for arguments, line in failed:
        run = suite.run(*arguments)
        suite.check(f"'{' '.join(map(str, arguments))}' fails with one line",
                    run.code == 1 and run.out == "" and re.fullmatch(rf"ballast: {line}\n", run.err), run)
    suite.same("a GGUF that fails leaves nothing behind", suite.left_in("made"), [])


def check_export(suite: Suite) -> None:
    """Converted models are exported without changes, or refused."""
    suite.succeeds("convert", "untold", "--scheme", "bf16", "-o", "own", "-q")
    report = suite.json("export", "own", "--to", "gguf", "-o", "exported.gguf", shape=shapes.CONVERT)
    suite.same("the printed size of an export is the file's", report["bytes_after"],
               (suite.work / "exported.gguf").stat().st_size)
    suite.succeeds("export", "own", "--to", "gptq", "-o", "exported", "-q")
    suite.succeeds("convert", "untold", "--bits", 8, "--rounding", "nearest", "--no-smooth", "--outliers", "none",
                   "-o", "rounded", "-q")
    failed = ((("own", "--to", "gguf", "-o", "exported.gguf"),
               r"exported\.gguf: exists; use --force to replace it, or choose another name"),
              (("untold", "--to", "gguf", "-o", "made"),
               r"untold: is no model that ballast wrote: `ballast convert` takes it"),
              (("rounded", "--to", "gptq", "-o", "made"), r"GPTQ: keeps activations in 16 bits: [^\n]+"))
    for arguments, line in failed:
        run = suite.run("export", *arguments)
        suite.check(f"'export {' '.join(map(str, arguments))}' fails with one line",
                    run.code == 1 and run.out == "" and re.fullmatch(rf"ballast: {line}\n", run.err), run)
    suite.same("an export that fails leaves nothing behind", suite.left_in("made"), [])


GROUPS = (check_independent, check_exact_passes, check_calibrated, check_sizes, check_written_format, check_page,
          check_inspection, check_gguf, check_export)
