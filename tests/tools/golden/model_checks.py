"""Checks of inspect, verify and convert --explain: their output for models of all families is the same on all
machines."""

import re

from golden import fixtures, shapes
from golden.suite import Suite


def check_descriptions(suite: Suite) -> None:
    for model in fixtures.FAMILIES + fixtures.GGUFS:
        description = {"inspect": suite.json("inspect", model, shape=shapes.INSPECT),
                       "explain": suite.json("convert", model, "--explain", shape=shapes.EXPLAIN)["folds"]}
        suite.golden_json(f"inspect and convert --explain tell of {model} what they told", f"models/{model}.json",
                          description)


def check_pages(suite: Suite) -> None:
    for model in ("llama3", "deepseek_v3", "mistral"):
        for command in (["inspect", model], ["convert", model, "--explain"]):
            run = suite.succeeds(*command)
            suite.check(f"'{' '.join(command)}' is silent on standard error", run.err == "", run)
            suite.golden_text(f"'{' '.join(command)}' prints its page", f"pages/{command[0]}_{model}.txt", run.out)


def check_verify(suite: Suite) -> None:
    for model in fixtures.FAMILIES + fixtures.GGUFS:
        expected = f"{model.removesuffix('.gguf')}.expected.safetensors"
        # A GGUF of qwen2 does not store its window.
        if model == "qwen2.gguf":
            continue
        figures = suite.json("verify", model, "--expected", expected, shape=shapes.VERIFY)
        suite.check(f"{model} gives transformers' logits",
                    figures["ok"] and figures["relative_error"] < 1e-4 and figures["kl_mean"] < 1e-6 and
                    figures["top1_agreement"] == 1, figures)
    run = suite.succeeds("verify", "llama3", "--expected", "llama3.expected.safetensors")
    rows = [line.split("  ")[0] for line in run.out.splitlines()]
    suite.same("verify prints its rows, and nothing on standard error", (rows, run.err),
               (["largest error", "relative error", "KL divergence", "same top token", "verdict"], ""))
    suite.check("verify's verdict is ok", run.out.endswith("verdict         ok\n"), run)


def check_verify_of_others_logits(suite: Suite) -> None:
    for flags in ([], ["--json"]):
        run = suite.run("verify", "qwen3", "--expected", "mistral.expected.safetensors", *flags)
        said = '"ok":false' if flags else "verdict         differs\n"
        line = (r"ballast: qwen3: relative error [\de.-]+ is above the tolerance 0\.001 "
                r"against mistral\.expected\.safetensors\n")
        suite.check(f"verify {' '.join(flags)} of another model's logits prints its figures, then fails with one line",
                    run.code == 1 and said in run.out and re.fullmatch(line, run.err), run)
    lenient = suite.run("verify", "qwen3", "--expected", "mistral.expected.safetensors", "--tolerance", "100")
    suite.check("verify passes below its --tolerance", lenient.code == 0 and lenient.err == "", lenient)


GROUPS = (check_descriptions, check_pages, check_verify, check_verify_of_others_logits)
