#!/usr/bin/env python3
"""Tests the server's API from outside: `ballast serve` with a tiny model, over its socket.

    api_test.py PROGRAM MODEL              checks; with an emulator: EMULATOR [OPTION]... PROGRAM MODEL
    api_test.py --only stream PROGRAM MODEL    the checks in whose name this is found

MODEL is a directory of tests/data/models; its copy gets a tokenizer and a longer context.
"""

import base64
import collections
import concurrent.futures
import contextlib
import http.client
import json
import math
import pathlib
import shutil
import socket
import struct
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools"))

import server_checks
from golden import fixtures
from golden.suite import Suite
from server_process import PATIENCE, Client, Reply, Server

CONTEXT = 4096
LONG_CONTEXT = 16384
END = 3  # the tokenizer's <|im_end|>, also the copied model's end of text
NO_SPECIAL = {str(i): -100 for i in range(len(fixtures.SPECIAL))}
TEXT = "the rain in an other place"
CHAT = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "the rain"},
        {"role": "assistant", "content": "in there"}, {"role": "user", "content": "an other"}]
CLOSE = 0.02  # log-probabilities of one text, read at once or token by token
check = server_checks.Checks()


class Api(Suite):
    """Checks, and short functions for requests."""

    def __init__(self, program: list[str], work: pathlib.Path, model: pathlib.Path):
        super().__init__(program, work, renew=False)
        self.model = model
        self.server = Server(program, model)
        self.client = Client(self.server.port)
        self.name = self.client.get("/v1/models").json()["data"][0]["id"]
        self.vocabulary = json.loads((model / "tokenizer.json").read_text())["model"]["vocab"]

    def completion(self, prompt=TEXT, **fields) -> dict:
        """Returns a greedy completion without special tokens; `fields` override this."""
        body = {"model": self.name, "prompt": prompt, "max_tokens": 12, "temperature": 0, "logit_bias": NO_SPECIAL}
        return self.answer("/v1/completions", body | fields)

    def chat(self, messages=None, **fields) -> dict:
        body = {"model": self.name, "messages": messages or CHAT, "max_completion_tokens": 12, "temperature": 0,
                "logit_bias": NO_SPECIAL}
        return self.answer("/v1/chat/completions", body | fields)

    def answer(self, path: str, body) -> dict:
        reply = self.client.post(path, body)
        if reply.status != 200:
            raise RuntimeError(f"{path} {json.dumps(body)[:300]} was answered with {reply}")
        return reply.json()

    def text(self, prompt=TEXT, **fields) -> str:
        return self.completion(prompt, **fields)["choices"][0]["text"]

    def tokenize(self, text: str, special: bool = True) -> list[int]:
        return self.answer("/tokenize", {"prompt": text, "add_special_tokens": special})["tokens"]

    def ids(self, names: list[str]) -> list[int]:
        """Returns ids for the tokens of log-probabilities; no two tokens of this vocabulary have the same text."""
        by_text = {name.replace("▁", " "): token for name, token in self.vocabulary.items()}
        return [by_text[name] for name in names]

    def refused(self, name: str, reply: Reply, status: int, param: str | None = None) -> None:
        """`param`: the field that the error must name; None: any."""
        try:
            error = reply.json()["error"]
        except (ValueError, KeyError, TypeError):
            error = {}
        holds = (reply.status == status and set(error) >= {"message", "type", "param", "code"} and
                 isinstance(error["message"], str) and error["message"] and isinstance(error["type"], str) and
                 (param is None or error["param"] == param))
        self.check(f"{name}: {status}" + (f", naming {param}" if param else ""), holds, reply)


# ---------------------------------------------------------------------------------------------------------------------
# Information about the server


@check
def check_pages(api: Api) -> None:
    health = api.client.get("/health")
    api.same("/health says 200", health.status, 200)
    models = api.client.get("/v1/models").json()
    api.check("/v1/models is a list of one model", models["object"] == "list" and len(models["data"]) == 1 and
              models["data"][0]["object"] == "model", models)
    api.same("a model is found by its name", api.client.get(f"/v1/models/{api.name}").json()["id"], api.name)
    api.refused("an unknown model's name", api.client.get("/v1/models/nobody"), 404)
    metrics = api.client.get("/metrics")
    api.check("/metrics is text", metrics.status == 200 and metrics.headers["content-type"].startswith("text/plain"),
              metrics)
    api.check("/metrics counts running requests", "ballast_num_requests_running" in api.client.metrics(), metrics)


@check
def check_tokenize(api: Api) -> None:
    ids = api.tokenize("the rain", special=False)
    api.same("texts become the tokenizer's ids", ids, api.ids([" ", "th", "e", " ", "r", "a", "in"]))
    api.same("add_special_tokens puts the start token before them", api.tokenize("the rain"), [1, *ids])
    for special in (True, False):
        api.same(f"content and add_special ({special}) have the same tokens",
                 api.answer("/tokenize", {"content": "the rain", "add_special": special})["tokens"],
                 api.tokenize("the rain", special))
    back = api.answer("/detokenize", {"tokens": ids})
    api.same("ids become the text again", back["prompt"].lstrip(" "), "the rain")
    api.same("/detokenize returns the text as prompt and content", back.get("content"), back["prompt"])
    for tokens in ([10**6], [-1], [1.5], ["a"], 7, None, [2**70]):
        api.refused(f"/detokenize of {tokens}", api.client.post("/detokenize", {"tokens": tokens}), 400, "tokens")
    api.refused("/tokenize without a text", api.client.post("/tokenize", {}), 400)
    api.refused("/tokenize of a number", api.client.post("/tokenize", {"prompt": 7}), 400, "prompt")
    info = api.client.get("/tokenizer_info").json()
    api.same("/tokenizer_info has the special tokens", (info["bos_token"], info["eos_token"]), ("<s>", "<|im_end|>"))
    api.check("/tokenizer_info has a pad token", "pad_token" in info, info)
    api.same("/tokenizer_info has the chat template", info["chat_template"], fixtures.CHATML)


@check
def check_template(api: Api) -> None:
    prompt = api.answer("/apply-template", {"messages": CHAT})["prompt"]
    wanted = "".join(f"<|im_start|>{turn['role']}\n{turn['content']}<|im_end|>\n" for turn in CHAT)
    api.same("/apply-template renders a conversation", prompt.removeprefix("<s>"), wanted + "<|im_start|>assistant\n")
    api.refused("/apply-template without messages", api.client.post("/apply-template", {}), 400, "messages")


# ---------------------------------------------------------------------------------------------------------------------
# Completions


@check
def check_completion(api: Api) -> None:
    answer = api.completion()
    choice = answer["choices"][0]
    api.same("a completion has its fields", (answer["object"], answer["model"], isinstance(answer["id"], str),
                                             isinstance(answer["created"], int)),
             ("text_completion", api.name, True, True))
    api.same("a completion's choice has its fields",
             (choice["index"], choice["finish_reason"], choice.get("logprobs", 0)),
             (0, "length", None))
    prompt = len(api.tokenize(TEXT))
    usage = answer["usage"]
    api.same("usage counts tokens", [usage[name] for name in ("prompt_tokens", "completion_tokens", "total_tokens")],
             [prompt, 12, prompt + 12])
    api.same("unknown fields are ignored", api.text(nobody_knows={"this": [1]}, user="me", metadata={"a": "b"}),
             choice["text"])
    nothing = ("logprobs", "stop", "seed", "suffix", "best_of", "top_k", "stream", "stream_options", "n", "echo",
               "presence_penalty", "frequency_penalty", "top_p", "min_p", "cache_salt", "response_format", "tools")
    api.same("fields that are null are the same as missing fields", api.text(**dict.fromkeys(nothing)), choice["text"])
    api.same("best_of as large as n changes nothing", api.text(best_of=1), choice["text"])
    api.same("response_format text changes nothing", api.text(response_format={"type": "text"}), choice["text"])


@check
def check_prompt_forms(api: Api) -> None:
    other = "in there"
    ids, other_ids = api.tokenize(TEXT), api.tokenize(other)
    texts = [api.text(), api.text(other)]
    api.same("ids are continued like their text", api.text(ids), texts[0])
    for prompts in ([TEXT, other], [ids, other_ids]):
        choices = api.completion(prompts)["choices"]
        api.same("each of a list of prompts has its answer", [choice["text"] for choice in choices], texts)
        api.same("choices are numbered", [choice["index"] for choice in choices], [0, 1])
    answer = api.completion([ids, other_ids], n=2)
    api.same("n continuations are ordered by prompt",
             [(choice["index"], choice["text"]) for choice in answer["choices"]],
             [(0, texts[0]), (1, texts[0]), (2, texts[1]), (3, texts[1])])
    api.same("usage is that of all prompts", answer["usage"]["prompt_tokens"], len(ids) + len(other_ids))
    api.same("a list with one list of ids is one prompt",
             [choice["text"] for choice in api.completion([ids])["choices"]],
             texts[:1])
    bare = api.completion(ids[1:], max_tokens=1)
    api.same("no start token is put before ids", bare["usage"]["prompt_tokens"], len(ids) - 1)


@check
def check_max_tokens(api: Api) -> None:
    whole = api.completion(max_tokens=20)["choices"][0]["text"]
    for count in (1, 5):
        answer = api.completion(max_tokens=count)
        api.check(f"max_tokens {count} gives the beginning of the text",
                  whole.startswith(answer["choices"][0]["text"]) and
                  answer["usage"]["completion_tokens"] == count, answer)
    answer = api.completion(max_tokens=0, echo=True)
    api.same("max_tokens 0 with echo gives only the prompt", answer["choices"][0]["text"].lstrip(" "),
             TEXT)
    api.same("max_tokens 0 generates nothing", answer["usage"]["completion_tokens"], 0)
    echoed = api.text(echo=True).lstrip(" ")
    api.same("echo puts the prompt before the text", echoed, TEXT + api.text())
    full = api.completion([5] * (CONTEXT - 3), max_tokens=3)
    api.same("prompt and answer may fill the context", full["usage"]["total_tokens"], CONTEXT)
    for most in (4, 32000, -1):
        cut = api.completion([5] * (CONTEXT - 3), max_tokens=most)
        api.same(f"max_tokens {most} generates 3 tokens if the context has space for 3", (cut["usage"]["total_tokens"],
                                                              cut["choices"][0]["finish_reason"]), (CONTEXT, "length"))


@check
def check_seeds(api: Api) -> None:
    random = {"temperature": 1.2, "max_tokens": 24}
    first = api.text(**random, seed=7)
    api.same("the same seed gives the same text", api.text(**random, seed=7), first)
    api.check("another seed gives another text", api.text(**random, seed=8) != first)
    choices = api.completion(**random, seed=7, n=3)["choices"]
    api.same("three continuations have three numbers", [choice["index"] for choice in choices], [0, 1, 2])
    api.same("continuations have consecutive seeds", [choice["text"] for choice in choices],
             [api.text(**random, seed=7 + i) for i in range(3)])
    api.check("without a seed texts differ", len({api.text(**random) for _ in range(4)}) > 1)
    greedy = api.text()
    alike = {"top_k 1": {"top_k": 1}, "a small top_p": {"top_p": 1e-6}, "a large min_p": {"min_p": 0.9999}}
    for name, fields in alike.items():
        api.same(f"{name} is greedy", api.text(temperature=1, seed=3, **fields), greedy)
    api.same("top_k -1 and 0 set no limit", api.text(**random, seed=7, top_k=-1), api.text(**random, seed=7, top_k=0))


@check
def check_biases_and_penalties(api: Api) -> None:
    letter, other = api.ids(["a"])[0], api.ids(["b"])[0]
    api.same("logit_bias forces a token", api.text(logit_bias={str(letter): 100}, max_tokens=8), "a" * 8)
    both = {str(letter): 100, str(other): 50}
    api.same("frequency_penalty allows the second token after some of the first",
             set(api.text(logit_bias=both, frequency_penalty=2, max_tokens=60)) >= {"a", "b"}, True)
    for name in ("presence_penalty", "frequency_penalty"):
        answer = api.completion(**{name: 1.5}, logprobs=20, max_tokens=40)["choices"][0]["logprobs"]
        seen = collections.Counter()
        for token, top in zip(answer["tokens"], answer["top_logprobs"]):
            cost = {other: (seen[other] if name[0] == "f" else min(seen[other], 1)) * 1.5 for other in top}
            best = max((top[other] - cost[other] for other in top if other not in fixtures.SPECIAL and other))
            api.check(f"{name} lowers tokens that occurred before", top[token] - cost[token] >= best - 1e-3,
                      (token, dict(seen), top))
            seen[token] += 1
    plain, penalized = (set(api.text(max_tokens=40, repetition_penalty=value)) for value in (1, 5))
    api.check("repetition_penalty gives at least as many different letters",
              len(penalized) >= len(plain), (plain, penalized))


@check
def check_stop_strings(api: Api) -> None:
    random = {"temperature": 1, "seed": 5, "max_tokens": 40}
    answer = api.completion(**random, logprobs=1)["choices"][0]
    whole, tokens = answer["text"], answer["logprobs"]["tokens"]
    second = len("".join(tokens[:4]))
    for name, stop in {"one": whole[9:10], "several tokens": whole[second - 1:second + 3],
                       "at the end": whole[-2:]}.items():
        stopped = api.completion(**random, stop=stop)["choices"][0]
        api.same(f"a text ends before a stop string ({name})", (stopped["text"], stopped["finish_reason"]),
                 (whole[:whole.find(stop)], "stop"))
        chunks = list(api.client.stream("/v1/completions", {
            "model": api.name, "prompt": TEXT, "logit_bias": NO_SPECIAL, "stop": [stop], **random}))
        api.same(f"a stream ends before a stop string ({name})",
                 "".join(chunk["choices"][0]["text"] for chunk in chunks),
                 stopped["text"])
    stops = ["Q!", whole[12:14], whole[20:22]]
    api.same("the first of several stop strings ends the text", api.text(**random, stop=stops),
             whole[:min(whole.find(stop) for stop in stops if stop in whole)])
    api.same("stop strings that do not occur change nothing", api.text(**random, stop=["Q!"] * 16), whole)
    many = {"model": api.name, "prompt": TEXT, "stop": [str(i) for i in range(17)]}
    api.refused("17 stop strings", api.client.post("/v1/completions", many), 400, "stop")


@check
def check_ends(api: Api) -> None:
    ending = {"logit_bias": {str(END): 100}, "max_tokens": 9}
    answer = api.completion(**ending)
    api.same("the end token ends a text", (answer["choices"][0]["text"], answer["choices"][0]["finish_reason"]),
             ("", "stop"))
    answer = api.completion(**ending, ignore_eos=True)
    api.same("ignore_eos continues after the end token",
             (answer["choices"][0]["finish_reason"], answer["usage"]["completion_tokens"]),
             ("length", 9))
    answer = api.completion(**ending, min_tokens=5)
    api.check("min_tokens are generated before the end", answer["choices"][0]["finish_reason"] == "stop" and
              answer["usage"]["completion_tokens"] in (5, 6), answer)
    letter = api.ids(["a"])[0]
    answer = api.completion(logit_bias={str(letter): 100}, stop_token_ids=[letter])
    api.check("stop_token_ids end a text", answer["choices"][0]["finish_reason"] == "stop" and
              answer["usage"]["completion_tokens"] <= 1, answer)
    answer = api.completion(logit_bias={str(letter): 100}, stop_token_ids=[letter], ignore_eos=True)
    api.same("stop_token_ids end a text with ignore_eos, too", answer["choices"][0]["finish_reason"], "stop")


@check
def check_prompt_cache(api: Api) -> None:
    prompt = [5 + i * i % 60 for i in range(600)]

    def cached(**fields) -> int:
        return api.completion(prompt, max_tokens=1, **fields)["usage"]["prompt_tokens_details"]["cached_tokens"]

    api.same("a new prompt is not in the cache", cached(cache_salt="mine"), 0)
    again = cached(cache_salt="mine")
    api.check("most of a repeated prompt is in the cache", 300 <= again < 600, again)
    api.same("another salt shares nothing", cached(cache_salt="yours"), 0)
    cold = api.completion(prompt, logprobs=3, cache_salt="third")["choices"]
    api.same("a cached prompt gives the same answer", api.completion(prompt, logprobs=3, cache_salt="third")["choices"],
             cold)


# ---------------------------------------------------------------------------------------------------------------------
# Scoring


def scored(api: Api, prompt, **fields) -> dict:
    """Sends a request like lm-evaluation-harness."""
    body = {"model": api.name, "prompt": prompt, "temperature": 0, "max_tokens": 1, "logprobs": 1, "seed": 1234,
            "echo": True}
    return api.answer("/v1/completions", body | fields)


def check_entries(api: Api, name: str, logprobs: dict, count: int) -> None:
    api.same(f"{name}: as many entries as tokens", [len(logprobs[field]) for field in
             ("tokens", "token_logprobs", "top_logprobs", "text_offset")], [count] * 4)
    values, top = logprobs["token_logprobs"], logprobs["top_logprobs"]
    api.same(f"{name}: the first is null", (values[0], top[0]), (None, None))
    api.check(f"{name}: the others are finite and at most 0", all(isinstance(value, float | int) and
              math.isfinite(value) and value <= 0 for value in values[1:]), values)
    for token, value, entry in list(zip(logprobs["tokens"], values, top))[1:]:
        api.check(f"{name}: the actual token is among the top ones", token in entry, (token, entry))
        api.check(f"{name}: it has the same value there, or that of a token with the same text",
                  entry.get(token, -math.inf) >= value and max(entry.values()) >= value, (token, value, entry))
        api.check(f"{name}: the best token and the actual one are included", len(entry) in (1, 2), entry)
    offsets = logprobs["text_offset"]
    api.check(f"{name}: offsets ascend", offsets == sorted(offsets) and offsets[0] == 0, offsets)


@check
def check_scores(api: Api) -> None:
    prompts = [api.tokenize(text) for text in (TEXT, "in there", "a", "the other one")]
    answer = scored(api, prompts)
    api.same("as many choices as prompts", [choice["index"] for choice in answer["choices"]], [0, 1, 2, 3])
    for prompt, choice in zip(prompts, answer["choices"]):
        check_entries(api, f"scores of {len(prompt)} tokens", choice["logprobs"], len(prompt) + 1)
        api.same("a prompt's scores do not depend on its neighbours",
                 scored(api, [prompt])["choices"][0]["logprobs"], choice["logprobs"])
    text = scored(api, TEXT)["choices"][0]["logprobs"]
    api.same("a text is scored like its ids", text, answer["choices"][0]["logprobs"])
    joined = scored(api, TEXT)["choices"][0]["text"]
    # The start token has no text, and the first word may have lost its space.
    api.same("offsets are the beginnings of tokens", [joined[start:start + len(token)] for token, start in
                                                    list(zip(text["tokens"], text["text_offset"]))[2:]],
             text["tokens"][2:])
    only = scored(api, prompts[0], max_tokens=0)["choices"][0]["logprobs"]
    check_entries(api, "max_tokens 0", only, len(prompts[0]))
    api.same("max_tokens 0 scores the same", only["token_logprobs"], text["token_logprobs"][:-1])
    ended = scored(api, prompts[0], logit_bias={str(END): 100})["choices"][0]
    api.same("a token that ends the text has its entry", (len(ended["logprobs"]["token_logprobs"]),
                                                          ended["finish_reason"]), (len(prompts[0]) + 1, "stop"))
    many = scored(api, prompts[0], logprobs=20)["choices"][0]["logprobs"]
    api.check("logprobs 20 returns 20 tokens, and the actual one", all(len(entry) in (19, 20, 21) for entry in
              many["top_logprobs"][1:]), [len(entry) for entry in many["top_logprobs"][1:]])
    none = scored(api, prompts[0], logprobs=0)["choices"][0]["logprobs"]
    api.same("logprobs 0 returns the actual tokens", none["token_logprobs"], text["token_logprobs"])


@check
def check_score_sums(api: Api) -> None:
    prompt = api.tokenize(TEXT)
    answer = api.completion(prompt, logprobs=1, max_tokens=20, temperature=1, seed=2)["choices"][0]["logprobs"]
    api.check("all generated tokens have entries, including the first one", len(answer["token_logprobs"]) == 20 and
              None not in answer["token_logprobs"], answer)
    whole = prompt + api.ids(answer["tokens"])
    at_once = scored(api, whole, max_tokens=0)["choices"][0]["logprobs"]["token_logprobs"]
    for name, got, wanted in (("generated", answer["token_logprobs"], at_once[len(prompt):]),
                              ("of the prompt before", scored(api, prompt)["choices"][0]["logprobs"]["token_logprobs"]
                               [1:-1], at_once[1:len(prompt)])):
        api.check(f"tokens have the same probabilities when they are scored at once ({name})",
                  len(got) == len(wanted) and all(abs(a - b) < CLOSE for a, b in zip(got, wanted)), (got, wanted))
    api.check("sums of generated and of scored log-probabilities are the same",
              abs(sum(answer["token_logprobs"]) - sum(at_once[len(prompt):])) < CLOSE)
    pieces = []
    for end in range(len(prompt), len(whole)):
        top = scored(api, whole[:end], logprobs=20)["choices"][0]["logprobs"]["top_logprobs"][-1]
        pieces.append(top.get(answer["tokens"][end - len(prompt)]))
    api.check("prompts that end earlier have the same log-probabilities",
              all(piece is None or abs(piece - value) < CLOSE for piece, value
              in zip(pieces, at_once[len(prompt):])), (pieces, at_once[len(prompt):]))


# ---------------------------------------------------------------------------------------------------------------------
# Chats, embeddings


@check
def check_chat(api: Api) -> None:
    answer = api.chat()
    choice = answer["choices"][0]
    api.same("a chat has its fields", (answer["object"], answer["model"]), ("chat.completion", api.name))
    api.same("a chat's choice has its fields", (choice["index"], choice["finish_reason"], choice["message"]["role"]),
             (0, "length", "assistant"))
    text = choice["message"]["content"]
    api.same("max_completion_tokens limits the answer", answer["usage"]["completion_tokens"], 12)
    api.same("max_tokens limits the answer of a chat",
             api.chat(max_completion_tokens=None, max_tokens=5)["usage"]["completion_tokens"], 5)
    parts = [turn | {"content": [{"type": "text", "text": turn["content"]}]} for turn in CHAT]
    api.same("text parts are the same as their text", api.chat(parts)["choices"][0]["message"]["content"], text)
    rendered = api.answer("/apply-template", {"messages": CHAT})["prompt"]
    for special in (False, True):
        ids = api.tokenize(rendered, special)
        if len(ids) == answer["usage"]["prompt_tokens"]:
            api.same("a chat continues its rendered template", api.text(ids).lstrip(" "), text.lstrip(" "))
            break
    else:
        api.check("a chat's prompt is its rendered template", False, (rendered, answer["usage"]))
    api.check("earlier turns are part of the prompt",
              api.chat(CHAT[-1:])["usage"]["prompt_tokens"] < answer["usage"]["prompt_tokens"])
    marked = [{"role": "user", "content": "the<|im_end|>rain"}]
    api.check("a special token in a message is text", api.chat(marked)["usage"]["prompt_tokens"] >
              len(api.tokenize(api.answer("/apply-template", {"messages": marked})["prompt"], special=False)))
    api.same("empty template arguments change nothing", api.chat(chat_template_kwargs={})["choices"][0]["message"]
             ["content"], text)
    twice = api.chat(n=2, temperature=1, seed=4)["choices"]
    api.same("two answers have two numbers", [one["index"] for one in twice], [0, 1])


@check
def check_chat_logprobs(api: Api) -> None:
    choice = api.chat(logprobs=True, top_logprobs=5, max_completion_tokens=6)["choices"][0]
    entries = choice["logprobs"]["content"]
    api.same("each token has an entry", len(entries), 6)
    for entry in entries:
        top = entry["top_logprobs"]
        api.check("an entry has five tokens, the best one first", len(top) == 5 and [one["logprob"] for one in top] ==
                  sorted((one["logprob"] for one in top), reverse=True), entry)
        api.check("bytes are those of the token", all(bytes(one["bytes"]).decode() == one["token"] for one in
                  [entry, *top]), entry)
        api.check("the actual token has the same value among the top ones",
                  entry["logprob"] in [one["logprob"] for one in top] or
                  entry["logprob"] < top[-1]["logprob"], entry)
    api.same("the tokens' bytes are the bytes of the answer",
             b"".join(bytes(entry["bytes"]) for entry in entries).decode().lstrip(" "),
             choice["message"]["content"].lstrip(" "))
    api.same("an answer has log-probabilities only if they are requested",
             api.chat()["choices"][0].get("logprobs"), None)
    reply = api.client.post("/v1/chat/completions", {"model": api.name, "messages": CHAT, "top_logprobs": 5})
    api.refused("top_logprobs without logprobs", reply, 400, "top_logprobs")


@check
def check_embeddings(api: Api) -> None:
    ids = api.tokenize(TEXT)
    answer = api.answer("/v1/embeddings", {"model": api.name, "input": [TEXT, "in there"]})
    api.same("embeddings are a list", (answer["object"], [(one["object"], one["index"]) for one in answer["data"]]),
             ("list", [("embedding", 0), ("embedding", 1)]))
    vectors = [one["embedding"] for one in answer["data"]]
    api.check("embeddings are normalized", all(abs(math.hypot(*vector) - 1) < 1e-3 for vector in vectors))
    api.same("usage counts tokens", answer["usage"]["prompt_tokens"], len(ids) + len(api.tokenize("in there")))

    def vector(text, **fields):
        return api.answer("/v1/embeddings", {"model": api.name, "input": text, **fields})["data"][0]["embedding"]

    api.same("one text is a list of one", vector(TEXT), vectors[0])
    api.same("ids have the same vector as their text", vector(ids), vectors[0])
    api.same("the default pooling is the model's", vector(TEXT, pooling="last"), vectors[0])
    api.check("another pooling gives another vector", vector(TEXT, pooling="mean") != vectors[0])
    api.same("a list of ids is one text", vector([ids]), vectors[0])
    packed = base64.b64decode(vector(TEXT, encoding_format="base64"))
    floats = struct.unpack(f"<{len(packed) // 4}f", packed)
    api.check("base64 has the same values in F32", len(floats) == len(vectors[0]) and
              all(abs(a - b) < 1e-6 for a, b in zip(floats, vectors[0])))
    for name, value in {"input": 7, "encoding_format": "hex"}.items():
        reply = api.client.post("/v1/embeddings", {"model": api.name, "input": TEXT} | {name: value})
        api.refused(f"embeddings with {name} {value}", reply, 400, name)
    api.refused("embeddings without input", api.client.post("/v1/embeddings", {"model": api.name}), 400, "input")


# ---------------------------------------------------------------------------------------------------------------------
# Streams


@check
def check_completion_stream(api: Api) -> None:
    # Random tokens may be parts of characters, which are completed over several pieces.
    for fields in ({}, {"n": 2, "temperature": 1, "seed": 3}, {"echo": True}, {"logprobs": 2},
                   {"logprobs": 1, "temperature": 2, "seed": 5, "max_tokens": 60}):
        body = {"model": api.name, "prompt": TEXT, "max_tokens": 12, "temperature": 0, "logit_bias": NO_SPECIAL}
        body |= fields
        whole = api.answer("/v1/completions", body)
        stream = api.client.stream("/v1/completions", body)
        chunks = list(stream)
        api.same(f"a stream is complete ({fields})", (stream.status, stream.type.split(";")[0], stream.done),
                 (200, "text/event-stream", True))
        for choice in whole["choices"]:
            own = [one for chunk in chunks for one in chunk["choices"] if one["index"] == choice["index"]]
            api.same(f"a stream's pieces form the answer ({fields})",
                     "".join(one["text"] for one in own), choice["text"])
            api.same(f"only the last piece has a finish reason ({fields})", [one["finish_reason"] for one in own],
                     [None] * (len(own) - 1) + [choice["finish_reason"]])
            if "logprobs" in fields:
                api.same("a stream's log-probabilities are the answer's", [value for one in own if one["logprobs"]
                         for value in one["logprobs"]["token_logprobs"]], choice["logprobs"]["token_logprobs"])
                api.same("a stream's text offsets are the answer's", [offset for one in own if one["logprobs"]
                         for offset in one["logprobs"]["text_offset"]], choice["logprobs"]["text_offset"])
        api.same(f"all chunks have one id ({fields})", len({chunk["id"] for chunk in chunks}), 1)
        api.check(f"usage is sent only if it is requested ({fields})", not any(chunk.get("usage") for chunk in chunks))


@check
def check_chat_stream(api: Api) -> None:
    body = {"model": api.name, "messages": CHAT, "max_completion_tokens": 12, "temperature": 0,
            "logit_bias": NO_SPECIAL, "stream_options": {"include_usage": True}}
    whole = api.answer("/v1/chat/completions", {name: body[name] for name in body if name != "stream_options"})
    stream = api.client.stream("/v1/chat/completions", body)
    *chunks, usage = list(stream)
    api.check("a chat's stream is complete", stream.done)
    api.same("a chat's stream consists of chunks",
             {chunk["object"] for chunk in [*chunks, usage]}, {"chat.completion.chunk"})
    first = chunks[0]["choices"][0]
    api.same("the first chunk has the role and no text", (first["delta"], first["finish_reason"]),
             ({"role": "assistant", "content": ""}, None))
    deltas = [chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks]
    api.same("the chunks form the answer", "".join(deltas), whole["choices"][0]["message"]["content"])
    api.same("only the last chunk has a finish reason", [chunk["choices"][0]["finish_reason"] for chunk in chunks],
             [None] * (len(chunks) - 1) + ["length"])
    api.same("the usage chunk has no choices", usage["choices"], [])
    counts = ("prompt_tokens", "completion_tokens", "total_tokens")
    api.same("a stream's usage is the answer's", [usage["usage"][name] for name in counts],
             [whole["usage"][name] for name in counts])
    api.check("usage has the number of cached tokens",
              isinstance(usage["usage"]["prompt_tokens_details"]["cached_tokens"], int))
    api.check("other chunks have no usage", not any(chunk.get("usage") for chunk in chunks))
    options = {**body, "logprobs": True, "top_logprobs": 2}
    entries = [entry for chunk in api.client.stream("/v1/chat/completions", options) for one in chunk["choices"]
               for entry in (one.get("logprobs") or {}).get("content") or []]
    api.same("a stream has each token's log-probability", len(entries), 12)


# ---------------------------------------------------------------------------------------------------------------------
# Refused requests

HUGE = (2**31, 2**32 + 1, 2**63, 2**64, 10**30)
NO_LENGTH = (-2, 1.5, "5", [], True, 2**63, 2**64, 10**30)
WRONG = {
    "prompt": (7, {}, [[]], [None], [1, "a"], ["a", 1], [-1], [10**6], [2**40], [1.5], [[-1]], True, []),
    "max_tokens": NO_LENGTH,
    "n_predict": NO_LENGTH,
    "n": (0, -1, 1.5, "2", 10**6, *HUGE),
    "logprobs": (21, -1, 1.5, "3", *HUGE),
    "echo": (1, "yes"),
    "stream": (1, "yes"),
    "seed": (1.5, "x", 10**30),
    "stop": (5, [5], ["a", None], {"a": 1}, ["x"] * 17),
    "stop_token_ids": (5, ["a"], [1.5], [-1], [2**40]),
    "temperature": (-0.1, "hot", [], True),
    "top_p": (-0.5, 1.5, "x"),
    "top_k": (-2, 1.5, "x", 10**30),
    "min_p": (-0.1, 1.1, "x"),
    "presence_penalty": (3, -3, "x"),
    "frequency_penalty": (3, -3, "x"),
    "repetition_penalty": (0, -1, "x"),
    "logit_bias": (5, [5], [[5]], [["a", 1]], [[5, True]], [[5, 101]], {"x": 1}, {"5": "y"}, {"5": 101}, {"5": -101}, {"-1": 1}, {"99999999999999999999": 1}),
    "min_tokens": (-1, 1.5, "x", 10**30),
    "ignore_eos": (1, "yes"),
    "include_stop_str_in_output": (1, "yes"),
    "skip_special_tokens": (0, "no"),
    "add_special_tokens": (0, "no"),
    "repeat_last_n": (-2, 1.5, "x", 10**30),
    "repeat_penalty": (0, -1, "x"),
    "allowed_token_ids": (5, [], ["a"], [1.5], [-1], [2**40]),
    "bad_words": (5, "a", [5], [""]),
    "prompt_logprobs": (21, -1, 1.5, "x"),
    "truncate_prompt_tokens": (0, -2, 1.5, "x", 10**30),
    "truncation_side": (5, "middle"),
    "use_beam_search": (True,),
    "stream_options": (5, "x", {"include_usage": 1}),
    "cache_salt": (5, ["a"]),
    "suffix": (5,),
    "grammar": ("root ::= a", 5),
    "guided_json": (5, {"oneOf": [{"type": "string"}, {"type": "string"}]}),
    "best_of": (5, "x", -1),
    "response_format": ({"type": "xml"}, {"type": "json_schema", "json_schema": {}}, 5, {"type": 5}),
}
WRONG_CHAT = {
    "messages": (7, [], [5], [{}], [{"content": "a"}], [{"role": 5, "content": "a"}],
                 [{"role": "user", "content": 5}], [{"role": "user", "content": [{"type": "image_url", "image_url":
                  {"url": "http://x"}}]}], [{"role": "user", "content": [{"type": "text"}]}]),
    "max_completion_tokens": NO_LENGTH,
    "continue_final_message": (1, "x"),
    "add_generation_prompt": (1, "x"),
    "reasoning_effort": (5, ["high"]),
    "documents": (5, {"a": "b"}),
    "logprobs": (5, "x"),
    "top_logprobs": (21, -1, "x"),
    "chat_template_kwargs": (5, "x", [], {"messages": []}),
    "response_format": ({"type": "json_schema"},),
    "tools": (5, [5], [{"type": "function"}], [{"type": "function", "function": {"name": "a b"}}]),
    "tool_choice": (5, "f", "required"),
    "temperature": (-1, "x"),
    "stop": (["x"] * 17, 5),
}


def short(value) -> str:
    text = json.dumps(value)
    return text if len(text) <= 50 else text[:47] + "..."


@check
def check_wrong_fields(api: Api) -> None:
    for path, base, table in (("/v1/completions", {"prompt": TEXT, "max_tokens": 2}, WRONG),
                              ("/v1/chat/completions", {"messages": CHAT, "logprobs": True}, WRONG_CHAT)):
        for param, values in table.items():
            for value in values:
                body = {"model": api.name} | base | {param: value}
                if param == "stream_options":
                    body["stream"] = True
                api.refused(f"{path} with {param} {short(value)}", api.client.post(path, body), 400, param)
        api.refused(f"{path} with nothing", api.client.post(path, {"model": api.name}), 400, next(iter(base)))
    api.refused("a prompt longer than the context",
                api.client.post("/v1/completions", {"model": api.name, "prompt": [5] * (CONTEXT + 1)}), 400)
    api.refused("another model's name", api.client.post("/v1/completions", {"model": "nobody", "prompt": TEXT}), 404,
                "model")
    api.same("after bad fields the server still answers", len(api.text()) > 0, True)


@check
def check_bad_bodies(api: Api) -> None:
    deep = b"[" * 100 + b"]" * 100
    bodies = {
        "nothing": b"", "half of it": b'{"prompt": "a', "no object": b"[1]", "text": b"hello", "a number": b"7",
        "depth 100": deep, "depth 100 in a field": b'{"prompt": "a", "x": ' + deep + b"}",
        "depth 100,000": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
        "text after it": b'{"prompt": "a"} x', "invalid UTF-8": b'{"prompt": "\xff\xfe"}',
        "overlong UTF-8": b'{"prompt": "\xc0\xaf"}', "a surrogate in UTF-8": b'{"prompt": "\xed\xa0\x80"}',
        "half a surrogate pair": b'{"prompt": "\\ud800"}', "a bare NaN": b'{"prompt": "a", "temperature": NaN}',
        "a number without end": b'{"prompt": "a", "temperature": 1e999}', "NUL bytes": b"\0" * 50,
        "a byte order mark alone": b"\xef\xbb\xbf", "single quotes": b"{'prompt': 'a'}",
    }
    for path in ("/v1/completions", "/v1/chat/completions", "/v1/embeddings", "/tokenize", "/detokenize",
                 "/apply-template"):
        for name, body in bodies.items():
            api.refused(f"{path} with a body of {name}", api.client.post(path, body), 400)


@check
def check_http_errors(api: Api) -> None:
    client, body = api.client, {"model": api.name, "prompt": TEXT, "max_tokens": 1}
    for path in ("/nobody", "/v1", "/v1/completionss", "/../etc/passwd", "/%2e%2e/etc/passwd", "/v1/completion"):
        api.refused(f"the path {path}", client.post(path, body), 404)
    for method, path in (("GET", "/v1/completions"), ("PUT", "/v1/completions"), ("DELETE", "/v1/chat/completions"),
                         ("POST", "/health"), ("POST", "/v1/models"), ("GET", "/tokenize"), ("PATCH", "/metrics")):
        reply = client.request(method, path, body if method != "GET" else None)
        api.refused(f"{method} {path}", reply, 405)
        api.check(f"{method} {path} is answered with the allowed methods", "allow" in reply.headers, reply)
    for kind in ("image/png", "multipart/form-data; boundary=x"):
        api.refused(f"a body of {kind}", client.post("/v1/completions", body, headers={"Content-Type": kind}), 415)
    for kind in ("application/json; charset=utf-8", "text/plain", "application/x-www-form-urlencoded", ""):
        api.same(f"a body may be sent as '{kind}'",
                 client.post("/v1/completions", body, headers={"Content-Type": kind}).status, 200)
        api.refused(f"a body as '{kind}' by a page of another site", client.post(
            "/v1/completions", body, headers={"Content-Type": kind, "Origin": "http://evil.example"}), 403)
    api.refused("a header of 20 kB", client.get("/health", headers={"X-Long": "x" * 20_000}), 431)
    declared = client.raw(b"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
                          b"Content-Length: 1099511627776\r\n\r\n{")
    api.check("a body of a terabyte is refused with 413 before it is sent",
              declared.startswith(b"HTTP/1.1 413 "), declared)
    api.refused("a body of 12 MB", client.post("/v1/completions", b" " * 12_000_000), 413)
    for name, data in {"no HTTP": b"hello\r\n\r\n", "a negative length": b"POST /v1/completions HTTP/1.1\r\nHost: "
                       b"127.0.0.1\r\nContent-Length: -1\r\n\r\n", "two lengths": b"POST /v1/completions HTTP/1.1\r\n"
                       b"Host: 127.0.0.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}",
                       "NUL in a header": b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nX: \0\r\n\r\n",
                       "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64)}.items():
        answer = client.raw(data)
        api.check(f"{name} on the socket: 400, or the connection is closed", answer.startswith(b"HTTP/1.1 400 ") or
                  not answer, answer)
    api.same("after bad requests the server is healthy", client.get("/health").status, 200)


@check
def check_http_manners(api: Api) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", api.client.port, timeout=PATIENCE)
    body = json.dumps({"model": api.name, "prompt": TEXT, "max_tokens": 2, "temperature": 0})
    texts, socket_used = [], set()
    for _ in range(3):
        connection.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
        texts.append(json.loads(connection.getresponse().read())["choices"][0]["text"])
        socket_used.add(id(connection.sock))
    api.check("a connection serves several requests", len(set(texts)) == 1 and len(socket_used) == 1, texts)
    connection.request("POST", "/v1/completions", "{", {"Content-Type": "application/json"})
    api.check("a connection stays open after an error", connection.getresponse().read() and connection.sock is not None)
    connection.request("POST", "/v1/completions", iter([body[:20].encode(), body[20:].encode()]),
                       {"Content-Type": "application/json"}, encode_chunked=True)
    api.same("a body in chunks is answered",
             json.loads(connection.getresponse().read())["choices"][0]["text"], texts[0])
    connection.close()
    head = (f"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n")
    with socket.create_connection(("127.0.0.1", api.client.port), timeout=PATIENCE) as raw:
        raw.sendall(head.encode())
        answer = raw.recv(4096)
        api.check("Expect: 100-continue is answered with 100", answer.startswith(b"HTTP/1.1 100 "), answer)
        raw.sendall(body.encode())
        while piece := raw.recv(4096):
            answer += piece
    api.check("after 100 the request is answered", b"HTTP/1.1 200 " in answer, answer)
    two = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    answer = api.client.raw(two + two.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
    api.same("pipelined requests are answered in order", answer.count(b"HTTP/1.1 200 "), 2)
    reply = Client(api.client.port, "").post("/v1/completions", json.loads(body))
    api.same("without keys an empty key is accepted", reply.status, 200)


@check
def check_origins(api: Api) -> None:
    body = {"model": api.name, "prompt": TEXT, "max_tokens": 1}
    for headers in ({"Host": "evil.example"}, {"Host": f"evil.example:{api.client.port}"},
                    {"Host": "127.0.0.1.evil.example"}, {"Origin": "http://evil.example"},
                    {"Origin": "http://localhost.evil.example"}, {"Origin": "null"}):
        api.refused(f"a request with {headers}", api.client.post("/v1/completions", body, headers=headers), 403)
    for host in ("localhost", "127.0.0.1", f"localhost:{api.client.port}", "LOCALHOST"):
        api.same(f"the host {host} is accepted", api.client.get("/health", headers={"Host": host}).status, 200)
    reply = api.client.get("/v1/models", headers={"Origin": "http://evil.example"})
    api.check("no header allows other origins", "access-control-allow-origin" not in reply.headers, reply)


# ---------------------------------------------------------------------------------------------------------------------
# Concurrent requests


@check
def check_company(api: Api) -> None:
    def ask(index: int) -> list:
        prompt = f"{TEXT} {'ab' * (index + 1)}"
        choices = api.completion(prompt, logprobs=5, max_tokens=40, temperature=index % 2, seed=index)["choices"]
        return [choices[0]["text"], choices[0]["logprobs"]]

    alone = [ask(index) for index in range(9)]
    with concurrent.futures.ThreadPoolExecutor(9) as pool:
        for _ in range(3):
            together = list(pool.map(ask, range(9)))
            api.same("concurrent requests have the same texts and probabilities as single ones", together, alone)
        scores = [scored(api, api.tokenize(f"{TEXT} {'ba' * i}"))["choices"][0] for i in range(9)]
        api.same("concurrent scores are the same as single ones", list(pool.map(
            lambda i: scored(api, api.tokenize(f"{TEXT} {'ba' * i}"))["choices"][0], range(9))), scores)


@check
def check_crowd(api: Api) -> None:
    wanted = api.text(max_tokens=20)
    body = {"model": api.name, "prompt": TEXT, "max_tokens": 20, "temperature": 0, "logit_bias": NO_SPECIAL}

    def ask(index: int) -> tuple[int, str]:
        if index % 2:
            reply = api.client.post("/v1/completions", body)
            return reply.status, reply.json()["choices"][0]["text"] if reply.status == 200 else str(reply)
        stream = api.client.stream("/v1/completions", body)
        return stream.status, "".join(chunk["choices"][0]["text"] for chunk in stream)

    with concurrent.futures.ThreadPoolExecutor(100) as pool:
        answers = list(pool.map(ask, range(100)))
    others = [answer for answer in answers if answer != (200, wanted)]
    api.same("100 concurrent requests are all answered with the same text", (len(answers), others), (100, []))
    api.check("after concurrent requests nothing is running", settles(api.client))


def settles(client: Client, seconds: float = 30) -> bool:
    """Waits a moment and returns whether no request is running."""
    deadline = time.monotonic() + seconds
    while client.metrics()["ballast_num_requests_running"] > 0:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


# ---------------------------------------------------------------------------------------------------------------------
# Checks with separate servers


@contextlib.contextmanager
def serving(api: Api, model: pathlib.Path, *options):
    """Starts another server, which is killed if a check leaves it running."""
    server = Server(api.program, model, *options)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.process.kill()
        server.end()


def under_way(client: Client) -> float:
    """Returns the number of accepted requests: the first piece of a chat is sent before the engine has begun."""
    metrics = client.metrics()
    return metrics["ballast_num_requests_running"] + metrics["ballast_num_requests_waiting"]


def slow_model(api: Api) -> pathlib.Path:
    """Writes a model that is large enough for its answers to be interrupted."""
    folder = api.work / "slow"
    if not folder.exists():
        fixtures.write_large_model(folder)
        lengthen(folder, LONG_CONTEXT)
    return folder


@check
def check_disconnects(api: Api) -> None:
    # They run far longer than a server may take to notice a disconnection.
    long = {"prompt": TEXT, "max_tokens": LONG_CONTEXT - 200, "temperature": 1, "seed": 1, "ignore_eos": True}
    chat = {"messages": CHAT, "max_completion_tokens": LONG_CONTEXT - 200, "temperature": 1, "ignore_eos": True}
    with serving(api, slow_model(api)) as server:
        client = Client(server.port)
        for path, body in (("/v1/completions", long), ("/v1/completions", long | {"n": 2}),
                           ("/v1/chat/completions", chat)):
            stream = client.stream(path, body)
            next(iter(stream))
            api.check(f"a stream is running ({path})", under_way(client) >= 1)
            stream.close()
            api.check(f"a stream ends when its client disconnects ({path})", settles(client, 3), client.get("/metrics"))
        connection = socket.create_connection(("127.0.0.1", server.port))
        data = json.dumps(long).encode()
        connection.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
                           b"Content-Length: %d\r\n\r\n" % len(data) + data)
        deadline = time.monotonic() + 30
        while client.metrics()["ballast_num_requests_running"] < 1 and time.monotonic() < deadline:
            time.sleep(0.01)
        connection.close()
        api.check("an answer in one piece ends when its client disconnects", settles(client, 3), client.get("/metrics"))
        api.same("after disconnections the server answers",
                 client.post("/v1/completions", long | {"max_tokens": 2}).status, 200)
        api.same("after disconnections SIGTERM ends the server", server.stop(), 0)


@check
def check_full(api: Api) -> None:
    long = {"prompt": TEXT, "max_tokens": LONG_CONTEXT - 200, "temperature": 1, "seed": 1, "ignore_eos": True}
    with serving(api, slow_model(api), "--max-running", 1, "--max-waiting", 1) as server:
        client = Client(server.port)
        running = client.stream("/v1/completions", long)
        next(iter(running))
        waiting = http.client.HTTPConnection("127.0.0.1", server.port)
        waiting.request("POST", "/v1/completions", json.dumps(long), {"Content-Type": "application/json"})
        deadline = time.monotonic() + 3
        while client.metrics()["ballast_num_requests_waiting"] < 1 and time.monotonic() < deadline:
            time.sleep(0.01)
        api.same("one request is running and one is waiting", [client.metrics()[f"ballast_num_requests_{state}"]
                                            for state in ("running", "waiting")], [1, 1])
        reply = client.post("/v1/completions", long)
        api.refused("a request to a full server", reply, 429)
        api.check("a full server sends Retry-After", reply.headers.get("retry-after", "").isdigit(), reply)
        api.same("a full server is healthy", client.get("/health").status, 200)
        waiting.close()
        running.close()
        api.check("the server has space again after its clients disconnect", settles(client, 3) and
                  client.post("/v1/completions", long | {"max_tokens": 1}).status == 200)
        api.same("SIGTERM ends a full server", server.stop(), 0)


@check
def check_draining(api: Api) -> None:
    body = {"prompt": TEXT, "max_tokens": 2000, "temperature": 1, "ignore_eos": True}
    with serving(api, slow_model(api)) as server:
        stream = Client(server.port).stream("/v1/completions", body | {"stream_options": {"include_usage": True}})
        chunks = iter(stream)
        first = next(chunks)
        server.terminate()
        rest = list(chunks)
        api.check("an answer that has begun is completed before the server ends", stream.done and first["choices"] and
                  rest[-1]["usage"]["completion_tokens"] == 2000, rest[-2:])
        api.same("after the last answer the server exits with 0", server.end(), 0)


@check
def check_keys(api: Api) -> None:
    keys = api.work / "keys"
    keys.write_text("alice secret-of-alice\nbob secret-of-bob\n")
    keys.chmod(0o600)
    body = {"prompt": TEXT, "max_tokens": 1}
    paths = {"/v1/completions": body, "/v1/chat/completions": {"messages": CHAT, "max_completion_tokens": 1},
             "/v1/embeddings": {"input": TEXT}, "/tokenize": {"prompt": TEXT}, "/detokenize": {"tokens": [5]},
             "/apply-template": {"messages": CHAT}}
    with serving(api, api.model, "--api-keys", keys) as server:
        for key in ("secret-of-alice", "secret-of-bob"):
            for path, content in paths.items():
                api.same(f"{path} with a key", Client(server.port, key).post(path, content).status, 200)
        for key in (None, "", "secret", "secret-of-alic", "secret-of-alicex", "alice", "alice secret-of-alice"):
            for path, content in paths.items():
                reply = Client(server.port, key).post(path, content)
                api.refused(f"{path} with the key {key!r}", reply, 401)
            api.refused(f"/tokenizer_info with the key {key!r}", Client(server.port, key).get("/tokenizer_info"), 401)
        for key, status in (("secret-of-bob", 200), ("secret", 401), ("Bearer secret-of-bob", 401)):
            reply = Client(server.port).post("/v1/completions", body, headers={"X-Api-Key": key})
            api.same(f"the key {key!r} as X-Api-Key", reply.status, status)
        reply = Client(server.port).post("/v1/completions", body, headers={"Authorization": "Basic secret-of-alice"})
        api.refused("another scheme than Bearer", reply, 401)
        def cached(key: str) -> int:
            new = body | {"prompt": "other in the rain " * 3}
            usage = Client(server.port, key).post("/v1/completions", new).json()["usage"]
            return usage["prompt_tokens_details"]["cached_tokens"]

        found = [cached(key) for key in ("secret-of-alice", "secret-of-bob", "secret-of-alice")]
        api.check("one user's prompts are not in the cache for another", found[1] < 3 < 20 < found[2], found)
        api.same("health needs no key", Client(server.port).get("/health").status, 200)
        api.same("SIGTERM ends a server with keys", server.stop(), 0)
        api.check("no key is in the log", "secret-of" not in server.log(), server.log())


@check
def check_drafts(api: Api) -> None:
    bodies = [{"prompt": TEXT * times, "max_tokens": 120, "temperature": 0, "ignore_eos": True, "logprobs": 1,
               "logit_bias": NO_SPECIAL} for times in (1, 3)]

    def answers(*options) -> tuple[list, dict]:
        with serving(api, api.model, *options) as server:
            client = Client(server.port)
            choices = [client.post("/v1/completions", body).json()["choices"][0] for body in bodies]
            metrics = client.metrics()
            api.same(f"SIGTERM ends a server with {options}", server.stop(), 0)
        return choices, metrics

    plain, metrics = answers("--draft-tokens", 0)
    api.same("with --draft-tokens 0 nothing is drafted", metrics["ballast_spec_decode_num_draft_tokens_total"], 0)
    for options in ((), ("--draft", api.model), ("--draft", api.model, "--draft-tokens", 3)):
        choices, metrics = answers(*options)
        api.same(f"answers with drafts are those without {options}", choices, plain)
        api.check(f"the server counts drafts {options}", metrics["ballast_spec_decode_num_accepted_tokens_total"] <=
                  metrics["ballast_spec_decode_num_draft_tokens_total"], metrics)
    other = api.work / "other"
    shutil.copytree(api.model, other)
    tokenizer = json.loads((other / "tokenizer.json").read_text())
    tokenizer["added_tokens"][0]["special"] = not tokenizer["added_tokens"][0]["special"]
    (other / "tokenizer.json").write_text(json.dumps(tokenizer))
    started = subprocess.run([*api.program, "serve", api.model, "--port", "0", "--draft", other], capture_output=True,
                             text=True, check=False)
    api.check("a draft model with other tokens ends the server with one line", started.returncode == 1 and
              "has other tokens than" in started.stderr.splitlines()[-1], started)


@check
def check_outliers(api: Api) -> None:
    api.refused("outliers without --stats", api.client.get("/v1/ballast/outliers"), 404)
    statistics = api.work / "model.stats"
    subprocess.run([*api.program, "calibrate", api.model, "--samples", "2", "--length", "32", "-o",
                    statistics], check=True, capture_output=True)
    with serving(api, api.model, "--stats", statistics) as server:
        outliers = Client(server.port).get("/v1/ballast/outliers").json()
        api.same("with --stats the outliers are sent", set(outliers), {"massive_channels", "massive_tokens"})
    broken = api.work / "broken.stats"
    broken.write_bytes(statistics.read_bytes()[:1000])
    started = subprocess.run([*api.program, "serve", api.model, "--port", "0", "--stats", broken], capture_output=True,
                             text=True, check=False)
    api.check("broken statistics end the server with one line", started.returncode == 1 and str(broken) in
              started.stderr.splitlines()[-1], started)


# ---------------------------------------------------------------------------------------------------------------------


def lengthen(model: pathlib.Path, context: int = CONTEXT) -> None:
    path = model / "config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps(config | {"max_position_embeddings": context, "eos_token_id": END}))


def say_vectors(model: pathlib.Path) -> None:
    """Configures vectors as sentence-transformers does: that of the last token, with length 1."""
    kinds = {"": "Transformer", "1_Pooling": "Pooling", "2_Normalize": "Normalize"}
    modules = [{"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
               for i, (path, kind) in enumerate(kinds.items())]
    (model / "modules.json").write_text(json.dumps(modules))
    (model / "1_Pooling").mkdir()
    (model / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode_lasttoken": True}))


def start_slow_heads(api: Api) -> list[socket.socket]:
    """Sends requests that never end; the server must give up on them while the other checks run."""
    sockets = []
    for data in (b"POST /v1/completions HT", b"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: "
                 b"application/json\r\nContent-Length: 100\r\n\r\n{"):
        connection = socket.create_connection(("127.0.0.1", api.client.port), timeout=PATIENCE)
        connection.sendall(data)
        sockets.append(connection)
    return sockets


def check_slow_heads(api: Api, sockets: list[socket.socket]) -> None:
    for connection, part in zip(sockets, ("head", "body")):
        with connection:
            answer = connection.recv(65536)
        api.check(f"a request whose {part} stays incomplete is answered with 408", answer.startswith(b"HTTP/1.1 408 "),
                  answer)


def check_end(api: Api) -> None:
    api.same("SIGTERM ends the server with exit code 0", api.server.stop(), 0)
    for line in api.server.lines:
        try:
            holds = isinstance(json.loads(line).get("event"), str)
        except (ValueError, AttributeError):
            holds = False
        api.check("each line of the log is an object with its event", holds, line)


def run(program: list[str], model: pathlib.Path, work: pathlib.Path, only: str) -> int:
    copy = work / "model"
    if (model / "tokenizer.json").exists():
        shutil.copytree(model, copy)
    else:
        fixtures.copy_model(model.name, copy)
    lengthen(copy)
    say_vectors(copy)
    api = Api(program, work, copy)
    try:
        slow = start_slow_heads(api)
        check.run(api, only)
        api.group(lambda api: check_slow_heads(api, slow))
        api.group(check_end)
    finally:
        if api.server.process.poll() is None:
            api.server.process.kill()
    return server_checks.outcome(api)


if __name__ == "__main__":
    sys.exit(server_checks.main(__doc__, run))
