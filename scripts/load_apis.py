#!/usr/bin/env python3
"""Sends requests of agents to all APIs of a server, and misuses them, and checks every answer.

    load_apis.py --url http://127.0.0.1:8080 --duration 60 --concurrency 4

Requests have tools, schemas, grammars, thinking, histories with calls and results, and gaps, by /v1/chat/completions,
/v1/responses, /v1/messages and /api/chat, as streams and whole. An answer under a schema must be valid, and so must the
arguments of a call; events must be in order; misuse must be answered with 4xx (or with what else its line allows), and
never with 5xx or a closed connection. Requests are spread over all models that the server lists. In the end each different request is sent again, alone, and all answers to it must
have been the same. Answers with status 429 and 503 count as refused. Exit code 1 if something failed.
"""

import argparse
import collections
import concurrent.futures
import contextlib
import dataclasses
import http.client
import json
import random
import sys
import time
import urllib.parse

PATIENCE = 600  # seconds for an answer: an overloaded server answers after all that wait
REFUSED = (429, 503)
CLIENT_ERROR = frozenset((400, 404, 413))
FINE = CLIENT_ERROR | {200}
SCHEMA = {"type": "object", "properties": {"zone": {"enum": ["east", "west"]}, "at": {"type": "boolean"},
                                           "name": {"type": "string", "minLength": 1, "maxLength": 8}},
          "required": ["zone", "at", "name"], "additionalProperties": False}
EMPTY = {"type": "object", "properties": {}, "additionalProperties": False}
TOOLS = {"weather": SCHEMA, "stop": EMPTY}
QUESTIONS = ("how is the rain", "is it dry in the west", "say where the wind is", "name a zone")


class Refused(Exception):
    """The server has too much to do."""


class Wrong(Exception):
    """An answer is not what it must be."""


def must(condition: object, what: str, value: object = "") -> None:
    if not condition:
        raise Wrong(f"{what}: {str(value)[:300]}" if value != "" else what)


def fits(value: object) -> bool:
    """Returns whether a value is valid by SCHEMA."""
    return isinstance(value, dict) and set(value) == {"zone", "at", "name"} and value["zone"] in ("east", "west") and \
        isinstance(value["at"], bool) and isinstance(value["name"], str) and 1 <= len(value["name"]) <= 8


def parsed(text: str) -> object:
    """Returns what a text says in JSON; None if it is not JSON."""
    with contextlib.suppress(ValueError):
        return json.loads(text)
    return None


class Server:
    """A server's model."""

    def __init__(self, url: str, key: str | None, model: str):
        parts = urllib.parse.urlsplit(url)
        self.host, self.port = parts.hostname, parts.port or 80
        self.headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
        self.model = model

    def request(self, method: str, path: str, body: object = None) -> tuple[int, bytes]:
        """Returns status and body. `body`: bytes unchanged, anything else as JSON."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=PATIENCE)
        with contextlib.closing(connection):
            data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # refused before all was sent
                connection.request(method, path, data, self.headers)
            response = connection.getresponse()
            return response.status, response.read()

    def post(self, path: str, body: dict) -> bytes:
        status, data = self.request("POST", path, {"model": self.model} | body)
        if status in REFUSED:
            raise Refused
        must(status == 200, f"{path} was answered with {status}", data.decode(errors="replace"))
        return data

    def answer(self, path: str, body: dict) -> dict:
        return json.loads(self.post(path, body))

    def events(self, path: str, body: dict) -> list[dict]:
        """Returns the events of a stream of either form."""
        lines = self.post(path, body | {"stream": True}).decode().splitlines()
        found = [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith(("{", "data: {"))]
        for event in found:
            if "error" in event and event["error"]:
                raise Refused if str(event["error"].get("code", "")) == "503" else Wrong(str(event["error"])[:300])
        return found


def models_of(url: str, key: str | None) -> list[Server]:
    listed = json.loads(Server(url, key, "").request("GET", "/v1/models")[1])["data"]
    return [Server(url, key, model["id"]) for model in listed]


# ---------------------------------------------------------------------------------------------------------------------
# The APIs: how a request is written, and how an answer is read


@dataclasses.dataclass
class Reply:
    text: str = ""
    thinking: str = ""
    calls: list[tuple[str, str]] = dataclasses.field(default_factory=list)  # names and arguments
    cut: bool = False  # by the limit of its tokens

    def key(self) -> list:
        """Returns what must be the same in all answers to a request."""
        return [self.text, self.thinking, [(name, parsed(arguments)) for name, arguments in self.calls], self.cut]


@dataclasses.dataclass
class Wish:
    """A request in no API's words."""
    messages: list[dict]
    seed: int
    tokens: int = 160
    schema: dict | None = None
    tools: bool = False
    required: bool = False
    thinking: int | None = None  # the most tokens


class Chat:
    PATH = "/v1/chat/completions"

    @staticmethod
    def body(wish: Wish) -> dict:
        body = {"messages": wish.messages, "max_tokens": wish.tokens, "temperature": 1, "seed": wish.seed}
        if wish.schema is not None:
            body["response_format"] = {"type": "json_schema", "json_schema": {"name": "n", "schema": wish.schema}}
        if wish.tools:
            body["tools"] = [{"type": "function", "function": {"name": name, "parameters": schema}}
                             for name, schema in TOOLS.items()]
        if wish.required:
            body |= {"tool_choice": "required", "parallel_tool_calls": False}
        if wish.thinking is not None:
            body["thinking_token_budget"] = wish.thinking
        return body

    @staticmethod
    def whole(answer: dict) -> Reply:
        choice = answer["choices"][0]
        message = choice["message"]
        calls = [(call["function"]["name"], call["function"]["arguments"]) for call in message.get("tool_calls", [])]
        must(bool(calls) == (choice["finish_reason"] == "tool_calls") or choice["finish_reason"] == "length",
             "calls and their finish_reason", choice)
        return Reply(message["content"] or "", message.get("reasoning_content", ""), calls,
                     choice["finish_reason"] == "length")

    @staticmethod
    def stream(events: list[dict]) -> Reply:
        reply, calls, finish = Reply(), {}, None
        for event in events:
            for choice in event["choices"]:
                delta = choice["delta"]
                reply.text += delta.get("content") or ""
                reply.thinking += delta.get("reasoning_content") or ""
                for call in delta.get("tool_calls", []):
                    if "id" in call:
                        must(call["index"] not in calls, "a call begins twice", call)
                        calls[call["index"]] = [call["function"]["name"], ""]
                    calls[call["index"]][1] += call["function"]["arguments"]
                finish = choice["finish_reason"] or finish
        must(finish, "a stream without a finish_reason", events[-1:])
        # The text of a call that the limit cuts, or that is malformed, is in the answer.
        reply.calls = [(name, text) for name, text in calls.values() if isinstance(parsed(text), dict)]
        must(bool(reply.calls) == (finish == "tool_calls") or finish == "length", "calls and their finish_reason", finish)
        reply.cut = finish == "length"
        return reply


class Responses:
    PATH = "/v1/responses"

    @staticmethod
    def body(wish: Wish) -> dict:
        items = []
        for message in wish.messages:
            if message["role"] == "tool":
                items.append({"type": "function_call_output", "call_id": message["tool_call_id"],
                              "output": message["content"]})
            elif message["role"] == "assistant" and message.get("tool_calls"):
                items += [{"type": "function_call", "call_id": call["id"]} | call["function"]
                          for call in message["tool_calls"]]
            else:
                items.append({"role": message["role"], "content": message["content"]})
        body = {"input": items, "max_output_tokens": wish.tokens, "temperature": 1, "seed": wish.seed}
        if wish.schema is not None:
            body["text"] = {"format": {"type": "json_schema", "name": "n", "schema": wish.schema}}
        if wish.tools:
            body["tools"] = [{"type": "function", "name": name, "parameters": schema} for name, schema in TOOLS.items()]
        if wish.required:
            body |= {"tool_choice": "required", "parallel_tool_calls": False}
        return body

    @staticmethod
    def whole(answer: dict) -> Reply:
        reply = Reply(cut=answer["status"] == "incomplete")
        for item in answer["output"]:
            if item["type"] == "function_call":
                reply.calls.append((item["name"], item["arguments"]))
            elif item["type"] == "reasoning":
                reply.thinking += "".join(part["text"] for part in item["content"])
            else:
                reply.text += "".join(part["text"] for part in item["content"])
        return reply

    @staticmethod
    def stream(events: list[dict]) -> Reply:
        must([event["sequence_number"] for event in events] == list(range(len(events))), "the numbers of events")
        must(events[0]["type"] == "response.created" and events[-1]["type"] in
             ("response.completed", "response.incomplete"), "the first and the last event", events[-1])
        reply = Responses.whole(events[-1]["response"])
        text = "".join(event["delta"] for event in events if event["type"] == "response.output_text.delta")
        must(text == reply.text, "the pieces of the text", text)
        return reply


class Messages:
    PATH = "/v1/messages"

    @staticmethod
    def body(wish: Wish) -> dict:
        messages = []
        for message in wish.messages:
            if message["role"] == "tool":
                content = [{"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": message["content"]}]
                messages.append({"role": "user", "content": content})
            elif message["role"] == "assistant" and message.get("tool_calls"):
                messages.append({"role": "assistant", "content": [
                    {"type": "tool_use", "id": call["id"], "name": call["function"]["name"],
                     "input": json.loads(call["function"]["arguments"])} for call in message["tool_calls"]]})
            else:
                messages.append({"role": message["role"], "content": message["content"]})
        body = {"messages": messages, "max_tokens": wish.tokens, "temperature": 1, "seed": wish.seed}
        if wish.schema is not None:
            body["output_config"] = {"format": {"type": "json_schema", "schema": wish.schema}}
        if wish.tools:
            body["tools"] = [{"name": name, "input_schema": schema} for name, schema in TOOLS.items()]
        if wish.required:
            body["tool_choice"] = {"type": "any", "disable_parallel_tool_use": True}
        if wish.thinking is not None:
            body["thinking"] = {"type": "enabled", "budget_tokens": max(1, wish.thinking)}
        return body

    @staticmethod
    def whole(answer: dict) -> Reply:
        reply = Reply(cut=answer["stop_reason"] == "max_tokens")
        for block in answer["content"]:
            if block["type"] == "tool_use":
                reply.calls.append((block["name"], json.dumps(block["input"])))
            elif block["type"] == "thinking":
                reply.thinking += block["thinking"]
            else:
                reply.text += block["text"]
        must(bool(reply.calls) == (answer["stop_reason"] == "tool_use") or reply.cut, "calls and the stop_reason", answer)
        return reply

    @staticmethod
    def stream(events: list[dict]) -> Reply:
        blocks, open_block, stop = [], None, None
        for event in events:
            kind = event["type"]
            if kind == "content_block_start":
                must(open_block is None and event["index"] == len(blocks), "the order of blocks", event)
                open_block = event["content_block"] | {"json": ""}
            elif kind == "content_block_delta":
                must(open_block is not None and event["index"] == len(blocks), "a piece outside of its block", event)
                delta = event["delta"]
                for field, name in (("text", "text"), ("thinking", "thinking"), ("json", "partial_json")):
                    open_block[field] = open_block.get(field, "") + delta.get(name, "")
            elif kind == "content_block_stop":
                blocks.append(open_block)
                open_block = None
            elif kind == "message_delta":
                stop = event["delta"]["stop_reason"]
        must(open_block is None and events[-1]["type"] == "message_stop", "the end of a stream", events[-1])
        content = []
        for block in blocks:
            if block["type"] == "tool_use":
                block["input"] = parsed(block["json"] or "{}")
                if not isinstance(block["input"], dict):
                    continue  # cut or malformed: its text is in the answer
            content.append(block)
        return Messages.whole({"content": content, "stop_reason": stop})


class Ollama:
    PATH = "/api/chat"

    @staticmethod
    def body(wish: Wish) -> dict:
        messages = []
        for message in wish.messages:
            message = {name: value for name, value in message.items() if name != "tool_call_id"}
            calls = message.get("tool_calls", [])
            message |= {"tool_calls": [{"function": {"name": call["function"]["name"],
                                                     "arguments": json.loads(call["function"]["arguments"])}}
                                       for call in calls]} if calls else {}
            messages.append(message)
        body = {"messages": messages, "options": {"num_predict": wish.tokens, "temperature": 1, "seed": wish.seed}}
        if wish.schema is not None:
            body["format"] = wish.schema
        if wish.tools:
            body["tools"] = Chat.body(wish)["tools"]
        if wish.required:
            body |= {"tool_choice": "required", "parallel_tool_calls": False}
        return body | {"stream": False}

    @staticmethod
    def whole(answer: dict) -> Reply:
        return Ollama.stream([answer])

    @staticmethod
    def stream(lines: list[dict]) -> Reply:
        must(lines[-1]["done"] and not any(line["done"] for line in lines[:-1]), "the last line", lines[-1])
        reply = Reply(cut=lines[-1]["done_reason"] == "length")
        for line in lines:
            message = line["message"]
            reply.text += message["content"]
            reply.thinking += message.get("thinking", "")
            for call in message.get("tool_calls", []):
                must(isinstance(call["function"]["arguments"], dict), "the arguments of a call", call)
                reply.calls.append((call["function"]["name"], json.dumps(call["function"]["arguments"])))
        return reply


APIS = {"chats": Chat, "responses": Responses, "messages": Messages, "ollama": Ollama}


def ask(server: Server, api, wish: Wish, stream: bool) -> Reply:
    body = api.body(wish)
    return api.stream(server.events(api.PATH, body)) if stream else api.whole(server.answer(api.PATH, body))


# ---------------------------------------------------------------------------------------------------------------------
# Kinds of requests. Each function returns what must be the same for all answers to a request, which `seed` determines.

KINDS = {}


def kind(function):
    KINDS[function.__name__.removeprefix("ask_")] = function
    return function


def question(seed: int) -> dict:
    return {"role": "user", "content": QUESTIONS[seed % len(QUESTIONS)]}


def history(seed: int) -> list[dict]:
    arguments = json.dumps({"zone": "east", "at": seed % 2 == 0, "name": f"n{seed}"})
    return [question(seed), {"role": "assistant", "content": "", "tool_calls": [
        {"id": f"call_{seed}", "type": "function", "function": {"name": "weather", "arguments": arguments}}]},
        {"role": "tool", "tool_call_id": f"call_{seed}", "content": "dry"}]


def check_calls(reply: Reply) -> None:
    for name, arguments in reply.calls:
        must(name in TOOLS, "a call of a tool that is not offered", name)
        value = parsed(arguments)
        must(isinstance(value, dict), "the arguments of a call", arguments)


@kind
def ask_schema(server: Server, api, seed: int, stream: bool) -> list:
    reply = ask(server, api, Wish([question(seed)], seed, schema=SCHEMA, thinking=8), stream)
    must(reply.cut or fits(parsed(reply.text)), "an answer under a schema", reply)
    return reply.key()


@kind
def ask_call(server: Server, api, seed: int, stream: bool) -> list:
    reply = ask(server, api, Wish([question(seed)], seed, tools=True, required=True, thinking=8), stream)
    check_calls(reply)
    must(reply.cut or len(reply.calls) == 1, "no call, although one is required", reply)
    for name, arguments in reply.calls:
        must(fits(parsed(arguments)) if name == "weather" else parsed(arguments) == {}, "arguments by a schema", arguments)
    return reply.key()


@kind
def ask_cut_call(server: Server, api, seed: int, stream: bool) -> list:
    """A call that its limit cuts is text, and no call."""
    reply = ask(server, api, Wish([question(seed)], seed, tokens=6, tools=True, required=True), stream)
    must(reply.cut and not reply.calls and reply.text + reply.thinking, "a call that is cut", reply)
    return reply.key()


@kind
def ask_history(server: Server, api, seed: int, stream: bool) -> list:
    reply = ask(server, api, Wish(history(seed), seed, tokens=24, tools=True), stream)
    check_calls(reply)
    return reply.key()


@kind
def ask_grammar(server: Server, _api, seed: int, stream: bool) -> list:
    """Grammars, which chats alone have."""
    field, value, answers = (
        ("guided_choice", ["rain", "sun"], {"rain", "sun"}), ("guided_regex", "(ab){1,3}", {"ab", "abab", "ababab"}),
        ("grammar", 'root ::= "a" ("b" | "c")', {"ab", "ac"}))[seed % 3]
    body = Chat.body(Wish([question(seed)], seed, tokens=60)) | {field: value, "reasoning_effort": "none"}
    reply = Chat.stream(server.events(Chat.PATH, body)) if stream else Chat.whole(server.answer(Chat.PATH, body))
    must(reply.cut or reply.text in answers, f"an answer of {field}", reply)
    return reply.key()


@kind
def ask_continued(server: Server, _api, seed: int, stream: bool) -> list:
    """A response that continues another one; every third is deleted, and then cannot be continued."""
    first = server.answer(Responses.PATH, Responses.body(Wish([question(seed)], seed, tokens=12)))
    following = Responses.body(Wish([{"role": "user", "content": "and now"}], seed, tokens=12)) | \
        {"previous_response_id": first["id"]}
    if seed % 3 == 0:
        status, _ = server.request("DELETE", f"/v1/responses/{first['id']}")
        must(status in (200, *REFUSED), "deleting a response", status)
        status, _ = server.request("POST", Responses.PATH, {"model": server.model} | following)
        must(status in (400, *REFUSED), "continuing a deleted response", status)
        return Responses.whole(first).key()
    second = Responses.stream(server.events(Responses.PATH, following)) if stream else \
        Responses.whole(server.answer(Responses.PATH, following))
    return [Responses.whole(first).key(), second.key()]


@kind
def ask_logprobs(server: Server, _api, seed: int, stream: bool) -> list:
    body = Responses.body(Wish([question(seed)], seed, tokens=12)) | {"include": ["message.output_text.logprobs"],
                                                                      "top_logprobs": 3}
    response = server.events(Responses.PATH, body)[-1]["response"] if stream else server.answer(Responses.PATH, body)
    for item in response["output"]:
        for part in item["content"] if item["type"] == "message" else []:
            must(part["logprobs"], "log-probabilities of a text", part)
            must(all(entry["logprob"] <= 0 and len(entry["top_logprobs"]) == 3 for entry in part["logprobs"]),
                 "log-probabilities", part["logprobs"])
    return Responses.whole(response).key()


@kind
def ask_count(server: Server, _api, seed: int, _stream: bool) -> list:
    body = Messages.body(Wish(history(seed), seed, tokens=1, tools=True))
    counted = server.answer("/v1/messages/count_tokens", body)["input_tokens"]
    usage = server.answer(Messages.PATH, body)["usage"]
    must(counted == usage["input_tokens"] + usage["cache_read_input_tokens"], "the number of tokens", usage)
    return [counted]


@kind
def ask_vectors(server: Server, _api, seed: int, _stream: bool) -> list:
    texts = [QUESTIONS[seed % len(QUESTIONS)], f"text {seed}"]
    vectors = server.answer("/api/embed", {"input": texts})["embeddings"]
    same = [each["embedding"] for each in server.answer("/v1/embeddings", {"input": texts})["data"]]
    must(vectors == same, "/api/embed differs from /v1/embeddings")
    return vectors


@kind
def ask_gap(server: Server, _api, seed: int, stream: bool) -> list:
    """A gap in a text: of models without tokens for it, a refusal."""
    body = {"input_prefix": "the rain ", "input_suffix": f" in {seed}", "n_predict": 8, "seed": seed, "temperature": 1}
    status, data = server.request("POST", "/infill", {"model": server.model, "stream": stream} | body)
    if status in REFUSED:
        raise Refused
    must(status == 200 or (status == 400 and b"gap" in data), "a gap", data[:300])
    if status == 400:
        return ["none"]
    lines = [json.loads(line.removeprefix("data: ")) for line in data.decode().splitlines()
             if line.startswith(("{", "data: {"))]
    return ["".join(line["content"] for line in lines)]


# ---------------------------------------------------------------------------------------------------------------------
# Misuse


@dataclasses.dataclass
class Misuse:
    name: str
    path: str
    body: object
    statuses: frozenset[int] = CLIENT_ERROR
    method: str = "POST"


def nested(depth: int) -> str:
    """Returns the JSON of a schema, which Python's own encoder would not write."""
    return '{"type": "object", "required": ["a"], "properties": {"a": ' * depth + '{"type": "integer"}' + "}}" * depth


def misuses(model: str) -> list[Misuse]:
    """Returns requests that must not harm the server, with the statuses that are possible."""
    chat = {"model": model, "messages": [{"role": "user", "content": "a"}], "max_tokens": 4}
    tool = {"type": "function", "function": {"name": "f", "parameters": EMPTY}}
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}

    def chats(name: str, fields: dict, statuses: frozenset[int] = CLIENT_ERROR) -> Misuse:
        return Misuse(name, Chat.PATH, chat | fields, statuses)

    def schema(name: str, value: object, statuses: frozenset[int] = CLIENT_ERROR) -> Misuse:
        return chats(name, {"response_format": {"type": "json_schema", "json_schema": {"schema": value}}}, statuses)

    def items(name: str, value: object, statuses: frozenset[int] = CLIENT_ERROR) -> Misuse:
        return Misuse(name, Responses.PATH, {"model": model, "input": value, "max_output_tokens": 4}, statuses)

    def blocks(name: str, messages: object, statuses: frozenset[int] = CLIENT_ERROR, **fields) -> Misuse:
        return Misuse(name, Messages.PATH, {"model": model, "messages": messages, "max_tokens": 4} | fields, statuses)

    def deep(name: str, depth: int, statuses: frozenset[int]) -> Misuse:
        body = json.dumps(chat | {"guided_json": "SCHEMA"}).replace('"SCHEMA"', nested(depth))
        return Misuse(name, Chat.PATH, body.encode(), statuses)

    brackets = b'{"model": "m", "messages": ' + b"[" * 5000 + b"]" * 5000 + b"}"
    return [
        # Schemas and grammars.
        deep("a schema nested 25 times", 25, frozenset((200,))),
        deep("a schema nested 1000 times", 1000, CLIENT_ERROR),
        Misuse("JSON nested 5000 times", Chat.PATH, brackets),
        schema("a schema that is itself", {"$ref": "#"}, FINE),
        schema("a schema of endless lists", {"type": "array", "items": {"$ref": "#"}, "minItems": 1}),
        schema("a schema of 4000 properties",
               {"type": "object", "properties": {f"p{i}": {"type": "integer"} for i in range(4000)}}, FINE),
        schema("a schema of 5000 properties", {"type": "object", "properties": {f"p{i}": {} for i in range(5000)}}),
        schema("an enumeration of 20000 values", {"enum": [f"v{i}" for i in range(20000)]}, FINE),
        schema("alternatives of alternatives", {"anyOf": [{"anyOf": [{"type": "integer", "minimum": i * j} for i in range(40)]}
                                                          for j in range(40)]}, FINE),
        schema("a schema that nothing matches", {"type": "string", "minLength": 3, "maxLength": 2}),
        schema("a string of a million characters", {"type": "string", "minLength": 1_000_000}, FINE),
        schema("a pattern that doubles", {"type": "string", "pattern": "^(a?){200}(b?){200}$"}, FINE),
        schema("a schema that is a number", 5),
        schema("an unknown type", {"type": "horse"}),
        chats("a regular expression of a million", {"guided_regex": "((a{100}){100}){100}"}, FINE),
        chats("a regular expression without end", {"guided_regex": "(((("}),
        chats("a grammar of 300 KB", {"grammar": "root ::= " + " | ".join(f'"w{i}"' for i in range(30000))}, FINE),
        chats("a grammar that calls itself", {"grammar": "root ::= root"}, FINE),
        chats("a grammar without a root", {"grammar": 'a ::= "b"'}),
        chats("a grammar that repeats without end", {"grammar": 'root ::= (("a"{100}){100}){100}'}),
        chats("choices of nothing", {"guided_choice": []}),
        chats("20000 choices", {"guided_choice": [f"c{i}" for i in range(20000)]}),
        chats("a choice that most vocabularies cannot write", {"guided_choice": ["\U0010FFFD"]}, FINE),
        chats("a choice and other tokens", {"guided_choice": ["zebra"], "allowed_token_ids": [3]}),
        chats("two constraints", {"guided_choice": ["a"], "guided_regex": "b"}),
        chats("a structural tag of an unknown type", {"structural_tag": {"format": {"type": "horse"}}}),
        # Tools.
        chats("tools that are text", {"tools": "weather"}),
        chats("a tool without a name", {"tools": [{"type": "function", "function": {"parameters": {}}}]}),
        chats("a tool with spaces in its name", {"tools": [{"type": "function", "function": {"name": "a b"}}]}),
        chats("two tools of one name", {"tools": [tool, tool]}),
        chats("parameters that are a list", {"tools": [{"type": "function", "function": {"name": "f", "parameters": []}}]}),
        chats("600 tools", {"tools": [{"type": "function", "function": {"name": f"f{i}"}} for i in range(600)]}),
        chats("an unknown tool is chosen", {"tools": [tool], "tool_choice": {"type": "function", "function": {"name": "g"}}}),
        chats("a call is required without tools", {"tool_choice": "required"}),
        chats("a tool whose schema is itself", {"tools": [{"type": "function", "function": {
            "name": "f", "parameters": {"type": "object", "properties": {"a": {"$ref": "#/properties/a"}},
                                        "required": ["a"]}}}], "tool_choice": "required"}, FINE),
        # Histories in a wrong order.
        chats("a result first", {"messages": [{"role": "tool", "tool_call_id": "c", "content": "b"}]}, FINE),
        chats("a call of a user", {"messages": [{"role": "user", "content": "a", "tool_calls": [call]}]}),
        chats("a call without a result", {"messages": [chat["messages"][0], {"role": "assistant", "tool_calls": [call]}]},
              FINE),
        chats("calls that are text", {"messages": [{"role": "assistant", "content": "a", "tool_calls": "f"}]}),
        chats("a call without a function", {"messages": [{"role": "assistant", "tool_calls": [{"id": "c"}]}]}),
        chats("arguments that are a number", {"messages": [{"role": "assistant", "tool_calls": [
            {"id": "c", "function": {"name": "f", "arguments": 5}}]}, chat["messages"][0]]}, FINE),
        chats("no messages", {"messages": []}),
        chats("a role that there is not", {"messages": [{"role": "horse", "content": "a"}]}),
        chats("20000 messages", {"messages": [{"role": "user", "content": "a"}] * 20000}),
        chats("an image", {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "a"}}]}]}),
        chats("a negative budget", {"thinking_token_budget": -5}),
        # Responses.
        items("no items", []),
        items("an item of an unknown type", [{"type": "horse"}]),
        items("an output of an unknown call", [{"type": "function_call_output", "call_id": "x", "output": "a"}], FINE),
        items("a call without arguments", [{"type": "function_call", "call_id": "x", "name": "f"}]),
        items("input that is a number", 5),
        items("5000 items", [{"role": "user", "content": "a"}] * 5000),
        Misuse("an unknown earlier response", Responses.PATH, {"model": model, "input": "a",
                                                               "previous_response_id": "resp_0"}),
        Misuse("a response in the background", Responses.PATH, {"model": model, "input": "a", "background": True}),
        Misuse("an unknown response", "/v1/responses/resp_0", None, frozenset((404,)), "GET"),
        Misuse("deleting an unknown response", "/v1/responses/resp_0", None, frozenset((404,)), "DELETE"),
        # Messages.
        blocks("a message without a limit", chat["messages"], max_tokens=None),
        blocks("a result of an unknown call", [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "x"}]}],
               FINE),
        blocks("a tool's use by a user", [{"role": "user", "content": [{"type": "tool_use", "id": "x", "name": "f",
                                                                        "input": {}}]}]),
        blocks("input that is text", [{"role": "assistant", "content": [{"type": "tool_use", "id": "x", "name": "f",
                                                                         "input": "a"}]}]),
        blocks("a choice of an unknown kind", chat["messages"], tools=[{"name": "f"}], tool_choice={"type": "horse"}),
        # Ollama and gaps.
        Misuse("a format that is a number", Ollama.PATH, {"model": model, "messages": chat["messages"], "format": 5}),
        Misuse("options that are a list", Ollama.PATH, {"model": model, "messages": chat["messages"], "options": []}),
        Misuse("an image for Ollama", Ollama.PATH, {"model": model, "messages": [{"role": "user", "content": "a",
                                                                                  "images": ["aGk="]}]}),
        Misuse("an unknown model", Ollama.PATH, {"model": "horse:7b", "messages": chat["messages"]}),
        Misuse("a gap without its end", "/infill", {"model": model, "input_prefix": "a"}),
        Misuse("2000 files around a gap", "/infill", {"model": model, "input_prefix": "a", "input_suffix": "b",
                                                      "input_extra": [{"text": "a"}] * 2000}),
    ]


# ---------------------------------------------------------------------------------------------------------------------


class Load:
    def __init__(self, models: list[Server], arguments: argparse.Namespace):
        self.models, self.arguments = models, arguments
        self.end = time.monotonic() + arguments.duration
        self.misuses = misuses(models[0].model)
        self.answers = {}  # by index of the model, kind, API and seed
        self.done, self.refused, self.misused = collections.Counter(), collections.Counter(), collections.Counter()
        self.failures = collections.Counter()

    def one(self, source: random.Random) -> None:
        if source.random() < self.arguments.misuse:
            return self.misuse(source.choice(self.misuses))
        name, api, seed = source.choice(list(KINDS)), source.choice(list(APIS)), source.randrange(self.arguments.distinct)
        model = source.randrange(len(self.models))
        try:
            answer = KINDS[name](self.models[model], APIS[api], seed, source.random() < 0.5)
        except Refused:
            self.refused[name] += 1
            time.sleep(0.2)
            return
        except Wrong as error:
            self.failures[f"{name} by {api}: {error}"] += 1
            return
        except (OSError, http.client.HTTPException, ValueError, KeyError, IndexError, TypeError) as error:
            self.failures[f"{name} by {api}: {type(error).__name__}: {error}"] += 1
            return
        self.done[name] += 1
        self.answers.setdefault((model, name, api, seed), []).append(json.dumps(answer))

    def misuse(self, each: Misuse) -> None:
        try:
            status, data = self.models[0].request(each.method, each.path, each.body)
        except (OSError, http.client.HTTPException) as error:
            self.failures[f"misuse, {each.name}: {type(error).__name__}: {error}"] += 1
            return
        self.misused[status] += 1
        if status not in each.statuses and status not in REFUSED:
            self.failures[f"misuse, {each.name}: {status} {data[:200].decode(errors='replace')}"] += 1

    def user(self, number: int) -> None:
        source = random.Random(f"{self.arguments.seed} {number}")
        while time.monotonic() < self.end:
            self.one(source)

    def run(self) -> None:
        with concurrent.futures.ThreadPoolExecutor(self.arguments.concurrency) as pool:
            for each in [pool.submit(self.user, number) for number in range(self.arguments.concurrency)]:
                each.result()

    def verify(self) -> list[str]:
        """Sends each request again, alone; returns those whose answers differ."""
        different = []
        for (model, name, api, seed), answers in sorted(self.answers.items()):  # one model after the other
            for _ in range(20):
                with contextlib.suppress(Refused):
                    answers.append(json.dumps(KINDS[name](self.models[model], APIS[api], seed, False)))
                    break
                time.sleep(1)
            if len(set(answers)) > 1:
                different.append(f"{name} of {self.models[model].model} by {api} with seed {seed}: "
                                 f"{sorted(set(answers))[:2]}")
        return different


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", required=True)
    parser.add_argument("--key", help="the key that the server asks for")
    parser.add_argument("--duration", type=float, default=60, metavar="S", help="seconds (default %(default)s)")
    parser.add_argument("--concurrency", type=int, default=4, metavar="N", help="clients (default %(default)s)")
    parser.add_argument("--distinct", type=int, default=12, metavar="N",
                        help="different requests of each kind (default %(default)s)")
    parser.add_argument("--misuse", type=float, default=0.2, metavar="F", help="fraction of misuse (default %(default)s)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="(default %(default)s)")
    parser.add_argument("--json", action="store_true", help="print the results as JSON")
    arguments = parser.parse_args()
    load = Load(models_of(arguments.url, arguments.key), arguments)
    load.run()
    different = load.verify()
    told = {"done": dict(load.done), "refused": sum(load.refused.values()), "verified": len(load.answers),
            "different": different, "misused": {str(status): count for status, count in load.misused.items()},
            "failures": dict(load.failures)}
    if arguments.json:
        print(json.dumps(told))
    else:
        print("done      " + ", ".join(f"{count} {name}" for name, count in sorted(told["done"].items())) +
              f"; {told['refused']} refused")
        print("misused   " + ", ".join(f"{count} x {status}" for status, count in sorted(told["misused"].items())))
        print(f"verified  {told['verified']} requests, {len(different)} differ when asked for alone")
        for line in [*(f"{count} x {reason}" for reason, count in told["failures"].items()), *different][:30]:
            print(f"          {line}")
    return 1 if load.failures or different else 0


if __name__ == "__main__":
    sys.exit(main())
