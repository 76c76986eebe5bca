"""Checks of sweep: its files, resuming, and recipes that fail."""

import csv
import json
import re

from golden import shapes
from golden.suite import Suite

FLAGS = ("--text", "text.txt", "--context", 32, "--chunks", 4, "--calibration-text", "calibration.txt", "--preset",
         "fast", "--schemes", "w8a8,w4a8@34kB")


def check_results(suite: Suite) -> None:
    found = suite.json("sweep", "llama3", *FLAGS, "-o", "sweep", shape=shapes.SWEEP)
    suite.same("a sweep's results have its inputs",
               [found[name] for name in ("model", "text", "context", "original_bytes",
               "calibration")], ["llama3", "text.txt", 32, 56520, "8 samples of 64 tokens, calibration.txt"])
    suite.same("every recipe has a row, in the given order", [row["name"] for row in found["rows"]],
               ["w8a8", "w4a8@34kB"])
    for row in found["rows"]:
        suite.check("every row has figures, speed and formats", "evaluation" in row and row["formats"] and
                    [test["test"] for test in row["benchmark"]["results"]] == ["pp512", "tg128"], row)
    suite.check("a recipe's size is at most its target size",
                found["rows"][1]["evaluation"]["file_bytes"] <= 34000, found)
    suite.same("results.json has the same content", json.loads(suite.bytes_of("sweep/results.json")), found)
    rows = list(csv.DictReader(suite.bytes_of("sweep/results.csv").decode().splitlines()))
    suite.same("results.csv has its columns", list(rows[0]), ["name", "program", "file_mb", "bits_per_weight", "kl",
               "kl_p99", "ppl", "top1", "pp512", "tg128", "error"])
    suite.same("results.csv has the same rows", [(row["name"], row["program"], float(row["kl"])) for row in rows],
               [(row["name"], "ballast", row["evaluation"]["kl_mean"]) for row in found["rows"]])
    page = suite.bytes_of("sweep/index.html").decode()
    suite.check("the page loads nothing from other sites and has a plot", page.startswith("<!DOCTYPE html>") and
                "<svg" in page and not re.search(r"(src|href)=[\"']?(http|//)", page), page[:300])
    suite.check("models are deleted without --keep-models", not (suite.work / "sweep" / "models").exists())


def check_going_on(suite: Suite) -> None:
    """Must run after check_results."""
    run = suite.succeeds("sweep", "llama3", *FLAGS, "-o", "sweep")
    suite.check("measured recipes are not measured again", run.err == "", run)
    suite.check("sweep prints its table", re.fullmatch(
        r"recipe +MB +bits/weight +perplexity +KL +same top token +pp512 +tg128\n(w8a8 [^\n]+\n)(w4a8@34kB [^\n]+\n)\n"
        r"As a page: sweep/index.html\n", run.out), run)
    more = suite.succeeds("sweep", "llama3", *FLAGS, "--schemes", "bf16", "--no-bench", "-o", "sweep")
    suite.check("one recipe more measures only that one",
                re.fullmatch(r"(bf16 \(3 of 3\): [^\n\r\x1b]+\n)+", more.err), more)


def check_failing_recipe(suite: Suite) -> None:
    flags = ("sweep", "llama3", *FLAGS[:-2], "--no-bench", "--schemes", "w4a8@2kB,w8a8", "-o", "failing", "-q")
    run = suite.run(*flags)
    suite.check("a recipe that fails has its error in its row and in one line, and the others continue",
                run.code == 1 and re.fullmatch(r"ballast: w4a8@2kB failed: target size: [^\n]+\n", run.err) and
                re.search(r"^w4a8@2kB  failed$", run.out, re.M) and re.search(r"^w8a8 +0\.0 ", run.out, re.M), run)
    rows = json.loads(suite.bytes_of("failing/results.json"))["rows"]
    suite.check("results.json holds its error", "target size" in rows[0]["error"] and "error" not in rows[1], rows)


def check_peers_and_models(suite: Suite) -> None:
    (suite.work / "peers.csv").write_text("name,program,file_mb,kl\nQ8_0,other,0.05,0.001\n")
    suite.succeeds("sweep", "llama3", *FLAGS[:-2], "--no-bench", "--schemes", "w8a8", "-o", "peers", "-q", "--peers",
                   "peers.csv", "--keep-models")
    suite.check("--peers are in the plot", "Q8_0" in suite.bytes_of("peers/index.html").decode())
    suite.check("--keep-models keeps them", (suite.work / "peers/models/w8a8/config.json").exists())
    (suite.work / "bad.csv").write_text("name,file_mb\nQ8_0,0.05\n")
    for file in ("bad.csv", "missing.csv"):
        run = suite.run("sweep", "missing-model", "--text", "text.txt", "-o", "unpeered", "--peers", file)
        suite.check(f"--peers {file} fails before any work, with one line that names it", run.code == 1 and
                    re.fullmatch(rf"ballast: {file}[:,][^\n]+\n", run.err) and not suite.left_in("unpeered"), run)


GROUPS = (check_results, check_going_on, check_failing_recipe, check_peers_and_models)
