"""Checks of eval: chunks, streams, multiple choice and vectors, with and without a reference; and of embed."""

import json
import re
import struct

from golden import fixtures, shapes
from golden.suite import PROGRESS, Suite, near

CHUNKS = ("--text", "text.txt", "--context", 32, "--chunks", 4)
TOKENS = 4 * 15  # of the second half of each chunk; llama.cpp does not count its first one


def quantized(suite: Suite) -> str:
    if not (suite.work / "llama3-rounded").exists():
        suite.succeeds("convert", "llama3", "-o", "llama3-rounded", "-q", "--text", "calibration.txt")
    return "llama3-rounded"


def check_chunks(suite: Suite) -> None:
    figures = suite.json("eval", "llama3", *CHUNKS, shape=shapes.EVAL)
    suite.same("chunks and scored tokens are llama.cpp's", (figures["chunks"], figures["tokens"]), (4, TOKENS))
    suite.same("the size of the tensor files is printed", figures["file_bytes"], 56520)
    suite.check("perplexity is unchanged", near(figures["ppl"], 121.124), figures)
    itself = suite.json("eval", "llama3", *CHUNKS, "--reference", "llama3", shape=shapes.EVAL_REFERENCE)
    suite.check("a model does not diverge from itself", abs(itself["kl_mean"]) < 1e-6 and
                itself["top1_agreement"] == 1 and itself["ppl"] == itself["reference_ppl"] == figures["ppl"], itself)
    rounded = suite.json("eval", quantized(suite), *CHUNKS, "--reference", "llama3", shape=shapes.EVAL_REFERENCE)
    suite.check("a w8a8 model diverges a little", 1e-6 < rounded["kl_mean"] < 1e-3 and
                rounded["kl_p99"] > rounded["kl_mean"] and near(rounded["reference_ppl"], figures["ppl"]), rounded)


def check_details(suite: Suite) -> None:
    details = suite.json("eval", quantized(suite), *CHUNKS, "--reference", "llama3", "--per-position", "--worst", 3,
                         shape=shapes.EVAL_DETAILS)
    ranges = details["positions"]
    suite.check("positions cover the chunk", ranges[0]["first"] == 0 and ranges[-1]["last"] == 30 and
                sum(positions["tokens"] for positions in ranges) == 4 * 31, ranges)
    costs = [token["kl"] for token in details["worst"]]
    suite.check("the worst positions are printed, the worst first",
                len(costs) == 3 and costs == sorted(costs, reverse=True), costs)


def check_page(suite: Suite) -> None:
    run = suite.succeeds("eval", quantized(suite), *CHUNKS, "--reference", "llama3", "--per-position", "--worst", 2)
    suite.prints("eval prints its page, and progress in plain lines on standard error",
                 r"perplexity      [\d.]+ ± [\d.]+\nreference's     [\d.]+\n"
                 r"KL divergence   [\de.-]+ nats per token, 99 % below [\de.-]+\nsame top token  [\d.]+ %\n"
                 r"tokens scored   60 in 4 chunks\ntensor files    [^\n]+\ntime            [^\n]+\n"
                 r"\nposition +tokens +perplexity +reference's +KL\n( *[\d–]+ +\d+ +[\d.]+ +[\d.]+ +[\de.-]+\n)+\n"
                 r" +KL  chunk  position  +text before  what follows +the reference's top +the model's top\n"
                 r"([^\n]+\n){2}",
                 f"{PROGRESS}+", run)
    quiet = suite.succeeds("eval", "llama3", *CHUNKS, "-q")
    suite.check("with -q eval prints nothing on standard error", quiet.err == "", quiet)


def check_reference_cache(suite: Suite) -> None:
    flags = ("eval", quantized(suite), *CHUNKS, "--reference", "llama3", "--reference-cache", "logits")
    first, second = (suite.json(*flags, shape=shapes.EVAL_REFERENCE) for _ in range(2))
    for figures in (first, second):
        figures.pop("seconds")
    suite.same("a reference's kept logits give the same figures", second, first)
    suite.check("with kept logits the reference does not run again", "reference" not in suite.run(*flags).err)


def check_stream(suite: Suite) -> None:
    flags = ("eval", "llama3", "--text", "text.txt", "--stream", 200, "--window", 16, "--sinks", 2)
    figures = suite.json(*flags, shape=shapes.EVAL_STREAM)
    suite.check("a stream scores all tokens except the first, in consecutive segments",
                figures["tokens"] == 199 == sum(part["tokens"] for part in figures["segments"]), figures)
    smaller = suite.json(*flags, "--kv", "int8", shape=shapes.EVAL_STREAM)
    suite.check("an INT8 cache is smaller than F32's", smaller["cache_bytes"] < figures["cache_bytes"], smaller)
    run = suite.succeeds(*flags)
    suite.check("a stream's output has cache and segments",
                re.search(r"^tokens scored  199 in one stream\ncache  +[^\n]+\n", run.out, re.M) and
                "\nfrom token  tokens  perplexity\n" in run.out, run)


def check_choices(suite: Suite) -> None:
    flags = ("eval", quantized(suite), "--reference", "llama3", "--choices", "questions.jsonl")
    figures = suite.json(*flags, shape=shapes.EVAL_CHOICES)
    suite.same("every question has an answer", (figures["questions"], len(figures["answers"]),
               [len(answer["log_likelihoods"]) for answer in figures["answers"]]), (6, 6, [2] * 6))
    for answer in figures["answers"]:
        likely = answer["log_likelihoods"]
        suite.same("the more likely choice is picked", answer["pick"], likely.index(max(likely)))
    right = sum(answer["pick"] == i % 2 for i, answer in enumerate(figures["answers"]))
    suite.check("the share of right answers is printed", near(figures["acc"], right / 6), figures)
    run = suite.succeeds(*flags)
    suite.same("multiple choice prints its rows", [re.split("  +", line)[0] for line in run.out.splitlines()],
               ["right answers", "by characters", "reference's", "by characters", "same answers", "questions",
                "tensor files", "time"])


def write_lines(suite: Suite) -> int:
    """Writes the text's words, five per line; returns the number of lines."""
    words = (suite.work / "text.txt").read_text().split()[:60]
    lines = [" ".join(words[i:i + 5]) for i in range(0, len(words), 5)]
    (suite.work / "lines.txt").write_text("\n".join(lines) + "\n")
    return len(lines)


def check_vectors(suite: Suite) -> None:
    texts = write_lines(suite)
    flags = ("eval", quantized(suite), "--reference", "llama3", "--vectors", "lines.txt")
    figures = suite.json(*flags, shape=shapes.EVAL_VECTORS)
    suite.same("every line is a text", figures["texts"], texts)
    suite.check("cosines are in order", figures["cosine_min"] <= figures["cosine_p1"] <= figures["cosine_mean"] < 1,
                figures)
    same = suite.json("eval", "llama3", "--reference", "llama3", "--vectors", "lines.txt", shape=shapes.EVAL_VECTORS)
    suite.check("a model's vectors are the same as its own",
                same["cosine_min"] > 1 - 1e-12 and same["nearest_agreement"] > 1 - 1e-12,
                same)
    run = suite.succeeds(*flags)
    suite.same("compared vectors print their rows", [re.split("  +", line)[0] for line in run.out.splitlines()],
               ["cosine", "ranks of others", "same nearest text", "texts", "tensor files", "time"])


def check_embed(suite: Suite) -> None:
    texts = write_lines(suite)
    lines = suite.succeeds("embed", "llama3", "--text", "lines.txt").out.splitlines()
    vectors = [json.loads(line) for line in lines]
    suite.same("each line has a vector", len(vectors), texts)
    suite.check("vectors have a length of 1", all(near(sum(x * x for x in vector), 1) for vector in vectors), vectors)
    suite.succeeds("embed", "llama3", "--text", "lines.txt", "-o", "vectors.npy", "-q")
    data = suite.bytes_of("vectors.npy")
    header = data[10:10 + int.from_bytes(data[8:10], "little")]
    suite.check("an array has a row for each line",
                f"'shape': ({len(vectors)}, {len(vectors[0])})".encode() in header, header)
    values = struct.unpack(f"<{len(vectors) * len(vectors[0])}f", data[10 + len(header):])
    suite.check("the array has the same values",
                all(near(a, b) for a, b in zip(values, [x for vector in vectors for x in vector], strict=True)))
    object_ = suite.json("embed", "llama3", "--text", "lines.txt", shape=shapes.EMBED)
    suite.same("one object has the same vectors", object_.pop("vectors"), vectors)
    named = suite.json("embed", "llama3", "--text", "lines.txt", "-o", "vectors.npy", "--force", shape=shapes.EMBED)
    suite.same("with an output the object has the name of the file", named, object_ | {"output": "vectors.npy"})
    suite.same("the file of vectors is the same with --json", suite.bytes_of("vectors.npy"), data)
    run = suite.run("embed", "llama3", "--text", "lines.txt", "-o", "vectors.npy", "-q")
    suite.check("embed does not replace a file", run.code == 1 and "vectors.npy: exists; use --force" in run.err, run)
    suite.same("embed does not change a file that it does not replace", suite.bytes_of("vectors.npy"), data)


def check_classify(suite: Suite) -> None:
    fixtures.copy_classifier("bert_texts", suite.work / "classifier")
    fixtures.copy_classifier("roberta_tokens", suite.work / "tagger")
    (suite.work / "pairs.tsv").write_text("the rain\tin there\nan other\ta tin\n")
    (suite.work / "mixed.tsv").write_text("the rain\tin there\nan other\n")
    (suite.work / "words.txt").write_text("the rain\n")
    whole = suite.json("classify", "classifier", "--text", "pairs.tsv", shape=shapes.CLASSIFY)
    suite.check("probabilities have the sum 1", all(near(sum(text["scores"]), 1) for text in whole["texts"]), whole)
    lines = suite.succeeds("classify", "classifier", "--text", "pairs.tsv", "-q").out.splitlines()
    suite.same("each pair has a line with its label", [line.split("\t")[0] for line in lines],
               [text["label"] for text in whole["texts"]])
    suite.succeeds("classify", "classifier", "--text", "pairs.tsv", "-q", "-o", "scores.jsonl")
    suite.same("the file has all scores", [json.loads(line) for line in suite.bytes_of("scores.jsonl").splitlines()],
               whole["texts"])
    run = suite.run("classify", "classifier", "--text", "mixed.tsv", "-q")
    suite.check("a line without a tab among pairs is refused",
                run.code == 1 and "mixed.tsv: line 2: all lines of pairs must have two texts" in run.err, run)
    run = suite.run("classify", "llama3", "--text", "words.txt", "-q")
    suite.check("a model without a classifier is refused",
                run.code == 1 and "llama3: has no classifier" in run.err, run)
    tokens = suite.succeeds("classify", "tagger", "--text", "words.txt", "-q").out
    columns = {len(line.split("\t")) for line in tokens.splitlines() if line}
    suite.check("tokens have a line each, and texts end with an empty one",
                tokens.endswith("\n\n") and columns == {3}, tokens)
    tagged = suite.json("classify", "tagger", "--text", "words.txt", shape=shapes.CLASSIFY)["texts"][0]["tokens"]
    suite.same("the tokens are those of the text", "".join(token["token"] for token in tagged).strip(), "the rain")


GROUPS = (check_chunks, check_details, check_page, check_reference_cache, check_stream, check_choices, check_vectors,
          check_embed, check_classify)
