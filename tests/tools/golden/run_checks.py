"""Checks of run and bench."""

import json
import re

from golden import shapes
from golden.suite import PROGRESS, Suite

CONTINUATION = "  vfmmdfmm.d  vfdmdv bsd\n"  # of phi, to "the cat"
SPEED = r"prompt: \d+ tokens?, [\d.]+ tokens/s; generated: \d+ tokens?(, [\d.]+ tokens/s)?" + \
    r"(; drafted: \d+ tokens?, [\d.]+ % accepted)?"
CUT = "; cut off by -n or the context\n"
TIMING = SPEED + "\n"


def check_continuation(suite: Suite) -> None:
    # An F32 cache does not enlarge the instruction sets' differences in the last bits.
    flags = ("run", "phi", "-p", "the cat", "-n", 24, "--kv", "f32")
    run = suite.succeeds(*flags)
    suite.same("run continues the text as before, and ends with a new line", run.out, CONTINUATION)
    suite.check("run prints its speed on standard error", re.fullmatch(TIMING, run.err), run)
    quiet = suite.succeeds(*flags, "-q")
    suite.same("with -q run prints only the text", (quiet.out, quiet.err), (run.out, ""))
    piped = suite.succeeds("run", "phi", "-p", "-", *flags[4:], "-q", stdin="the cat")
    suite.same("-p - reads the prompt from standard input", piped.out, run.out)
    stopped = suite.succeeds(*flags, "-q", "--stop", "dv")
    suite.same("--stop ends the output before its text", stopped.out, "  vfmmdfmm.d  vfdm\n")
    sampled = [suite.succeeds(*flags, "-q", "--temperature", 1, "--seed", seed).out for seed in (1, 1, 2)]
    suite.check("a seed makes sampling repeatable", sampled[0] == sampled[1] != sampled[2], sampled)
    suite.same("a choice among only the most likely token is greedy", suite.succeeds(
        *flags, "-q", "--temperature", 1, "--top-k", 1, "--seed", 5).out, run.out)
    rolling = suite.succeeds("run", "phi", "-p", "the cat", "-n", 200, "--window", 16, "--sinks", 2)
    suite.check("with a rolling cache generation continues beyond the context",
                "generated: 200 tokens" in rolling.err, rolling)
    full = suite.succeeds("run", "phi", "-p", "the cat", "-n", 200)
    suite.check("without a rolling cache generation ends with the context", "generated: 55 tokens" in full.err, full)





def check_experts(suite: Suite) -> None:
    flags = ("run", "qwen3_moe", "-p", "the cat", "-n", 24, "--kv", "f32")
    whole = suite.succeeds(*flags)
    part = suite.succeeds(*flags, "--expert-memory", "3200B")
    suite.same("with memory for only some experts the text is the same", part.out, whole.out)
    suite.check("the experts' hit rate is printed after the speed", re.fullmatch(
        TIMING + r"experts: [\d.]+ % of \d+ in memory, [\d.]+ k?B read; [12] of 5 experts in [\d.]+ kB\n", part.err), part)
    figures = suite.json("eval", "qwen3_moe", "--text", "text.txt", "--context", 16, "--chunks", 2, "--expert-memory",
                         "3200B", shape=shapes.EVAL)
    suite.check("eval also has figures of the experts", figures["experts"]["in_memory"] <= 2, figures)
    for model, size, line in (("qwen3_moe", "100B", r"expert memory: 100 bytes are too few: one expert takes \d+"),
                              ("phi", "1MB", r"phi: has no experts[^\n]+")):
        failed = suite.run("run", model, "-p", "the cat", "--expert-memory", size)
        suite.check(f"memory of {size} for the experts of {model} is refused with one line",
                    failed.code == 1 and re.fullmatch(rf"ballast: {line}\n", failed.err), failed)


def check_drafts(suite: Suite) -> None:
    flags = ("run", "phi", "-p", "the cat the cat the", "-n", 40, "--temperature", 0.5, "--kv", "int8")
    plain = suite.succeeds(*flags, "--draft-tokens", 0)
    suite.check("without drafts no figures of drafts are printed", "drafted" not in plain.err, plain)
    for name, draft in (("the text's own drafts", ()), ("a draft model", ("--draft", "phi"))):
        drafted = suite.succeeds(*flags, *draft)
        suite.same(f"{name} do not change the text", drafted.out, plain.out)
    own = suite.succeeds(*flags, "--draft", "phi")
    suite.check("figures of drafts are printed", re.fullmatch(TIMING, own.err) and "drafted" in own.err, own)
    encoder = suite.run(*flags, "--draft", "bert")
    suite.check("a model that cannot draft is refused with one line", encoder.code == 1 and encoder.out == "" and
                re.fullmatch(r"ballast: bert: is an encoder[^\n]+\n", encoder.err), encoder)
    (suite.work / "prompt.txt").write_text("the cat the cat the", encoding="utf-8")
    bench = ("bench", "phi", "--text", suite.work / "prompt.txt", "-n", 20, "-r", 2, "-t", 1)
    figures = suite.json(*bench, "--draft", "phi", shape=shapes.BENCH_TEXT)
    suite.check("the gain of drafts is measured on a text", figures["generated_tokens"] <= 20 and
                figures["accepted_tokens"] <= figures["draft_tokens"], figures)
    suite.prints("bench prints what drafts gain", r"prompt       \d+ tokens\ngenerated    \d+ tokens?\n"
                 r"one by one   [\d.]+ tokens/s\nwith drafts  [\d.]+ tokens/s, [\d.]+ times as fast\n"
                 r"drafted      \d+ tokens?, [\d.]+ % accepted\n", f"{PROGRESS}+", suite.succeeds(*bench))


def check_history(suite: Suite) -> None:
    (suite.work / "all.jinja").write_text("{% for message in messages %}{{ message.content }} {% endfor %}")
    talk = ("run", "phi", "--chat", "-n", 2, "--kv", "f32", "--history", "history.json", "--chat-template", "all.jinja")
    first = suite.succeeds(*talk, "-p", "the cat", "--system", "b")
    kept = json.loads((suite.work / "history.json").read_text())
    suite.same("a history has the roles of all messages",
               [message["role"] for message in kept], ["system", "user", "assistant"])
    suite.same("a history has the texts of all messages",
               [message["content"] for message in kept[:2]], ["b", "the cat"])
    more = suite.succeeds(*talk, stdin="and\nthe\n")
    longer = json.loads((suite.work / "history.json").read_text())
    suite.same("later messages are added to a history", (longer[:3], len(longer)), (kept, 7))
    tokens = [int(re.search(r"prompt: (\d+) tokens", run.err)[1]) for run in (first, more)]
    suite.check("earlier messages are part of the prompt", tokens[1] > tokens[0], tokens)
    (suite.work / "bad-history.json").write_text('[{"role": "user"}]')
    for name in ("bad-history.json", "text.txt"):
        bad = suite.run("run", "phi", "--chat", "-p", "a", "--history", name)
        suite.check(f"an invalid history ({name}) is refused with one line", bad.code == 1 and bad.out == "" and
                    re.fullmatch(rf"ballast: {name}[^\n]*: [^\n]+\n", bad.err), bad)


def check_chat(suite: Suite) -> None:
    once = suite.succeeds("run", "phi", "--chat", "-p", "the cat", "-n", 8, "--kv", "f32")
    suite.check("a chat message is answered", once.out.strip() and re.fullmatch(SPEED + CUT, once.err), once)
    talk = suite.succeeds("run", "phi", "--chat", "-n", 4, "--kv", "f32", stdin="the cat\n\nand\n")
    suite.check("each line of input is a message, except empty lines",
                re.fullmatch((SPEED + CUT) * 2, talk.err) and talk.out.startswith(once.out[:2]), talk)
    tokens = [int(re.search(r"prompt: (\d+) tokens", suite.succeeds("run", "phi", "--chat", *more, "-n", 1).err)[1])
              for more in (("-p", "a"), ("-p", "a", "--system", "b"), ("-p", "a<|im_end|>"))]
    suite.check("a system message comes before the others", tokens[1] > tokens[0] + 4, tokens)
    suite.check("a special token in a message is text", tokens[2] > tokens[0] + 2, tokens)
    (suite.work / "bare.jinja").write_text("{{ messages[-1].content }}", encoding="utf-8")
    bare = suite.succeeds("run", "phi", "--chat", "--chat-template", "bare.jinja", "-p", "a", "-n", 1)
    suite.same("--chat-template replaces the model's template", re.search(r"prompt: (\d+) token", bare.err)[1], "2")
    for name, wrong in (("a chat template that is not there", ("--chat", "--chat-template", "missing.jinja")),
                        ("a chat template without a chat", ("--chat-template", "bare.jinja")),
                        ("arguments of a template that are no object", ("--chat", "--template-args", "[]")),
                        ("a history without a chat", ("--history", "x.json")),
                        ("a system message without a chat", ("--system", "x"))):
        refused = suite.run("run", "phi", "-p", "a", *wrong)
        suite.check(f"{name}: is refused with one line",
                    refused.code != 0 and refused.out == "" and refused.err.startswith("ballast: "), refused)
    check_history(suite)
    (suite.work / "thinks.jinja").write_text("{{ messages[-1].content }}<think>\n", encoding="utf-8")
    thinks = ("run", "phi", "--chat", "--chat-template", "thinks.jinja", "-p", "the cat", "-n", 4, "--kv", "f32")
    shown = suite.succeeds(*thinks).out
    suite.same("--thinking hidden leaves reasoning out", suite.succeeds(*thinks, "--thinking", "hidden").out, "\n")
    suite.same("--thinking dim shows reasoning in dim text",
               suite.succeeds(*thinks, "--thinking", "dim").out.replace("\x1b[2m", "").replace("\x1b[0m", "").strip(),
               shown.removeprefix("<think>\n").strip())
    suite.same("--reply-format none makes all text the answer",
               suite.succeeds(*thinks, "--reply-format", "none").out, shown.removeprefix("<think>\n"))
    plain = suite.run("run", "llama.gguf", "--chat", "-p", "the cat")
    suite.check("a model without tokenizer is refused with one line", plain.code == 1 and plain.out == "" and
                re.fullmatch(r"ballast: llama\.gguf: [^\n]+\n", plain.err), plain)


def check_refusals(suite: Suite) -> None:
    encoder = suite.run("run", "bert", "-p", "text")
    suite.check("run refuses encoders", encoder.code == 1 and encoder.out == "" and
                re.fullmatch(r"ballast: bert: [^\n]+\n", encoder.err), encoder)
    long = suite.run("run", "phi", "-p", "a b c " * 40)
    suite.check("a prompt longer than the context is refused with one line", long.code == 1 and long.out == "" and
                long.err.count("\n") == 1, long)


def check_bench(suite: Suite) -> None:
    flags = ("bench", "llama3", "-p", 16, "-n", 8, "-r", 2, "-t", 1)
    figures = suite.json(*flags, shape=shapes.BENCH)
    suite.same("bench names its tests as llama-bench does", [result["test"] for result in figures["results"]],
               ["pp16", "tg8"])
    suite.check("speeds, limits and threads are printed", figures["machine"]["threads"] == 1 and all(
        result["tokens_per_second"] > 0 and result["fraction_of_limit"] > 0 for result in figures["results"]), figures)
    run = suite.succeeds("bench", "llama3", "-p", 16, "-n", 0, "-r", 2, "-t", 1, "-d", 4)
    suite.prints("bench prints its page, and progress in plain lines on standard error",
                 r"processor     [^\n]+\ninstructions  \w+\nthreads       1\nmemory reads  [\d.]+ GB/s\n"
                 r"F32 peak      \d+ Gop/s\nfloats        F32, \w+\nload time     [\d.]+ s\npeak memory   [^\n]+\n\n"
                 r"test +tokens/s +± deviation +GB/s +Gop/s +of the limit\n"
                 r"pp16 @ d4 +[\d.]+ +± [\d.]+ +[\d.]+ +\d+ +[\d.]+ %\n",
                 f"{PROGRESS}+", run)
    held = suite.json(*flags, "--target", figures["machine"]["simd_target"], "--engine", "ballast", shape=shapes.BENCH)
    suite.check("an instruction set and an engine can be required", held["machine"]["engines"] and all(
        choice["engine"] == "ballast" for choice in held["machine"]["engines"]), held)
    for flag, what in (("--target", "target 'none'"), ("--engine", "engine 'none'")):
        refused = suite.run(*flags, flag, "none")
        suite.check(f"{flag} with a wrong value lists the possible ones", refused.code == 1 and refused.out == "" and
                    re.fullmatch(rf"ballast: {what}: [^\n]+\n", refused.err), refused)
    many = suite.json(*flags, "--sequences", 3, shape=shapes.BENCH)
    suite.same("tests with several sequences have the number in their name",
               [result["test"] for result in many["results"]], ["pp16", "tg8 x 3"])
    shared = suite.json(*flags, "-d", 4, "--sequences", 3, "--share-depth", shape=shapes.BENCH)
    suite.same("tests with a shared prefix have its length in their name",
               [result["test"] for result in shared["results"]],
               ["pp16 @ d4", "tg8 x 3 @ d4 shared"])
    refused = suite.run("bench", "gpt2", "-p", 65, "-n", 0)
    suite.check("bench refuses tests beyond a table of positions", refused.code == 1 and refused.out == "" and
                refused.err.count("\n") == 1, refused)


GROUPS = (check_continuation, check_experts, check_drafts, check_chat, check_refusals, check_bench)
