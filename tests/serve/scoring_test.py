#!/usr/bin/env python3
"""Tests the endpoints that score texts: `ballast serve` with tiny random classifiers, over its socket.

    scoring_test.py PROGRAM                 checks; with an emulator: EMULATOR [OPTION]... PROGRAM
    scoring_test.py --only tei PROGRAM      the checks in whose name this is found
"""

import json
import math
import pathlib
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools"))

import served_suite
import server_checks
from golden import fixtures

QUERY = "the rain"
DOCUMENTS = ["in there", "an other", "a tin", "ten hats and a tin"]
CLASSIFIERS = {"labels": "bert_texts", "ranks": "modernbert_texts", "tokens": "roberta_tokens",
               "decoder": "qwen2_texts"}
check = server_checks.Checks()


class Scoring(served_suite.ServedSuite):
    """A server of a classifier of each kind, and of a model of vectors."""

    def __init__(self, program: list[str], work: pathlib.Path):
        super().__init__(program, work)
        for name, golden in CLASSIFIERS.items():
            fixtures.copy_classifier(golden, work / name)
        fixtures.copy_model("bert", work / "vectors")
        self.serve("labels", "ranks", "tokens", "decoder", "vectors")

    def classified(self, model: str, lines: list[str], *options: str) -> list[list[float]]:
        """Returns the scores of the program's `classify`."""
        (self.work / "lines.txt").write_text("".join(line + "\n" for line in lines))
        done = subprocess.run([*self.program, "classify", model, "--text", "lines.txt", "--json", "-q", *options],
                              cwd=self.work, check=True, capture_output=True)
        return [text["scores"] for text in json.loads(done.stdout)["texts"]]


def close(a: list[float], b: list[float]) -> bool:
    return len(a) == len(b) and all(math.isclose(x, y, rel_tol=1e-4, abs_tol=1e-6) for x, y in zip(a, b))


@check
def check_rerank(api: Scoring) -> None:
    expected = [row[0] for row in api.classified("ranks", [f"{QUERY}\t{document}" for document in DOCUMENTS])]
    order = sorted(range(len(expected)), key=lambda i: -expected[i])
    for path in ("/v1/rerank", "/rerank", "/v2/rerank"):
        results = api.answer(path, model="ranks", query=QUERY, documents=DOCUMENTS)["results"]
        api.same(f"{path} orders documents by score", [result["index"] for result in results], order)
        api.check(f"{path} has the scores of `classify`",
                  close([result["relevance_score"] for result in results], [expected[i] for i in order]), results)
    first = api.answer("/v1/rerank", model="ranks", query=QUERY, top_n=1, return_documents=True,
                       documents=[{"text": document} for document in DOCUMENTS])["results"]
    api.same("top_n and return_documents", [(result["index"], result["document"]) for result in first],
             [(order[0], {"text": DOCUMENTS[order[0]]})])
    raw = api.answer("/v1/rerank", model="ranks", query=QUERY, documents=DOCUMENTS, use_activation=False)["results"]
    sigmoids = [1 / (1 + math.exp(-result["relevance_score"])) for result in raw]
    api.check("raw scores become the others by a sigmoid", close(sigmoids, [expected[i] for i in order]), raw)
    cosines = api.answer("/v1/rerank", model="vectors", query=QUERY, documents=[*DOCUMENTS, QUERY])["results"]
    api.check("a model of vectors ranks by their cosine", cosines[0]["index"] == len(DOCUMENTS) and
              math.isclose(cosines[0]["relevance_score"], 1, rel_tol=1e-4), cosines)
    api.refused("/v1/rerank", "max_tokens_per_doc: is not supported", model="ranks", query=QUERY, documents=DOCUMENTS,
                max_tokens_per_doc=9)
    api.answer("/v1/rerank", model="ranks", query=QUERY, documents=DOCUMENTS, max_tokens_per_doc=None)
    api.refused("/v1/rerank", "documents: is missing", model="ranks", query=QUERY)
    api.refused("/v1/rerank", "query: is missing", model="ranks", documents=DOCUMENTS)
    api.refused("/v1/rerank", "documents: must not be empty", model="ranks", query=QUERY, documents=[])
    api.refused("/v1/rerank", "several labels", model="labels", query=QUERY, documents=DOCUMENTS)
    api.refused("/v1/rerank", "labels tokens, not texts", model="tokens", query=QUERY, documents=DOCUMENTS)
    api.refused("/predict", "labels tokens, not texts", model="tokens", inputs=QUERY)


@check
def check_labels_of_tokens(api: Scoring) -> None:
    (api.work / "lines.txt").write_text("".join(line + "\n" for line in DOCUMENTS))
    done = subprocess.run([*api.program, "classify", "tokens", "--text", "lines.txt", "--json", "-q"], cwd=api.work,
                          check=True, capture_output=True)
    expected = json.loads(done.stdout)["texts"]
    answer = api.answer("/classify", model="tokens", input=DOCUMENTS)
    for item, text in zip(answer["data"], expected, strict=True):
        for name in ("token", "label"):
            api.same(f"{name} of each token", [token[name] for token in item["tokens"]],
                     [token[name] for token in text["tokens"]])
        api.check("their scores", all(close(got["probs"], wanted["scores"])
                                      for got, wanted in zip(item["tokens"], text["tokens"], strict=True)), item)
    raw = api.answer("/classify", model="tokens", input=DOCUMENTS[0], use_activation=False)["data"][0]["tokens"][0]
    api.check("scores before the function", abs(sum(raw["probs"]) - 1) > 1e-3, raw)


@check
def check_score(api: Scoring) -> None:
    expected = [row[0] for row in api.classified("ranks", [f"{QUERY}\t{document}" for document in DOCUMENTS])]
    for texts in ({"text_1": QUERY, "text_2": DOCUMENTS}, {"queries": [QUERY] * 4, "documents": DOCUMENTS}):
        data = api.answer("/v1/score", model="ranks", **texts)["data"]
        api.same("scores come in the order of the texts", [one["index"] for one in data], [0, 1, 2, 3])
        api.check("scores are those of `classify`", close([one["score"] for one in data], expected), data)
    api.refused("/v1/score", "one, or as many, are possible", model="ranks", text_1=["a", "an"], text_2=DOCUMENTS)


@check
def check_classify(api: Scoring) -> None:
    for model in ("labels", "decoder"):
        expected = api.classified(model, DOCUMENTS)
        data = api.answer("/classify", model=model, input=DOCUMENTS)["data"]
        for one, scores in zip(data, expected, strict=True):
            api.check(f"{model} has the scores of `classify`", close(one["probs"], scores), one)
            api.same("the label is that of the highest score", one["label"], f"LABEL_{scores.index(max(scores))}")
    pair = api.classified("labels", [f"{QUERY}\t{DOCUMENTS[0]}"])[0]
    api.check("a pair is more than its first text", not close(pair, api.classified("labels", [QUERY])[0]), pair)
    api.refused("/classify", "has no classifier", model="vectors", input="a")
    api.refused("/classify", "input: is missing", model="labels")
    api.refused("/v1/completions", "encoder", model="labels", prompt="a")


@check
def check_tei(api: Scoring) -> None:
    expected = [row[0] for row in api.classified("ranks", [f"{QUERY}\t{document}" for document in DOCUMENTS])]
    ranks = api.answer("/rerank", model="ranks", query=QUERY, texts=DOCUMENTS, return_text=True)
    api.check("TEI's /rerank is a list, the best first", close([one["score"] for one in ranks],
              sorted(expected, reverse=True)) and ranks[0]["text"] == DOCUMENTS[expected.index(max(expected))], ranks)
    labels = api.classified("labels", [DOCUMENTS[0]])[0]
    for path in ("/predict", "/"):
        one = api.answer(path, model="labels", inputs=DOCUMENTS[0])
        api.check(f"{path} has all labels, the best first",
                  close([label["score"] for label in one], sorted(labels, reverse=True)), one)
    batch = api.answer("/predict", model="ranks", inputs=[[QUERY, document] for document in DOCUMENTS])
    api.check("a batch of pairs has a list for each", close([one[0]["score"] for one in batch], expected), batch)
    api.refused("/predict", "a list of one or two", model="ranks", inputs=["a", "b", "c"])
    vectors = api.answer("/embed", model="vectors", inputs=DOCUMENTS)
    data = api.answer("/v1/embeddings", model="vectors", input=DOCUMENTS)["data"]
    api.check("TEI's /embed is a list of vectors", close(sum(vectors, []), sum([one["embedding"] for one in data], [])))
    short = api.answer("/embed", model="vectors", inputs=DOCUMENTS[0], dimensions=3)[0]
    api.check("vectors can be cut", len(short) == 3 and math.isclose(math.hypot(*short), 1, rel_tol=1e-4), short)
    plain = api.answer("/embed", model="vectors", inputs=DOCUMENTS[0], normalize=False)[0]
    api.check("vectors need not be normalized", close([value / math.hypot(*plain) for value in plain], vectors[0]) and
              not math.isclose(math.hypot(*plain), 1, rel_tol=1e-3), plain)
    api.refused("/embed", "unknown; the model has no prompts", model="vectors", inputs="a", prompt_name="query")
    cosines = api.answer("/", model="vectors", inputs={"source_sentence": QUERY, "sentences": [QUERY, "a"]})
    api.check("sentences are compared at the root",
              math.isclose(cosines[0], 1, rel_tol=1e-4) and cosines[1] < 1, cosines)
    info = api.client.get("/info?model=labels").json()
    api.same("/info names the labels", info["model_type"]["classifier"]["label2id"],
             {"LABEL_0": 0, "LABEL_1": 1, "LABEL_2": 2})
    long = " ".join(DOCUMENTS * 20)
    api.same("long texts are cut", len(api.answer("/predict", model="labels", inputs=long)), 3)
    api.refused("/predict", "64 tokens that the context holds", model="labels", inputs=long, truncate=False)


if __name__ == "__main__":
    sys.exit(served_suite.main(__doc__, Scoring, check))
