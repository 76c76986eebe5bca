#!/usr/bin/env python3
"""Drives the server's page in a headless Chromium, as a user would.

    page_test.py URL [--key KEY] [--screenshots DIR]      URL: of a running server, http://127.0.0.1:8080/
    page_test.py --program PROGRAM                        starts a server of a random model by itself

Needs Debian's packages chromium-driver and python3-selenium; exits with 77 where they are missing. Works with any model
that answers a question with a few dozen tokens, counts for long enough to be stopped, and whose replies can call tools.
Thinking is checked with --program alone, whose model thinks when it is asked to.
"""

import argparse
import json
import os
import pathlib
import shutil
import string
import sys
import tempfile
import time
import urllib.request

try:
    from selenium import webdriver
    from selenium.common.exceptions import TimeoutException
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.ui import WebDriverWait
except ImportError:
    webdriver = None

sys.dont_write_bytecode = True
sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "tools"))

from golden import fixtures
from server_process import Server

SKIPPED = 77
WIDTHS = (400, 768, 1200, 1600)
SCHEMES = ("light", "dark")
SECONDS = 60  # for anything that a server does
TOOL = {"name": "weather", "description": "says how the weather is",
        "parameters": {"type": "object", "properties": {"zone": {"enum": ["east", "west"]}, "at": {"type": "boolean"}},
                       "required": ["zone", "at"], "additionalProperties": False}}

# Records the page's requests, and the lengths of the last answer over time.
WATCH = """
window.sentBodies = [];
const plainFetch = window.fetch;
window.fetch = (path, options) => {
  if (options?.body) window.sentBodies.push(options.body);
  return plainFetch(path, options);
};
window.answerLengths = [];
new MutationObserver(() => {
  const length = [...document.querySelectorAll(".message.assistant .text")].at(-1)?.textContent.length;
  if (length !== undefined && length !== window.answerLengths.at(-1)) window.answerLengths.push(length);
}).observe(document.getElementById("messages"), {childList: true, subtree: true});
"""

# Finds elements that extend beyond the right edge of the window, except scrolled or clipped ones.
STICKING_OUT = """
const cut = (element) => {
  for (let up = element.parentElement; up; up = up.parentElement) {
    if (up.matches("svg, .scroll") || getComputedStyle(up).overflowX === "hidden") return true;
  }
  return false;
};
const names = [...document.querySelectorAll("body *")]
  .filter((element) => element.getBoundingClientRect().right > innerWidth + 1 && !cut(element))
  .map((element) => element.tagName + "#" + element.id + "." + element.getAttribute("class"));
for (const element of [document.scrollingElement, ...document.querySelectorAll("body *")]) {
  if (["auto", "scroll", "visible"].includes(getComputedStyle(element).overflowX) && !element.matches(".scroll") &&
      !element.closest("svg") && getComputedStyle(element).display !== "inline" &&
      element.scrollWidth > element.clientWidth + 1 && element.clientWidth > 0) names.push("scrolls: " + element.id);
}
return names;
"""


class Page:
    """The actions of a user."""

    def __init__(self, driver, url: str, key: str | None, screenshots: pathlib.Path | None, thinks: bool):
        self.driver, self.url, self.key, self.screenshots, self.thinks = driver, url, key, screenshots, thinks

    def find(self, selector: str):
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def run(self, script: str, *arguments):
        return self.driver.execute_script(script, *arguments)

    def text(self, selector: str) -> str:
        return self.run("return document.querySelector(arguments[0])?.textContent.trim() ?? ''", selector)

    def wait(self, what: str, condition, seconds: float = SECONDS):
        try:
            return WebDriverWait(self.driver, seconds, 0.05).until(lambda _: condition())
        except TimeoutException:
            raise AssertionError(f"waited {seconds:g} s for {what}") from None

    def open(self):
        self.driver.get(self.url)
        self.run(WATCH)
        if self.key:
            self.wait("the form for the key", self.find("#key-form").is_displayed)
            self.find("#key").send_keys(self.key, Keys.ENTER)
        self.wait("the model's name", lambda: self.text("#model-name") not in ("", "…"))

    def set_option(self, name: str, value: str):
        if not self.find("#options").is_displayed():
            self.find("#options-toggle").click()
        field = self.find(f"#option-{name}")
        field.clear()
        field.send_keys(value)

    def choose(self, name: str, value: str):
        if not self.find("#options").is_displayed():
            self.find("#options-toggle").click()
        self.find(f"#option-{name} option[value='{value}']").click()

    def send(self, text: str):
        self.run("window.answerLengths = []")
        self.find("#prompt").clear()
        self.find("#prompt").send_keys(text, Keys.ENTER)

    def answering(self) -> bool:
        return self.find("#stop").is_displayed()

    def wait_for_answer(self):
        self.wait("the end of the answer", lambda: not self.answering())
        assert not self.find("#error").is_displayed(), self.text("#error-text")

    def answer(self) -> str:
        return self.run("return [...document.querySelectorAll('.message.assistant .text')].at(-1)?.textContent ?? ''")

    def count(self, selector: str) -> int:
        return len(self.driver.find_elements(By.CSS_SELECTOR, selector))

    def last_body(self) -> dict:
        return json.loads(self.run("return window.sentBodies.at(-1)"))

    def resize(self, width: int, scheme: str, height: int = 900):
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                                    {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia",
                                    {"features": [{"name": "prefers-color-scheme", "value": scheme}]})


def check_page_names_the_model(page: Page):
    page.open()
    assert page.text("#model-facts"), "no facts of the model are shown"
    assert page.text("#model-name") in page.driver.title, page.driver.title
    assert not page.find("#send").is_enabled(), "an empty message can be sent"


def check_answer_streams_in(page: Page):
    page.set_option("max-tokens", "64")
    page.set_option("temperature", "0.5")
    page.set_option("seed", "7")
    page.set_option("system", "You are helpful.")
    page.find("#options-toggle").click()
    page.send("Why is the sky blue? Explain it in a few sentences.")
    page.wait("the user's message", lambda: page.count(".message.user") == 1)
    page.wait_for_answer()
    assert page.answer(), "the answer is empty"
    lengths = page.run("return window.answerLengths")
    assert len([length for length in lengths if length]) >= 2, f"the text came at once: lengths {lengths}"
    assert "token" in page.text(".message.assistant .meta"), "no figures under the answer"


def check_options_are_sent(page: Page):
    body = page.last_body()
    expected = {"max_tokens": 64, "temperature": 0.5, "seed": 7, "stream": True, "logprobs": True, "top_logprobs": 5,
                "stream_options": {"include_usage": True}}
    for name, value in expected.items():
        assert body.get(name) == value, f"{name} is {body.get(name)}, not {value}"
    assert [message["role"] for message in body["messages"]] == ["system", "user"], body["messages"]
    assert "top_k" not in body, "an empty option is sent"


def check_text_is_the_tokens(page: Page):
    tokens = page.run("return [...document.querySelector('.message.assistant').querySelectorAll('.token')]"
                      ".map((token) => token.textContent)")
    assert len(tokens) >= 2 and "".join(tokens) == page.answer(), tokens


def check_probabilities_are_shown(page: Page):
    page.find("#toggle-logprobs").click()
    assert page.find("#legend").is_displayed()
    assert page.run("return tokensOf.has(document.querySelector('.message.assistant .token'))"), "no probabilities came"
    token = page.find(".message.assistant .token")
    page.run("document.getElementById('messages').scrollTop = 0")
    token_text = page.run("arguments[0].focus(); return arguments[0].textContent", token)
    page.wait("the alternatives of a token", page.find("#tip").is_displayed, 5)
    rows = page.text("#tip")
    assert rows.count("%") >= 2, f"the alternatives of {token_text!r} are {rows!r}"
    token.send_keys(Keys.ARROW_RIGHT)
    focused = page.run("return document.activeElement === document.querySelectorAll('.message.assistant .token')[1]")
    assert focused, "the arrow key does not reach the next token"
    webdriver.ActionChains(page.driver).move_to_element(token).perform()
    page.wait("the alternatives under the pointer", page.find("#tip").is_displayed, 5)
    page.find("#prompt").send_keys(Keys.ESCAPE)
    assert not page.find("#tip").is_displayed(), "Escape does not close the alternatives"


def check_second_turn_has_the_first(page: Page):
    page.send("And at night?")
    page.wait_for_answer()
    roles = [message["role"] for message in page.last_body()["messages"]]
    assert roles == ["system", "user", "assistant", "user"], roles


def check_regenerate_replaces_the_answer(page: Page):
    before = page.count(".message.assistant"), page.run("return window.sentBodies.length")
    page.find("#regenerate").click()
    page.wait("another request", lambda: page.run("return window.sentBodies.length") == before[1] + 1)
    page.wait_for_answer()
    assert page.count(".message.assistant") == before[0], "an answer was added"
    assert page.answer() and page.last_body()["messages"][-1]["role"] == "user"


def check_stop_ends_the_answer(page: Page):
    page.set_option("max-tokens", str(page.run("return Math.floor(Math.min(1500, (model.max_model_len ?? 4096) / 2))")))
    page.find("#options-toggle").click()
    for attempt, key in enumerate(("#stop", Keys.ESCAPE)):
        page.find("#clear").click()
        assert page.count(".message") == 0, "messages are left"
        page.send("Count from one to a thousand, every number on a line of its own.")
        page.wait("some text", lambda: len(page.answer()) > 5)
        assert page.answering(), "the answer had ended before it could be stopped"
        page.find("#stop").click() if attempt == 0 else page.find("#prompt").send_keys(key)
        page.wait("the end of the answer", lambda: not page.answering(), 5)
        assert "stopped" in page.text(".message.assistant .meta"), page.text(".message.assistant .meta")
        length = len(page.answer())
        time.sleep(0.5)
        assert length and len(page.answer()) == length, "text comes after the stop"


def check_wrong_option_is_said(page: Page):
    page.set_option("temperature", "-1")
    page.send("Hello")
    page.wait("the error", page.find("#error").is_displayed)
    assert page.text("#error-text"), "the error says nothing"
    assert page.find("#prompt").get_attribute("value") == "Hello", "the message is lost"
    assert not page.answering()
    page.set_option("temperature", "0.5")
    page.set_option("max-tokens", "16")
    page.find("#retry").click()
    page.wait("another answer", lambda: page.count(".message.assistant") == 2)
    page.wait_for_answer()
    page.find("#options-toggle").click()


def check_line_break_is_typed_with_shift(page: Page):
    page.find("#prompt").clear()
    page.find("#prompt").send_keys("one", Keys.SHIFT + Keys.ENTER, Keys.NULL, "two")
    assert page.find("#prompt").get_attribute("value") == "one\ntwo"
    page.find("#prompt").clear()


def check_live_figures(page: Page):
    for name in ("rate", "running", "waiting"):
        page.wait(f"#live-{name}", lambda name=name: page.text(f"#live-{name}")[:1].isdigit(), 15)
    page.find("#toggle-logprobs").click()
    page.set_option("max-tokens", "200")
    page.find("#options-toggle").click()
    page.send("Tell me a long story.")
    running = set()
    page.wait("the end of the answer", lambda: running.add(page.text("#live-running")) or not page.answering())
    page.wait("a line in the plot", lambda: "L" in page.run(
        "return document.querySelector('#plot-generation .curve').getAttribute('d')"), 15)
    assert any(value.isdigit() for value in running), f"running was {sorted(running)}"


def check_thinking_is_folded(page: Page):
    if not page.thinks:
        return
    page.find("#clear").click()
    page.choose("reasoning-effort", "low")
    page.set_option("thinking-token-budget", "20")
    page.set_option("max-tokens", "60")
    page.find("#options-toggle").click()
    page.send("How is the weather?")
    page.wait_for_answer()
    body = page.last_body()
    assert (body["reasoning_effort"], body["thinking_token_budget"]) == ("low", 20), body
    assert page.text(".thinking summary").startswith("Thought for"), page.text(".thinking summary")
    thought = page.text(".thinking .text")
    assert thought and page.answer() and thought not in page.answer(), (thought, page.answer())
    assert not page.find(".thinking .text").is_displayed(), "the thinking is not folded"
    page.find(".thinking summary").click()
    assert page.find(".thinking .text").is_displayed(), "the thinking cannot be unfolded"
    page.choose("reasoning-effort", "none")
    page.set_option("thinking-token-budget", "")


def check_call_is_shown(page: Page):
    page.find("#clear").click()
    page.set_option("tools", json.dumps([TOOL]))
    page.choose("tool-choice", "required")
    page.set_option("max-tokens", "300")
    page.find("#options-toggle").click()
    page.send("How is the weather in the east?")
    page.wait_for_answer()
    body = page.last_body()
    assert body["tools"] == [{"type": "function", "function": TOOL}] and body["tool_choice"] == "required", body
    assert page.text(".call .name") == "weather", page.text(".call summary")
    shown = page.text(".call pre")
    arguments = json.loads(shown)
    assert set(arguments) == {"zone", "at"} and arguments["zone"] in ("east", "west"), shown
    assert shown == json.dumps(arguments, indent=2), f"the arguments are not indented: {shown}"
    assert page.text("#model-name") in page.text(".message.assistant .meta"), "the answer does not name its model"
    assert not page.find("#send").is_enabled(), "calls without results can be sent"


def check_result_is_answered(page: Page):
    calls = page.count(".call")
    page.choose("tool-choice", "none")
    page.set_option("max-tokens", "24")
    page.find("#options-toggle").click()
    fields = page.driver.find_elements(By.CSS_SELECTOR, ".call textarea")
    for field in fields[1:]:
        field.send_keys("wet")
    fields[0].send_keys('{"sky": "dry"}')
    assert page.find("#send").is_enabled(), "results cannot be sent"
    fields[0].send_keys(Keys.ENTER)
    page.wait("another answer", lambda: page.count(".message.assistant") == 2)
    page.wait_for_answer()
    messages = page.last_body()["messages"]
    assert [message["role"] for message in messages if message["role"] != "system"] == \
        ["user", "assistant", *["tool"] * calls], messages
    result = messages[-calls]
    call = messages[-calls - 1]["tool_calls"][0]
    assert result["content"] == '{"sky": "dry"}' and result["tool_call_id"] == call["id"], messages
    assert page.answer(), "there is no answer to the result"
    assert page.count(".call[open]") == 0, "a call whose result was sent is not folded"
    assert '→ {"sky": "dry"}' in page.text(".call summary"), page.text(".call summary")
    page.find(".call summary").click()
    assert json.loads(page.text(".call .result pre")) == {"sky": "dry"}
    assert not page.find(".call textarea").is_displayed(), "a result that was sent can be changed"


def check_call_that_is_cut_is_text(page: Page):
    page.choose("tool-choice", "required")
    page.set_option("max-tokens", "16")
    page.find("#options-toggle").click()
    calls = page.count(".call")
    page.send("And in the west?")
    page.wait_for_answer()
    assert page.count(".call") == calls, "a call that was cut is shown as one"
    assert page.answer(), "the text of the call is lost"
    assert page.last_body()["messages"][-1]["role"] == "user"
    page.set_option("tools", "{")
    page.send("Hello")
    page.wait("the error", page.find("#error").is_displayed)
    assert "Tools" in page.text("#error-text"), page.text("#error-text")
    page.find("#error-close").click()
    page.find("#prompt").clear()
    page.set_option("tools", "")
    page.choose("tool-choice", "")
    page.find("#options-toggle").click()


def check_model_is_chosen(page: Page):
    """Of two models the second one is chosen, which its first answer loads."""
    def names() -> list[str]:
        return page.run("return [...document.querySelector('#model-select').options].map((option) => option.text)")

    page.open()
    assert names() == ["random (not loaded)", "other (not loaded)"], names()
    page.find("#model-select option[value=other]").click()
    page.set_option("max-tokens", "8")
    page.find("#options-toggle").click()
    page.send("Hello")
    page.wait_for_answer()
    assert page.last_body()["model"] == "other", page.last_body()
    assert "other" in page.text(".message.assistant .meta"), page.text(".message.assistant .meta")
    page.wait("the state of the model", lambda: names() == ["random (not loaded)", "other"])
    assert page.run("return document.querySelector('#model-select').value") == "other"
    assert "context" in page.text("#model-facts"), "the loaded model is not described"


def check_nothing_scrolls_sideways(page: Page):
    page.find("#toggle-logprobs").click()
    views = ["chat", "inside"] if page.find("#tabs").is_displayed() else ["chat"]
    for view in views:
        if len(views) > 1:
            page.find(f"#tab-{view}").click()
        for width in WIDTHS:
            for scheme in SCHEMES:
                page.resize(width, scheme)
                time.sleep(0.3)
                if page.screenshots:
                    page.driver.save_screenshot(str(page.screenshots / f"{view}-{width}-{scheme}.png"))
                out = page.run(STICKING_OUT)
                assert not out, f"{view} at {width} px, {scheme}: {out[:5]}"


def check_console_is_silent(page: Page):
    # Expected answers of 4xx are left out: a wrong option, no key, and an optional endpoint.
    loud = [entry["message"] for entry in page.driver.get_log("browser")
            if entry["level"] in ("SEVERE", "WARNING") and "responded with a status of 4" not in entry["message"]]
    assert not loud, "\n".join(loud)


CHECKS = (check_page_names_the_model, check_answer_streams_in, check_options_are_sent, check_text_is_the_tokens,
          check_probabilities_are_shown, check_second_turn_has_the_first, check_regenerate_replaces_the_answer,
          check_stop_ends_the_answer, check_wrong_option_is_said, check_line_break_is_typed_with_shift,
          check_live_figures, check_thinking_is_folded, check_call_is_shown, check_result_is_answered,
          check_call_that_is_cut_is_text, check_nothing_scrolls_sideways, check_console_is_silent)
CHECKS_OF_SEVERAL = (check_model_is_chosen, check_nothing_scrolls_sideways, check_console_is_silent)


def start_browser(chromium: str, chromedriver: str):
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for argument in ("--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1200,900"):
        options.add_argument(argument)
    if os.geteuid() == 0:
        options.add_argument("--no-sandbox")  # Chromium's does not work for root
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(service=Service(chromedriver), options=options)


def run_checks(page: Page, checks: tuple) -> int:
    failed = 0
    for check in checks:
        name = check.__name__.removeprefix("check_")
        try:
            check(page)
            print(f"ok    {name.replace('_', ' ')}")
        except Exception as error:  # the next checks may still tell something
            failed += 1
            print(f"FAIL  {name.replace('_', ' ')}: {str(error).strip()}")
            if page.screenshots:
                page.driver.save_screenshot(str(page.screenshots / f"failed-{name}.png"))
            if check is checks[0]:
                break
    print(f"{failed} failed" if failed else f"{len(checks)} passed")
    return 1 if failed else 0


def write_random_model(folder: pathlib.Path) -> None:
    """Writes a model that never ends its answers, is large enough that they can be stopped, has the characters of JSON
    and of marks, and thinks where the template opens it."""
    fixtures.write_large_model(folder, hidden=640, layers=10, mlp=1792)
    config = json.loads((folder / "config.json").read_text())
    config.pop("eos_token_id", None)
    config["max_position_embeddings"] = 4096
    (folder / "config.json").write_text(json.dumps(config))
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    names = fixtures.SPECIAL + [*"▁\n.{}\":,[]<>/_-()=", *string.ascii_lowercase, *string.digits]
    tokenizer["model"] |= {"merges": [], "vocab": {name: i for i, name in enumerate(names)}}
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    tokenizer_config = json.loads((folder / "tokenizer_config.json").read_text())
    del tokenizer_config["eos_token"]
    tokenizer_config["chat_template"] += ("{% if add_generation_prompt and enable_thinking is true %}"
                                          "{{ '<think>\\n' }}{% endif %}")
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer_config))


def check_page_of(url: str, key: str | None, screenshots: pathlib.Path | None, thinks: bool = False,
                  checks: tuple = CHECKS) -> int:
    with urllib.request.urlopen(url, timeout=10) as answer:
        policy = answer.headers.get("Content-Security-Policy", "")
    if "default-src 'none'" not in policy or "unsafe" in policy:
        print(f"FAIL  the page's Content-Security-Policy is {policy!r}")
        return 1
    if screenshots:
        screenshots.mkdir(parents=True, exist_ok=True)
    driver = start_browser(shutil.which("chromium"), shutil.which("chromedriver"))
    try:
        return run_checks(Page(driver, url, key, screenshots, thinks), checks)
    finally:
        driver.quit()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url", metavar="URL", nargs="?")
    parser.add_argument("--program", help="the ballast program, to test the page without a URL")
    parser.add_argument("--key", help="the key that the server asks for")
    parser.add_argument("--screenshots", type=pathlib.Path, metavar="DIR", help="where pictures go")
    arguments = parser.parse_args()
    if (arguments.url is None) == (arguments.program is None):
        parser.error("needs a URL or --program")
    if webdriver is None or not shutil.which("chromium") or not shutil.which("chromedriver"):
        print("skipped: needs the packages chromium-driver and python3-selenium")
        return SKIPPED
    if arguments.url is not None:
        return check_page_of(arguments.url, arguments.key, arguments.screenshots)
    with tempfile.TemporaryDirectory() as work:
        model = pathlib.Path(work) / "random"
        write_random_model(model)
        failed = 0
        several = arguments.screenshots and arguments.screenshots / "several"
        for models, folder, checks in (([model], arguments.screenshots, CHECKS),
                                       ([model, f"other={model}"], several, CHECKS_OF_SEVERAL)):
            server = Server([arguments.program], *models)
            try:
                failed |= check_page_of(f"http://127.0.0.1:{server.port}/", None, folder, thinks=True, checks=checks)
            finally:
                server.stop()
        return failed


if __name__ == "__main__":
    sys.exit(main())
