#!/usr/bin/env python3
"""Tests how models with an encoder are served: `ballast serve` with tiny random ones, over its socket.

    translating_test.py PROGRAM                  checks; with an emulator: EMULATOR [OPTION]... PROGRAM
    translating_test.py --only translate PROGRAM the checks in whose name this is found
"""

import concurrent.futures
import json
import pathlib
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools"))

import served_suite
import server_checks
from golden import fixtures
from server_process import Client

LINES = ["the rain", "in there", "an other tin", "ten hats and a tin", "one", "a"]
MODELS = {"translator": "bart", "summarizer": "t5"}
check = server_checks.Checks()


class Translating(served_suite.ServedSuite):
    """A server of two models with an encoder, and of one without."""

    def __init__(self, program: list[str], work: pathlib.Path):
        super().__init__(program, work)
        for name, golden in MODELS.items():
            fixtures.copy_translator(golden, work / name)
        fixtures.copy_model("llama", work / "decoder")
        self.serve(*MODELS, "decoder")

    def translated(self, model: str, *options: str) -> list[dict]:
        """Returns what the program's `translate` writes from the lines."""
        (self.work / "lines.txt").write_text("".join(line + "\n" for line in LINES))
        done = subprocess.run([*self.program, "translate", model, "--text", "lines.txt", "--json", "-q",
                               "--max-tokens", "8", *options], cwd=self.work, check=True, capture_output=True)
        return json.loads(done.stdout)["translations"]


@check
def check_translate(api: Translating) -> None:
    for model in MODELS:
        for beams in (1, 4):
            expected = api.translated(model, "--beam", str(beams))
            body = api.answer("/translate", model=model, text=LINES, beam=beams, max_tokens=8)
            api.same(f"{model} with {beams} beams writes what the program does",
                     [one["text"] for one in body["translations"]], [one["texts"][0]["text"] for one in expected])
            api.same("the usage counts all tokens", body["usage"]["prompt_tokens"],
                     sum(one["source_tokens"] for one in expected))
    one = api.answer("/translate", model="translator", text=LINES[3], beam=3, hypotheses=3, max_tokens=8)
    scores = [text["score"] for text in [one["translations"][0], *one["translations"][0]["others"]]]
    api.check("three hypotheses, the best first", len(scores) == 3 and scores == sorted(scores, reverse=True), one)


@check
def check_translate_at_once(api: Translating) -> None:
    expected = api.answer("/translate", model="translator", text=LINES, beam=2, max_tokens=8)["translations"]
    with concurrent.futures.ThreadPoolExecutor(6) as threads:
        alone = list(threads.map(lambda line: Client(api.server.port).post(
            "/translate", {"model": "translator", "text": line, "beam": 2, "max_tokens": 8}).json(), LINES))
    api.same("texts of several requests are those of one", [one["translations"][0] for one in alone], expected)


@check
def check_completions(api: Translating) -> None:
    # The other model forces the last token of its translations.
    expected = [one["texts"][0]["text"] for one in api.translated("summarizer", "--beam", "1")]
    body = api.answer("/v1/completions", model="summarizer", prompt=LINES, temperature=0, max_tokens=8)
    api.same("completions are greedy translations", [one["text"] for one in body["choices"]], expected)
    both = api.answer("/v1/completions", model="summarizer", prompt=LINES[0], temperature=0, max_tokens=8, n=2)
    api.same("two choices of one source text", [one["text"] for one in both["choices"]], expected[:1] * 2)
    usage = api.answer("/v1/completions", model="translator", prompt=[3, 4, 5], max_tokens=2)["usage"]
    api.same("the prompt is the source text", usage["prompt_tokens"], 3)
    api.refused("/v1/completions", "echo", model="translator", prompt="a", echo=True)


@check
def check_refusals(api: Translating) -> None:
    api.refused("/translate", "has no encoder", model="decoder", text="a")
    api.refused("/translate", "text: is missing", model="translator")
    api.refused("/translate", "text: must not be empty", model="translator", text=[])
    api.refused("/translate", "beam", model="translator", text="a", beam=0)
    api.refused("/translate", "hypotheses: at most", model="translator", text="a", beam=2, hypotheses=3)
    api.refused("/translate", "early_stopping", model="translator", text="a", early_stopping="soon")
    api.refused("/translate", "tokens for languages", model="translator", text="a", target="de")
    api.refused("/translate", "the model's context has", model="translator", text="a " * 60)
    api.refused("/v1/chat/completions", "answers no conversation", model="translator",
                messages=[{"role": "user", "content": "a"}])
    api.refused("/v1/completions", "tokens for languages", model="translator", prompt="a", source_language="en")


if __name__ == "__main__":
    sys.exit(served_suite.main(__doc__, Translating, check))
