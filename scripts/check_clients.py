#!/usr/bin/env python3
"""Sends requests to a running server with common clients: OpenAI's Python client, LangChain, LlamaIndex and LiteLLM.

    pip install openai langchain-openai llama-index-llms-openai-like llama-index-embeddings-openai-like litellm
    ballast serve smollm2-w8a8 --port 8080 &
    check_clients.py http://127.0.0.1:8080 [--key KEY] [--only NAME] [--model NAME]

Prints the result of each case or its error, then the number of passed cases for each client. Clients that are not
installed are skipped, except OpenAI's, which is needed. With --key the server must refuse other keys.
"""

import argparse
import asyncio
import contextlib
import http.client
import http.server
import importlib
import json
import math
import os
import sys
import threading
import time
import traceback
import urllib.parse

# LiteLLM would fetch prices when it is imported.
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")

# For each client: the prefix of its cases' names (none for the first client), the modules that it needs, and their
# packages.
CLIENTS = {
    "openai": (["openai"], "openai"),
    "langchain": (["langchain_openai"], "langchain-openai"),
    "llama_index": (["llama_index.llms.openai_like", "llama_index.embeddings.openai_like"],
                    "llama-index-llms-openai-like llama-index-embeddings-openai-like"),
    "litellm": (["litellm"], "litellm"),
}


def missing_packages(client: str) -> str:
    """Returns the packages to install for the client; empty if it can be imported."""
    modules, packages = CLIENTS[client]
    try:
        for module in modules:
            importlib.import_module(module)
    except ImportError:
        return packages
    return ""


if missing_packages("openai"):
    sys.exit("check_clients: OpenAI's client is missing: pip install openai")
import openai

PROMPT = "The ship took on"
CHAT = [{"role": "user", "content": "What is the capital of France?"}]
TALK = [{"role": "system", "content": "You answer with one word."}, *CHAT,
        {"role": "assistant", "content": "Paris"}, {"role": "user", "content": "And of Italy?"}]
GREEDY = {"temperature": 0, "max_tokens": 12}
GREEDY_CHAT = {"temperature": 0, "max_completion_tokens": 12}
LONG = 32_000  # tokens: what agents ask for, more than many contexts have
CASES = []
LONGEST_LINE = 100  # characters of what a case got


def case(function):
    """Registers a case. Its return value is printed."""
    CASES.append(function)
    return function


def client_of(function) -> str:
    return next((name for name in CLIENTS if function.__name__.startswith(name + "_")), "openai")


def same(got, wanted) -> None:
    if got != wanted:
        raise AssertionError(f"got {got!r}\nwanted {wanted!r}")


class Setting:
    """The server, and clients for it."""

    def __init__(self, url: str, key: str | None, model: str | None):
        self.url = url.rstrip("/")
        self.key = key
        self.options = {"base_url": self.url + "/v1", "api_key": key or "none", "max_retries": 0, "timeout": 300}
        self.client = openai.OpenAI(**self.options)
        self.model = model or self.client.models.list().data[0].id

    def complete(self, prompt=PROMPT, **fields):
        return self.client.completions.create(model=self.model, prompt=prompt, **GREEDY | fields)

    def chat(self, messages=None, **fields):
        return self.client.chat.completions.create(model=self.model, messages=messages or CHAT, **GREEDY_CHAT | fields)

    def embed(self, text, **fields):
        return self.client.embeddings.create(model=self.model, input=text, **fields)

    def plain(self, method: str, path: str, body=None) -> bytes:
        """Sends a request without any client."""
        parts = urllib.parse.urlsplit(self.url)
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        with contextlib.closing(kind(parts.netloc, timeout=300)) as connection:
            connection.request(method, path, body and json.dumps(body), {"Content-Type": "application/json"} |
                               ({"Authorization": f"Bearer {self.key}"} if self.key else {}))
            return connection.getresponse().read()

    def ids(self, text: str) -> list[int]:
        return json.loads(self.plain("POST", "/tokenize", {"prompt": text}))["tokens"]

    def settles(self) -> bool:
        """Waits a moment and returns whether no request is running."""
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            lines = self.plain("GET", "/metrics").decode().splitlines()
            running = [float(line.rpartition(" ")[2]) for line in lines
                       if line.startswith("ballast_num_requests_running")]
            if running and not sum(running):
                return True
            time.sleep(0.05)
        return False

    def langchain(self, **fields):
        import langchain_openai

        return langchain_openai.ChatOpenAI(model=self.model, base_url=self.options["base_url"], max_retries=0,
                                           api_key=self.options["api_key"], temperature=0,
                                           **{"max_completion_tokens": 12} | fields)

    def langchain_embeddings(self):
        import langchain_openai

        # Otherwise the client sends ids of OpenAI's tokenizer, which it downloads.
        return langchain_openai.OpenAIEmbeddings(model=self.model, base_url=self.options["base_url"],
                                                 api_key=self.options["api_key"], check_embedding_ctx_length=False)


    def llama_index(self, chat: bool = True, **fields):
        from llama_index.llms.openai_like import OpenAILike

        return OpenAILike(model=self.model, api_base=self.options["base_url"], api_key=self.options["api_key"],
                          is_chat_model=chat, temperature=0, max_retries=0, **{"max_tokens": 12} | fields)

    def litellm(self, messages=None, **fields):
        import litellm

        return litellm.completion(model=f"openai/{self.model}", messages=messages or CHAT, max_retries=0,
                                  api_base=self.options["base_url"], api_key=self.options["api_key"],
                                  **{"temperature": 0, "max_tokens": 12} | fields)

    def stop(self) -> tuple[str, str]:
        """Returns a stop string from the answer to the usual chat, and the text before it."""
        whole = self.chat().choices[0].message.content
        stop = whole[len(whole) // 2:][:2]
        return stop, whole[:whole.find(stop)]


def raises(kind, function, param: str | None = None):
    """Checks that an error is of exactly this class and names the field, and returns it."""
    try:
        function()
    except openai.OpenAIError as error:
        same(type(error).__name__, kind.__name__)
        if param:
            same(error.param, param)
        return error
    raise AssertionError(f"no {kind.__name__}")


# ---------------------------------------------------------------------------------------------------------------------
# Completions


@case
def completion(on: Setting) -> object:
    answer = on.complete()
    same((answer.object, answer.model, answer.choices[0].index), ("text_completion", on.model, 0))
    assert answer.choices[0].text and answer.choices[0].finish_reason in ("stop", "length")
    usage = answer.usage
    same(usage.prompt_tokens, len(on.ids(PROMPT)))
    same(usage.total_tokens, usage.prompt_tokens + usage.completion_tokens)
    return answer.choices[0].text


@case
def completion_of_ids(on: Setting) -> None:
    same(on.complete(on.ids(PROMPT)).choices[0].text, on.complete().choices[0].text)


@case
def completion_of_list(on: Setting) -> None:
    answer = on.complete([PROMPT, "Bees make"])
    same([choice.text for choice in answer.choices],
         [on.complete().choices[0].text, on.complete("Bees make").choices[0].text])


@case
def completion_with_choices(on: Setting) -> None:
    answer = on.complete(n=3, temperature=1, seed=1)
    same([choice.index for choice in answer.choices], [0, 1, 2])


@case
def completion_with_echo(on: Setting) -> None:
    same(on.complete(echo=True).choices[0].text, PROMPT + on.complete().choices[0].text)


@case
def completion_with_logprobs(on: Setting) -> object:
    answer = on.complete(logprobs=5)
    entries = answer.choices[0].logprobs
    same({len(entries.tokens), len(entries.token_logprobs), len(entries.top_logprobs), len(entries.text_offset)},
         {answer.usage.completion_tokens})
    for token, value, top in zip(entries.tokens, entries.token_logprobs, entries.top_logprobs):
        assert value <= 0 and top[token] == max(top.values()) == value, (token, value, top)
    return list(zip(entries.tokens, entries.token_logprobs))


@case
def scores(on: Setting) -> None:
    ids = on.ids(PROMPT)
    entries = on.complete([ids], echo=True, logprobs=1, max_tokens=1).choices[0].logprobs
    same((len(entries.token_logprobs), entries.token_logprobs[0]), (len(ids) + 1, None))
    assert all(math.isfinite(value) for value in entries.token_logprobs[1:])
    answer = on.complete(echo=True, logprobs=1, max_tokens=0)
    same((answer.choices[0].text, answer.usage.completion_tokens), (PROMPT, 0))
    same(len(answer.choices[0].logprobs.token_logprobs), answer.usage.prompt_tokens)


@case
def completion_with_stop(on: Setting) -> object:
    whole = on.complete(max_tokens=30).choices[0].text
    stop = whole[10:14]
    choice = on.complete(max_tokens=30, stop=[stop, "never there"]).choices[0]
    same((choice.text, choice.finish_reason), (whole[:whole.find(stop)], "stop"))
    return choice.text, stop


@case
def completion_with_seed(on: Setting) -> None:
    texts = [on.complete(temperature=1, seed=seed).choices[0].text for seed in (5, 5, 6)]
    assert texts[0] == texts[1] != texts[2], texts


@case
def completion_with_bias(on: Setting) -> None:
    token = on.ids(" the")[-1]
    entries = on.complete(logit_bias={str(token): 100}, max_tokens=5, logprobs=0).choices[0].logprobs
    same(len(set(entries.tokens)), 1)


@case
def completion_with_extra_fields(on: Setting) -> None:
    assert on.complete(presence_penalty=1, frequency_penalty=1, top_p=0.9).choices[0].text
    extra = {"top_k": 1, "min_p": 0.1, "repetition_penalty": 1, "cache_salt": "a", "nobody_knows": 1}
    same(on.complete(temperature=1, extra_body=extra).choices[0].text, on.complete().choices[0].text)


@case
def completion_with_end_ignored(on: Setting) -> None:
    answer = on.complete(extra_body={"ignore_eos": True, "min_tokens": 3}, max_tokens=40)
    same((answer.usage.completion_tokens, answer.choices[0].finish_reason), (40, "length"))


@case
def completion_cached(on: Setting) -> None:
    prompt = PROMPT + " water," * 200
    on.complete(prompt, max_tokens=1)
    assert on.complete(prompt, max_tokens=1).usage.prompt_tokens_details.cached_tokens > 100


@case
def completion_raw(on: Setting) -> None:
    raw = on.client.completions.with_raw_response.create(model=on.model, prompt=PROMPT, **GREEDY)
    assert raw.headers["content-type"].startswith("application/json")
    same(raw.parse().choices[0].text, on.complete().choices[0].text)


# ---------------------------------------------------------------------------------------------------------------------
# Streams


@case
def completion_stream(on: Setting) -> None:
    pieces = [chunk.choices[0] for chunk in on.complete(stream=True)]
    same("".join(piece.text for piece in pieces), on.complete().choices[0].text)
    assert pieces[-1].finish_reason and not any(piece.finish_reason for piece in pieces[:-1])


@case
def completion_stream_usage(on: Setting) -> None:
    *_, last = on.complete(stream=True, stream_options={"include_usage": True})
    same((last.choices, last.usage.completion_tokens), ([], on.complete().usage.completion_tokens))


@case
def completion_stream_choices(on: Setting) -> None:
    wanted = [choice.text for choice in on.complete(n=2, temperature=1, seed=3).choices]
    texts = ["", ""]
    for chunk in on.complete(n=2, temperature=1, seed=3, stream=True):
        texts[chunk.choices[0].index] += chunk.choices[0].text
    same(texts, wanted)


@case
def completion_stream_logprobs(on: Setting) -> None:
    values = [value for chunk in on.complete(stream=True, logprobs=1) for choice in chunk.choices if choice.logprobs
              for value in choice.logprobs.token_logprobs]
    same(values, on.complete(logprobs=1).choices[0].logprobs.token_logprobs)


@case
def completion_stream_closed(on: Setting) -> None:
    stream = on.complete(stream=True, max_tokens=2000, extra_body={"ignore_eos": True})
    next(iter(stream))
    stream.close()
    assert on.settles()


@case
def chat_stream(on: Setting) -> object:
    chunks = list(on.chat(stream=True))
    same((chunks[0].choices[0].delta.role, chunks[0].choices[0].delta.content), ("assistant", ""))
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    same(text, on.chat().choices[0].message.content)
    return [chunk.choices[0].delta.content for chunk in chunks]


@case
def chat_stream_usage(on: Setting) -> None:
    *_, last = on.chat(stream=True, stream_options={"include_usage": True})
    wanted = on.chat().usage
    same((last.usage.prompt_tokens, last.usage.completion_tokens), (wanted.prompt_tokens, wanted.completion_tokens))
    assert last.usage.prompt_tokens_details.cached_tokens >= 0


@case
def chat_stream_helper(on: Setting) -> None:
    with on.client.chat.completions.stream(model=on.model, messages=CHAT, **GREEDY_CHAT) as stream:
        events = {event.type: event for event in stream}  # the last of each kind
    assert {"chunk", "content.delta", "content.done"} <= set(events), set(events)
    same(events["content.done"].content, on.chat().choices[0].message.content)


@case
def chat_stream_abandoned(on: Setting) -> None:
    with on.chat(stream=True, max_completion_tokens=2000, extra_body={"ignore_eos": True}) as stream:
        for count, _ in enumerate(stream):
            if count == 5:
                break
    assert on.settles()


@case
def chat_stream_raw(on: Setting) -> None:
    with on.client.chat.completions.with_streaming_response.create(
            model=on.model, messages=CHAT, stream=True, **GREEDY_CHAT) as raw:
        lines = [line for line in raw.iter_lines() if line.startswith("data: ")]
    same(lines[-1], "data: [DONE]")


# ---------------------------------------------------------------------------------------------------------------------
# Chats


@case
def chat(on: Setting) -> object:
    answer = on.chat()
    same((answer.object, answer.choices[0].message.role), ("chat.completion", "assistant"))
    assert answer.choices[0].message.content and answer.choices[0].message.tool_calls is None
    return answer.choices[0].message.content


@case
def chat_with_history(on: Setting) -> None:
    answer = on.chat(TALK)
    assert answer.choices[0].message.content and answer.usage.prompt_tokens > on.chat().usage.prompt_tokens


@case
def chat_of_parts(on: Setting) -> None:
    parts = [{"role": "user", "content": [{"type": "text", "text": CHAT[0]["content"]}]}]
    same(on.chat(parts).choices[0].message.content, on.chat().choices[0].message.content)


@case
def chat_with_limit(on: Setting) -> None:
    answer = on.chat(max_completion_tokens=3)
    same((answer.usage.completion_tokens, answer.choices[0].finish_reason), (3, "length"))
    answer = on.client.chat.completions.create(model=on.model, messages=CHAT, temperature=0, max_tokens=3)
    same(answer.usage.completion_tokens, 3)


@case
def chat_with_logprobs(on: Setting) -> object:
    answer = on.chat(logprobs=True, top_logprobs=3)
    content = answer.choices[0].logprobs.content
    same(len(content), answer.usage.completion_tokens)
    for entry in content:
        same((len(entry.top_logprobs), entry.top_logprobs[0].logprob), (3, entry.logprob))
    text = b"".join(bytes(entry.bytes) for entry in content).decode(errors="replace").lstrip(" ")
    assert text.startswith(answer.choices[0].message.content.lstrip(" ")), text  # the end token has bytes, too
    return [(entry.token, entry.logprob) for entry in content]


@case
def chat_with_choices(on: Setting) -> None:
    answer = on.chat(n=2, temperature=1, seed=1)
    same([choice.index for choice in answer.choices], [0, 1])


@case
def chat_with_stop(on: Setting) -> None:
    whole = on.chat().choices[0].message.content
    stop = whole[4:6]
    same(on.chat(stop=stop).choices[0].message.content, whole[:whole.find(stop)])


@case
def chat_without_contents(on: Setting) -> object:
    turns = [{"role": "assistant", "content": ""}, {"role": "assistant", "content": None}, {"role": "assistant"}]
    texts = [on.chat([*CHAT, turn, *CHAT]).choices[0].message.content for turn in turns]
    same(len(set(texts)), 1)
    return texts[0]


@case
def chat_that_is_continued(on: Setting) -> object:
    begun = [*CHAT, {"role": "assistant", "content": "The capital"}]
    extra = {"continue_final_message": True, "add_generation_prompt": False}
    prompt = json.loads(on.plain("POST", "/apply-template", {"messages": begun} | extra))["prompt"]
    assert prompt.endswith("The capital"), prompt
    answer = on.chat(begun, extra_body=extra).choices[0].message.content
    same(answer, on.complete(prompt, extra_body={"add_special_tokens": False}).choices[0].text)
    return "The capital" + answer


@case
def chat_without_end(on: Setting) -> object:
    stop, wanted = on.stop()
    answer = on.chat(max_completion_tokens=LONG, stop=stop)
    same(answer.choices[0].message.content, wanted)
    return answer.choices[0].finish_reason, answer.usage.completion_tokens


@case
def tokens_of_text_and_chat(on: Setting) -> object:
    ids = on.client.post("/tokenize", body={"prompt": PROMPT}, cast_to=object)["tokens"]
    same(ids, on.ids(PROMPT))
    count = on.client.post("/tokenize", body={"messages": CHAT}, cast_to=object)["count"]
    same(count, on.chat().usage.prompt_tokens)
    return ids


@case
def chat_with_ignored_fields(on: Setting) -> None:
    answer = on.chat(user="me", metadata={"a": "b"}, store=False, service_tier="auto", parallel_tool_calls=True,
                     extra_body={"chat_template_kwargs": {}})
    same(answer.choices[0].message.content, on.chat().choices[0].message.content)


# ---------------------------------------------------------------------------------------------------------------------
# Embeddings, models


@case
def embedding(on: Setting) -> object:
    answer = on.embed("The ship")  # the client asks for base64
    vector = answer.data[0].embedding
    assert len(vector) > 1 and abs(math.hypot(*vector) - 1) < 1e-3, math.hypot(*vector)
    same(answer.usage.prompt_tokens, len(on.ids("The ship")))
    return len(vector), vector[:3]


@case
def embedding_in_floats(on: Setting) -> None:
    pairs = zip(on.embed("The ship").data[0].embedding, on.embed("The ship", encoding_format="float").data[0].embedding)
    assert all(abs(a - b) < 1e-6 for a, b in pairs)


@case
def embedding_of_list(on: Setting) -> None:
    answer = on.embed(["The ship", "Bees make honey"])
    same([one.index for one in answer.data], [0, 1])
    same(answer.data[0].embedding, on.embed("The ship").data[0].embedding)


@case
def embedding_of_ids(on: Setting) -> None:
    same(on.embed([on.ids("The ship")]).data[0].embedding, on.embed("The ship").data[0].embedding)


@case
def models(on: Setting) -> None:
    same(on.client.models.retrieve(on.model).id, on.model)
    assert on.model in [model.id for model in on.client.models.list()]


# ---------------------------------------------------------------------------------------------------------------------
# Errors


@case
def error_of_value(on: Setting) -> None:
    error = raises(openai.BadRequestError, lambda: on.complete(max_tokens=-2), "max_tokens")
    assert error.status_code == 400 and error.body["message"] and error.type, error.body


@case
def error_of_chat(on: Setting) -> None:
    raises(openai.BadRequestError, lambda: on.client.chat.completions.create(model=on.model, messages=[]), "messages")
    picture = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://127.0.0.1/a.png"}}]}]
    raises(openai.BadRequestError, lambda: on.chat(picture), "messages")


@case
def error_of_what_is_not_there(on: Setting) -> None:
    raises(openai.BadRequestError, lambda: on.chat(response_format={"type": "image"}), "response_format")
    raises(openai.BadRequestError, lambda: on.chat(tools=[{"type": "search"}]), "tools")
    raises(openai.BadRequestError, lambda: on.complete(best_of=2), "best_of")


@case
def error_of_stream(on: Setting) -> None:
    raises(openai.BadRequestError, lambda: list(on.complete(stream=True, temperature=-1)), "temperature")


@case
def error_of_length(on: Setting) -> None:
    raises(openai.BadRequestError, lambda: on.complete(on.ids(PROMPT) * 60_000))


@case
def error_of_name(on: Setting) -> None:
    raises(openai.NotFoundError, lambda: on.client.models.retrieve("nobody"))
    raises(openai.NotFoundError, lambda: on.client.completions.create(model="nobody", prompt=PROMPT, **GREEDY), "model")


@case
def error_of_key(on: Setting) -> None:
    other = openai.OpenAI(**on.options | {"api_key": "wrong"})
    if on.key:
        raises(openai.AuthenticationError, lambda: other.completions.create(model=on.model, prompt=PROMPT, **GREEDY))
    else:  # then any will do
        assert other.completions.create(model=on.model, prompt=PROMPT, **GREEDY).choices


@case
def error_of_time(on: Setting) -> None:
    hasty = openai.OpenAI(**on.options | {"timeout": 0.05})
    raises(openai.APITimeoutError, lambda: hasty.completions.create(
        model=on.model, prompt=PROMPT, max_tokens=1500, extra_body={"ignore_eos": True}))
    assert on.settles()


class FailingOnce(http.server.BaseHTTPRequestHandler):
    """A proxy that refuses the first request and forwards the next ones to the server."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.asked += 1
        if self.server.asked == 1:
            status, answer = self.server.status, b'{"error": {"message": "busy"}}'
        else:
            status, answer = 200, self.server.setting.plain("POST", self.path, json.loads(body))
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.send_header("Retry-After", "1")
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *arguments) -> None:
        pass


def retried_after(on: Setting, status: int) -> None:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), FailingOnce) as proxy:
        proxy.asked, proxy.status, proxy.setting = 0, status, on
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{proxy.server_port}/v1"
        patient = openai.OpenAI(**on.options | {"base_url": url, "max_retries": 2})
        answer = patient.completions.create(model=on.model, prompt=PROMPT, **GREEDY)
        proxy.shutdown()
    same((answer.choices[0].text, proxy.asked), (on.complete().choices[0].text, 2))


@case
def retry_when_busy(on: Setting) -> None:
    retried_after(on, 429)


@case
def retry_when_not_ready(on: Setting) -> None:
    retried_after(on, 503)


# ---------------------------------------------------------------------------------------------------------------------
# The asynchronous client


def in_async(on: Setting, work):
    """Returns the result of `work`, a coroutine function of a client."""
    async def run():
        async with openai.AsyncOpenAI(**on.options) as client:
            return await work(client)

    return asyncio.run(run())


@case
def async_company(on: Setting) -> None:
    prompts = [f"{PROMPT} {count}" for count in range(8)]
    alone = [on.complete(prompt).choices[0].text for prompt in prompts]

    async def ask(client):
        answers = await asyncio.gather(*(client.completions.create(model=on.model, prompt=prompt, **GREEDY)
                                         for prompt in prompts))
        return [answer.choices[0].text for answer in answers]

    same(in_async(on, ask), alone)


@case
def async_stream(on: Setting) -> None:
    async def ask(client):
        stream = await client.chat.completions.create(model=on.model, messages=CHAT, stream=True, **GREEDY_CHAT)
        return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])

    same(in_async(on, ask), on.chat().choices[0].message.content)


@case
def async_cancelled(on: Setting) -> None:
    async def ask(client):
        task = asyncio.create_task(client.completions.create(model=on.model, prompt=PROMPT, max_tokens=1500,
                                                             extra_body={"ignore_eos": True}))
        await asyncio.sleep(0.3)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    in_async(on, ask)
    assert on.settles()


# ---------------------------------------------------------------------------------------------------------------------
# LangChain


@case
def langchain_invoke(on: Setting) -> object:
    answer = on.langchain().invoke("What is the capital of France?")
    same(answer.content, on.chat().choices[0].message.content)
    same(answer.usage_metadata["output_tokens"], on.chat().usage.completion_tokens)
    return answer.content


@case
def langchain_talk(on: Setting) -> None:
    from langchain_core.messages import AIMessage, HumanMessage, SystemMessage

    kinds = {"system": SystemMessage, "user": HumanMessage, "assistant": AIMessage}
    messages = [kinds[turn["role"]](turn["content"]) for turn in TALK]
    same(on.langchain().invoke(messages).content, on.chat(TALK).choices[0].message.content)


@case
def langchain_chain(on: Setting) -> None:
    from langchain_core.prompts import ChatPromptTemplate

    chain = ChatPromptTemplate.from_messages([("user", "What is the capital of {country}?")]) | on.langchain()
    same(chain.invoke({"country": "France"}).content, on.chat().choices[0].message.content)


@case
def langchain_stream(on: Setting) -> object:
    model = on.langchain(stream_usage=True)
    chunks = list(model.stream("What is the capital of France?"))
    wanted = on.chat()
    same("".join(chunk.content for chunk in chunks), wanted.choices[0].message.content)
    same(sum((chunk.usage_metadata or {}).get("output_tokens", 0) for chunk in chunks), wanted.usage.completion_tokens)
    return [chunk.content for chunk in chunks]


@case
def langchain_batch(on: Setting) -> None:
    questions = [f"What is the capital of {country}?" for country in ("France", "Italy", "Spain", "Japan")]
    same([answer.content for answer in on.langchain().batch(questions)],
         [on.langchain().invoke(question).content for question in questions])


@case
def langchain_async(on: Setting) -> None:
    answer = asyncio.run(on.langchain().ainvoke("What is the capital of France?"))
    same(answer.content, on.chat().choices[0].message.content)


@case
def langchain_logprobs(on: Setting) -> object:
    answer = on.langchain(logprobs=True, top_logprobs=2).invoke("What is the capital of France?")
    content = answer.response_metadata["logprobs"]["content"]
    same(len(content), answer.usage_metadata["output_tokens"])
    return [(entry["token"], entry["logprob"]) for entry in content]


@case
def langchain_stop(on: Setting) -> object:
    stop, wanted = on.stop()
    answer = on.langchain(max_completion_tokens=LONG, stop=[stop]).invoke(CHAT[0]["content"])
    same(answer.content, wanted)
    return answer.content, answer.response_metadata["finish_reason"]


@case
def langchain_without_content(on: Setting) -> object:
    from langchain_core.messages import AIMessage, HumanMessage

    answer = on.langchain().invoke([HumanMessage("a"), AIMessage(""), HumanMessage("b")])
    same(answer.usage_metadata["output_tokens"] > 0, True)
    return answer.content


@case
def langchain_completion(on: Setting) -> None:
    import langchain_openai

    model = langchain_openai.OpenAI(model=on.model, base_url=on.options["base_url"], api_key=on.options["api_key"],
                                    temperature=0, max_tokens=12, max_retries=0)
    same(model.invoke(PROMPT), on.complete().choices[0].text)


@case
def langchain_embeddings(on: Setting) -> None:
    model = on.langchain_embeddings()
    vectors = model.embed_documents(["The ship", "Bees make honey"])
    same(len(vectors), 2)
    assert max(abs(a - b) for a, b in zip(vectors[0], on.embed("The ship").data[0].embedding)) < 1e-6


@case
def langchain_query(on: Setting) -> None:
    vector = on.langchain_embeddings().embed_query("The ship")
    assert abs(math.hypot(*vector) - 1) < 1e-3


# ---------------------------------------------------------------------------------------------------------------------
# LlamaIndex


def llama_index_messages():
    from llama_index.core.llms import ChatMessage

    return [ChatMessage(role=turn["role"], content=turn["content"]) for turn in TALK]


@case
def llama_index_complete(on: Setting) -> object:
    answer = on.llama_index(chat=False).complete(PROMPT).text
    same(answer, on.complete().choices[0].text)
    return answer


@case
def llama_index_chat(on: Setting) -> object:
    answer = on.llama_index().chat(llama_index_messages()).message.content
    same(answer, on.chat(TALK).choices[0].message.content)
    return answer


@case
def llama_index_stream(on: Setting) -> object:
    pieces = [piece.delta for piece in on.llama_index().stream_chat(llama_index_messages())]
    same("".join(piece or "" for piece in pieces), on.chat(TALK).choices[0].message.content)
    same("".join(piece.delta for piece in on.llama_index(chat=False).stream_complete(PROMPT)),
         on.complete().choices[0].text)
    return pieces


@case
def llama_index_async(on: Setting) -> None:
    answer = asyncio.run(on.llama_index().achat(llama_index_messages())).message.content
    same(answer, on.chat(TALK).choices[0].message.content)


@case
def llama_index_logprobs(on: Setting) -> object:
    answer = on.llama_index(logprobs=True, top_logprobs=2).chat(llama_index_messages())
    same(len(answer.logprobs), on.chat(TALK).usage.completion_tokens)
    return [(top[0].token, top[0].logprob) for top in answer.logprobs]


@case
def llama_index_stop(on: Setting) -> object:
    stop, wanted = on.stop()
    model = on.llama_index(max_tokens=LONG, additional_kwargs={"stop": [stop]})
    answer = model.complete(CHAT[0]["content"]).text
    same(answer, wanted)
    return answer


@case
def llama_index_embeddings(on: Setting) -> object:
    from llama_index.embeddings.openai_like import OpenAILikeEmbedding

    model = OpenAILikeEmbedding(model_name=on.model, api_base=on.options["base_url"], api_key=on.options["api_key"],
                                max_retries=0)
    vectors = model.get_text_embedding_batch(["The ship", "Bees make honey"])
    assert max(abs(a - b) for a, b in zip(vectors[0], on.embed("The ship").data[0].embedding)) < 1e-6
    return len(vectors[0]), vectors[0][:3]


# ---------------------------------------------------------------------------------------------------------------------
# LiteLLM


@case
def litellm_chat(on: Setting) -> object:
    answer = on.litellm()
    same(answer.choices[0].message.content, on.chat().choices[0].message.content)
    same(answer.usage.completion_tokens, on.chat().usage.completion_tokens)
    return answer.choices[0].message.content


@case
def litellm_as_vllm(on: Setting) -> object:
    import litellm

    answer = litellm.completion(model=f"hosted_vllm/{on.model}", messages=TALK, api_base=on.options["base_url"],
                                api_key=on.options["api_key"], temperature=0, max_tokens=12, max_retries=0,
                                top_k=-1, repetition_penalty=1.0, skip_special_tokens=True)
    same(answer.choices[0].message.content, on.chat(TALK).choices[0].message.content)
    return answer.choices[0].message.content


@case
def litellm_complete(on: Setting) -> object:
    import litellm

    answer = litellm.text_completion(model=f"text-completion-openai/{on.model}", prompt=PROMPT, temperature=0,
                                     max_tokens=12, api_base=on.options["base_url"], api_key=on.options["api_key"])
    same(answer.choices[0].text, on.complete().choices[0].text)
    return answer.choices[0].text


@case
def litellm_stream(on: Setting) -> object:
    pieces = [chunk.choices[0].delta.content for chunk in on.litellm(stream=True) if chunk.choices]
    same("".join(piece or "" for piece in pieces), on.chat().choices[0].message.content)
    *_, last = on.litellm(stream=True, stream_options={"include_usage": True})
    same(last.usage.completion_tokens, on.chat().usage.completion_tokens)
    return pieces


@case
def litellm_async(on: Setting) -> None:
    import litellm

    async def ask():
        return await litellm.acompletion(model=f"openai/{on.model}", messages=CHAT, api_base=on.options["base_url"],
                                         api_key=on.options["api_key"], temperature=0, max_tokens=12)

    same(asyncio.run(ask()).choices[0].message.content, on.chat().choices[0].message.content)


@case
def litellm_logprobs(on: Setting) -> object:
    content = on.litellm(logprobs=True, top_logprobs=2).choices[0].logprobs.content
    same(len(content), on.chat().usage.completion_tokens)
    return [(entry.token, entry.logprob) for entry in content]


@case
def litellm_stop(on: Setting) -> object:
    stop, wanted = on.stop()
    answer = on.litellm(max_tokens=LONG, stop=[stop]).choices[0]
    same(answer.message.content, wanted)
    return answer.message.content, answer.finish_reason


@case
def litellm_embeddings(on: Setting) -> object:
    import litellm

    answer = litellm.embedding(model=f"openai/{on.model}", input=["The ship"], api_base=on.options["base_url"],
                               api_key=on.options["api_key"])
    vector = answer.data[0]["embedding"]
    assert max(abs(a - b) for a, b in zip(vector, on.embed("The ship").data[0].embedding)) < 1e-6
    return len(vector), vector[:3]


@case
def litellm_errors(on: Setting) -> None:
    import litellm

    litellm.suppress_debug_info = True
    for kind, fields in ((litellm.BadRequestError, {"temperature": -1}), (litellm.NotFoundError, {"model": "nobody"})):
        try:
            litellm.completion(**{"model": f"openai/{on.model}", "messages": CHAT, "api_base": on.options["base_url"],
                                  "api_key": on.options["api_key"], "max_retries": 0} | fields |
                               ({"model": "openai/nobody"} if "model" in fields else {}))
        except kind:
            continue
        raise AssertionError(f"no {kind.__name__}")


# ---------------------------------------------------------------------------------------------------------------------


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url", help="address of the server, http://127.0.0.1:8080")
    parser.add_argument("--key", help="an API key of the server")
    parser.add_argument("--model", help="name of the model (default: the server's first)")
    parser.add_argument("--only", default="", metavar="NAME", help="run only the cases whose name contains this")
    arguments = parser.parse_args()
    try:
        setting = Setting(arguments.url, arguments.key, arguments.model)
    except openai.OpenAIError as error:
        sys.exit(f"check_clients: {arguments.url}: {error}")
    counts = {client: [0, 0] for client in CLIENTS}  # passed and failed
    skipped = {client: packages for client in CLIENTS if (packages := missing_packages(client))}
    for function in CASES:
        client = client_of(function)
        if arguments.only not in function.__name__ or client in skipped:
            continue
        try:
            got = function(setting)
            counts[client][0] += 1
            print(f"ok: {function.__name__}" + (f": {got!r}"[:LONGEST_LINE] if got is not None else ""), flush=True)
        except Exception:
            counts[client][1] += 1
            print(f"FAILED: {function.__name__}\n    " + traceback.format_exc().strip().replace("\n", "\n    "),
                  flush=True)
    for client, (passed, failed) in counts.items():
        print(f"{client}: skipped, it is not installed (pip install {skipped[client]})" if client in skipped else
              f"{client}: {passed} passed, {failed} failed")
    return 1 if any(failed for _, failed in counts.values()) or not any(passed for passed, _ in counts.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
