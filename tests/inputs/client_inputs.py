"""Requests as clients of OpenAI's, vLLM's and llama-server's APIs send them."""

import http.client
import json
import pathlib
import re
import socket

from golden import fixtures
from reported import Case, edit_json, reported
from server_process import PATIENCE, Client

DOCUMENT = pathlib.Path(__file__).resolve().parents[2] / "docs" / "server.md"
CONTEXT = 64  # of the tiny model
START, END, A, B, C = 2, 3, 7, 8, 9  # <|im_start|>, <|im_end|>, a, b, c
USER = {"role": "user", "content": "the rain"}
TALK = [USER, {"role": "assistant", "content": "in there"}, USER]
GREEDY = {"temperature": 0, "max_tokens": 4}


def force(*tokens: int) -> dict:
    """Returns fields for greedy choice with biases: the first of these tokens is preferred to the second, and both to
    others."""
    return {"temperature": 0, "logit_bias": {str(token): 100 - 10 * place for place, token in enumerate(tokens)}}


def complete(case: Case, client: Client, status: int = 200, **fields):
    reply = case.ask(client, "/v1/completions", {"prompt": "the rain"} | GREEDY | fields)
    case.must(f"{json.dumps(fields)[:100]} is answered with {status}", reply.status == status)
    return reply.json()


def chat(case: Case, client: Client, status: int = 200, messages=None, **fields):
    reply = case.ask(client, "/v1/chat/completions", {"messages": messages or TALK} | GREEDY | fields)
    case.must(f"{json.dumps(fields)[:100]} is answered with {status}", reply.status == status)
    return reply.json()


def text(answer: dict) -> str:
    choice = answer["choices"][0]
    return choice["message"]["content"] if "message" in choice else choice["text"]


def tokens(case: Case, client: Client, **body) -> list:
    reply = client.post("/tokenize", body)
    case.must("texts are tokenized", reply.status == 200)
    return reply.json()["tokens"]


def refused(case: Case, client: Client, path: str, body: dict, param: str) -> None:
    reply = client.post(path, body)
    if reply.status != 400 or reply.json()["error"]["param"] != param:
        case.says(f"{reply.status} {reply.body.decode(errors='replace')}")
        case.must(f"{path} with {param} {json.dumps(body.get(param))} is refused by name", False)


# ---------------------------------------------------------------------------------------------------------------------
# Messages


@reported("assistant messages with content null, or without: empty text")
def contents_missing(case: Case) -> None:
    calls = {"role": "assistant", "content": None, "tool_calls": []}
    with case.server(case.model()) as client:
        answers = [text(chat(case, client, messages=[USER, message, USER])) for message in (
            {"role": "assistant", "content": ""}, {"role": "assistant", "content": None}, {"role": "assistant"}, calls,
            {"role": "assistant", "content": None, "tool_calls": None, "refusal": None, "function_call": None})]
        case.must("all of them are the same conversation", len(set(answers)) == 1)
        for role in ("user", "system"):
            chat(case, client, messages=[{"role": role, "content": None}, USER])
        chat(case, client, 400, messages=[{"role": "user"}])


@reported("parts of a message by the names that clients give text: taken; pictures: refused")
def content_parts(case: Case) -> None:
    with case.server(case.model()) as client:
        whole = text(chat(case, client))
        for part in ({"type": "text", "text": "the rain"}, {"type": "input_text", "text": "the rain"},
                     {"type": "output_text", "text": "the rain", "annotations": []}, {"text": "the rain"}, "the rain",
                     {"type": "refusal", "refusal": "the rain"}):
            turn = USER | {"content": [part]}
            case.must(f"{part} is text", text(chat(case, client, messages=[turn, TALK[1], turn])) == whole)
        lines = [USER | {"content": [{"type": "text", "text": "the"}, {"type": "text", "text": "rain"}]}]
        case.must("parts are joined as lines", text(chat(case, client, messages=lines)) ==
                  text(chat(case, client, messages=[USER | {"content": "the\nrain"}])))
        named = [turn | {"name": "me"} for turn in TALK]
        case.must("names of roles are accepted", text(chat(case, client, messages=named)) == whole)
        chat(case, client, 400, messages=[USER | {"content": [{"type": "image_url", "image_url": {"url": "data:"}}]}])


@reported("continue_final_message, add_generation_prompt: the last message is continued, in chats and /apply-template")
def final_message(case: Case) -> None:
    begun = [USER, {"role": "assistant", "content": "in the"}]
    asks = "<|im_start|>user\nthe rain<|im_end|>\n"
    with case.server(case.model()) as client:
        def prompt(messages=begun, **fields) -> str:
            reply = case.ask(client, "/apply-template", {"messages": messages} | fields)
            case.must("the template is applied", reply.status == 200)
            return reply.json()["prompt"]

        continued = asks + "<|im_start|>assistant\nin the"
        case.must("the prompt ends within the message", prompt(continue_final_message=True,
                                                               add_generation_prompt=False) == continued)
        case.must("continue_final_message alone is sufficient", prompt(continue_final_message=True) == continued)
        case.must("an empty message is continued", prompt([USER, {"role": "assistant", "content": None}],
                                                      continue_final_message=True) == asks + "<|im_start|>assistant\n")
        case.must("a user's message is continued",
                  prompt([USER], continue_final_message=True) == asks[:-len("<|im_end|>\n")])
        case.must("a message in parts is continued",
                  prompt([USER, {"role": "assistant", "content": [{"type": "text", "text": "in the"}]}],
                                       continue_final_message=True) == continued)
        case.must("spaces at the end of a message are kept",
                  prompt([USER, {"role": "assistant", "content": "in the  "}],
                                                   continue_final_message=True) == continued + "  ")
        case.must("without a generation prompt the message ends", prompt(add_generation_prompt=False) ==
                  continued + "<|im_end|>\n")
        case.must("with a generation prompt an answer begins",
                  prompt() == continued + "<|im_end|>\n<|im_start|>assistant\n")
        both = {"messages": begun, "continue_final_message": True, "add_generation_prompt": True}
        for path in ("/apply-template", "/v1/chat/completions"):
            case.must("both options together are refused", client.post(path, both).status == 400)
        free = {"logit_bias": {str(token): -100 for token in range(4)}}
        answer = chat(case, client, messages=begun, continue_final_message=True, **free)
        ids = tokens(case, client, prompt=continued, add_special_tokens=False)
        case.must("the chat has that prompt", answer["usage"]["prompt_tokens"] == len(ids))
        case.must("the answer continues the prompt", text(answer) == text(complete(case, client, prompt=ids, **free)))
        echoed = chat(case, client, messages=begun, continue_final_message=True, echo=True, **free)
        case.must("echo includes the message", text(echoed) == "in the" + text(answer))


@reported("a template that strips messages, or drops the last one: cut as transformers does, or refused")
def final_message_of_strict_template(case: Case) -> None:
    model = case.model()
    strips = "{% for message in messages %}[{{ message['content'] | trim }}]{% endfor %}"
    edit_json(model / "tokenizer_config.json", chat_template=strips)
    body = {"messages": [USER, {"role": "assistant", "content": " in the "}], "continue_final_message": True}
    with case.server(model) as client:
        reply = case.ask(client, "/apply-template", body)
        case.must("stripped spaces are left out", reply.status == 200 and reply.json()["prompt"] == "[the rain][in the")
    edit_json(model / "tokenizer_config.json", chat_template="{{ messages[0]['content'] }}")
    with case.server(model) as client:
        refused(case, client, "/apply-template", body, "messages")
        refused(case, client, "/v1/chat/completions", body, "messages")


@reported("calls of tools and their results in the history: the chat template sees them, or they are text")
def tools_in_history(case: Case) -> None:
    calls = [{"id": "1", "type": "function", "function": {"name": "sum", "arguments": '{"a": [1, 2]}'}}]
    history = [USER, {"role": "assistant", "content": None, "tool_calls": calls},
               {"role": "tool", "tool_call_id": "1", "content": "3"}]
    model = case.model()
    template = ("{% for m in messages %}[{{ m.role }} {{ m.content }}{% for c in m.tool_calls or [] %} {{ c.function.name }} "
                "{{ c.function.arguments }}{% endfor %}{% if m.tool_calls is defined %}!{% endif %} "
                "{{ m.tool_call_id }}]{% endfor %}")
    with case.server(model) as client:
        prompt = case.ask(client, "/apply-template", {"messages": history}).json()["prompt"]
        case.must("calls and results are text for a template without tools", all(text in prompt for text in (
            '<tool_call>\n{"name":"sum","arguments":{"a":[1,2]}}\n</tool_call>', "<tool_response>\n3\n</tool_response>")))
    edit_json(model / "tokenizer_config.json", chat_template=template)
    with case.server(model) as client:
        reply = case.ask(client, "/apply-template", {"messages": history})
        case.must("calls and results are in the prompt", reply.status == 200 and
                  reply.json()["prompt"] == '[user the rain ][assistant  sum {"a": [1, 2]}! ][tool 3 1]')
        none = [USER, {"role": "assistant", "content": "in", "tool_calls": []}]
        case.must("an empty list of calls is the same as none",
                  case.ask(client, "/apply-template", {"messages": none}).json()["prompt"] ==
                  "[user the rain ][assistant in ]")
        for text_of_no_object in ("{", "", "[1]", '{"a":' * 100_000):
            calls[0]["function"]["arguments"] = text_of_no_object
            reply = client.post("/apply-template", {"messages": history})
            case.must("arguments that are not an object are text", reply.status == 200 and
                      f"[assistant  sum {text_of_no_object}! ]" in reply.json()["prompt"])
        for wrong in (5, [5], [{"type": "function"}], [{"function": {"name": ""}}], [{"function": {}}]):
            refused(case, client, "/v1/chat/completions", {"messages": [USER, history[1] | {"tool_calls": wrong}]}, "messages")


# ---------------------------------------------------------------------------------------------------------------------
# Numbers and lengths


@reported('"logprobs": false, "top_logprobs": 0: 200')
def no_logprobs(case: Case) -> None:
    with case.server(case.model()) as client:
        for fields in ({"logprobs": False, "top_logprobs": 0}, {"logprobs": None, "top_logprobs": 0},
                       {"top_logprobs": 0}, {"top_logprobs": None}):
            case.must("there are no log-probabilities", not chat(case, client, **fields)["choices"][0].get("logprobs"))
        case.must("completions with logprobs false have no log-probabilities",
                  not complete(case, client, logprobs=False)["choices"][0]["logprobs"])
        chat(case, client, 400, logprobs=False, top_logprobs=2)


@reported("whole numbers written as floats in any integer field: taken; 1.5: refused")
def whole_floats(case: Case) -> None:
    values = {"max_tokens": 3.0, "max_completion_tokens": 3.0, "n": 2.0, "seed": 7.0, "top_k": 5.0, "min_tokens": 1.0,
              "logprobs": 2.0, "stop_token_ids": [7.0], "prompt": [7.0, 8.0], "top_logprobs": 0.0}
    with case.server(case.model()) as client:
        for name, value in values.items():
            complete(case, client, **{name: value})
            wrong = 1.5 if not isinstance(value, list) else [1.5]
            if name != "top_logprobs":
                refused(case, client, "/v1/completions", {"prompt": "a", name: wrong}, name)
        for name in ("max_tokens", "max_completion_tokens", "top_logprobs"):
            chat(case, client, **{name: 3.0, "logprobs": True})
        raw = b'{"prompt": "the rain", "max_tokens": 1e0, "temperature": 0, "n": 1.0E+0, "seed": -0.0}'
        case.must("numbers with exponents are accepted", client.post("/v1/completions", raw).status == 200)
        case.must("/detokenize accepts floats", client.post("/detokenize", {"tokens": [7.0]}).status == 200)
        for value in (1e300, -1e300, 2**63, 9.3e18, "3", True, [3]):
            refused(case, client, "/v1/completions", {"prompt": "a", "seed": value}, "seed")
        refused(case, client, "/detokenize", {"tokens": [1.5]}, "tokens")


@reported("more tokens than the context leaves, by any name of the field: what it leaves")
def long_answers(case: Case) -> None:
    with case.server(case.model()) as client:
        limits = [{name: value} for name in ("max_tokens", "max_completion_tokens", "n_predict")
                  for value in (32000, -1, 10**15, CONTEXT)]
        for fields in limits:
            answers = [case.ask(client, path, body | {"ignore_eos": True, "temperature": 0} | fields)
                       for path, body in (("/v1/completions", {"prompt": "the rain"}),
                                          ("/v1/chat/completions", {"messages": [USER]}))]
            case.must("both are answered", all(reply.status == 200 for reply in answers))
            case.must("the answers fill the context", all(reply.json()["usage"]["total_tokens"] == CONTEXT and
                      reply.json()["choices"][0]["finish_reason"] == "length" for reply in answers))
        two = complete(case, client, max_tokens=32000, n=2, ignore_eos=True)
        case.must("each of several answers fills the context",
                  two["usage"]["completion_tokens"] == 2 * (CONTEXT - two["usage"]["prompt_tokens"]))
        for path, prompt in (("/v1/completions", {"prompt": [A] * CONTEXT}),
                             ("/v1/chat/completions", {"messages": [USER | {"content": "the rain " * 40}]})):
            for fields in ({}, {"max_tokens": 32000}, {"max_tokens": 1}):
                reply = case.ask(client, path, prompt | fields)
                case.must("a prompt that alone exceeds it is refused", reply.status == 400 and
                          reply.json()["error"]["code"] == "context_length_exceeded")
        long = {"messages": [USER | {"content": "the rain " * 400}], "max_tokens": 5}
        counted = case.ask(client, "/v1/messages/count_tokens", long).json()["input_tokens"]
        reply = case.ask(client, "/v1/messages", long)
        case.must("its length and the longest are in the words that agents look for", reply.status == 400 and
                  f"prompt is too long: {counted} tokens > {CONTEXT - 1} maximum" in reply.json()["error"]["message"])
        complete(case, client, 400, max_tokens=-2)
        complete(case, client, 400, max_tokens=0)


@reported("truncate_prompt_tokens: the end of a long prompt is kept, the beginning of a text to embed")
def truncated_prompts(case: Case) -> None:
    ids = [A, B, C, A, C, B, B, A]
    with case.server(case.model()) as client:
        def same(name: str, fields: dict, kept: list) -> None:
            got, wanted = complete(case, client, prompt=ids, **fields), complete(case, client, prompt=kept)
            case.must(name, text(got) == text(wanted) and got["usage"]["prompt_tokens"] == len(kept))

        same("the end is kept", {"truncate_prompt_tokens": 3}, ids[-3:])
        same("or the beginning", {"truncate_prompt_tokens": 3, "truncation_side": "right"}, ids[:3])
        same("a short prompt is whole", {"truncate_prompt_tokens": 30}, ids)
        long = complete(case, client, prompt=ids * 20, truncate_prompt_tokens=-1)
        case.must("-1 leaves room for the answer", long["usage"]["prompt_tokens"] == CONTEXT - GREEDY["max_tokens"])
        short = complete(case, client, prompt="the rain in there", truncate_prompt_tokens=4)
        case.must("the start token is kept", short["usage"]["prompt_tokens"] == 4)
        echoed = complete(case, client, prompt="abcabc", truncate_prompt_tokens=3, echo=True)
        case.must("echo has the kept tokens", text(echoed).strip().startswith("bc"))
        case.must("chats are truncated", chat(case, client, truncate_prompt_tokens=10)["usage"]["prompt_tokens"] == 10)
        vectors = [client.post("/v1/embeddings", {"input": prompt} | fields).json()["data"][0]["embedding"]
                   for prompt, fields in ((ids, {"truncate_prompt_tokens": 3}), (ids[:3], {}),
                                          (ids, {"truncate_prompt_tokens": 3, "truncation_side": "left"}), (ids[-3:], {}))]
        case.must("embeddings keep the beginning", vectors[0] == vectors[1] and vectors[2] == vectors[3] != vectors[0])
        for value in (0, -2, 1.5, "3"):
            refused(case, client, "/v1/completions", {"prompt": "a", "truncate_prompt_tokens": value},
                    "truncate_prompt_tokens")
        refused(case, client, "/v1/completions", {"prompt": "a", "truncation_side": "middle"}, "truncation_side")


# ---------------------------------------------------------------------------------------------------------------------
# Choice of tokens


@reported("stop strings that are special tokens, alone or with text around them: they stop")
def special_stops(case: Case) -> None:
    with case.server(case.model()) as client:
        bias = {"temperature": 0, "logit_bias": {str(START): 100}}
        for fields in ({}, {"ignore_eos": True}):
            answer = complete(case, client, **bias, stop=["<|im_start|>"], **fields)
            case.must("the token ends the text", answer["choices"][0]["finish_reason"] == "stop" and
                      answer["usage"]["completion_tokens"] == 1 and text(answer) == "")
        answer = complete(case, client, temperature=0, logit_bias={str(END): 100}, ignore_eos=True, stop="<|im_end|>")
        case.must("the model's end token ends the text as a stop string with ignore_eos",
                  answer["usage"]["completion_tokens"] == 1)
        answer = complete(case, client, **bias, stop=["im_start", "<|", "|>"])
        case.must("a part of the token's name does not end the text", answer["choices"][0]["finish_reason"] == "length")
        answer = complete(case, client, **bias, stop=["<|im_start|><|im_start|>"])
        case.must("a stop string of two special tokens ends the text", answer["usage"]["completion_tokens"] == 2)
        chunks = list(client.stream("/v1/completions", {"prompt": "a", "max_tokens": 8, "stop": ["<|im_start|>"]} | bias))
        case.must("a stop string ends streams", chunks[-1]["choices"][0]["finish_reason"] == "stop")
        answer = chat(case, client, **bias, stop=["<|im_start|>"])
        case.must("a stop string ends chats", answer["choices"][0]["finish_reason"] == "stop")
        # The answer is a, <|im_start|>, b, c: each token is penalized after its first occurrence.
        row = {"prompt": [20], "repetition_penalty": 2} | force(A, START, B, C)
        for stop, wanted in (("a<|im_start|>", ""), ("<|im_start|>b", "a"), ("b", "a"), ("ab", ""), ("<|im_start|>bc", "a")):
            choice = complete(case, client, **row, stop=stop)["choices"][0]
            case.must(f"{stop} ends the text", (choice["text"], choice["finish_reason"]) == (wanted, "stop"))
        choice = complete(case, client, **row, stop="start|>b")["choices"][0]
        case.must("a part of a token in a stop string does not end the text",
                  (choice["text"], choice["finish_reason"]) == ("abc", "length"))


@reported("include_stop_str_in_output, skip_special_tokens: the answer has the stop, or the special tokens")
def shown_ends(case: Case) -> None:
    with case.server(case.model()) as client:
        letters = force(A) | {"max_tokens": 6}
        case.must("the stop string is shown", text(complete(case, client, **letters, stop="aa",
                                                            include_stop_str_in_output=True)) == "aa")
        case.must("the stop string is not shown by default", text(complete(case, client, **letters, stop="aa")) == "")
        case.must("the stop token is shown", text(complete(case, client, **letters, stop_token_ids=[A],
                                                      include_stop_str_in_output=True)) == "a")
        chunks = list(client.stream("/v1/completions", {"prompt": "a", "stop": "aaa", "include_stop_str_in_output": True}
                                    | letters))
        case.must("streams show the stop string", "".join(chunk["choices"][0]["text"] for chunk in chunks) == "aaa")
        special = force(START) | {"max_tokens": 2}
        case.must("special tokens are hidden", text(complete(case, client, **special)) == "")
        case.must("skip_special_tokens true hides them",
                  text(complete(case, client, **special, skip_special_tokens=True)) == "")
        case.must("skip_special_tokens false shows them",
                  text(complete(case, client, **special, skip_special_tokens=False)) ==
                  "<|im_start|>" * 2)
        case.must("skip_special_tokens false shows them in chats",
                  text(chat(case, client, **special, skip_special_tokens=False)) == "<|im_start|>" * 2)
        shown = {"skip_special_tokens": False, "stop": "start|><"}
        case.must("a shown token may have a stop in it", text(complete(case, client, **special, **shown)) == "<|im_")
        ended = force(END) | {"skip_special_tokens": False}
        case.must("the end token is not shown", text(complete(case, client, **ended)) == "")
        case.must("the end token is shown with include_stop_str_in_output",
                  text(complete(case, client, **ended, include_stop_str_in_output=True))
                  == "<|im_end|>")
        offsets = complete(case, client, **special, skip_special_tokens=False, logprobs=1)["choices"][0]["logprobs"]
        case.must("text offsets count special tokens", offsets["text_offset"] == [0, len("<|im_start|>")])


@reported("bad_words, allowed_token_ids, a bias of false: these tokens do not come, or no others")
def forbidden_tokens(case: Case) -> None:
    with case.server(case.model()) as client:
        for words in (["a"], ["a", "ab"], [" a"]):
            answer = text(complete(case, client, **force(A, B), bad_words=words))
            case.must(f"no {words}", "a" not in answer and answer.strip() == "bbbb")
        case.must("only the last token of a bad word is forbidden", text(complete(
            case, client, **force(A, B), bad_words=["aa"])).strip() == "abab")
        for fields in ({"allowed_token_ids": [B, C]}, {"allowed_token_ids": [8.0, 9.0]}):
            case.must("only allowed tokens are generated",
                      text(complete(case, client, **force(A, B), **fields)) == "bbbb")
        free = complete(case, client, temperature=5, seed=1, max_tokens=20, allowed_token_ids=[A, B])
        case.must("only allowed tokens are sampled", set(text(free)) <= set("ab") and len(text(free)) == 20)
        case.must("only allowed tokens are generated in chats",
                  text(chat(case, client, **force(A, B), allowed_token_ids=[B])) == "bbbb")
        bias = {"temperature": 0, "logit_bias": [[A, 100], [B, 90.0]]}
        case.must("biases can be a list", text(complete(case, client, **bias)) == "aaaa")
        bias["logit_bias"].append([A, False])
        case.must("a bias of false excludes the token", text(complete(case, client, **bias)) == "bbbb")
        for fields in ({"bad_words": ["b"]}, {"allowed_token_ids": [END], "min_tokens": 2}):
            refused(case, client, "/v1/completions", {"prompt": "a", "allowed_token_ids": [B]} | fields, "allowed_token_ids")
        for name, value in (("allowed_token_ids", []), ("allowed_token_ids", [10**6]), ("bad_words", "a"),
                            ("bad_words", [""]), ("bad_words", [7]), ("logit_bias", [["a", 1]]), ("logit_bias", [[A]])):
            refused(case, client, "/v1/completions", {"prompt": "a", name: value}, name)


@reported("repetition_penalty counts prompt and answer, repeat_last_n the last tokens")
def penalties(case: Case) -> None:
    model = case.model()
    edit_json(model / "config.json", max_position_embeddings=512)
    prompt = [A] + [C] * 150

    with case.server(model) as client:
        def first(**fields) -> str:
            return text(complete(case, client, prompt=prompt, **force(A, B), **fields))[:1]

        case.must("an early token is penalized", first(repetition_penalty=2) == "b")
        case.must("llama-server's name of the field is accepted", first(repeat_penalty=2) == "b")
        case.must("a token before the last 50 is not penalized", first(repetition_penalty=2, repeat_last_n=50) == "a")
        case.must("a token within the last 151 is penalized", first(repetition_penalty=2, repeat_last_n=151) == "b")
        case.must("repeat_last_n -1 counts all tokens", first(repetition_penalty=2, repeat_last_n=-1) == "b")
        case.must("repeat_last_n 0 counts no tokens", first(repetition_penalty=2, repeat_last_n=0) == "a")
        near = {"temperature": 0, "logit_bias": {str(A): 100, str(B): 99}}
        for name in ("presence_penalty", "frequency_penalty"):
            plain = complete(case, client, prompt=[A], **near, **{name: 2})
            case.must(f"{name} counts only the answer", text(plain)[:1] == "a")
            case.must("with repeat_last_n it counts the prompt", text(complete(
                case, client, prompt=[A], **near, **{name: 2, "repeat_last_n": 64}))[:1] == "b")
        complete(case, client, 400, repeat_last_n=-2)
    old = case.run("run", model, "-p", "a" + "c" * 150, "-n", "4", "--repetition-penalty", "2", "--repeat-last-n", "8")
    case.must("run has the flag", old.returncode == 0)


# ---------------------------------------------------------------------------------------------------------------------
# Information in answers


@reported("prompt_logprobs: of each token of the prompt, in vLLM's form")
def prompt_logprobs(case: Case) -> None:
    ids = [A, B, C, A]
    with case.server(case.model()) as client:
        choice = complete(case, client, prompt=ids, prompt_logprobs=3)["choices"][0]
        entries = choice["prompt_logprobs"]
        echoed = complete(case, client, prompt=ids, echo=True, logprobs=3)["choices"][0]["logprobs"]
        case.must("the first is null", entries[0] is None and len(entries) == len(ids))
        for token, entry, logprob in list(zip(ids, entries, echoed["token_logprobs"]))[1:]:
            own = entry[str(token)]
            case.must("the actual token has an entry",
                      own["logprob"] == logprob and own["decoded_token"] and own["rank"] > 0)
            ranks = sorted(one["rank"] for one in entry.values())
            case.must("the three best tokens have entries by rank", ranks[:3] == [1, 2, 3] and len(entry) in (3, 4))
            best = sorted(entry.values(), key=lambda one: one["rank"])
            case.must("more likely tokens are first", [one["logprob"] for one in best] ==
                      sorted((one["logprob"] for one in best), reverse=True))
        alone = complete(case, client, prompt=ids, prompt_logprobs=0, n=2)["choices"]
        case.must("prompt_logprobs 0 gives only the actual tokens", all(len(entry) == 1 for one in alone for entry in
                                                      one["prompt_logprobs"][1:]))
        both = complete(case, client, prompt=ids, prompt_logprobs=5, echo=True, logprobs=1)["choices"][0]
        case.must("prompt_logprobs and logprobs have separate numbers", both["logprobs"]["token_logprobs"][:4] ==
                  echoed["token_logprobs"][:4] and all(len(top) <= 2 for top in both["logprobs"]["top_logprobs"][1:]) and
                  all(len(entry) >= 5 for entry in both["prompt_logprobs"][1:]))
        answer = chat(case, client, prompt_logprobs=1)
        case.must("chats have prompt_logprobs beside the choices",
                  len(answer["prompt_logprobs"]) == answer["usage"]["prompt_tokens"] and
                  answer["prompt_logprobs"][0] is None)
        case.must("without the field there are no prompt_logprobs",
                  "prompt_logprobs" not in complete(case, client)["choices"][0])
        for fields in ({"prompt_logprobs": 2, "stream": True}, {"prompt_logprobs": -1}, {"prompt_logprobs": 21}):
            refused(case, client, "/v1/completions", {"prompt": "a"} | fields, "prompt_logprobs")


@reported("add_special_tokens, messages and pieces in /tokenize: as vLLM and llama-server have them")
def special_tokens(case: Case) -> None:
    with case.server(case.model()) as client:
        with_start, without = (complete(case, client, **fields)["usage"]["prompt_tokens"] for fields in
                               ({}, {"add_special_tokens": False}))
        case.must("a completion can omit the start token", with_start == without + 1)
        plain, started = (chat(case, client, **fields)["usage"]["prompt_tokens"] for fields in
                          ({}, {"add_special_tokens": True}))
        case.must("a chat can have a start token", started == plain + 1)
        vectors = [client.post("/v1/embeddings", {"input": "the rain"} | fields).json()["usage"]["prompt_tokens"]
                   for fields in ({}, {"add_special_tokens": False})]
        case.must("embeddings can omit the start token", vectors[0] == vectors[1] + 1)
        case.must("a chat is tokenized", len(tokens(case, client, messages=TALK)) == plain)
        case.must("a continued chat is tokenized",
                  len(tokens(case, client, messages=TALK[:2], continue_final_message=True)) <
                  len(tokens(case, client, messages=TALK[:2])))
        case.must("special tokens are found", START in tokens(case, client, content="<|im_start|>"))
        case.must("special tokens are text without parse_special",
                  START not in tokens(case, client, content="<|im_start|>", parse_special=False))
        reply = case.ask(client, "/tokenize", {"prompt": "ab", "return_token_strs": True}).json()
        case.must("the tokens' texts", "".join(reply["token_strs"]) == "<s> ab" and len(reply["tokens"]) == reply["count"])
        pieces = tokens(case, client, content="ab", with_pieces=True)
        case.must("tokens are returned as pieces", "".join(one["piece"] for one in pieces) == " ab" and
                  all(isinstance(one["id"], int) for one in pieces))


# ---------------------------------------------------------------------------------------------------------------------
# Fields


SCORING = ("rerank", "score", "classify")  # tests/serve/scoring_test.py has models that score texts
WHERE = {"completions": ("/v1/completions", {"prompt": "a", "max_tokens": 1}),
         "chats": ("/v1/chat/completions", {"messages": [USER], "max_tokens": 1}),
         "embeddings": ("/v1/embeddings", {"input": "a"}), "`/tokenize`": ("/tokenize", {"prompt": "a"}),
         "`/detokenize`": ("/detokenize", {"tokens": [A]}), "`/apply-template`": ("/apply-template", {"messages": [USER]}),
         "responses": ("/v1/responses", {"input": "a", "max_output_tokens": 1}),
         "messages": ("/v1/messages", {"messages": [USER], "max_tokens": 1})}
STRANGE = [True, "x", 0.25, {"x": 1}]  # of which a field that is refused has at least one that is not neutral


def table() -> list[tuple[str, list[str], str]]:
    """Returns name, endpoints and description of each field in the document's table."""
    rows = re.findall(r"^\| (`[^|]*) \| ([^|]*) \| ((?:honoured|refused|ignored)[^|]*) \|$", DOCUMENT.read_text(), re.M)
    return [(name, list(WHERE) if places == "all" else places.split(", "), what)
            for names, places, what in rows for name in re.findall(r"`([^`]*)`", names)]


@reported("fields that would change the answer: refused by name, but for neutral values; others change nothing")
def fields_of_the_table(case: Case) -> None:
    fields = table()
    case.must("the page has the table of fields", len(fields) > 100)
    with case.server(case.model()) as client:
        wrong = []
        for name, places, what in fields:
            if what.startswith("honoured"):
                continue
            neutral = [json.loads(value) for value in re.findall(r"`([^`]*)`", what.split(": ")[0])]
            for place in places:
                if place in SCORING:
                    continue
                path, body = WHERE[place]
                sent = STRANGE if what.startswith("ignored") else [value for value in STRANGE if value not in neutral]
                for value in sent:
                    reply = client.post(path, body | {name: value})
                    ok = (reply.status == 200 if what.startswith("ignored") else
                          reply.status == 400 and reply.json()["error"].get("param", name) == name and
                          name in reply.json()["error"]["message"])
                    if not ok:
                        wrong.append(f"{path} {name} {value}: {reply.status} {reply.body[:100]}")
                for value in [None, *neutral]:
                    reply = client.post(path, body | {name: value})
                    if reply.status != 200:
                        wrong.append(f"{path} {name} {value}: {reply.status} {reply.body[:100]}")
        case.says("\n".join(wrong[:10]))
        case.must("each field is treated as in the table", not wrong)
        case.must("unknown fields are ignored", complete(case, client, nobody_knows=[1]))


@reported("neutral values that clients send: change nothing")
def neutral_values(case: Case) -> None:
    common = [{"stop": []}, {"stop": None}, {"stop": ""}, {"stop": [""]}, {"n": None}, {"logit_bias": {}}, {"top_k": -1},
              {"top_k": 0}, {"max_tokens": None, "max_completion_tokens": 4}, {"user": "me"}, {"store": False},
              {"metadata": {"a": "b"}}, {"service_tier": "auto"}, {"parallel_tool_calls": True}, {"tools": []},
              {"tools": None}, {"tool_choice": "none"}, {"tool_choice": "auto"}, {"response_format": {"type": "text"}},
              {"stream_options": None}, {"stream_options": {}}, {"use_beam_search": False}, {"best_of": 1}, {"min_p": 0},
              {"modalities": ["text"]}, {"repetition_penalty": 1.0}, {"grammar": ""}, {"samplers": None}, {"bad_words": []},
              {"stop_token_ids": []}, {"allowed_token_ids": None}, {"model": None}, {"model": ""}, {"seed": -1},
              {"stream": False}, {"stream": None}, {"temperature": 0.0}]
    with case.server(case.model()) as client:
        wanted = text(complete(case, client)), text(chat(case, client))
        for fields in common:
            case.must(f"{fields} changes nothing", (text(complete(case, client, **fields)),
                                                    text(chat(case, client, **fields))) == wanted)
        random = {"temperature": 3, "max_tokens": 20, "seed": -1}
        case.must("seed -1 gives a random seed", len({text(complete(case, client, **random)) for _ in range(4)}) > 1)
        complete(case, client, 400, stream_options={"include_usage": True})
        complete(case, client, 400, stream=True, stream_options={"continuous_usage_stats": True})
        vector = {"input": "a", "encoding_format": None, "user": "me", "dimensions": None}
        size = len(client.post("/v1/embeddings", vector).json()["data"][0]["embedding"])
        case.must("the model's dimensions are accepted",
                  client.post("/v1/embeddings", vector | {"dimensions": size}).status == 200)
        short = client.post("/v1/embeddings", vector | {"dimensions": size - 1}).json()["data"][0]["embedding"]
        case.must("fewer dimensions are the first ones", len(short) == size - 1)
        refused(case, client, "/v1/embeddings", vector | {"dimensions": size + 1}, "dimensions")


@reported("reasoning_effort and documents: the chat template sees them")
def template_fields(case: Case) -> None:
    model = case.model()
    template = ("{{ messages[0]['content'] }}{% if reasoning_effort is defined %} {{ reasoning_effort }}{% endif %}"
                "{% if enable_thinking is defined %} {{ enable_thinking }}{% endif %}"
                "{% for one in documents or [] %} {{ one.text }}{% endfor %}")
    edit_json(model / "tokenizer_config.json", chat_template=template)
    with case.server(model) as client:
        for fields, wanted in (({}, ""), ({"reasoning_effort": "high"}, " high True"),
                               ({"reasoning_effort": "none"}, " none False"), ({"documents": [{"text": "in"}]}, " in"),
                               ({"reasoning_effort": "low", "chat_template_kwargs": {"enable_thinking": False}},
                                " low False")):
            reply = case.ask(client, "/apply-template", {"messages": [USER]} | fields)
            case.must(f"{fields} is in the prompt", reply.json()["prompt"] == USER["content"] + wanted)
        refused(case, client, "/v1/chat/completions", {"messages": [USER], "chat_template_kwargs":
                                                       {"continue_final_message": True}}, "chat_template_kwargs")


@reported("another model's name: 404, as vLLM has it; --any-name answers, as llama-server does")
def model_names(case: Case) -> None:
    model = case.model()
    with case.server(model) as client:
        for path, body in (("/v1/completions", {"prompt": "a"}), ("/v1/chat/completions", {"messages": [USER]}),
                           ("/v1/embeddings", {"input": "a"}), ("/tokenize", {"prompt": "a"})):
            reply = case.ask(client, path, body | {"model": "gpt-4o"})
            case.must("an unknown model's name is answered with 404",
                      reply.status == 404 and reply.json()["error"]["code"] == "model_not_found")
    with case.server(model, "--any-name") as client:
        complete(case, client, model="gpt-4o")
        case.must("the answer has the served model's name", chat(case, client, model="gpt-4o")["model"] == model.name)


# ---------------------------------------------------------------------------------------------------------------------
# HTTP


@reported("Content-Type missing, with parameters or another one; a byte order mark: as lenient as llama-server")
def content_types(case: Case) -> None:
    body = json.dumps({"prompt": "a"} | GREEDY).encode()
    with case.server(case.model()) as client:
        for kind in (b"", b"Content-Type: application/json; charset=utf-8\r\n", b"Content-Type: APPLICATION/JSON ;a=b\r\n",
                     b"content-type: application/x-www-form-urlencoded\r\n", b"Content-Type: text/plain\r\n",
                     b"Content-Type: text/json\r\n", b"Content-Type: application/vnd.api+json\r\n", b"Content-Type:\r\n"):
            answer = client.raw(b"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n" + kind +
                                b"Content-Length: %d\r\n\r\n" % len(body) + body)
            case.says(f"{kind.decode().strip()}: {answer[:20]}")
            case.must("it is answered", answer.startswith(b"HTTP/1.1 200 "))
        for kind in ("multipart/form-data; boundary=x", "image/png"):
            reply = client.post("/v1/completions", body, headers={"Content-Type": kind})
            case.must(f"{kind} is refused", reply.status == 415)
        for before in (b"\xef\xbb\xbf", b"\xef\xbb\xbf \n", b" \r\n\t"):
            case.must("spaces and a byte order mark before the JSON are skipped",
                      client.post("/v1/completions", before + body).status == 200)


@reported("a page of another site that posts what a browser sends unasked: refused")
def foreign_pages(case: Case) -> None:
    body = json.dumps({"prompt": "a"} | GREEDY).encode()
    with case.server(case.model()) as client:
        for kind in ("text/plain", "application/x-www-form-urlencoded", "application/json"):
            for headers in ({"Origin": "http://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"},
                            {"Sec-Fetch-Site": "same-site"}, {"Host": "evil.example"},
                            {"Origin": f"http://127.0.0.1:{client.port + 1}"}):
                reply = client.post("/v1/completions", body, headers=headers | {"Content-Type": kind})
                case.must(f"{kind} with {headers} is refused", reply.status == 403)
                case.must("no header allows other origins", "access-control-allow-origin" not in reply.headers)
        own = {"Origin": f"http://127.0.0.1:{client.port}", "Sec-Fetch-Site": "same-origin"}
        case.must("the page of this server is allowed", client.post("/v1/completions", body, headers=own).status == 200)
        case.must("links from other sites work",
                  client.get("/", headers={"Sec-Fetch-Site": "cross-site"}).status == 200)


@reported("doubled and trailing slashes, /v1 left out or added: the same address")
def spellings_of_paths(case: Case) -> None:
    with case.server(case.model()) as client:
        name = client.get("/v1/models").json()["data"][0]["id"]
        for path, body in (("completions", {"prompt": "a"} | GREEDY), ("chat/completions", {"messages": TALK} | GREEDY),
                           ("embeddings", {"input": "a"}), ("tokenize", {"prompt": "a"}), ("detokenize", {"tokens": [A]}),
                           ("apply-template", {"messages": TALK})):
            for before in ("/v1/", "/", "//", "/v1//", "//v1/"):
                for after in ("", "/", "//"):
                    reply = client.post(before + path + after, body)
                    case.must(f"{before}{path}{after} is the same address", reply.status == 200)
        for path in ("/models", "/v1/models/", "//models", f"/models/{name}", f"/v1/models//{name}/", "/v1/health", "/health/",
                     "/v1/metrics"):
            case.must(f"{path} is the same address", client.get(path).status == 200)
        name_escaped = "".join(f"%{ord(letter):02x}" for letter in name)
        case.must("a name may have escapes", client.get(f"/v1/models/{name_escaped}").status == 200)
        for path in ("/v1", "/v1/", "/v1/v1/completions", "/v2/completions", "/completion", "/v1/completionss", "/..//models"):
            case.must(f"{path} is answered with 404", client.post(path, {"prompt": "a"}).status == 404)


@reported("HEAD and OPTIONS: answered without a body, and without a word to pages of other sites")
def other_methods(case: Case) -> None:
    with case.server(case.model()) as client:
        for path, allowed in (("/v1/models", "GET, HEAD, OPTIONS"), ("/v1/chat/completions/", "POST, OPTIONS")):
            reply = client.request("OPTIONS", path)
            case.says(reply)
            case.must("OPTIONS is answered with the allowed methods",
                      reply.status == 200 and reply.headers.get("allow") == allowed and not reply.body)
        head = client.request("HEAD", "/v1/models")
        case.must("HEAD is GET without the body", head.status == 200 and not head.body)
        foreign = client.request("OPTIONS", "/v1/models", headers={"Origin": "http://evil.example"})
        case.must("pages of other sites are refused", foreign.status == 403 and
                  not any(name.startswith("access-control") for name in foreign.headers))
        case.must("OPTIONS of an unknown path is answered with 404", client.request("OPTIONS", "/nobody").status == 404)


@reported("clients that keep the connection, with errors among the answers")
def kept_connections(case: Case) -> None:
    body = json.dumps({"prompt": "a"} | GREEDY)
    with case.server(case.model()) as client:
        connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=PATIENCE)
        statuses, sockets, kind = [], set(), "application/json"
        for sent in (body, "{", body, body.replace('"a"', "7"), body):
            connection.request("POST", "/v1/completions", sent, {"Connection": "keep-alive", "Content-Type": kind})
            response = connection.getresponse()
            response.read()
            statuses.append(response.status)
            sockets.add(id(connection.sock))
        connection.close()
        case.says(statuses)
        case.must("one connection has all answers", statuses == [200, 400, 200, 400, 200] and len(sockets) == 1)


@reported("Expect: 100-continue: told to go on, then answered; or refused before the body")
def expecting_clients(case: Case) -> None:
    body = json.dumps({"prompt": "a"} | GREEDY).encode()
    head = "POST {} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {}\r\n" \
           "Expect: 100-continue\r\nConnection: close\r\n\r\n"
    with case.server(case.model()) as client:
        for path, first in (("/v1/completions", b"HTTP/1.1 100 "), ("/nobody", b"HTTP/1.1 404 ")):
            with socket.create_connection(("127.0.0.1", client.port), timeout=PATIENCE) as connection:
                connection.sendall(head.format(path, len(body)).encode())
                answer = connection.recv(4096)
                case.says(answer[:40])
                case.must("the first status is correct", answer.startswith(first))
                if path == "/nobody":
                    continue
                connection.sendall(body)
                while piece := connection.recv(4096):
                    answer += piece
                case.must("then the request is answered", b"HTTP/1.1 200 " in answer)


@reported("offers of HTTP/2 (Upgrade: h2c, the preface of prior knowledge): HTTP/1.1 goes on, or the end")
def http2_offers(case: Case) -> None:
    body = json.dumps({"prompt": "a"} | GREEDY).encode()
    offer = (b"Host: 127.0.0.1\r\nConnection: Upgrade, HTTP2-Settings, close\r\nUpgrade: h2c\r\n"
             b"HTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n")
    with case.server(case.model()) as client:
        answer = client.raw(b"GET /health HTTP/1.1\r\n" + offer + b"\r\n")
        case.says(answer[:40])
        case.must("an offer of HTTP/2 is ignored", answer.startswith(b"HTTP/1.1 200 "))
        answer = client.raw(b"POST /v1/completions HTTP/1.1\r\nContent-Type: application/json\r\n" + offer +
                            b"Content-Length: %d\r\n\r\n" % len(body) + body)
        case.must("an offer of HTTP/2 with a body is ignored", answer.startswith(b"HTTP/1.1 200 "))
        answer = client.raw(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9))
        case.says(answer[:40])
        case.must("the preface is refused", not answer or answer.startswith(b"HTTP/1.1 400 "))
        case.must("the server still answers", client.get("/health").status == 200)


@reported("a budget that was there stays: bodies that clients write wrong are refused with a line of JSON")
def wrong_bodies(case: Case) -> None:
    with case.server(case.model()) as client:
        for body in (b"", b"\xef\xbb\xbf", b"prompt=a", b"[]", b'{"prompt": "a"} {"prompt": "a"}', b"\xff\xfe{\x00}\x00"):
            reply = client.post("/v1/completions", body)
            case.must(f"{body} is refused", reply.status == 400 and reply.json()["error"]["message"])
