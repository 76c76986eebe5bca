#!/usr/bin/env python3
"""Tests several models in one server: `ballast serve` with tiny random models, loaded when requests ask for them.

    models_test.py PROGRAM                  checks; with an emulator: EMULATOR [OPTION]... PROGRAM
    models_test.py --only memory PROGRAM    the checks in whose name this is found
"""

import collections
import concurrent.futures
import contextlib
import json
import pathlib
import sys
import threading
import time

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools"))

import server_checks
from golden import fixtures
from golden.suite import Suite
from server_process import Client, Server

CONTEXT = 4096
CACHE = 32 << 20  # of each model; the weights are a few kB
PROMPT = "the rain"
check = server_checks.Checks()


class Models(Suite):
    """Folders with models `first`, `second` and `vectors`, and one that is `broken`."""

    def __init__(self, program: list[str], work: pathlib.Path):
        super().__init__(program, work, renew=False)
        for name, family in (("first", "llama3"), ("second", "qwen3"), ("vectors", "bert"), ("broken", "llama3")):
            fixtures.copy_model(family, work / name)
            config = json.loads((work / name / "config.json").read_text())
            if family != "bert":
                config["max_position_embeddings"] = CONTEXT
                config.pop("rope_scaling", None)
            (work / name / "config.json").write_text(json.dumps(config))
        file = work / "broken" / "model.safetensors"
        file.write_bytes(file.read_bytes()[:-100])

    @contextlib.contextmanager
    def serving(self, *words):
        """Yields a client of a server with these words, in the folder of the models."""
        server = Server(self.program, words[0], *words[1:], "--cache-memory", CACHE, folder=self.work)
        try:
            yield Client(server.port), server
            ended = server.process.poll() is not None
            self.same("SIGTERM ends the server with exit code 0", server.end() if ended else server.stop(), 0)
        finally:
            if server.process.poll() is None:
                server.process.kill()

    def complete(self, client: Client, model: str, seed: int = 1, tokens: int = 24) -> dict:
        return client.post("/v1/completions", {"model": model, "prompt": PROMPT, "max_tokens": tokens, "seed": seed,
                                               "temperature": 1, "ignore_eos": True})

    def text(self, client: Client, model: str, **options) -> str:
        reply = self.complete(client, model, **options)
        if reply.status != 200:
            raise RuntimeError(f"{model} was answered with {reply}")
        return reply.json()["choices"][0]["text"]

    def alone(self, model: str, seeds: int) -> list[str]:
        """Returns the texts of a server with this model alone."""
        with self.serving(model) as (client, _):
            return [self.text(client, model, seed=seed) for seed in range(seeds)]


def states(client: Client) -> dict[str, str]:
    return {model["id"]: model["status"]["value"] for model in client.get("/v1/models").json()["data"]}


def wait_for(condition, seconds: float = 60) -> bool:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def events(server: Server, name: str) -> list[str]:
    found = []
    for line in server.lines:
        with contextlib.suppress(ValueError):
            event = json.loads(line)
            if event.get("event") == name:
                found.append(event["model"])
    return found


@check
def check_answers(api: Models) -> None:
    """Each model answers as it does alone, also while others are loaded and generate."""
    expected = {name: api.alone(name, 6) for name in ("first", "second")}
    api.check("two models have different texts", expected["first"] != expected["second"])
    with api.serving("first", "second", "vectors") as (client, server):
        api.same("the server is healthy before it has loaded a model", client.get("/health").status, 200)
        api.same("no model is loaded at first", states(client),
                 {"first": "unloaded", "second": "unloaded", "vectors": "unloaded"})
        jobs = [(name, seed) for seed in range(6) for name in ("first", "second")]
        with concurrent.futures.ThreadPoolExecutor(len(jobs) + 1) as pool:
            vectors = pool.submit(client.post, "/v1/embeddings", {"model": "vectors", "input": PROMPT})
            texts = list(pool.map(lambda job: api.text(client, job[0], seed=job[1]), jobs))
        api.same("both models have the texts that each has alone", texts, [expected[name][seed] for name, seed in jobs])
        api.same("a third one makes vectors", vectors.result().status, 200)
        api.same("all are loaded, each once", sorted(events(server, "model_loaded")), ["first", "second", "vectors"])
        api.same("all are said to be loaded", set(states(client).values()), {"loaded"})
        api.check("an answer names its model", api.complete(client, "second").json()["model"] == "second")
        api.check("a loaded model has its description", client.get("/v1/models/second").json()["max_model_len"] > 0)


@check
def check_names(api: Models) -> None:
    with api.serving("coder=first,alias=gpt-4,alias=small", "second") as (client, _):
        text = api.text(client, "coder")
        for name in ("gpt-4", "small", "coder:latest", ""):
            api.same(f"'{name}' is the first model", api.text(client, name), text)
        api.check("another name is another model", api.text(client, "second") != text)
        api.same("the aliases are listed", client.get("/v1/models").json()["data"][0]["aliases"], ["gpt-4", "small"])
        for path in ("/v1/completions", "/v1/chat/completions", "/v1/responses", "/v1/messages", "/api/chat",
                     "/v1/embeddings", "/tokenize", "/apply-template", "/api/show", "/infill"):
            reply = client.post(path, {"model": "nobody", "prompt": "a", "input": "a", "max_tokens": 1})
            api.check(f"{path} refuses an unknown model with the names", reply.status == 404 and
                      b"coder" in reply.body and b"second" in reply.body, reply)
        error = client.post("/v1/completions", {"model": "nobody", "prompt": "a"}).json()["error"]
        api.same("an unknown model has OpenAI's code", error["code"], "model_not_found")
        api.same("an unknown model has no description", client.get("/v1/models/nobody").status, 404)
        api.same("a model has one by each name", client.get("/v1/models/gpt-4").json()["id"], "coder")
    with api.serving("first", "second", "--any-name") as (client, _):
        api.same("with --any-name the first model answers", api.complete(client, "nobody").json()["model"], "first")


@check
def check_endpoints(api: Models) -> None:
    """Every endpoint answers with the model that it names."""
    chat = {"messages": [{"role": "user", "content": "a"}], "max_tokens": 4}
    with api.serving("first", "second", "vectors") as (client, _):
        for path, body in (("/v1/chat/completions", chat), ("/v1/messages", chat),
                           ("/v1/responses", {"input": "a", "max_output_tokens": 4}),
                           ("/api/chat", chat | {"stream": False}), ("/api/generate", {"prompt": "a", "stream": False})):
            reply = client.post(path, {"model": "second"} | body)
            api.check(f"{path} answers with the model", reply.status == 200 and reply.json()["model"] == "second", reply)
        api.same("/tokenize has the model's context", client.post("/tokenize", {"model": "second", "content": "a"})
                 .json()["max_model_len"], client.get("/v1/models/second").json()["max_model_len"])
        api.same("/apply-template takes a model", client.post("/apply-template", {"model": "second"} | chat).status, 200)
        shown = client.post("/api/show", {"model": "first"}).json()
        api.check("/api/show describes a model without loading it", shown["capabilities"][0] == "completion" and
                  shown["model_info"]["general.parameter_count"] > 0 and states(client)["first"] == "unloaded", shown)
        api.same("/api/show knows a model of vectors", client.post("/api/show", {"model": "vectors"})
                 .json()["capabilities"], ["embedding"])
        api.check("/tokenizer_info takes a model in its query", client.get("/tokenizer_info?model=second").status == 200 and
                  client.get("/tokenizer_info?model=nobody").status == 404)
        api.same("outliers take a model in their query", client.get("/v1/ballast/outliers?model=nobody").status, 404)
        api.same("a text of an encoder is refused", client.post("/v1/completions", {"model": "vectors", "prompt": "a"})
                 .status, 400)
        api.same("/api/tags lists all models", [model["name"] for model in client.get("/api/tags").json()["models"]],
                 ["first", "second", "vectors"])
        loaded = [model["name"] for model in client.get("/api/ps").json()["models"]]
        api.same("/api/ps lists the loaded ones", loaded, ["second", "vectors"])
        metrics = client.get("/metrics").body.decode()
        api.check("metrics have a label of the model", 'ballast_generation_tokens_total{model="second"}' in metrics and
                  'le="0.02"' in metrics and 'model="first"' not in metrics, metrics)
        api.same("each metric is described once", metrics.count("# TYPE ballast_prompt_tokens_total"), 1)


@check
def check_memory(api: Models) -> None:
    """With memory for one model at a time, models take turns."""
    memory = CACHE * 3 // 2
    with api.serving("first", "second", "--models-memory", memory) as (client, server):
        texts = {name: api.text(client, name) for name in ("first", "second")}
        api.same("the second unloads the first", states(client), {"first": "unloaded", "second": "loaded"})
        api.same("the log says so", events(server, "model_unloaded"), ["first"])
        jobs = ["first", "second"] * 8
        with concurrent.futures.ThreadPoolExecutor(len(jobs)) as pool:
            replies = list(pool.map(lambda name: api.text(client, name), jobs))
        api.same("mixed requests get the same texts as before", replies, [texts[name] for name in jobs])
        api.same("at most one model is loaded", sorted(states(client).values()), ["loaded", "unloaded"])
    with api.serving("first", "second,cache-memory=64MB", "--models-memory", memory) as (client, server):
        api.text(client, "first")
        reply = api.complete(client, "second")
        api.check("a model that does not fit is refused with the figures", reply.status == 507 and
                  reply.json()["error"]["code"] == "insufficient_memory" and b"64.0 MB of cache" in reply.body, reply)
        api.same("and unloads no other", events(server, "model_unloaded"), [])


class LongText:
    """A stream of many tokens of the first model, which a thread reads: the server ends streams that are not read."""

    def __init__(self, client: Client):
        self.stream = client.stream("/v1/completions", {"model": "first", "prompt": PROMPT, "max_tokens": CONTEXT - 100,
                                                        "ignore_eos": True, "n": 8})
        self.pieces = iter(self.stream)
        next(self.pieces)
        self.thread = threading.Thread(target=lambda: collections.deque(self.pieces, maxlen=0))
        self.thread.start()

    def is_complete(self) -> bool:
        self.thread.join()
        return self.stream.done


@check
def check_waiting(api: Models) -> None:
    """Requests wait while another model's requests end; clients may leave."""
    request = {"model": "second", "prompt": "a", "max_tokens": 1}
    with api.serving("first", "second", "--models-memory", CACHE * 3 // 2, "--max-waiting", 2) as (client, server):
        text = LongText(client)
        connection = client.raw_request("POST", "/v1/completions", request)
        api.check("a busy model leaves when another one is asked for",
                  wait_for(lambda: states(client)["first"] == "unloading"), states(client))
        connection.close()
        api.check("but not if its client has left", wait_for(lambda: states(client)["first"] == "loaded"), states(client))
        api.check("a running text is not cut when another model waits", text.is_complete())
        api.same("nothing is loaded for a client that left", events(server, "model_loaded"), ["first"])
        text = LongText(client)
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            replies = list(pool.map(lambda _: api.complete(client, "second"), range(8)))
        api.check("the text is complete, too, when the others wait for it", text.is_complete())
        counts = [reply.status for reply in replies]
        api.check("two wait, the others are refused", set(counts) == {200, 503} and counts.count(200) >= 2, counts)
        refused = next(reply for reply in replies if reply.status == 503)
        api.check("and may try again", "retry-after" in refused.headers and
                  refused.json()["error"]["code"] == "queue_full", refused)
        text = LongText(client)
        waiting = client.raw_request("POST", "/v1/completions", request)
        wait_for(lambda: states(client)["first"] == "unloading")
        server.terminate()
        status = waiting.getresponse().status
        waiting.close()
        api.check("the server ends the running text, and refuses those that wait", text.is_complete() and status == 503,
                  status)
        server.end()


@check
def check_failures(api: Models) -> None:
    with api.serving("first", "broken") as (client, server):
        for _ in range(2):
            reply = api.complete(client, "broken")
            api.check("a broken model is refused with the reason", reply.status == 500 and b"model.safetensors" in
                      reply.body and reply.json()["error"]["code"] == "model_load_failed", reply)
        api.same("it is tried once", events(server, "model_failed"), ["broken"])
        status = client.get("/v1/models/broken").json()["status"]
        api.check("its state has the reason", status["value"] == "unloaded" and "safetensors" in status["error"], status)
        api.same("the others go on", api.complete(client, "first").status, 200)
    wrong = [(["first", "second", "--name", "x"], "--name is of one model"),
             (["first", "second", "--stats", "x"], "--stats is of one model"),
             (["first", "second", "--draft", "first"], "--draft is of one model"),
             (["first", "first"], "is the name of two models"), (["first", "missing"], "missing: does not exist"),
             (["first", "second,stats=missing"], "missing: does not exist"), ([], "MODEL is required"),
             (["first", "second,size=3"], "'size' is not an option"), (["--models", "first"], "has no model")]
    for words, message in wrong:
        run = api.run("serve", *words, "--port", 0)
        api.check(f"{words} ends with one line", run.code in (1, 2) and message in run.err and
                  run.err.count("\n") <= 2, run)


@check
def check_sources(api: Models) -> None:
    folder = api.work / "all"
    folder.mkdir()
    for name in ("second", "first"):
        (folder / name).symlink_to(api.work / name)
    (folder / "notes.txt").write_text("none")
    with api.serving("--models", folder) as (client, _):
        api.same("--models serves the models of a folder", list(states(client)), ["first", "second"])
        api.check("both answer", api.text(client, "first") != api.text(client, "second"))
    template = api.work / "template.jinja"
    template.write_text("{% for m in messages %}[{{ m.content }}]{% endfor %}")
    file = api.work / "models.json"
    file.write_text(json.dumps({"models": [
        {"model": "first", "name": "a", "alias": "b", "chat-template": "template.jinja", "context": 64},
        {"model": "second", "share": 2, "draft": "second"}]}))
    with api.serving("--models-file", file) as (client, _):
        body = {"messages": [{"role": "user", "content": "x"}]}
        api.same("a file of models has their options", client.post("/apply-template", body | {"model": "b"})
                 .json()["prompt"], "[x]")
        api.check("another model has its own template", client.post("/apply-template", body | {"model": "second"})
                  .json()["prompt"] != "[x]")
        api.same("a model with a draft answers", api.complete(client, "second").status, 200)
    with api.serving("first", "second,draft=vectors") as (client, _):
        reply = api.complete(client, "second")
        api.check("a draft with other tokens is refused", reply.status == 500 and b"draft" in reply.body, reply)


@check
def check_keep_alive(api: Models) -> None:
    with api.serving("first", "second") as (client, server):
        api.text(client, "first")
        reply = client.post("/api/generate", {"model": "first", "keep_alive": 0})
        api.same("keep_alive 0 without a prompt unloads a model", reply.json()["done_reason"], "unload")
        api.check("at once", wait_for(lambda: states(client)["first"] == "unloaded"), states(client))
        client.post("/api/generate", {"model": "second", "prompt": "a", "stream": False, "keep_alive": "20ms",
                                      "options": {"num_predict": 2}})
        api.check("keep_alive unloads a model after its time", wait_for(lambda: states(client)["second"] == "unloaded"),
                  states(client))
        api.same("a request without a prompt loads a model", client.post("/api/chat", {"model": "second"}).json()
                 ["done_reason"], "load")
        api.same("which then stays", states(client)["second"], "loaded")
        api.same("a wrong duration is refused", client.post("/api/chat", {"model": "second", "keep_alive": "soon"}).status,
                 400)


def run(program: list[str], work: pathlib.Path, only: str) -> int:
    api = Models(program, work)
    check.run(api, only)
    return server_checks.outcome(api)


if __name__ == "__main__":
    sys.exit(server_checks.main(__doc__, run, takes_model=False))
