#!/usr/bin/env python3
"""Counts how many of 20 questions a server answers with the right call of one of three tools.

    count_tool_calls.py http://127.0.0.1:8080 [--model NAME] [--verbose]

The questions go to /v1/chat/completions, so that any server with OpenAI's API can be compared. A call is right if it
names the tool and its arguments have the expected values; texts are compared without case, numbers as numbers. Four
questions need no tool: they are right if nothing is called.
"""

import argparse
import json
import urllib.request

TOOLS = [
    {"type": "function", "function": {
        "name": "get_weather", "description": "Returns the current weather of a city.",
        "parameters": {"type": "object", "properties": {
            "city": {"type": "string", "description": "The name of the city"},
            "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "description": "The unit of temperatures"}},
            "required": ["city"]}}},
    {"type": "function", "function": {
        "name": "convert_currency", "description": "Converts an amount of money from one currency to another.",
        "parameters": {"type": "object", "properties": {
            "amount": {"type": "number"},
            "from": {"type": "string", "description": "Three letters, such as USD"},
            "to": {"type": "string", "description": "Three letters, such as EUR"}},
            "required": ["amount", "from", "to"]}}},
    {"type": "function", "function": {
        "name": "set_timer", "description": "Starts a timer.",
        "parameters": {"type": "object", "properties": {
            "minutes": {"type": "integer"},
            "label": {"type": "string", "description": "What the timer is for"}},
            "required": ["minutes"]}}},
]

# A question, the tool and the arguments that must be there; None: no call.
QUESTIONS = [
    ("What is the weather in Oslo?", "get_weather", {"city": "oslo"}),
    ("How warm is it in Rome right now, in celsius?", "get_weather", {"city": "rome", "unit": "celsius"}),
    ("Tell me the temperature in Chicago in fahrenheit.", "get_weather", {"city": "chicago", "unit": "fahrenheit"}),
    ("Do I need an umbrella in London today?", "get_weather", {"city": "london"}),
    ("Is it snowing in Helsinki?", "get_weather", {"city": "helsinki"}),
    ("Check the weather for Buenos Aires.", "get_weather", {"city": "buenos aires"}),
    ("Convert 100 US dollars to euros.", "convert_currency", {"amount": 100, "from": "usd", "to": "eur"}),
    ("How much is 2500 Japanese yen in British pounds?", "convert_currency", {"amount": 2500, "from": "jpy", "to": "gbp"}),
    ("What are 49.90 euros in Swiss francs?", "convert_currency", {"amount": 49.9, "from": "eur", "to": "chf"}),
    ("I have 75 CAD. How many USD is that?", "convert_currency", {"amount": 75, "from": "cad", "to": "usd"}),
    ("Change 1000 SEK into NOK.", "convert_currency", {"amount": 1000, "from": "sek", "to": "nok"}),
    ("Set a timer for 10 minutes.", "set_timer", {"minutes": 10}),
    ("Start a 25 minute timer for my work session.", "set_timer", {"minutes": 25}),
    ("Remind me in half an hour to take the bread out of the oven.", "set_timer", {"minutes": 30}),
    ("I need a timer of an hour and a half.", "set_timer", {"minutes": 90}),
    ("Set a timer for the eggs: 7 minutes, labelled eggs.", "set_timer", {"minutes": 7, "label": "eggs"}),
    ("Write a haiku about the sea.", None, {}),
    ("What is the capital of France?", None, {}),
    ("Hello! Who are you?", None, {}),
    ("Explain in one sentence what a compiler does.", None, {}),
]


def same(expected, got):
    if isinstance(expected, str):
        return isinstance(got, str) and got.strip().lower() == expected
    try:
        return float(got) == float(expected)
    except (TypeError, ValueError):
        return False


def is_right(calls, tool, expected):
    if tool is None or len(calls) != 1:
        return tool is None and not calls
    function = calls[0]["function"]
    try:
        arguments = json.loads(function["arguments"])
    except ValueError:
        return False
    return (function["name"] == tool and isinstance(arguments, dict)
            and all(same(value, arguments.get(name)) for name, value in expected.items()))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("--model", help="its name in requests")
    parser.add_argument("--verbose", action="store_true", help="print each question's calls or text")
    arguments = parser.parse_args()
    right = 0
    for question, tool, expected in QUESTIONS:
        body = {"messages": [{"role": "user", "content": question}], "tools": TOOLS, "temperature": 0, "max_tokens": 200}
        if arguments.model:
            body["model"] = arguments.model
        request = urllib.request.Request(arguments.url + "/v1/chat/completions", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=600) as reply:
            message = json.load(reply)["choices"][0]["message"]
        calls = message.get("tool_calls") or []
        ok = is_right(calls, tool, expected)
        right += ok
        if arguments.verbose:
            got = [f"{call['function']['name']}({call['function']['arguments']})" for call in calls] or message["content"]
            print("right" if ok else "wrong", question, "->", got)
    print(f"{right} of {len(QUESTIONS)} right")


if __name__ == "__main__":
    main()
