#!/usr/bin/env python3
"""Runs agents and structured answers of common clients against a running server.

    pip install openai anthropic openai-agents langchain langchain-openai 'pydantic-ai-slim[openai]' instructor litellm ollama \\
        openai-codex-cli-bin claude-agent-sdk
    ballast serve qwen2.5-1.5b-w4a8 --port 8080 &
    check_agents.py http://127.0.0.1:8080 [--key KEY] [--only NAME]

Each case makes the model call a tool, or answer with JSON of a schema; what a small model puts into it has no meaning,
that it is valid does. The last two cases are agents for code, Codex and Claude Code, whose instructions alone have 8,000
to 20,000 tokens: they need a model with a context for those. Prints what each case got or its error, then the number of
passed cases. Cases of clients that are not installed are skipped, and counted as such.
"""

import argparse
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import traceback
from typing import Literal

# LiteLLM would fetch prices when it is imported, and the agents' SDK would send traces.
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
os.environ.setdefault("OPENAI_AGENTS_DISABLE_TRACING", "1")

try:
    from pydantic import BaseModel
except ImportError:
    sys.exit("check_agents: pydantic is missing: pip install pydantic openai")


class Weather(BaseModel):
    """The weather of a place."""

    city: Literal["Oslo", "Rome", "Lima"]
    rains: bool


FUNCTION = {"name": "weather", "description": "Returns the weather of a city.", "parameters": {
    "type": "object", "properties": {"city": {"type": "string", "enum": ["Oslo", "Rome", "Lima"]},
                                     "rains": {"type": "boolean"}},
    "required": ["city", "rains"], "additionalProperties": False}}
TOOL = {"type": "function", "function": FUNCTION}
CHOICE = {"type": "function", "function": {"name": "weather"}}
QUESTION = "What is the weather in Oslo?"
CHAT = [{"role": "user", "content": QUESTION}]
CASES = []


def case(module: str):
    """Registers a case; `module`: what it needs."""
    def register(function):
        CASES.append((function.__name__, module, function))
        return function
    return register


class Server:
    def __init__(self, url: str, key: str, model: str):
        self.url = url
        self.key = key
        self.model = model

    def openai(self, asynchronous: bool = False):
        import openai
        client = openai.AsyncOpenAI if asynchronous else openai.OpenAI
        return client(base_url=self.url + "/v1", api_key=self.key, max_retries=0)


def checked(arguments: str | dict) -> str:
    """Returns arguments of the tool after checking them by the schema."""
    value = json.loads(arguments) if isinstance(arguments, str) else arguments
    return Weather.model_validate(value, strict=True).model_dump_json()


@case("openai")
def openai_chat(server: Server) -> str:
    reply = server.openai().chat.completions.create(model=server.model, messages=CHAT, tools=[TOOL], tool_choice=CHOICE)
    choice = reply.choices[0]
    assert choice.finish_reason == "tool_calls", choice
    history = [*CHAT, choice.message.model_dump(exclude_none=True),
               {"role": "tool", "tool_call_id": choice.message.tool_calls[0].id, "content": "dry"}]
    after = server.openai().chat.completions.create(model=server.model, messages=history, tools=[TOOL], max_tokens=16)
    return checked(choice.message.tool_calls[0].function.arguments) + f" then {after.choices[0].finish_reason}"


@case("openai")
def openai_stream(server: Server) -> str:
    with server.openai().chat.completions.stream(model=server.model, messages=CHAT, tools=[TOOL],
                                                 tool_choice=CHOICE) as stream:
        names = [event.type for event in stream]
        message = stream.get_final_completion().choices[0].message
    assert "tool_calls.function.arguments.delta" in names, names
    return checked(message.tool_calls[0].function.arguments) + f" in {len(names)} events"


@case("openai")
def openai_parse(server: Server) -> str:
    reply = server.openai().chat.completions.parse(model=server.model, messages=CHAT, response_format=Weather)
    return reply.choices[0].message.parsed.model_dump_json()


@case("openai")
def openai_responses(server: Server) -> str:
    client = server.openai()
    tool = {"type": "function", "strict": True} | FUNCTION
    first = client.responses.create(model=server.model, input=QUESTION, tools=[tool], tool_choice="required",
                                    parallel_tool_calls=False)
    call = next(item for item in first.output if item.type == "function_call")
    second = client.responses.create(model=server.model, previous_response_id=first.id, max_output_tokens=16, input=[
        {"type": "function_call_output", "call_id": call.call_id, "output": "dry"}])
    return checked(call.arguments) + f" then {second.status}"


@case("openai")
def openai_responses_stream(server: Server) -> str:
    events = []
    with server.openai().responses.stream(model=server.model, input=QUESTION, text_format=Weather) as stream:
        for event in stream:
            events.append(event.type)
        response = stream.get_final_response()
    assert events[0] == "response.created" and events[-1] == "response.completed", events
    return response.output_parsed.model_dump_json() + f" in {len(events)} events"


@case("anthropic")
def anthropic_messages(server: Server) -> str:
    import anthropic
    client = anthropic.Anthropic(base_url=server.url, api_key=server.key, max_retries=0)
    tool = {"name": "weather", "description": FUNCTION["description"], "input_schema": FUNCTION["parameters"]}
    options = {"model": server.model, "max_tokens": 256, "tools": [tool], "messages": CHAT}
    message = client.messages.create(**options, tool_choice={"type": "tool", "name": "weather"})
    use = next(block for block in message.content if block.type == "tool_use")
    assert message.stop_reason == "tool_use", message
    result = {"type": "tool_result", "tool_use_id": use.id, "content": "dry"}
    history = [*CHAT, {"role": "assistant", "content": message.content}, {"role": "user", "content": [result]}]
    count = client.messages.count_tokens(model=server.model, messages=history, tools=[tool]).input_tokens
    after = client.messages.create(**options | {"messages": history, "max_tokens": 16})
    assert count == after.usage.input_tokens + (after.usage.cache_read_input_tokens or 0), (count, after.usage)
    return checked(use.input) + f" then {after.stop_reason}"


@case("anthropic")
def anthropic_stream(server: Server) -> str:
    import anthropic
    client = anthropic.Anthropic(base_url=server.url, api_key=server.key, max_retries=0)
    tool = {"name": "weather", "input_schema": FUNCTION["parameters"]}
    with client.messages.stream(model=server.model, max_tokens=256, messages=CHAT, tools=[tool],
                                tool_choice={"type": "any"}) as stream:
        events = [event.type for event in stream]
        message = stream.get_final_message()
    use = next(block for block in message.content if block.type == "tool_use")
    return checked(use.input) + f" in {len(events)} events"


@case("agents")
def openai_agents(server: Server) -> str:
    from agents import Agent, ModelSettings, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, function_tool
    calls = []

    @function_tool
    def weather(city: Literal["Oslo", "Rome", "Lima"], rains: bool) -> str:
        """Returns the weather of a city."""
        calls.append(checked({"city": city, "rains": rains}))
        return "dry"

    client = server.openai(asynchronous=True)
    for model in (OpenAIChatCompletionsModel(server.model, client), OpenAIResponsesModel(server.model, client)):
        agent = Agent(name="a", instructions="Call the tool.", model=model, tools=[weather],
                      model_settings=ModelSettings(tool_choice="required"), tool_use_behavior="stop_on_first_tool")
        result = Runner.run_sync(agent, QUESTION, max_turns=3)
        assert result.final_output == "dry", result
    return " and ".join(calls)


@case("langchain_openai")
def langchain_tools(server: Server) -> str:
    from langchain_core.messages import HumanMessage, ToolMessage
    from langchain_openai import ChatOpenAI
    chat = ChatOpenAI(base_url=server.url + "/v1", api_key=server.key, model=server.model, max_retries=0)
    message = chat.bind_tools([TOOL], tool_choice="weather").invoke(QUESTION)
    call = message.tool_calls[0]
    after = chat.bind_tools([TOOL]).bind(max_tokens=16).invoke(
        [HumanMessage(QUESTION), message, ToolMessage("dry", tool_call_id=call["id"])])
    return checked(call["args"]) + f" then {after.response_metadata['finish_reason']}"


@case("langchain")
def langchain_agent(server: Server) -> str:
    from langchain.agents import create_agent
    from langchain_openai import ChatOpenAI
    chat = ChatOpenAI(base_url=server.url + "/v1", api_key=server.key, model=server.model, max_retries=0)
    agent = create_agent(chat, tools=[], response_format=Weather)
    return agent.invoke({"messages": CHAT})["structured_response"].model_dump_json()


@case("langchain_openai")
def langchain_structured(server: Server) -> str:
    from langchain_openai import ChatOpenAI
    chat = ChatOpenAI(base_url=server.url + "/v1", api_key=server.key, model=server.model, max_retries=0)
    return " and ".join(chat.with_structured_output(Weather, method=method).invoke(QUESTION).model_dump_json()
                        for method in ("json_schema", "function_calling"))


@case("pydantic_ai")
def pydantic_ai(server: Server) -> str:
    from pydantic_ai import Agent, NativeOutput
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider
    model = OpenAIChatModel(server.model, provider=OpenAIProvider(base_url=server.url + "/v1", api_key=server.key))
    return " and ".join(Agent(model, output_type=output).run_sync(QUESTION).output.model_dump_json()
                        for output in (Weather, NativeOutput(Weather)))


@case("instructor")
def instructor(server: Server) -> str:
    import instructor as library
    results = []
    for mode in (library.Mode.TOOLS, library.Mode.JSON_SCHEMA):
        client = library.from_openai(server.openai(), mode=mode)
        results.append(client.chat.completions.create(model=server.model, messages=CHAT, response_model=Weather,
                                                      max_retries=0).model_dump_json())
    return " and ".join(results)


@case("litellm")
def litellm(server: Server) -> str:
    import litellm as library
    options = {"model": "openai/" + server.model, "api_base": server.url + "/v1", "api_key": server.key,
               "messages": CHAT, "num_retries": 0}
    reply = library.completion(**options, tools=[TOOL], tool_choice=CHOICE)
    schema = library.completion(**options, response_format=Weather)
    return checked(reply.choices[0].message.tool_calls[0].function.arguments) + " and " + \
        checked(schema.choices[0].message.content)


@case("litellm")
def litellm_messages(server: Server) -> str:
    import litellm as library
    reply = library.completion(model="anthropic/" + server.model, api_base=server.url, api_key=server.key, messages=CHAT,
                               max_tokens=256, num_retries=0, tools=[TOOL], tool_choice=CHOICE)
    return checked(reply.choices[0].message.tool_calls[0].function.arguments)


@case("ollama")
def ollama(server: Server) -> str:
    import ollama as library
    client = library.Client(host=server.url, headers={"Authorization": f"Bearer {server.key}"})
    assert [model.model for model in client.list().models] == [server.model], client.list()
    client.show(server.model)
    client.ps()
    schema = Weather.model_json_schema()
    options = {"num_predict": 256}
    chat = client.chat(server.model, CHAT, format=schema, options=options)
    text = "".join(part.message.content for part in client.chat(server.model, CHAT, format=schema, stream=True,
                                                                options=options | {"seed": 1}))
    generated = client.generate(server.model, QUESTION, format=schema, options=options)
    client.chat(server.model, CHAT, tools=[TOOL], options={"num_predict": 8})
    return " and ".join(checked(each) for each in (chat.message.content, text, generated.response))


def run_agent(program: pathlib.Path, arguments: list[str], folder: str, variables: dict[str, str]) -> str:
    """Runs an agent for code with no settings but these, and returns what it printed."""
    done = subprocess.run([program, *arguments], cwd=folder, env=os.environ | {"HOME": folder} | variables,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=1800, check=False)
    assert done.returncode == 0, f"ended with {done.returncode}: {done.stdout[-2000:]} {done.stderr[-2000:]}"
    return done.stdout


def module_folder(name: str) -> pathlib.Path:
    return pathlib.Path(importlib.util.find_spec(name).origin).parent


@case("codex_cli_bin")
def codex(server: Server) -> str:
    with tempfile.TemporaryDirectory() as folder:
        home = pathlib.Path(folder) / ".codex"
        home.mkdir()
        (home / "config.toml").write_text(
            f'model = "{server.model}"\nmodel_provider = "local"\n[model_providers.local]\nname = "local"\n'
            f'base_url = "{server.url}/v1"\nwire_api = "responses"\nenv_key = "LOCAL_KEY"\nrequest_max_retries = 0\n'
            'stream_max_retries = 0\nstream_idle_timeout_ms = 1800000\n')
        program = module_folder("codex_cli_bin") / "bin" / "codex"
        said = run_agent(program, ["exec", "--json", "--skip-git-repo-check", "Say hello."], folder,
                         {"LOCAL_KEY": server.key})
    events = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    assert events[-1]["type"] == "turn.completed", events[-1]
    items = [event["item"]["type"] for event in events if event["type"] == "item.completed"]
    return f"{', '.join(items)}; {events[-1]['usage']}"


@case("claude_agent_sdk")
def claude_code(server: Server) -> str:
    program = module_folder("claude_agent_sdk") / "_bundled" / "claude"
    variables = {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": server.key, "ANTHROPIC_MODEL": server.model,
                 "API_TIMEOUT_MS": "1800000", "IS_SANDBOX": "1"}
    with tempfile.TemporaryDirectory() as folder:
        turns = [json.loads(run_agent(program, [*more, "-p", question, "--output-format", "json"], folder, variables))
                 for more, question in (([], "Say hello."), (["--continue"], "Say it again."))]
    for turn in turns:
        assert not turn["is_error"], turn
    usage = turns[1]["usage"]
    cached, read = usage["cache_read_input_tokens"], usage["input_tokens"]
    assert cached > 4 * read, f"the second question was not answered from the cache: {usage}"
    return f"{turns[0]['result']!r}, {turns[1]['result']!r}; of the second prompt {cached} tokens were cached, {read} read"


def run(server: Server, only: str) -> int:
    passed = failed = skipped = 0
    for name, module, function in CASES:
        if only not in name:
            continue
        if importlib.util.find_spec(module) is None:
            print(f"{name}: skipped, {module} is not installed")
            skipped += 1
            continue
        try:
            print(f"{name}: {function(server)}", flush=True)
            passed += 1
        except Exception as error:  # noqa: BLE001: whatever a client raises is this case's result
            print(f"{name}: FAILED: {type(error).__name__}: {error}", flush=True)
            traceback.print_exc(limit=-3)
            failed += 1
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or not passed else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url", help="the server's address")
    parser.add_argument("--key", default="none", help="one of the server's keys")
    parser.add_argument("--only", default="", help="only cases whose name contains this")
    arguments = parser.parse_args()
    import urllib.request
    request = urllib.request.Request(arguments.url + "/v1/models", headers={"Authorization": f"Bearer {arguments.key}"})
    with urllib.request.urlopen(request) as response:
        model = json.load(response)["data"][0]["id"]
    return run(Server(arguments.url.rstrip("/"), arguments.key, model), arguments.only)


if __name__ == "__main__":
    sys.exit(main())
