#!/usr/bin/env python3
"""Tests adapters: `ballast serve --adapter` with a tiny model, over its socket.

    adapters_test.py PROGRAM                 checks; with an emulator: EMULATOR [OPTION]... PROGRAM
    adapters_test.py --only names PROGRAM    the checks in whose name this is found
"""

import concurrent.futures
import pathlib
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools"))

import served_suite
import server_checks
from golden import fixtures

PROMPT = "the rain in"
check = server_checks.Checks()


class Adapters(served_suite.ServedSuite):
    """A server of one model with two adapters; a third one is on disk."""

    def __init__(self, program: list[str], work: pathlib.Path):
        super().__init__(program, work)
        fixtures.write_large_model(work / "model")
        for seed, name in enumerate(("one", "two", "three")):
            fixtures.write_adapter(work / "model", work / name, seed)
        self.serve("model", "--adapter", "one=one", "--adapter", "two=two:2", "--runtime-adapters")

    def text(self, model: str, **fields) -> str:
        answer = self.answer("/v1/completions", model=model, prompt=PROMPT, max_tokens=12, temperature=0,
                             ignore_eos=True, **fields)
        return answer["choices"][0]["text"]

    def written(self, *options: str) -> str:
        """Returns what the program's `run` writes after the prompt."""
        done = subprocess.run([*self.program, "run", "model", "-p", PROMPT, "-n", "12", "-q", *options], cwd=self.work,
                              check=True, capture_output=True, text=True)
        return done.stdout.rstrip("\n")


@check
def check_names(api: Adapters) -> None:
    models = api.client.get("/v1/models").json()["data"]
    api.same("/v1/models has the adapters", [(model["id"], model.get("parent")) for model in models],
             [("model", None), ("one", "model"), ("two", "model")])
    texts = {name: api.text(name) for name in ("model", "one", "two")}
    api.same("each name has its own text", len(set(texts.values())), 3)
    api.check("they are those of `run`", texts == {"model": api.written(), "one": api.written("--adapter", "one"),
                                                   "two": api.written("--adapter", "two:2")}, texts)
    api.same("`lora` chooses by the index", api.text("model", lora=[{"id": 0, "scale": 0}, {"id": 1}]), texts["two"])
    answer = api.answer("/v1/completions", model="one", prompt=PROMPT, max_tokens=1)
    api.same("an answer names the adapter", answer["model"], "one")
    api.refused("/v1/completions", "is none of the server's adapters", model="model", prompt=PROMPT, lora=[{"id": 7}])
    api.refused("/v1/completions", "a text has one adapter", model="model", prompt=PROMPT, lora=[{"id": 0}, {"id": 1}])
    api.refused("/v1/completions", "must be 1 or 0", model="model", prompt=PROMPT, lora=[{"id": 0, "scale": 0.5}])


@check
def check_batches(api: Adapters) -> None:
    names = ["model", "one", "two"] * 6
    alone = {name: api.text(name) for name in set(names)}
    with concurrent.futures.ThreadPoolExecutor(len(names)) as pool:
        together = list(pool.map(api.text, names))
    api.same("texts with adapters are the same in one batch", together, [alone[name] for name in names])


@check
def check_runtime(api: Adapters) -> None:
    path = str(api.work / "three")
    api.refused("/v1/load_lora_adapter", "lora_path", lora_name="three")
    api.refused("/v1/load_lora_adapter", "adapter_config.json", lora_name="three", lora_path=str(api.work / "none"))
    api.refused("/v1/load_lora_adapter", "is taken", lora_name="one", lora_path=path)
    api.refused("/v1/load_lora_adapter", "is the model's name", lora_name="model", lora_path=path)
    loaded = api.client.post("/v1/load_lora_adapter", {"lora_name": "three", "lora_path": path})
    api.same("an adapter is loaded", loaded.status, 200)
    api.same("it is listed", [one["name"] for one in api.client.get("/lora-adapters").json()], ["one", "two", "three"])
    api.same("it has the text of `run`", api.text("three"), api.written("--adapter", "three"))
    api.same("it is unloaded", api.client.post("/v1/unload_lora_adapter", {"lora_name": "three"}).status, 200)
    gone = api.client.post("/v1/completions", {"model": "three", "prompt": PROMPT})
    api.same("its name is unknown then", gone.status, 404)
    again = api.client.post("/v1/unload_lora_adapter", {"lora_name": "three"})
    api.same("it cannot be unloaded twice", (again.status, again.json()["error"]["code"]), (404, "adapter_not_found"))


@check
def check_refusals(api: Adapters) -> None:
    for options, says in ((["--adapter", "one"], "is not NAME=PATH"), (["--adapter", "one=none"], "adapter_config.json"),
                          (["--adapter", "a=one", "--adapter", "a=two"], "is taken")):
        done = subprocess.run([*api.program, "serve", "model", "--port", "0", *options], cwd=api.work,
                              capture_output=True, text=True, timeout=100, check=False)
        api.check(f"serve {' '.join(options)}: '{says}'", done.returncode != 0 and says in done.stderr, done.stderr)


if __name__ == "__main__":
    sys.exit(served_suite.main(__doc__, Adapters, check))
