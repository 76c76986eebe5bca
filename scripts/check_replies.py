#!/usr/bin/env python3
"""Parses what models' chat templates write: thinking, answers and calls of tools.

    scripts/check_replies.py --parser build/release/parse_replies FOLDER_OF_JINJA_FILES [--conversations 200] [--fuzz 1000000]

For each template, random conversations that end in a message with tool calls are rendered by jinja2 as transformers does,
and the reply is parsed by ballast, as a whole and in pieces of 1 to 7 tokens, with the template's marks as special tokens
and as text: the calls, the answer and the thinking must be those of the message. The prompts that ballast renders must be
jinja2's, too. --fuzz: then as many damaged replies, of which only the results in pieces must be that of the whole, and all
arguments JSON. Exits with 1 if anything differs. Needs transformers and jinja2.
"""

import argparse
import ast
import collections
import copy
import json
import pathlib
import random
import re
import subprocess
import sys

import jinja2
import jinja2.sandbox
from transformers.utils import chat_template_utils

# What ends an assistant's message. <|end|> ends one of several messages of a reply in gpt-oss's format.
ENDS = re.compile(r"<\|im_end\|>|<\|eot_id\|>|<\|eom_id\|>|</s>|<\|END_OF_TURN_TOKEN\|>|<｜end▁of▁sentence｜>|\[e~\[|<seed:eos>|"
                  r"<\|end\|>(?!<\|start\|>)|<\|tool_response>|<turn\|>|<\|end_of_text\|>|<\|message_sep\|>|<SPECIAL_12>|"
                  r"<\|assistant_end\|>|<sep>|<\|call\|>|<\|role_end\|>|</assistant>|<end_of_sentence>|<｜hy_eos:opensource｜>")
# Marks that may be special tokens: all text in angle or square brackets of this kind that the template contains.
MARK = re.compile(r"<\|[^|<>\n{}'\" ]{1,40}\|?>|<[a-z_]{1,40}\|>|<｜[^｜\n]{1,40}｜>|</?[a-z_:]{4,24}>|\[/?[A-Z_]{3,20}\]|<\|\"\|>|<\|/?[a-z_]+\|>|\]<\][a-z]+\[>\[")
WORDS = ("rain", "Paris", "naïve 東京", "a \"b\" 'c'", "x\ny", "</tool_call>", "{\"a\": [1}", "C:\\temp", "<b>&amp;</b>", "", "null",
         "true", "12", "[1, 2]", "</parameter>", "f(x=1)", "tab\there", "emoji 😀", "%s {{ x }}", "<tool_call>", "```json\n{}\n```")


PLAIN_WORDS = tuple(word for word in WORDS if "\\" not in word and "'" not in word)


# Damaged replies to one prompt, one after the other: a new one costs more than its reply.
FUZZED_IN_A_ROW = 50


def make_value(random_: random.Random, kind: str, words: tuple, depth: int = 0) -> object:
    if kind == "string":
        return "".join(random_.choice(words) for _ in range(random_.randint(0, 3)))
    if kind == "integer":
        return random_.choice((0, -1, 7, 12345678901))
    if kind == "number":
        return random_.choice((0.5, -2.25, 1e21, 3))
    if kind == "boolean":
        return random_.random() < 0.5
    kinds = ("string", "integer", "boolean", "number") if depth else ("string", "integer", "array", "object")
    values = [make_value(random_, random_.choice(kinds), words, depth + 1) for _ in range(random_.randint(0, 3))]
    return values if kind == "array" else {f"key_{i}": value for i, value in enumerate(values)}


def make_tools(random_: random.Random) -> list:
    tools = []
    for i in range(random_.randint(1, 4)):
        names = random_.sample(("city", "days", "options", "exact", "ratio", "list_of", "text2"), random_.randint(0, 5))
        properties = {name: {"type": random_.choice(("string", "string", "integer", "number", "boolean", "object", "array")),
                             "description": "d"} for name in names}
        tools.append({"type": "function", "function": {
            "name": random_.choice(("get_weather", "search-web", "f", "Run_SQL")) + str(i), "description": "Does it.",
            "parameters": {"type": "object", "properties": properties, "required": names[:1]}}})
    return tools


def make_call(random_: random.Random, tools: list, index: int, words: tuple) -> dict:
    function = random_.choice(tools)["function"]
    properties = function["parameters"]["properties"]
    names = [name for name in properties if random_.random() < 0.8]
    return {"id": f"callid{index:03d}", "type": "function", "function": {
        "name": function["name"], "arguments": {name: make_value(random_, properties[name]["type"], words) for name in names}}}


def make_conversation(random_: random.Random, most_calls: int, has_history: bool, words: tuple) -> tuple[list, list]:
    """Tools, and messages of which the last one is the reply."""
    tools = make_tools(random_)
    messages = [{"role": "user", "content": "What is it? ZQXUSER"}]
    if has_history and random_.random() < 0.3:
        messages[:0] = [{"role": "user", "content": "Before."},
                        {"role": "assistant", "content": "", "tool_calls": [make_call(random_, tools, 0, words)]},
                        {"role": "tool", "tool_call_id": "callid000", "name": "f", "content": "42"},
                        {"role": "assistant", "content": "It is 42."}]
    calls = [make_call(random_, tools, i, words) for i in range(1, random_.randint(1, most_calls) + 1)]
    reply = {"role": "assistant", "content": random_.choice(("", "", "Sure.", "I will\nlook {\"at\": 1} it up:")), "tool_calls": calls}
    if random_.random() < 0.5:
        reply["reasoning_content"] = reply["thinking"] = random_.choice(("hm", "Let me see:\n\n1 < 2 {}"))
    return tools, [*messages, reply]


def with_text_arguments(messages: list) -> list:
    messages = copy.deepcopy(messages)
    for message in messages:
        for call in message.get("tool_calls", []):
            call["function"]["arguments"] = json.dumps(call["function"]["arguments"], ensure_ascii=False)
    return messages


class Parser:
    """ballast's parser, and its rendering."""

    def __init__(self, program: str) -> None:
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8")

    def ask(self, request: dict) -> dict:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


class Template:
    def __init__(self, path: pathlib.Path) -> None:
        self.name = path.stem
        self.source = path.read_text(encoding="utf-8")
        self.template = self.compile()
        self.marks = sorted(set(MARK.findall(self.source)) - {"<s>", "</s>"})
        self.as_text = False
        self.most_calls = 3
        self.has_history = True  # a reply is written in the same way after earlier calls
        self.words = WORDS
        self.after: list = []  # messages after the reply, if the last one is written in another way

    def compile(self) -> jinja2.Template:
        """As transformers does, whose sandbox refuses templates that append to lists: those have a wider one."""
        if ".append(" not in self.source:
            return chat_template_utils._compile_jinja_template(self.source)
        strict = chat_template_utils.ImmutableSandboxedEnvironment
        chat_template_utils.ImmutableSandboxedEnvironment = jinja2.sandbox.SandboxedEnvironment
        try:
            return chat_template_utils._compile_jinja_template(self.source)
        finally:
            chat_template_utils.ImmutableSandboxedEnvironment = strict

    def render(self, messages: list, tools: list, prompt: bool) -> str:
        messages = with_text_arguments(messages) if self.as_text else copy.deepcopy(messages)
        return self.template.render(messages=messages, tools=tools, bos_token="<s>", eos_token="</s>", documents=None,
                                    add_generation_prompt=prompt)

    def find_abilities(self) -> str:
        """Sets how arguments are given and how many calls a message may have. Returns why it writes no calls, or ""."""
        problem = "writes no calls"
        for self.as_text in (False, True):
            for self.most_calls in (3, 1):
                tools = [{"type": "function", "function": {"name": "f", "description": "", "parameters": {
                    "type": "object", "properties": {"needle": {"type": "string"}}}}}]
                call = {"id": "callid000", "type": "function", "function": {"name": "f", "arguments": {"needle": "hay"}}}
                try:
                    text = self.render([{"role": "user", "content": "ZQXUSER"},
                                        {"role": "assistant", "content": "", "tool_calls": [call] * self.most_calls}], tools, False)
                except (jinja2.exceptions.TemplateError, TypeError) as error:
                    problem = str(error)
                    continue
                reply = text[text.rfind("ZQXUSER"):]
                if reply.count("hay") == self.most_calls and "'needle'" not in reply and '\\"needle' not in reply:
                    self.after = self.messages_after(tools, call)
                    self.has_history = self.writes_the_same_after_calls(tools, call)
                    if not self.as_text and not self.escapes_strings(tools):
                        self.words = PLAIN_WORDS
                    return ""
        return problem

    def escapes_strings(self, tools: list) -> bool:
        """Whether strings between single quotes, if the template writes such, can be told from what follows."""
        call = {"id": "callid000", "type": "function", "function": {"name": "f", "arguments": {"needle": "h\\ay"}}}
        return "='h\\ay'" not in self.render([{"role": "user", "content": "ZQXUSER"},
                                             {"role": "assistant", "content": "", "tool_calls": [call]}], tools, False)

    def messages_after(self, tools: list, call: dict) -> list:
        """What must follow a reply so that it is written as one message: nothing, or the results of its calls."""
        messages = [{"role": "user", "content": "ZQXUSER"}, {"role": "assistant", "content": "Sure.", "tool_calls": [call]}]
        result = [{"role": "tool", "tool_call_id": "callid000", "name": "f", "content": "42"}]
        try:
            alone, followed = (ENDS.split(text[text.rfind("ZQXUSER"):].rpartition("Sure.")[2])[0] for text in (
                self.render(messages, tools, False), self.render(messages + result, tools, False)))
        except (jinja2.exceptions.TemplateError, TypeError):
            return []
        return result if "hay" in followed and "hay" not in alone else []

    def writes_the_same_after_calls(self, tools: list, call: dict) -> bool:
        before = [{"role": "user", "content": "Before."}, {"role": "assistant", "content": "", "tool_calls": [call]},
                  {"role": "tool", "tool_call_id": "callid000", "name": "f", "content": "42"},
                  {"role": "assistant", "content": "It is 42."}]
        messages = [{"role": "user", "content": "ZQXUSER"}, {"role": "assistant", "content": "", "tool_calls": [call]}]
        try:
            return self.split(before + messages, tools)[1] == self.split(messages, tools)[1]
        except (jinja2.exceptions.TemplateError, TypeError):
            return False

    def split(self, messages: list, tools: list) -> tuple[str, str]:
        """The prompt, as far as the reply's message begins like it, and the reply."""
        whole = self.render(messages + self.after, tools, False)
        prompt = self.render(messages[:-1], tools, True)
        at, in_prompt = whole.rfind("ZQXUSER"), prompt.rfind("ZQXUSER")
        begin, tail = whole[at:], prompt[in_prompt:]
        common = 0
        while common < min(len(begin), len(tail)) and begin[common] == tail[common]:
            common += 1
        thinking = messages[-1].get("thinking")
        if thinking and begin[common:].startswith(thinking) and not MARK.search(tail[common:]):
            # The prompt opens the thinking by words, which the history leaves out.
            return prompt, ENDS.split(begin[common:])[0]
        if tail.rfind("<", 0, common) > tail.rfind(">", 0, common):
            common = tail.rfind("<", 0, common)  # two marks with the same beginning
        if begin[common:].startswith("</think>"):  # a template may close in the history what it does not open
            return prompt[:in_prompt] + begin[:common] + "</think>", ENDS.split(begin[common:].removeprefix("</think>"))[0]
        return prompt[:in_prompt] + tail[:common], ENDS.split(begin[common:])[0]


def is_written_alike(ours: object, theirs: object) -> bool:
    """Whether two values are the same in elements, which have neither types nor null."""
    if isinstance(theirs, dict):
        members = {name: value for name, value in theirs.items() if value is not None}
        if not members:
            return ours in ({}, "")
        return isinstance(ours, dict) and ours.keys() == members.keys() and all(
            is_written_alike(ours[name], value) for name, value in members.items())
    if isinstance(theirs, list):
        if not theirs:
            return ours in ([], "")
        return isinstance(ours, list) and len(ours) == len(theirs) and all(map(is_written_alike, ours, theirs))
    if not isinstance(theirs, str) or isinstance(ours, str):
        return ours == theirs
    for read in (json.loads, ast.literal_eval):
        try:
            if read(theirs.strip()) == ours:
                return True
        except (ValueError, SyntaxError):
            pass
    return False


def differences(reply: dict, answer: dict, text: str) -> list[str]:
    """What is other in the parsed answer than in the message."""
    if "error" in answer:
        return [answer["error"]]
    wrong = []
    if "differs" in answer:
        wrong.append(f"in pieces of {answer['differs']}")
    try:
        calls = [(name, json.loads(arguments)) for name, arguments in answer["calls"]]
    except ValueError:
        return ["arguments that are no JSON"]
    expected = [(call["function"]["name"], call["function"]["arguments"]) for call in reply["tool_calls"]]
    is_same = calls == expected
    if answer["format"] == "minimax-m3":
        is_same = len(calls) == len(expected) and all(
            ours[0] == theirs[0] and is_written_alike(ours[1], theirs[1]) for ours, theirs in zip(calls, expected))
    if not is_same:
        wrong.append("calls")
    content = reply["content"] if reply["content"] in text else ""
    thinking = reply.get("thinking", "")
    thinking = thinking if thinking in text else ""
    if answer["format"] == "harmony":  # gpt-oss's template writes the content of a message with calls as thinking
        content, thinking = "", content or thinking
    if answer["answer"].strip() != content:
        wrong.append("answer")
    if answer["thinking"].strip() != thinking:
        wrong.append("thinking")
    return wrong


def check_template(template: Template, parser: Parser, count: int, seed: int) -> tuple[collections.Counter, list[dict]]:
    counts: collections.Counter = collections.Counter()
    kept = []
    random_ = random.Random(seed)
    for _ in range(count):
        tools, messages = make_conversation(random_, template.most_calls, template.has_history, template.words)
        try:
            prompt, reply = template.split(messages, tools)
        except (jinja2.exceptions.TemplateError, TypeError):
            counts["refused by the template"] += 1
            continue
        counts["conversations"] += 1
        request = {"template": template.source, "tools": tools, "special": [], "variables": {}}
        offered = tools if "tools" in template.source else None
        given = with_text_arguments(messages[:-1]) if template.as_text else messages[:-1]
        ours = parser.ask(request | {"messages": given, "tools": offered})
        if ours.get("prompt") != template.render(messages[:-1], tools, True):
            counts["prompts differ"] += 1
            if counts["prompts differ"] == 1:
                print(f"{template.name}: prompt {ours}", file=sys.stderr)
        for special in ([], template.marks):
            parsed = request | {"special": special, "prompt": prompt, "reply": reply}
            kept.append(parsed)
            answer = parser.ask(parsed)
            counts[f"as {answer.get('format')}"] += 1
            for wrong in differences(messages[-1], answer, reply):
                counts[f"wrong: {wrong}"] += 1
                if counts[f"wrong: {wrong}"] == 1:
                    print(f"{template.name}: {wrong}\n  {reply!r}\n  {answer}", file=sys.stderr)
    return counts, kept


def fuzz(requests: list[dict], parser: Parser, count: int, seed: int) -> int:
    """Damages replies. Returns how many give another result in pieces, or arguments that are no JSON objects."""
    random_ = random.Random(seed)
    wrong = 0
    request: dict = {}
    for i in range(count):
        if i % FUZZED_IN_A_ROW == 0:
            request = random_.choice(requests)
        text = request["reply"]
        for _ in range(random_.randint(1, 4)):
            at, to = sorted((random_.randint(0, len(text)), random_.randint(0, len(text))))
            piece = random_.choice((text[at:to][:20], random_.choice(WORDS), chr(random_.randint(1, 0x2FF)), ""))
            text = text[:at] + piece + text[random_.choice((at, at, at + 1, to)):]
        answer = parser.ask(request | {"reply": text} if i % FUZZED_IN_A_ROW == 0 else {"reply": text})
        try:
            holds = "error" not in answer and "differs" not in answer and all(
                isinstance(json.loads(arguments), dict) for _, arguments in answer["calls"])
        except ValueError:
            holds = False
        if not holds:
            wrong += 1
            print(f"fuzz: {text!r}\n  {answer}", file=sys.stderr)
    return wrong


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    arguments.add_argument("folder", type=pathlib.Path)
    arguments.add_argument("--parser", required=True, help="the program parse_replies")
    arguments.add_argument("--conversations", type=int, default=200)
    arguments.add_argument("--fuzz", type=int, default=0)
    arguments.add_argument("--seed", type=int, default=1)
    options = arguments.parse_args()
    parser = Parser(options.parser)
    failed = False
    requests = []
    for path in sorted(options.folder.glob("*.jinja")):
        template = Template(path)
        if problem := template.find_abilities():
            print(f"{template.name}: left out: {problem}")
            continue
        counts, kept = check_template(template, parser, options.conversations, options.seed)
        if counts["as none"]:
            print(f"{template.name}: left out: not in a format that ballast knows")
            continue
        requests += kept
        failed = failed or any(name.startswith("wrong") or name == "prompts differ" for name in counts)
        print(f"{template.name}: " + ", ".join(f"{count} {name}" for name, count in sorted(counts.items())), flush=True)
    if options.fuzz and requests:
        wrong = fuzz(requests, parser, options.fuzz, options.seed)
        failed = failed or wrong > 0
        print(f"{options.fuzz} damaged replies: {wrong} wrong")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
