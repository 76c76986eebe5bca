"""Replies that think before they answer, conversations whose messages have more than role and content, and text that
Windows wrote."""

import json
import pathlib
import re

from golden import fixtures
from reported import Case, reported
from scripted_model import CHATML, HARMONY, POSITIONS, THINK, ScriptedModel, tokens_of

HARMONY_TEMPLATE = ("{% for m in messages %}{{ '<|start|>' + m.role + ('<|channel|>final' if m.role == 'assistant' else '')"
                    " + '<|message|>' + m.content + '<|end|>' }}{% endfor %}{{ '<|start|>assistant' }}")
HARMONY_PROMPT = "<|start|>user<|message|>a<|end|><|start|>assistant"
HARMONY_REPLY = ("<|channel|>analysis<|message|>hm, 2 < 3<|end|><|start|>assistant<|channel|>final<|message|>yes")
CHATML_PROMPT = "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n"
# Templates that contain the marks of a format.
THINKS = CHATML + "{# <think> </think> #}"
OPENS = CHATML + "{{ '<think>\\n' }}"
BRACKETS = CHATML + "{# [THINK] #}"


def scripted(case: Case, reply: str, template: str = THINKS, prompt: str = CHATML_PROMPT, special=(),
             end: str = "<|im_end|>") -> pathlib.Path:
    """Writes a model that answers the message "a" with `reply`."""
    model = ScriptedModel(case.work / "model", template, special, end)
    return model.write(reply, len(tokens_of(prompt, model.special)))


def harmony(case: Case, reply: str = HARMONY_REPLY, end: str = "<|return|>") -> pathlib.Path:
    return scripted(case, reply, HARMONY_TEMPLATE, HARMONY_PROMPT, HARMONY, end)


def ask_chat(case: Case, model: pathlib.Path, *options, **fields) -> dict:
    """Returns the first choice of the answer to the message "a"."""
    with case.server(model, *options) as client:
        reply = case.ask(client, "/v1/chat/completions",
                         {"messages": [{"role": "user", "content": "a"}], "temperature": 0, **fields})
        case.must(f"the status is 200, not {reply.status}", reply.status == 200)
        return reply.json()["choices"][0]


def ask_stream(case: Case, model: pathlib.Path, **fields) -> tuple[dict, list]:
    """Returns the joined pieces of a stream, by the names in delta, and the tokens in logprobs."""
    together, tokens = {}, []
    with case.server(model) as client:
        for chunk in client.stream("/v1/chat/completions",
                                   {"messages": [{"role": "user", "content": "a"}], "temperature": 0, **fields}):
            choice = chunk["choices"][0]
            for name, text in choice["delta"].items():
                together[name] = together.get(name, "") + text
            tokens += [token["token"] for token in ((choice.get("logprobs") or {}).get("content") or [])]
    case.says(together)
    return together, tokens


def must_think(case: Case, message: dict, thinking: str | None, content: str) -> None:
    case.must(f"reasoning_content is {thinking!r}, not {message.get('reasoning_content')!r}",
              message.get("reasoning_content") == thinking)
    case.must("reasoning is the same", message.get("reasoning") == thinking)
    case.must(f"content is {content!r}, not {message.get('content')!r}", message["content"] == content)


@reported("a chat with gpt-oss: content is the final channel, reasoning_content the analysis")
def harmony_chat(case: Case) -> None:
    choice = ask_chat(case, harmony(case))
    must_think(case, choice["message"], "hm, 2 < 3", "yes")
    case.must("it stopped", choice["finish_reason"] == "stop")


@reported("the same as a stream: the deltas add up to the same, and logprobs have every token")
def harmony_stream(case: Case) -> None:
    message, tokens = ask_stream(case, harmony(case), logprobs=True)
    must_think(case, message, "hm, 2 < 3", "yes")
    case.must(f"logprobs have all tokens: {tokens}", "".join(tokens) == HARMONY_REPLY + "<|return|>")


@reported("run --chat with gpt-oss, piped: the thinking is between <think> and </think>")
def harmony_run(case: Case) -> None:
    model = harmony(case)
    shown = case.run("run", model, "--chat", "-p", "a", "-n", 64)
    case.must("thinking, then the answer", shown.stdout == b"<think>\nhm, 2 < 3\n</think>\n\nyes\n")
    hidden = case.run("run", model, "--chat", "-p", "a", "-n", 64, "--thinking", "hidden")
    case.must("--thinking hidden shows only the answer", hidden.stdout == b"yes\n")
    dim = case.run("run", model, "--chat", "-p", "a", "-n", 64, "--thinking", "dim")
    case.must("--thinking dim shows the reasoning in dim text",
              re.sub(rb"\x1b\[[02]m", b"", dim.stdout) == b"hm, 2 < 3\nyes\n" and b"\x1b[2m" in dim.stdout)


@reported("gpt-oss cut off within its analysis: all of it is thinking, the content empty")
def harmony_cut(case: Case) -> None:
    choice = ask_chat(case, harmony(case), max_tokens=12)
    case.must("the reply has reasoning", choice["message"].get("reasoning_content"))
    case.must("no content", choice["message"]["content"] == "")
    case.must("the finish reason is length", choice["finish_reason"] == "length")


@reported("gpt-oss calls a tool that was not offered: <|call|> ends the reply, although eos_token_id does not name it")
def harmony_call(case: Case) -> None:
    reply = "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{}<|call|>more"
    choice = ask_chat(case, harmony(case, reply))
    must_think(case, choice["message"], "{}", "")
    case.must("it stopped", choice["finish_reason"] == "stop")


@reported("gpt-oss's <|end|> does not end the reply, although eos_token is <|end|> as for other models")
def harmony_end(case: Case) -> None:
    choice = ask_chat(case, harmony(case, HARMONY_REPLY + "<|return|>", end="<|end|>"))
    must_think(case, choice["message"], "hm, 2 < 3", "yes")


@reported("gpt-oss replies without any channel: all of it is the answer")
def harmony_without_channels(case: Case) -> None:
    must_think(case, ask_chat(case, harmony(case, "yes and no"))["message"], None, "yes and no")


@reported("a chat with Ministral: [THINK] and [/THINK] are special tokens and not in the text")
def brackets_chat(case: Case) -> None:
    reply = "[THINK]hm[/THINK]yes"
    must_think(case, ask_chat(case, scripted(case, reply, BRACKETS, special=THINK))["message"], "hm", "yes")


@reported("run --chat with Ministral, piped: thinking and answer are told apart")
def brackets_run(case: Case) -> None:
    model = scripted(case, "[THINK]hm[/THINK]yes", BRACKETS, special=THINK)
    shown = case.run("run", model, "--chat", "-p", "a")
    case.must("thinking, then the answer", shown.stdout == b"<think>\nhm\n</think>\n\nyes\n")


@reported("<think> that comes letter by letter, in a chat and as a stream")
def think_letters(case: Case) -> None:
    model = scripted(case, "<think>\nhm </thin\n</think>\n\nyes <b")
    must_think(case, ask_chat(case, model)["message"], "hm </thin", "yes <b")
    must_think(case, ask_stream(case, model)[0], "hm </thin", "yes <b")


@reported("<think> as a special token")
def think_special(case: Case) -> None:
    model = scripted(case, "<think>\nhm\n</think>\n\nyes", special=["<think>", "</think>"])
    must_think(case, ask_chat(case, model)["message"], "hm", "yes")


@reported("a template that opens the thinking: the reply begins in it")
def think_opened(case: Case) -> None:
    model = scripted(case, "hm\n</think>\n\nyes", OPENS, CHATML_PROMPT + "<think>\n")
    must_think(case, ask_chat(case, model)["message"], "hm", "yes")
    shown = case.run("run", model, "--chat", "-p", "a")
    case.must("thinking, then the answer", shown.stdout == b"<think>\nhm\n</think>\n\nyes\n")


@reported("a template that opens and closes the thinking: the reply is all answer")
def think_switched_off(case: Case) -> None:
    off = CHATML + "{{ '<think>\\n\\n</think>\\n\\n' }}"
    model = scripted(case, "yes </think> no", off, CHATML_PROMPT + "<think>\n\n</think>\n\n")
    must_think(case, ask_chat(case, model)["message"], None, "yes </think> no")


@reported("thinking that nothing closes stays thinking")
def think_unclosed(case: Case) -> None:
    must_think(case, ask_chat(case, scripted(case, "<think>\nhm and hm"))["message"], "hm and hm", "")


@reported("an answer that speaks of <think> keeps it")
def think_in_answer(case: Case) -> None:
    reply = "write <think> and </think>"
    must_think(case, ask_chat(case, scripted(case, reply))["message"], None, reply)


@reported("a model whose template knows no thinking: <think> is text")
def think_unknown(case: Case) -> None:
    reply = "<think>hm</think>yes"
    must_think(case, ask_chat(case, scripted(case, reply, CHATML))["message"], None, reply)


@reported("a user's <think> at the end of the prompt opens nothing")
def think_forged(case: Case) -> None:
    model = ScriptedModel(case.work / "model", "{{ messages[-1].content }}{# <think> #}")
    path = model.write("yes", len("<think>\n"))
    with case.server(path) as client:
        reply = case.ask(client, "/v1/chat/completions", {"messages": [{"role": "user", "content": "<think>\n"}],
                                                          "temperature": 0})
        must_think(case, reply.json()["choices"][0]["message"], None, "yes")


@reported("--reply-format, reasoning_format and include_reasoning choose what is told apart and sent")
def formats(case: Case) -> None:
    reply = "<think>hm</think>yes"
    model = scripted(case, reply)
    must_think(case, ask_chat(case, model, "--reply-format", "none")["message"], None, reply)
    must_think(case, ask_chat(case, model, reasoning_format="none")["message"], None, reply)
    must_think(case, ask_chat(case, model, reasoning_format="deepseek")["message"], "hm", "yes")
    must_think(case, ask_chat(case, model, include_reasoning=False)["message"], None, "yes")
    message, _ = ask_stream(case, model, include_reasoning=False)
    must_think(case, message, None, "yes")
    plain = case.run("run", model, "--chat", "-p", "a", "--reply-format", "none")
    case.must("--reply-format none shows the text unchanged", plain.stdout == reply.encode() + b"\n")
    unknown = case.run("run", model, "--chat", "-p", "a", "--reply-format", "thonk")
    case.must("an unknown format gives one line and exit code 2",
              unknown.returncode == 2 and unknown.stdout == b"" and b"think" in unknown.stderr)


@reported("stop strings count in the thinking, too, and as a whole at a mark")
def stops(case: Case) -> None:
    model = scripted(case, "<think>\nhm, no\n</think>\n\nyes, no")
    must_think(case, ask_chat(case, model, stop=[", "])["message"], "hm", "")
    must_think(case, ask_chat(case, model, stop=["</think>"])["message"], "hm, no", "")
    must_think(case, ask_chat(case, model, stop=["\n\n"])["message"], "hm, no", "yes, no")
    must_think(case, ask_chat(case, model, stop=["yes"])["message"], "hm, no", "")


TOOLS = [{"type": "function", "function": {"name": "add", "parameters": {"type": "object", "properties": {
    "a": {"type": "integer"}}}}}]
CALLS_TOOLS = CHATML + "{# tools <tool_call> #}"


@reported("run --chat --tools prints calls as lines of JSON, and a history keeps them")
def tool_calls(case: Case) -> None:
    call = "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1}}\n</tool_call>"
    model = scripted(case, f"Sure.\n{call}\n{call}", CALLS_TOOLS)
    tools, history = case.work / "tools.json", case.work / "history.json"
    tools.write_text(json.dumps(TOOLS))
    done = case.run("run", model, "--chat", "-p", "a", "-n", 200, "--tools", tools, "--history", history)
    line = '{"name": "add", "arguments": {"a": 1}}\n'
    case.must("the answer and a line for each call are printed", done.stdout.decode() == f"Sure.\n{line}{line}")
    kept = json.loads(history.read_text())[1]
    case.says(json.dumps(kept))
    case.must("the history has the calls", kept["content"] == "Sure." and
              [call["function"] for call in kept["tool_calls"]] == [{"name": "add", "arguments": '{"a": 1}'}] * 2)
    plain = case.run("run", model, "--chat", "-p", "a", "-n", 200)
    case.must("without tools a call is text", plain.stdout.decode() == f"Sure.\n{call}\n{call}\n")
    cut = case.run("run", model, "--chat", "-p", "a", "-n", 30, "--tools", tools)
    case.must("a call that -n cuts is text", cut.stdout.decode() == f"Sure.\n{call}"[:30] + "\n")
    for name, written in (("no list", "{}"), ("no JSON", "["), ("no name", "[{}]")):
        tools.write_text(written)
        refused = case.run("run", model, "--chat", "-p", "a", "--tools", tools)
        case.must(f"tools that are {name} are refused with one line",
                  refused.returncode == 1 and refused.stdout == b"" and refused.stderr.count(b"\n") == 1)
    tools.write_text(json.dumps(TOOLS))
    plain_model = ScriptedModel(case.work / "plain", CHATML).write("a", 9)
    refused = case.run("run", plain_model, "--chat", "-p", "a", "--tools", tools)
    case.must("a template without tools is refused with one line",
              refused.returncode == 1 and b"does not support tools" in refused.stderr)


# This template renders only if the earlier answer has its fields.
WANTS_FIELDS = ("{% set answer = messages[1] %}{% if answer.reasoning_content != 'hm' or answer.mood.list[1] != 2 %}"
                "{{ raise_exception('fields are missing') }}{% endif %}" + CHATML)
HISTORY = [{"role": "user", "content": "b"},
           {"role": "assistant", "content": "yes", "reasoning_content": "hm", "mood": {"z": 1, "list": [1, 2], "a": None}}]


@reported("all fields of a history's messages reach the template, and survive saving in their order")
def history_fields(case: Case) -> None:
    model = ScriptedModel(case.work / "model", WANTS_FIELDS).write("no", POSITIONS - 60)
    file = case.work / "history.json"
    file.write_text(json.dumps(HISTORY))
    done = case.run("run", model, "--chat", "--history", file, "-p", "a", "-n", 1)
    case.must("exit code 0", done.returncode == 0)
    kept = json.loads(file.read_text())
    case.says(json.dumps(kept))
    case.must("the fields are kept", json.dumps(kept[:2]) == json.dumps(HISTORY) and len(kept) == 4)


@reported("a history keeps the thinking of an answer as reasoning_content")
def history_thinking(case: Case) -> None:
    model = scripted(case, "<think>\nhm\n</think>\n\nyes")
    file = case.work / "history.json"
    case.run("run", model, "--chat", "--history", file, "-p", "a")
    kept = json.loads(file.read_text())
    case.says(json.dumps(kept))
    case.must("the history has content and reasoning",
              kept[1] == {"role": "assistant", "content": "yes", "reasoning_content": "hm"})


@reported("a history whose assistant only called a tool (content null), and one whose content is a list of parts")
def history_contents(case: Case) -> None:
    model = case.model()
    file = case.work / "history.json"
    for content in (None, [{"type": "text", "text": "b"}]):
        earlier = {"role": "assistant", "content": content, "tool_calls": []}
        file.write_text(json.dumps([{"role": "user", "content": "b"}, earlier]))
        template = case.work / "text.jinja"
        template.write_text("{% for m in messages %}{{ m.content | string }}{% endfor %}")
        done = case.run("run", model, "--chat", "--history", file, "--chat-template", template, "-p", "a", "-n", 1)
        case.must(f"exit code 0 with {content}", done.returncode == 0)
        kept = json.loads(file.read_text())
        case.says(json.dumps(kept[1]))
        case.must("the content is unchanged, or empty text", kept[1]["content"] == (content or ""))


@reported("reasoning_content, reasoning and thinking of earlier messages reach the template of a server's chat")
def server_fields(case: Case) -> None:
    template = ("{% for m in messages %}{{ m.role }}:{{ m.content }}:{{ m.reasoning_content }}:{{ m.thinking }}:"
                "{{ m.name }};{% endfor %}")
    model = case.model()
    path = case.work / "fields.jinja"
    path.write_text(template)
    with case.server(model, "--chat-template", path) as client:
        for name in ("reasoning_content", "reasoning", "thinking"):
            messages = [{"role": "user", "content": "a", "name": "n"},
                        {"role": "assistant", "content": "b", name: "hm"}, {"role": "user", "content": "a"}]
            reply = case.ask(client, "/apply-template", {"messages": messages})
            case.must(f"{name} is in the prompt", reply.json()["prompt"] ==
                      "user:a:::n;assistant:b:hm:hm:;user:a:::;")
            chat = case.ask(client, "/v1/chat/completions", {"messages": messages, "max_tokens": 1})
            case.must("a chat accepts the field", chat.status == 200)


@reported("thinking as a part of an assistant's content, as Mistral's clients send it: the template sees it, not the text")
def thinking_parts(case: Case) -> None:
    path = case.work / "fields.jinja"
    path.write_text("{% for m in messages %}{{ m.content }}:{{ m.reasoning_content }};{% endfor %}")
    with case.server(case.model(), "--chat-template", path) as client:
        for thinking in ("hm", [{"type": "text", "text": "hm"}]):
            content = [{"type": "thinking", "thinking": thinking}, {"type": "text", "text": "b"}]
            reply = case.ask(client, "/apply-template", {"messages": [
                {"role": "user", "content": "a"}, {"role": "assistant", "content": content}, {"role": "user", "content": "a"}]})
            case.must("text and reasoning are separate",
                      reply.status == 200 and reply.json()["prompt"] == "a:;b:hm;a:;")
        forged = case.ask(client, "/apply-template", {"messages": [
            {"role": "user", "content": [{"type": "thinking", "thinking": "hm"}]}]})
        case.must("reasoning in a user's message is refused", forged.status == 400)


def prompt_tokens(run) -> list[int]:
    return [int(count) for count in re.findall(rb"prompt: (\d+) token", run.stderr)]


@reported("a piped chat whose lines end as on Windows: the same prompts as with Unix's")
def windows_chat(case: Case) -> None:
    model = case.model()
    template = case.work / "last.jinja"
    template.write_text("{{ messages[-1].content }}")
    runs = [case.run("run", model, "--chat", "-n", 1, "--chat-template", template, stdin=text)
            for text in (b"the cat\n\nand\nthe", b"the cat\r\n\r\nand\r\nthe", b"\xef\xbb\xbfthe cat\r\n\r\nand\r\nthe\r")]
    for run in runs[1:]:
        case.must("the prompts are the same",
                  prompt_tokens(run) == prompt_tokens(runs[0]) and len(prompt_tokens(run)) == 3)
        case.must("the answers are the same", run.stdout == runs[0].stdout)


@reported("a prompt on standard input whose lines end as on Windows")
def windows_prompt(case: Case) -> None:
    model = case.model()
    for flags in ((), ("--chat",)):
        unix, windows = (case.run("run", model, "-p", "-", "-n", 4, *flags, stdin=text)
                         for text in (b"the cat\nand\n", b"the cat\r\nand\r\n"))
        case.must("prompt and text are the same", prompt_tokens(unix) == prompt_tokens(windows) and
                  unix.stdout == windows.stdout)


@reported("texts, questions, histories, templates and keys whose lines end as on Windows")
def windows_files(case: Case) -> None:
    model = case.model()
    text = "".join(fixtures.text(8, seed) for seed in range(20))
    questions = "".join(json.dumps({"question": "what is " + word, "choices": ["the one", "another"], "answer": 0}) + "\n"
                        for word in ("this", "that"))
    template = "{% for m in messages %}{{ m.content }}\n{% endfor %}\n"
    results = []
    for name, end in (("unix", b"\n"), ("windows", b"\r\n"), ("notepad", b"\r\n")):
        mark = b"\xef\xbb\xbf" if name == "notepad" else b""
        files = {}
        for file, content in (("text.txt", text), ("questions.jsonl", questions), ("template.jinja", template)):
            files[file] = case.work / f"{name}-{file}"
            files[file].write_bytes(mark + content.encode().replace(b"\n", end))
        evaluation = case.run("eval", model, "--text", files["text.txt"], "--context", 32, "--json")
        choices = case.run("eval", model, "--choices", files["questions.jsonl"], "--json")
        vectors = case.run("embed", model, "--text", files["text.txt"])
        chat = case.run("run", model, "--chat", "--chat-template", files["template.jinja"], "-p", "a", "-n", 2)
        figures = [json.loads(run.stdout or "{}") for run in (evaluation, choices)]
        results.append((figures[0].get("ppl"), figures[0].get("tokens"), str(figures[1].get("answers")),
                        vectors.stdout, prompt_tokens(chat), chat.stdout))
        case.must("figures", results[-1][0] is not None and results[-1][3])
    for result in results[1:]:
        case.must("the figures are the same", result == results[0])


@reported("a text in UTF-16, as Windows' shells write it: one line that says so")
def windows_utf16(case: Case) -> None:
    text = case.work / "text.txt"
    text.write_bytes("the cat\r\n".encode("utf-16"))
    done = case.run("embed", case.model(), "--text", text)
    case.must("the error is one line", done.returncode == 1 and done.stdout == b"" and done.stderr.count(b"\n") == 1 and
              b"UTF-16" in done.stderr)


@reported("a history and API keys that Windows wrote")
def windows_lists(case: Case) -> None:
    model = case.model()
    history = case.work / "history.json"
    history.write_bytes(b'\xef\xbb\xbf[\r\n{"role": "user",\r\n"content": "a"}\r\n]\r\n')
    case.must("the history is read",
              case.run("run", model, "--chat", "--history", history, "-p", "a", "-n", 1).returncode == 0)
    keys = case.work / "keys.txt"
    keys.write_bytes(b"\xef\xbb\xbf# who may ask\r\nann abcdefgh1\r\n\r\nbob abcdefgh2\r\n")
    with case.server(model, "--api-keys", keys) as client:
        for key in ("abcdefgh1", "abcdefgh2"):
            reply = client.get("/v1/models", headers={"Authorization": f"Bearer {key}"})
            case.says(reply.status)
            case.must("the key is accepted", reply.status == 200)
