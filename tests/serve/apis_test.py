#!/usr/bin/env python3
"""Tests tools, constrained answers and the APIs beside OpenAI's chats: `ballast serve` with a tiny random model.

    apis_test.py PROGRAM MODEL              checks; with an emulator: EMULATOR [OPTION]... PROGRAM MODEL
    apis_test.py --only ollama PROGRAM MODEL    the checks in whose name this is found

MODEL is a directory of tests/data/models; its copy gets a tokenizer and a longer context. What a random model writes
has no meaning, so the checks make it call tools and write JSON by constraints.
"""

import json
import pathlib
import string
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools"))

import server_checks
from golden import fixtures
from golden.suite import Suite
from server_process import Client, Server

CONTEXT = 4096
SCHEMA = {"type": "object", "properties": {"zone": {"enum": ["east", "west"]}, "at": {"type": "boolean"}},
          "required": ["zone", "at"], "additionalProperties": False}
FUNCTION = {"name": "weather", "description": "says how the weather is", "parameters": SCHEMA}
TOOLS = [{"type": "function", "function": FUNCTION},
         {"type": "function", "function": {"name": "stop", "parameters": {"type": "object", "properties": {},
                                                                          "additionalProperties": False}}}]
QUESTION = [{"role": "user", "content": "how is the rain"}]
HISTORY = [*QUESTION, {"role": "assistant", "content": None, "tool_calls": [
    {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"zone": "east", "at": true}'}}]},
    {"role": "tool", "tool_call_id": "call_1", "content": "dry"}]
# The model has 67 tokens: those of JSON, of tools' names and of calls' marks.
CHARACTERS = [*"▁\n.{}\":,[]<>/_-()=", *string.ascii_lowercase, *string.digits]
check = server_checks.Checks()


def fits(value) -> bool:
    """Returns whether a value is valid by SCHEMA."""
    return isinstance(value, dict) and set(value) == {"zone", "at"} and value["zone"] in ("east", "west") and \
        isinstance(value["at"], bool)


class Apis(Suite):
    def __init__(self, program: list[str], work: pathlib.Path, model: pathlib.Path):
        super().__init__(program, work, renew=False)
        self.server = Server(program, model)
        self.client = Client(self.server.port)
        self.name = self.client.get("/v1/models").json()["data"][0]["id"]

    def answer(self, path: str, body: dict, **options) -> dict:
        reply = self.client.post(path, {"model": self.name} | body, **options)
        if reply.status != 200:
            raise RuntimeError(f"{path} {json.dumps(body)[:300]} was answered with {reply}")
        return reply.json()

    def events(self, path: str, body: dict) -> list[dict]:
        return list(self.client.stream(path, {"model": self.name} | body))

    def chat(self, **fields) -> dict:
        body = {"messages": QUESTION, "max_tokens": 200, "temperature": 1, "seed": 1, "thinking_token_budget": 4}
        return self.answer("/v1/chat/completions", body | fields)["choices"][0]

    def fails(self, name: str, path: str, body: dict, status: int, words: str) -> None:
        reply = self.client.post(path, {"model": self.name} | body)
        self.check(f"{name}: {status}", reply.status == status and words in reply.body.decode(), reply)


# ---------------------------------------------------------------------------------------------------------------------
# Chats


@check
def check_constrained_chats(api: Apis) -> None:
    named = {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}}
    for seed in range(4):
        choice = api.chat(response_format=named, seed=seed)
        api.check("an answer under a schema is valid", choice["finish_reason"] == "stop" and
                  fits(json.loads(choice["message"]["content"])), choice)
    one = api.chat(response_format=named)
    for field, value in (("guided_json", SCHEMA), ("structured_outputs", {"json": SCHEMA}), ("json_schema", SCHEMA)):
        api.same(f"{field} has the same answer", api.chat(**{field: value})["message"], one["message"])
    api.check("an answer is one of the choices",
              api.chat(guided_choice=["rain", "sun"])["message"]["content"] in ("rain", "sun"), "")
    api.same("a regular expression determines an answer", api.chat(guided_regex="(ab){3}")["message"]["content"],
             "ababab")
    api.same("a grammar determines an answer", api.chat(grammar='root ::= "a" "b"')["message"]["content"], "ab")
    text = api.answer("/v1/completions", {"prompt": "the rain", "max_tokens": 200, "guided_json": SCHEMA, "seed": 1})
    api.check("a completion has constraints, too", fits(json.loads(text["choices"][0]["text"])), text)
    pieces = api.events("/v1/chat/completions", {"messages": QUESTION, "max_tokens": 200, "temperature": 1, "seed": 1,
                                                 "response_format": named})
    api.same("a stream has the same answer", "".join(piece["choices"][0]["delta"].get("content") or ""
                                                     for piece in pieces), one["message"]["content"])
    many = api.answer("/v1/chat/completions", {"messages": QUESTION, "max_tokens": 200, "temperature": 1, "seed": 1,
                                               "response_format": named, "n": 6})["choices"]
    api.same("the first of several choices is that of one", many[0]["message"], one["message"])
    api.check("every choice is valid", all(fits(json.loads(each["message"]["content"])) for each in many), many)
    chats = {"messages": QUESTION}
    api.fails("a keyword that cannot be enforced is named", "/v1/chat/completions",
              chats | {"guided_json": {"oneOf": [{"type": "string"}, {"type": "string"}]}}, 400, "oneOf")
    api.fails("two constraints", "/v1/chat/completions", chats | {"guided_json": {}, "guided_regex": "a"}, 400,
              "cannot be combined")
    api.fails("a grammar with a mistake", "/v1/chat/completions", chats | {"grammar": "root ::= ("}, 400, "grammar")


@check
def check_what_cannot_be_written(api: Apis) -> None:
    """The vocabulary has no letters but a to z."""
    bodies = {"/v1/chat/completions": {"messages": QUESTION}, "/v1/completions": {"prompt": "a"},
              "/api/generate": {"prompt": "a", "raw": True, "stream": False}}
    schema = {"type": "object", "properties": {"É": {"type": "boolean"}}, "required": ["É"]}
    for path, body in bodies.items():
        field, value = ("format", schema) if path.startswith("/api") else ("guided_json", schema)
        api.fails(f"{path}: a schema whose key cannot be written", path, body | {field: value}, 400, f"{field}: ")
    for path in ("/v1/chat/completions", "/v1/completions"):
        api.fails(f"{path}: a choice that no token begins", path, bodies[path] | {"guided_choice": ["É"]}, 400,
                  "guided_choice: choice: the model's vocabulary has no token that begins")
        later = bodies[path] | {"guided_regex": "abÉ", "temperature": 0}
        reply = api.client.post(path, {"model": api.name} | later)
        error = reply.json().get("error", {})
        api.same(f"{path}: a character that cannot be written within a text",
                 (reply.status, error.get("param"), error.get("type")), (400, "guided_regex", "invalid_request_error"))
        last = api.events(path, later)[-1]
        api.check(f"{path}: in a stream", "no token that continues" in last.get("error", {}).get("message", ""), last)
    api.fails("a tool whose name cannot be written", "/v1/chat/completions", bodies["/v1/chat/completions"] | {
        "tools": [{"type": "function", "function": {"name": "F"}}], "tool_choice": "required",
        "reasoning_effort": "none"}, 400, "tools: ")
    bare = api.answer("/v1/completions", {"prompt": "a", "max_tokens": 3, "guided_choice": ["É", "sun"]})
    api.same("what can be written is", bare["choices"][0]["text"], "sun")


def check_call(api: Apis, name: str, call: dict) -> None:
    api.check(name, call["type"] == "function" and call["id"] and call["function"]["name"] == "weather" and
              fits(json.loads(call["function"]["arguments"])), call)


@check
def check_tools(api: Apis) -> None:
    named = {"type": "function", "function": {"name": "weather"}}
    choice = api.chat(tools=TOOLS, tool_choice=named, parallel_tool_calls=False)
    api.same("calls end a chat with tool_calls", choice["finish_reason"], "tool_calls")
    check_call(api, "the named tool is called with valid arguments", choice["message"]["tool_calls"][0])
    api.same("a call leaves the content empty", choice["message"]["content"], None)
    for seed in range(3):
        calls = api.chat(tools=TOOLS, tool_choice="required", parallel_tool_calls=False, seed=seed)["message"]["tool_calls"]
        api.check("required calls one of the tools", len(calls) == 1 and
                  calls[0]["function"]["name"] in ("weather", "stop"), calls)
    pieces = api.events("/v1/chat/completions", {"messages": QUESTION, "tools": TOOLS, "tool_choice": named,
                                                 "max_tokens": 200, "temperature": 1, "seed": 1,
                                                 "thinking_token_budget": 4, "parallel_tool_calls": False})
    calls = [call for piece in pieces for call in piece["choices"][0]["delta"].get("tool_calls", [])]
    whole = choice["message"]["tool_calls"][0]["function"]
    api.same("a stream names the tool once", [call["function"].get("name") for call in calls if "id" in call],
             ["weather"])
    api.same("a stream's pieces are the same arguments", "".join(call["function"]["arguments"] for call in calls),
             whole["arguments"])
    api.same("a stream ends with tool_calls", pieces[-1]["choices"][0]["finish_reason"], "tool_calls")
    older = api.chat(functions=[FUNCTION], function_call={"name": "weather"})
    api.same("the older form is answered in the older form",
             (older["finish_reason"], older["message"]["function_call"]["name"]), ("function_call", "weather"))
    cut = api.chat(tools=TOOLS, tool_choice=named, max_tokens=60)
    api.check("a call that the limit cuts is text", cut["finish_reason"] == "length" and
              "tool_calls" not in cut["message"] and cut["message"]["content"], cut)
    pieces = api.events("/v1/chat/completions", {"messages": QUESTION, "tools": TOOLS, "tool_choice": named,
                                                 "max_tokens": 60, "temperature": 1, "seed": 1,
                                                 "thinking_token_budget": 4})
    content = "".join(piece["choices"][0]["delta"].get("content") or "" for piece in pieces)
    api.same("in a stream its text follows", (content, pieces[-1]["choices"][0]["finish_reason"]),
             (cut["message"]["content"], "length"))
    answered = api.chat(messages=HISTORY, tools=TOOLS, tool_choice="none", guided_choice=["dry", "wet"])
    api.check("a history with calls and results is answered", answered["message"]["content"] in ("dry", "wet"), answered)
    prompt = api.answer("/apply-template", {"messages": HISTORY, "tools": TOOLS})["prompt"]
    api.check("tools, calls and results are in the prompt", all(word in prompt for word in
              ("says how the weather is", '"zone"', "dry")), prompt)
    strict = api.chat(tools=TOOLS, response_format={"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}})
    message = strict["message"]
    api.check("with tools and a schema, the answer is a call or valid", "tool_calls" in message or
              fits(json.loads(message["content"])), strict)
    chats = {"messages": QUESTION}
    api.fails("an unknown tool is named", "/v1/chat/completions",
              chats | {"tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "none"}}}, 400, "none")
    api.fails("a tool of another type", "/v1/chat/completions", chats | {"tools": [{"type": "x"}]}, 400, "x")
    api.fails("a strict tool whose schema cannot be enforced", "/v1/chat/completions", chats | {"tools": [
        {"type": "function", "function": FUNCTION | {"strict": True, "parameters": {"type": "object", "properties": {
            "a": {"oneOf": [{"type": "string"}, {"type": "string"}]}}}}}]}, 400, "oneOf")


# ---------------------------------------------------------------------------------------------------------------------
# Responses


@check
def check_responses(api: Apis) -> None:
    request = {"input": "how is the rain", "max_output_tokens": 200, "temperature": 1, "seed": 1,
               "text": {"format": {"type": "json_schema", "name": "n", "schema": SCHEMA}}}
    response = api.answer("/v1/responses", request)
    text = response["output"][0]["content"][0]["text"]
    api.check("a response has a message", response["status"] == "completed" and fits(json.loads(text)), response)
    same = api.chat(response_format={"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}})
    api.same("a response has the text of a chat", text, same["message"]["content"])
    events = api.events("/v1/responses", request)
    api.same("a stream's pieces are the same text", "".join(event["delta"] for event in events
                                                          if event["type"] == "response.output_text.delta"), text)
    api.same("a stream's events are numbered", [event["sequence_number"] for event in events], list(range(len(events))))
    api.same("a stream ends with the response", events[-1]["response"]["output"][0]["content"][0]["text"], text)
    scored = request | {"include": ["message.output_text.logprobs"], "top_logprobs": 2}
    part = api.answer("/v1/responses", scored)["output"][0]["content"][0]
    entries = part["logprobs"]
    api.same("a response's log-probabilities are those of its text", "".join(entry["token"] for entry in entries)
             .removesuffix(entries[-1]["token"]), text)
    api.check("each has the likeliest tokens", all(len(entry["top_logprobs"]) == 2 and entry["logprob"] <= 0
                                                   for entry in entries), entries)
    events = api.events("/v1/responses", scored)
    api.same("a stream ends with the same log-probabilities",
             events[-1]["response"]["output"][0]["content"][0]["logprobs"], entries)
    pieces = [entry for event in events if event["type"] == "response.output_text.delta" for entry in event["logprobs"]]
    api.same("its pieces have those of the text", pieces, entries[:len(pieces)])
    api.same("all but the end's", len(pieces), len(entries) - 1)
    api.fails("likeliest tokens without log-probabilities", "/v1/responses", {"input": "a", "top_logprobs": 2}, 400,
              "include")
    api.check("what tools of another server would include is not there", api.answer(
        "/v1/responses", {"input": "a", "include": ["file_search_call.results"], "max_output_tokens": 2})["output"])
    stored = api.client.get(f"/v1/responses/{response['id']}")
    api.same("a response is stored", stored.json(), response)
    again = api.answer("/v1/responses", request | {"input": "and now", "previous_response_id": response["id"]})
    longer = api.chat(messages=[*QUESTION, {"role": "assistant", "content": text}, {"role": "user", "content": "and now"}],
                      response_format={"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}})
    api.same("a response continues another one", again["output"][0]["content"][0]["text"], longer["message"]["content"])
    tools = [{"type": "function"} | FUNCTION]
    call = api.answer("/v1/responses", {"input": "how is the rain", "tools": tools, "tool_choice": "required",
                                        "parallel_tool_calls": False, "store": False,
                                        "reasoning": {"effort": "none"}})
    item = next(item for item in call["output"] if item["type"] == "function_call")
    api.check("a response calls a tool", item["name"] == "weather" and fits(json.loads(item["arguments"])), call)
    api.same("store false stores nothing", api.client.get(f"/v1/responses/{call['id']}").status, 404)
    items = [{"role": "user", "content": "how is the rain"}, item,
             {"type": "function_call_output", "call_id": item["call_id"], "output": "dry"}]
    after = api.answer("/v1/responses", {"input": items, "tools": tools, "max_output_tokens": 8})
    api.check("items of calls and results are read", after["status"] in ("completed", "incomplete"), after)
    api.same("a response is deleted", api.client.request("DELETE", f"/v1/responses/{response['id']}").json()["deleted"],
             True)
    api.same("a deleted response is gone", api.client.get(f"/v1/responses/{response['id']}").status, 404)
    api.fails("an unknown previous response", "/v1/responses", {"input": "a", "previous_response_id": "resp_0"}, 400,
              "previous_response_id")
    api.fails("an item of another type", "/v1/responses", {"input": [{"type": "compaction"}]}, 400, "compaction")
    api.fails("a tool of another type", "/v1/responses", {"input": "a", "tools": [{"type": "teleport"}]}, 400, "teleport")
    custom = {"type": "custom", "name": "patch"}
    named = {"type": "namespace", "name": "sky", "tools": [{"type": "function"} | FUNCTION]}
    quote = api.answer("/tokenize", {"content": '"'})["tokens"][-1]  # is made likely, so that texts end
    for tool, choice in ((custom, {"type": "custom", "name": "patch"}),
                         (named, {"type": "function", "name": f"sky__{FUNCTION['name']}"})):
        events = api.events("/v1/responses", {"input": "how is the rain", "tools": [tool, {"type": "web_search"}],
                                              "tool_choice": choice, "reasoning": {"effort": "none"},
                                              "parallel_tool_calls": False, "logit_bias": {str(quote): 8},
                                              "max_output_tokens": 400})
        response = events[-1]["response"]
        item = next(item for item in response["output"] if item["type"].endswith("_call"))
        api.same("tools that a server would run are left out", [each["type"] for each in response["tools"]], [tool["type"]])
        if tool is custom:
            api.check("a custom tool is called with a text", item["type"] == "custom_tool_call" and
                      item["name"] == "patch" and isinstance(item["input"], str), item)
            api.same("it comes as one piece", [event["delta"] for event in events
                                               if event["type"] == "response.custom_tool_call_input.delta"], [item["input"]])
        else:
            api.check("a call has the names of the namespace and the function", item["namespace"] == "sky" and
                      item["name"] == FUNCTION["name"] and fits(json.loads(item["arguments"])), item)
        output = {"type": item["type"] + "_output", "call_id": item["call_id"], "output": "dry"}
        after = api.answer("/v1/responses", {"input": [{"role": "user", "content": "how"}, item, output],
                                             "tools": [tool], "max_output_tokens": 8})
        api.check("the call and its output are read", after["status"] in ("completed", "incomplete"), after)
    api.fails("no input", "/v1/responses", {}, 400, "input")


# ---------------------------------------------------------------------------------------------------------------------
# Messages


@check
def check_messages(api: Apis) -> None:
    request = {"messages": QUESTION, "max_tokens": 200, "temperature": 1, "seed": 1, "system": "be brief",
               "tools": [{"name": "weather", "input_schema": SCHEMA}], "thinking": {"type": "enabled", "budget_tokens": 4},
               "tool_choice": {"type": "tool", "name": "weather", "disable_parallel_tool_use": True}}
    message = api.answer("/v1/messages", request)
    block = next(block for block in message["content"] if block["type"] == "tool_use")
    api.check("a message uses a tool", message["stop_reason"] == "tool_use" and block["name"] == "weather" and
              fits(block["input"]), message)
    events = api.events("/v1/messages", request)
    kinds = [event["type"] for event in events]
    api.check("a stream has its events in order", kinds[0] == "message_start" and kinds[-2:] == ["message_delta",
              "message_stop"] and kinds.count("content_block_start") == kinds.count("content_block_stop"), kinds)
    text = "".join(event["delta"].get("partial_json", "") for event in events if event["type"] == "content_block_delta")
    api.same("a stream's pieces are the same input", json.loads(text), block["input"])
    history = [*QUESTION, {"role": "assistant", "content": message["content"]},
               {"role": "user", "content": [{"type": "tool_result", "tool_use_id": block["id"], "content": "dry"},
                                            {"type": "text", "text": "and now"}]}]
    plain = {"messages": history, "max_tokens": 4}
    after = api.answer("/v1/messages", plain)
    api.same("a history with calls and results is answered", after["stop_reason"] in ("max_tokens", "end_turn"), True)
    count = api.answer("/v1/messages/count_tokens", {"messages": history})["input_tokens"]
    usage = after["usage"]
    api.same("tokens are counted as they are used", count,
             usage["input_tokens"] + usage["cache_read_input_tokens"])
    stop = api.answer("/v1/messages", {"messages": QUESTION, "max_tokens": 20, "temperature": 0, "guided_regex": "x",
                                       "stop_sequences": [" "]})
    api.same("a message without thinking has blocks of text", {block["type"] for block in stop["content"]} <= {"text"},
             True)
    for name, body, words in (("no limit", {"messages": QUESTION}, "max_tokens"),
                              ("no messages", {"max_tokens": 5}, "messages"),
                              ("an image", {"max_tokens": 5, "messages": [{"role": "user", "content": [
                                  {"type": "image", "source": {}}]}]}, "image")):
        reply = api.client.post("/v1/messages", {"model": api.name} | body)
        error = reply.json()
        api.check(f"{name}: an error in Anthropic's form", reply.status == 400 and error["type"] == "error" and
                  error["error"]["type"] == "invalid_request_error" and words in error["error"]["message"], reply)


# ---------------------------------------------------------------------------------------------------------------------
# Ollama


@check
def check_ollama(api: Apis) -> None:
    def lines(path: str, body: dict) -> list[dict]:
        reply = api.client.post(path, {"model": api.name} | body)
        api.same(f"{path} streams lines of JSON", reply.headers["content-type"], "application/x-ndjson")
        return [json.loads(line) for line in reply.body.splitlines()]

    request = {"messages": QUESTION, "format": SCHEMA, "options": {"temperature": 1, "seed": 1, "num_predict": 200}}
    whole = api.answer("/api/chat", request | {"stream": False})
    same = api.chat(response_format={"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}})
    api.same("/api/chat has the text of a chat", whole["message"]["content"], same["message"]["content"])
    streamed = lines("/api/chat", request)
    api.same("a stream has the same text", "".join(line["message"]["content"] for line in streamed),
             whole["message"]["content"])
    api.check("the last line has the figures", streamed[-1]["done"] and streamed[-1]["eval_count"] == whole["eval_count"]
              and streamed[-1]["done_reason"] == "stop", streamed[-1])
    called = api.answer("/api/chat", {"messages": QUESTION, "tools": TOOLS, "tool_choice": "required", "stream": False, "think": False,
                                      "parallel_tool_calls": False, "options": {"seed": 1}})
    api.check("/api/chat calls tools with objects", called["message"]["tool_calls"][0]["function"]["name"] in
              ("weather", "stop") and isinstance(called["message"]["tool_calls"][0]["function"]["arguments"], dict), called)
    generated = api.answer("/api/generate", {"prompt": "how is the rain", "format": SCHEMA, "stream": False,
                                             "options": {"temperature": 1, "seed": 1, "num_predict": 200}})
    api.same("/api/generate has the text of a chat", generated["response"], whole["message"]["content"])
    raw = api.answer("/api/generate", {"prompt": "the rain", "raw": True, "stream": False,
                                       "options": {"temperature": 0, "num_predict": 5}})
    plain = api.answer("/v1/completions", {"prompt": "the rain", "temperature": 0, "max_tokens": 5})
    api.same("a raw prompt has the text of a completion", raw["response"], plain["choices"][0]["text"])
    api.same("a request without a prompt loads the model", api.answer("/api/generate", {})["done_reason"], "load")
    vectors = api.answer("/api/embed", {"input": ["the rain", "the sun"]})["embeddings"]
    floats = [each["embedding"] for each in
              api.answer("/v1/embeddings", {"input": ["the rain", "the sun"]})["data"]]
    api.same("/api/embed has the vectors of /v1/embeddings", vectors, floats)
    tags = api.client.get("/api/tags").json()["models"]
    api.same("/api/tags has the model", [model["name"] for model in tags], [api.name])
    api.check("/api/version has a version", api.client.get("/api/version").json()["version"].count("."), "")
    shown = api.answer("/api/show", {})
    api.check("/api/show has what the model can do", "completion" in shown["capabilities"], shown)
    api.same("a name may have a tag", api.client.post("/api/show", {"model": f"{api.name}:latest"}).status, 200)
    reply = api.client.post("/api/chat", {"model": "nobody", "messages": QUESTION})
    api.check("an error in Ollama's form", reply.status == 404 and isinstance(reply.json()["error"], str), reply)


# ---------------------------------------------------------------------------------------------------------------------
# Gaps


@check
def check_gaps(api: Apis) -> None:
    api.fails("a vocabulary without tokens for gaps cannot fill one", "/infill",
              {"input_prefix": "a", "input_suffix": "b"}, 400, "gap")
    api.fails("a gap needs both sides", "/infill", {"input_prefix": "a"}, 400, "input_suffix")
    api.fails("a completion with a suffix, too", "/v1/completions", {"prompt": "a", "suffix": "b"}, 400, "gap")


def run(program: list[str], model: pathlib.Path, work: pathlib.Path, only: str) -> int:
    copy = server_checks.copy_with_context(model, work / "model", CONTEXT)
    tokenizer = json.loads((copy / "tokenizer.json").read_text())
    tokenizer["model"] |= {"merges": [], "vocab": {name: i for i, name in enumerate(fixtures.SPECIAL + CHARACTERS)}}
    (copy / "tokenizer.json").write_text(json.dumps(tokenizer))
    api = Apis(program, work, copy)
    try:
        check.run(api, only)
        api.same("SIGTERM ends the server with exit code 0", api.server.stop(), 0)
    finally:
        if api.server.process.poll() is None:
            api.server.process.kill()
    return server_checks.outcome(api)


if __name__ == "__main__":
    sys.exit(server_checks.main(__doc__, run))
