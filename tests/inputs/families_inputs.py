"""Checkpoints of families that ballast did not support, or whose settings it misread."""

import array
import concurrent.futures
import json

from golden import safetensors
from reported import Case, edit_json, reported

PROMPTS = ("a b c", "the end of the line", "one", "x y z x y z x y z")


def verify(case: Case, model, tolerance: float):
    done = case.run("verify", model, "--expected", case.work / "model.expected.safetensors", "--tolerance", tolerance)
    case.must("the logits equal those of transformers", done.returncode == 0)


def completion(client, prompt: str) -> tuple[str, list]:
    """Returns the generated text and the log-probabilities of its tokens. Without the bias the model repeats one
    special token."""
    body = {"prompt": prompt, "max_tokens": 12, "temperature": 0, "logprobs": 1, "logit_bias": {"1": -100}}
    choice = client.post("/v1/completions", body).json()["choices"][0]
    return choice["text"], choice["logprobs"]["token_logprobs"]


@reported("a checkpoint of LFM3: its logits are those of transformers, as it is and after every exact fold")
def lfm3_checkpoint(case: Case) -> None:
    model = case.model("lfm3")
    verify(case, model, 1e-4)
    folds = ("--equalize", "--smooth", "--rotate-values", "--untie-head")
    done = case.run("convert", model, "-o", "folded", "--scheme", "f32", *folds)
    case.must("it is converted", done.returncode == 0)
    verify(case, "folded", 1e-4)


@reported("LFM3 by every scheme: it is converted, and the probabilities stay near")
def lfm3_schemes(case: Case) -> None:
    model = case.model("lfm3")
    for scheme in ("bf16", "w8a16", "w8a8", "w4a16", "w4a8"):
        done = case.run("convert", model, "-o", scheme, "--scheme", scheme, "--preset", "fast")
        case.must("it is converted", done.returncode == 0)
        done = case.run("verify", scheme, "--expected", case.work / "model.expected.safetensors", "--json")
        case.must("the divergence is small", json.loads(done.stdout)["kl_mean"] < 0.01)


@reported("a gate for each head: the bias of the values stays, their rotation is said to be possible")
def lfm3_folds(case: Case) -> None:
    done = case.run("convert", case.model("lfm3"), "--explain", "--json")
    case.must("it is explained", done.returncode == 0)
    folds = {fold["what"]: fold for fold in json.loads(done.stdout)["folds"]}
    bias = folds["model.layers.*.self_attn.v_proj bias"]
    case.must("the bias of the values is kept", bias["outcome"] == "kept" and "gate" in bias["reason"])
    rotation = folds["rotation of each head's values"]
    case.must("the gate does not forbid the rotation", rotation["reason"].startswith("possible"))


@reported("LFM3 without its gate, its norms after both halves and its biases: what is then missing is not asked for")
def lfm3_settings(case: Case) -> None:
    model = case.model("lfm3")
    edit_json(model / "config.json", use_attention_gate=False, use_sandwich_norm=False, attention_bias=False,
              conv_bias=False)
    done = case.run("inspect", model)
    case.must("it is read", done.returncode == 0 and b"output gate" not in done.stdout)


@reported("the rotation of a type of layers is missing: one line that names the type")
def lfm3_without_rotation(case: Case) -> None:
    model = case.model("lfm3")
    edit_json(model / "config.json", rope_parameters={"full_attention": {"rope_type": "default", "rope_theta": 100.0}})
    done = case.run("inspect", model)
    case.must("the error is one line with the field's name",
              done.returncode == 1 and b"rope_parameters.sliding_attention" in done.stderr
              and len(done.stderr.splitlines()) == 1)


@reported("LFM3 is served: the same text alone, again from the prefix cache, and beside others")
def lfm3_served(case: Case) -> None:
    model = case.model("lfm3")
    with case.server(model, "--kv", "int8") as client:
        alone = [completion(client, prompt) for prompt in PROMPTS]
        case.says(alone)
        case.must("texts are generated", all(text for text, _ in alone))
        case.must("cached prompts have the same texts", [completion(client, prompt) for prompt in PROMPTS] == alone)
        with concurrent.futures.ThreadPoolExecutor(len(PROMPTS)) as pool:
            beside = list(pool.map(lambda prompt: completion(client, prompt), PROMPTS))
        case.must("concurrent requests have the same texts", beside == alone)
        longer = PROMPTS[1] + alone[1][0]
        continued = completion(client, longer)
    with case.server(model, "--kv", "int8") as client:
        case.must("a text after a cached one is the same as from a new server",
                  completion(client, longer) == continued)


@reported("LFM3 with its gates under the name that they have in transformers' class: they are found")
def lfm3_module_names(case: Case) -> None:
    model = case.model("lfm3")
    tensors = safetensors.read(model / "model.safetensors")[1]
    safetensors.write(model / "model.safetensors",
                      {name.replace("self_attn.gate_proj", "self_attn.g_proj"): tensor for name, tensor in tensors.items()})
    verify(case, model, 1e-4)


@reported("BERT with a head that is not the embedding: the head's own bias is added")
def bert_untied(case: Case) -> None:
    model = case.model("bert")
    tensors = safetensors.read(model / "model.safetensors")[1]
    vocabulary = tensors["cls.predictions.bias"][1][0]
    tensors["cls.predictions.decoder.weight"] = tensors["bert.embeddings.word_embeddings.weight"]
    tensors["cls.predictions.decoder.bias"] = ("F32", [vocabulary], array.array("f", range(vocabulary)).tobytes())
    bfloats = array.array("H", tensors["cls.predictions.bias"][2])
    bias = array.array("f", array.array("I", (value << 16 for value in bfloats)).tobytes())
    safetensors.write(model / "model.safetensors", tensors)
    edit_json(model / "config.json", tie_word_embeddings=False)

    expected = case.work / "model.expected.safetensors"
    tensors = safetensors.read(expected)[1]
    dtype, shape, data = tensors["logits"]
    logits = array.array("f", data)
    for i in range(len(logits)):
        logits[i] += i % vocabulary - bias[i % vocabulary]
    tensors["logits"] = (dtype, shape, logits.tobytes())
    safetensors.write(expected, tensors)
    verify(case, model, 1e-4)


@reported("Nemotron-H that says its head is the embedding, which no program makes of it: its head is read")
def nemotron_h_tied(case: Case) -> None:
    model = case.model("nemotron_h")
    edit_json(model / "config.json", tie_word_embeddings=True)
    verify(case, model, 1e-4)
