"""Checks of calibrate: output, --json, the statistics file and the report."""

import json
import re

from golden import safetensors, shapes
from golden.suite import PROGRESS, Suite, near

SAMPLES = ("--text", "calibration.txt", "--samples", 16, "--length", 64)


def check_massive_values(suite: Suite) -> None:
    found = suite.json("calibrate", "llama3", "-o", "llama3.stats", *SAMPLES, shape=shapes.CALIBRATE)
    suite.same("calibrate finds the massive channel", found["massive_channels"], [3])
    suite.same("calibrate finds the massive token", found["massive_tokens"],
               [{"token": -1, "position": 0, "text": "", "samples": 16}])
    suite.same("layer 0 is the embedding, and only its values are massive here",
               [(layer["layer"], layer["massive"]) for layer in found["layers"]], [(0, True), (1, False), (2, False)])
    top = found["layers"][0]["top"]
    suite.same("the largest value is printed with its position", top[0],
               {"value": 400.0, "sample": 0, "position": 0, "token": "<s>", "channel": 3})
    suite.same("three values of each layer are printed", [len(layer["top"]) for layer in found["layers"]], [3, 3, 3])
    for layer, median, largest in ((0, 0.14171, 400), (1, 0.5375, 395.81), (2, 0.8251, 398.05)):
        row = found["layers"][layer]
        suite.check(f"median and largest value of layer {layer} are unchanged",
                    near(row["median"], median) and near(row["top"][0]["value"], largest), row)
    suite.same("linears are in the order of the forward pass, with the head last",
               [linear["name"].removeprefix("model.layers.") for linear in found["linears"]],
               [f"{layer}.{name}" for layer in (0, 1) for name in
                ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.gate_proj",
                 "mlp.up_proj", "mlp.down_proj")] + ["lm_head"])
    suite.same("samples, length and prefix are printed", [found[name] for name in ("samples", "length", "prefix")],
               [16, 64, []])


def check_statistics_file(suite: Suite) -> None:
    metadata, tensors = safetensors.read(suite.work / "llama3.stats")
    about = json.loads(metadata["ballast.statistics"])
    suite.same("the statistics store what they were made from",
               [about[name] for name in ("version", "model", "text", "samples", "length", "seed", "heads")],
               [2, "llama3", "calibration.txt", 16, 64, 0, 4])
    suite.same("the statistics store the samples' tokens", tensors["samples.tokens"][:2], ("I32", [16, 64]))
    vectors = {"min", "max", "mean", "mean_square", "ordinary_absmax"}
    names = {f"{kind}.{i}.{vector}" for kind, count in (("inputs", 9), ("keys", 2), ("values", 2))
             for i in range(count) for vector in vectors} | {"sink_share", "map", "samples.tokens"}
    suite.same("the statistics have all of their tensors", sorted(tensors), sorted(names))


def check_experts(suite: Suite) -> None:
    found = suite.json("calibrate", "qwen3_moe", "-o", "moe.stats", "--text", "calibration.txt", "--samples", 2,
                       "--length", 8, shape=shapes.CALIBRATE)["experts"]
    suite.check("every token is counted with each of its experts",
                [sum(layer["tokens"]) for layer in found] == [2 * 8 * 2] and len(found[0]["tokens"]) == 5, found)
    suite.check("experts with fewer tokens than columns were measured on other tokens", all(
        (tokens < 16) == (stand_ins > 0) == (expert in found[0]["starved"])
        for expert, (tokens, stand_ins) in enumerate(zip(found[0]["tokens"], found[0]["stand_ins"]))), found)
    page = suite.succeeds("calibrate", "qwen3_moe", "-o", "experts.stats", "--text", "calibration.txt",
                          "--samples", 2, "--length", 8, "--report", "experts.html", "-q")
    suite.check("calibrate prints a line for a layer's experts",
                re.search(r"\n +1 +5 +\d+ +\d+ +[\d.]+ of 2\.32 +\d+  [\d, and]+\n", page.out), page)
    suite.check("the report also has these experts", "got fewer tokens" in (suite.work / "experts.html").read_text())


def check_page(suite: Suite) -> None:
    run = suite.succeeds("calibrate", "llama3", "-o", "again.stats", "--report", "report.html", *SAMPLES)
    suite.check("the same command gives the same statistics", suite.bytes_of("again.stats") ==
                suite.bytes_of("llama3.stats"), run)
    suite.golden_text("calibrate prints its page", "pages/calibrate_llama3.txt", run.out, figures_apart)
    suite.prints("the plan is told on standard error, then the progress in plain lines", r"(?s).+",
                 rf"ballast: calibration: expecting [^\n]+; [^\n]+ available\n{PROGRESS}+", run)
    page = (suite.work / "report.html").read_text()
    suite.check("the report is a page that loads nothing from other sites",
                page.startswith("<!DOCTYPE html>") and not re.search(r"(src|href)=[\"']?(http|//)", page), page[:300])
    quiet = suite.succeeds("calibrate", "llama3", "-o", "quiet.stats", "-q", *SAMPLES)
    suite.check("with -q calibrate prints nothing on standard error", quiet.err == "", quiet)
    suite.same("calibrate leaves only its outputs", suite.left_in("again", "quiet", "report"),
               ["again.stats", "quiet.stats", "report.html"])


# Threads and instruction sets change the order of sums.
def figures_apart(text: str) -> str:
    return re.sub(r"(\d\.\d)\d+", r"\1", text)


def check_sampled_text(suite: Suite) -> None:
    for model in ("llama3", "bert", "gpt2.gguf"):
        run = suite.succeeds("calibrate", model, "-o", f"sampled-{model}", "--samples", 8, "--length", 16)
        suite.check(f"without --text {model} writes its own text", run.out.startswith(
            "measured         8 samples of 16 tokens, sampled from the model\n"), run)
        suite.check(f"progress shows that {model} writes text",
                    re.search(r"^writing text: \d+/\d+", run.err, re.M), run)


def check_existing_output(suite: Suite) -> None:
    (suite.work / "kept").write_text("precious")
    for flags in (["-o", "kept"], ["-o", "new", "--report", "kept"]):
        # This is checked before any work, even for a model that does not exist.
        run = suite.run("calibrate", "missing-model", *flags)
        suite.check(f"calibrate {' '.join(flags)} refuses to replace a file",
                    run.code == 1 and run.out == "" and run.err ==
                    "ballast: kept: exists; use --force to replace it, or choose another name\n", run)
    suite.same("calibrate does not change a file that it refuses to replace",
               (suite.work / "kept").read_text(), "precious")
    suite.succeeds("calibrate", "llama3", "-o", "kept", "--force", *SAMPLES)
    suite.check("--force replaces it", suite.bytes_of("kept") == suite.bytes_of("llama3.stats"))


GROUPS = (check_massive_values, check_statistics_file, check_experts, check_page, check_sampled_text, check_existing_output)
