"""Published models whose files ballast refused or misread."""

import json
import pathlib
import resource

import model_files
from golden import fixtures
from model_files import ARRAY, CONTROL, I32, NORMAL, STRING, U8, Gguf
from reported import Case, edit_json, reported

SEPARATE = "{{ messages[0]['content'] }}"
CHAT = {"messages": [{"role": "user", "content": "ab"}]}


def succeeds(case: Case, what: str, *arguments, **options) -> str:
    """Runs the program, which must exit with 0, and returns its standard output."""
    done = case.run(*arguments, **options)
    case.must(f"{what}: exits with 0", done.returncode == 0)
    return done.stdout.decode(errors="replace")


def refused(case: Case, what: str, *arguments, names: str, **options) -> str:
    """Runs the program, which must exit with 1 and one line that names `names`."""
    done = case.run(*arguments, **options)
    error = done.stderr.decode(errors="replace").strip()
    case.must(f"{what}: exits with 1", done.returncode == 1)
    case.must(f"{what}: prints one line with {names}", names in error and "\n" not in error)
    return error


def prompt_of(case: Case, client) -> str:
    """Returns the prompt of a chat by the model's template, or "" if the server refuses it."""
    reply = case.ask(client, "/apply-template", CHAT)
    return reply.json().get("prompt", "") if reply.status == 200 else ""


def pool_last(model: pathlib.Path) -> None:
    """Configures the last token's vector as a text's vector, in sentence-transformers' format."""
    kinds = ["Transformer", "Pooling", "Normalize"]
    modules = [{"idx": i, "name": str(i), "path": f"{i}_{kind}" if i else "", "type": f"sentence_transformers.models.{kind}"}
               for i, kind in enumerate(kinds)]
    (model / "modules.json").write_text(json.dumps(modules))
    (model / "1_Pooling").mkdir(exist_ok=True)
    (model / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode_lasttoken": True}))


def append_token(model: pathlib.Path, name: str = "<|im_end|>", id_: int = 3) -> None:
    """Makes the tokenizer's post-processor put a token after every text."""
    tokenizer = json.loads((model / "tokenizer.json").read_text())
    tokenizer["post_processor"]["single"].append({"SpecialToken": {"id": name, "type_id": 0}})
    tokenizer["post_processor"]["special_tokens"][name] = {"id": name, "ids": [id_], "tokens": [name]}
    (model / "tokenizer.json").write_text(json.dumps(tokenizer))


def vectors(case: Case, model: pathlib.Path, text: str) -> str:
    (case.work / "texts.txt").write_text(text + "\n")
    return succeeds(case, "embed", "embed", model, "--text", "texts.txt", "--quiet")


def make_bare(model: pathlib.Path, kind: str = "LlamaModel", tied: bool | None = False) -> None:
    """Makes the model a bare one: no head, names without "model."."""
    tensors = model_files.read_tensors(model)
    tensors.pop("lm_head.weight", None)
    tensors.pop("lm_head.bias", None)
    model_files.write_tensors(model, {name.removeprefix("model."): entry for name, entry in tensors.items()})
    edit_json(model / "config.json", architectures=[kind], tie_word_embeddings=... if tied is None else tied)


# Embeddings ---------------------------------------------------------------------------------------------------------

@reported("a decoder's tokenizer that appends a token: its vectors are those of the text with the token, prompts have none")
def appended_token(case: Case) -> None:
    plain, appending = case.model(folder="plain"), case.model(folder="appending")
    for model in (plain, appending):
        pool_last(model)
    append_token(appending)
    wanted = vectors(case, plain, "ab<|im_end|>")
    case.must("embed appends the token", vectors(case, appending, "ab") == wanted)
    case.must("a text's own tokens are kept", vectors(case, appending, "ab") != vectors(case, plain, "ab"))
    answers = [succeeds(case, "run", "run", model, "-p", "ab", "-n", 4, "--quiet") for model in (plain, appending)]
    case.must("a prompt that is continued has no appended token", answers[0] == answers[1])
    with case.server(appending) as client:
        reply = case.ask(client, "/v1/embeddings", {"input": "ab"})
        case.must("the server appends the token", reply.json()["usage"]["prompt_tokens"] == 4)
        served = reply.json()["data"][0]["embedding"]
        case.must("the server's vector is the same", max(abs(a - b) for a, b in zip(served, json.loads(wanted))) < 1e-5)


@reported("eval --vectors of a decoder whose tokenizer appends a token: both models' vectors have it")
def appended_token_compared(case: Case) -> None:
    model = case.model()
    pool_last(model)
    append_token(model)
    (case.work / "texts.txt").write_text("ab\nba\nabba\n")
    report = json.loads(succeeds(case, "eval", "eval", model, "--vectors", "texts.txt", "--reference", model, "--json",
                                 "--quiet"))
    case.must("each text has one token before and one after it", report["tokens"] == 2 + 3 + 4 + 3 * 2)


@reported("add_eos_token: false beside a post-processor that appends another token than EOS: the token is appended")
def appended_other_token(case: Case) -> None:
    model = case.model()
    pool_last(model)
    append_token(model, "<unk>", 0)
    edit_json(model / "tokenizer_config.json", add_eos_token=False)
    with case.server(model) as client:
        reply = case.ask(client, "/v1/embeddings", {"input": "ab"})
        case.must("the text has four tokens", reply.json()["usage"]["prompt_tokens"] == 4)


@reported("a bare model (LlamaModel: names without model., no head): vectors as of the whole model")
def bare_model(case: Case) -> None:
    whole, bare = case.model(folder="whole"), case.model(folder="bare")
    wanted = vectors(case, whole, "ab")
    make_bare(bare)
    case.must("embed gives the same vectors", vectors(case, bare, "ab") == wanted)
    for kind in ("Qwen3Model", "Qwen2Model", "MistralModel", "PhiModel"):
        family = kind.removesuffix("Model").lower()
        model = case.model(family, folder=kind)
        wanted = vectors(case, model, "ab")
        make_bare(model, kind)
        case.must(f"{kind}: has the same vectors", vectors(case, model, "ab") == wanted)


@reported("a bare model is asked for text: one line that says it has no head, and 400; vectors go on")
def bare_model_asked_for_text(case: Case) -> None:
    model = case.model()
    make_bare(model)
    refused(case, "run", "run", model, "-p", "ab", "-n", 2, names="no head")
    refused(case, "run --chat", "run", model, "--chat", "-p", "ab", "-n", 2, names="no head")
    (case.work / "text.txt").write_text("ab " * 40)
    refused(case, "eval", "eval", model, "--text", "text.txt", "--context", 16, names="no head")
    refused(case, "calibrate without a text", "calibrate", model, "-o", "m.stats", "--samples", 2, names="--text")
    with case.server(model) as client:
        for path, body in (("/v1/completions", {"prompt": "ab"}), ("/v1/chat/completions", CHAT)):
            reply = case.ask(client, path, body)
            case.must(f"{path}: is answered with 400 and a message about the head",
                      reply.status == 400 and b"no head" in reply.body)
        case.must("embeddings are answered with 200", case.ask(client, "/v1/embeddings", {"input": "ab"}).status == 200)


@reported("a bare model is converted: the result makes vectors, and still has no head")
def bare_model_converted(case: Case) -> None:
    model = case.model()
    make_bare(model)
    wanted = json.loads(vectors(case, model, "ab"))
    succeeds(case, "convert", "convert", model, "-o", "out", "--scheme", "f32", "--quiet")
    found = json.loads(vectors(case, case.work / "out", "ab"))
    case.must("the converted model has the same vectors",
              max(abs(a - b) for a, b in zip(found, wanted, strict=True)) < 1e-3)
    refused(case, "run", "run", "out", "-p", "ab", "-n", 2, names="no head")


@reported("names without model. and a tied head (Qwen3ForCausalLM as Qwen3-Embedding is published): runs as the whole model")
def bare_names_with_tied_head(case: Case) -> None:
    for kind, tied in (("Qwen3ForCausalLM", True), ("Qwen3ForCausalLM", None)):
        whole, bare = case.model("qwen3", folder=f"whole{tied}"), case.model("qwen3", folder=f"bare{tied}")
        tensors = model_files.read_tensors(whole)
        tensors.pop("lm_head.weight", None)
        model_files.write_tensors(whole, tensors)
        edit_json(whole / "config.json", tie_word_embeddings=True)
        wanted = succeeds(case, "the whole model", "run", whole, "-p", "ab", "-n", 6, "--quiet")
        make_bare(bare, kind, tied)
        case.must("the generated text is the same",
                  succeeds(case, "run", "run", bare, "-p", "ab", "-n", 6, "--quiet") == wanted)


# Generation defaults ------------------------------------------------------------------------------------------------

def long_text(case: Case, model: pathlib.Path) -> tuple[str, int]:
    """Returns a prompt after which the model generates 12 tokens without an end token, and the id of the third one or of
    a later one that did not occur before."""
    with case.server(model) as client:
        for prompt in ("ab", "b", "x", "the", "in", "er", "q", "zz", "h"):
            body = {"prompt": prompt, "max_tokens": 12, "temperature": 0, "logprobs": 1}
            choice = client.post("/v1/completions", body).json()["choices"][0]
            texts = choice["logprobs"]["tokens"]
            for place, text in enumerate(texts):
                ids = client.post("/tokenize", {"content": "a" + text, "add_special": False}).json()["tokens"]
                if choice["finish_reason"] == "length" and place > 1 and text not in texts[:place] and text.isalnum():
                    shown = client.post("/detokenize", {"tokens": ids[-1:]}).json()["content"]
                    if shown == text:
                        return prompt, ids[-1]
    raise AssertionError("no prompt is followed by a long text")


def generated(case: Case, client, prompt: str = "ab") -> tuple[str, int, str]:
    """Returns text, tokens and finish reason."""
    reply = case.ask(client, "/v1/completions", {"prompt": prompt, "max_tokens": 12, "temperature": 0}).json()
    return reply["choices"][0]["text"], reply["usage"]["completion_tokens"], reply["choices"][0]["finish_reason"]


@reported("generation_config.json with a list of eos_token_id: each ends an answer, in config.json's place or beside it")
def end_tokens(case: Case) -> None:
    model = case.model()
    edit_json(model / "config.json", eos_token_id=2)
    prompt, end = long_text(case, model)
    with case.server(model) as client:
        before = generated(case, client, prompt)
    for ids in ([1, end], end):
        edit_json(model / "generation_config.json", eos_token_id=ids)
        with case.server(model) as client:
            text, tokens, why = generated(case, client, prompt)
        case.must(f"eos_token_id {ids} ends the text", why == "stop" and tokens < before[1])
        case.must("the end token is not part of the text", before[0].startswith(text))
        with case.server(model, "--generation-config", "none") as client:
            case.must("with --generation-config none the end tokens are the same",
                      generated(case, client, prompt) == (text, tokens, why))


@reported("the end tokens of generation_config.json in what convert writes: a directory and a GGUF end where the original does")
def end_tokens_converted(case: Case) -> None:
    model = model_files.write_byte_level_model(case.work / "model")
    prompt, end = long_text(case, model)
    longer = succeeds(case, "before", "run", model, "-p", prompt, "-n", 12, "--quiet")
    edit_json(model / "generation_config.json", eos_token_id=[2, end], temperature=0.5, top_k=4, do_sample=True)
    wanted = succeeds(case, "the original", "run", model, "-p", prompt, "-n", 12, "--quiet")
    case.must("the original ends at the end token", len(wanted) < len(longer))
    sampled = ["--chat", "-p", "ab", "-n", 12, "--seed", 5, "--quiet"]
    chat = succeeds(case, "its chat", "run", model, *sampled)
    succeeds(case, "convert", "convert", model, "-o", "out", "--scheme", "f32", "--quiet")
    succeeds(case, "convert to GGUF", "convert", model, "-o", "out.gguf", "--to", "gguf", "--scheme", "f32", "--quiet")
    succeeds(case, "convert back", "convert", "out.gguf", "-o", "back", "--scheme", "f32", "--quiet")
    for name in ("out", "out.gguf", "back"):
        case.must(f"{name} ends at the end token",
                  succeeds(case, name, "run", name, "-p", prompt, "-n", 12, "--quiet") == wanted)
        case.must(f"{name} has the same sampling defaults", succeeds(case, name, "run", name, *sampled) == chat)


@reported("sampling values of generation_config.json: the defaults of run --chat, said once; flags override them; none leaves them")
def sampling_defaults(case: Case) -> None:
    model = case.model()
    chat = ["run", model, "--chat", "-p", "ab", "-n", 12, "--seed", 3]
    greedy = succeeds(case, "greedy", *chat, "--quiet")
    flags = ["--temperature", 1.5, "--top-k", 20, "--top-p", 0.9, "--repetition-penalty", 1.3]
    wanted = succeeds(case, "by flags", *chat, *flags, "--quiet")
    edit_json(model / "generation_config.json", do_sample=True, temperature=1.5, top_k=20, top_p=0.9,
              repetition_penalty=1.3)
    done = case.run(*chat)
    told = [line for line in done.stderr.decode().splitlines() if "temperature 1.5" in line]
    case.must("values of the file and of flags give the same text", done.stdout.decode() == wanted and wanted != greedy)
    case.must("one line has the values and the flag that disables them", len(told) == 1 and "top_k 20" in told[0]
              and "--generation-config none" in told[0])
    case.must("a flag overrides the file",
              succeeds(case, "--temperature 0", *chat, "--temperature", 0, "--repetition-penalty", 1,
                                             "--quiet") == greedy)
    case.must("--generation-config none ignores the file",
              succeeds(case, "none", *chat, "--generation-config", "none", "--quiet") == greedy)
    edit_json(model / "generation_config.json", do_sample=False, repetition_penalty=...)
    case.must("do_sample: false is greedy", succeeds(case, "do_sample", *chat, "--quiet") == greedy)
    edit_json(model / "generation_config.json", do_sample=True, temperature=..., top_k=..., top_p=...)
    case.must("do_sample: true without a temperature means 1", succeeds(case, "do_sample", *chat, "--quiet") ==
              succeeds(case, "by a flag", *chat, "--temperature", 1, "--quiet"))


@reported("sampling values of generation_config.json: the defaults of requests, told in the log; a request's fields go before")
def sampling_defaults_served(case: Case) -> None:
    model = case.model()
    body = {"prompt": "ab", "max_tokens": 12, "seed": 7}
    asked = {"temperature": 1.5, "top_k": 3, "top_p": 0.8, "repetition_penalty": 1.2, "min_p": 0.01}
    with case.server(model) as client:
        wanted, plain, greedy = (case.ask(client, "/v1/completions", body | more).json()["choices"][0]["text"]
                                 for more in (asked, {}, {"temperature": 0}))
        chat = case.ask(client, "/v1/chat/completions", CHAT | {"max_tokens": 12, "seed": 7} | asked).json()
    edit_json(model / "generation_config.json", **asked)
    with case.server(model) as client:
        told = [line for line in client.server.lines if '"temperature":1.5' in line.replace(" ", "")]
        case.must("the log has the values", told and '"top_k":3' in told[0].replace(" ", ""))
        case.must("fields that a request leaves out have the model's values",
                  case.ask(client, "/v1/completions", body).json()["choices"][0]["text"] == wanted != plain)
        answer = case.ask(client, "/v1/chat/completions", CHAT | {"max_tokens": 12, "seed": 7}).json()
        case.must("chats use the model's values", answer["choices"][0]["message"] == chat["choices"][0]["message"])
        other = case.ask(client, "/v1/completions", body | {"temperature": 0, "repetition_penalty": 1}).json()
        case.must("a request's fields override the model's values", other["choices"][0]["text"] == greedy)
    with case.server(model, "--generation-config", "none") as client:
        case.must("--generation-config none ignores the model's values",
                  case.ask(client, "/v1/completions", body).json()["choices"][0]["text"] == plain)


@reported("a generation_config.json that is broken: one line that names the file and the field")
def broken_generation_config(case: Case) -> None:
    model = case.model()
    file = model / "generation_config.json"
    for text in ("", "{", "[1]", '{"eos_token_id": "<s>"}', '{"eos_token_id": 1.5}'):
        file.write_text(text)
        refused(case, text, "run", model, "-p", "ab", "-n", 2, names="generation_config.json")
    for text, field in (('{"temperature": "hot"}', "temperature"), ('{"temperature": -1}', "temperature"),
                        ('{"top_p": 2}', "top_p"), ('{"top_k": 1.5}', "top_k"), ('{"do_sample": 1}', "do_sample")):
        file.write_text(text)
        error = refused(case, text, "run", model, "--chat", "-p", "ab", "-n", 2, names="generation_config.json")
        case.must(f"the error names {field}", field in error)
        succeeds(case, "--generation-config none", "run", model, "--chat", "-p", "ab", "-n", 2, "--generation-config", "none")
    file.write_text('\ufeff{"temperature": null, "top_p": NaN, "do_sample": null}'.replace('"top_p": NaN, ', ""))
    succeeds(case, "null is nothing", "run", model, "--chat", "-p", "ab", "-n", 2)


# GGUF ---------------------------------------------------------------------------------------------------------------

def gguf_ends(case: Case, name: str, **tokenizer) -> tuple[str, int, str]:
    with case.server(model_files.gguf_with_tokenizer(case.work / f"{name}.gguf", **tokenizer)) as client:
        return generated(case, client)


@reported("a GGUF of an instruction model with the base model's eos_token_id: end-of-turn tokens end a text, by key or by name")
def gguf_end_of_turn(case: Case) -> None:
    path = model_files.gguf_with_tokenizer(case.work / "plain.gguf")
    with case.server(path) as client:
        reply = case.ask(client, "/v1/completions", {"prompt": "ab", "max_tokens": 12, "temperature": 0, "logprobs": 0})
        texts = reply.json()["choices"][0]["logprobs"]["tokens"]
    names = fixtures.SPECIAL + fixtures.CHARACTERS
    names += [f"<{i}>" for i in range(67 - len(names))]
    spelled = [name.replace("▁", " ") for name in names]
    ends = [(i, spelled.index(text)) for i, text in enumerate(texts) if i > 0 and text in spelled[4:] and text not in texts[:i]]
    case.must("the model generates a possible end token", ends)
    place, end = ends[0]
    case.must("without such a token in the file the text continues", gguf_ends(case, "none")[2] == "length")
    for key in ("eot", "eom"):
        case.must(f"{key}_token_id ends the text", gguf_ends(case, key, **{key: end})[1:] == (place + 1, "stop"))
    for name in ("<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<|endoftext|>", "<|eom_id|>", "<EOT>"):
        found = gguf_ends(case, "named", names={end: name, 3: "<other>"}, types={end: CONTROL})
        case.must(f"{name} ends the text", found[1:] == (place + 1, "stop"))
    plain = gguf_ends(case, "text", names={end: "<|eot_id|>", 3: "<other>"}, types={end: NORMAL})
    case.must("an ordinary token with the same text does not end the text", plain[2] == "length")
    harmony = gguf_ends(case, "harmony", names={end: "<|end|>", 3: "<|return|>"}, types={end: CONTROL})
    case.must("<|end|> beside <|return|> ends a message, not the answer", harmony[2] == "length")


@reported("a GGUF with two tokens of one text: loads, says so once; a text becomes the first one, and both are shown")
def gguf_repeated_token(case: Case) -> None:
    path = model_files.gguf_with_tokenizer(case.work / "m.gguf", names={66: "a"})
    done = case.run("run", path, "-p", "a", "-n", 1)
    told = [line for line in done.stderr.decode().splitlines() if "twice" in line]
    case.must("runs", done.returncode == 0)
    case.must("one line has both ids", len(told) == 1 and "7" in told[0] and "66" in told[0])
    with case.server(path) as client:
        ids = case.ask(client, "/tokenize", {"content": "xa", "add_special": False}).json()["tokens"]
        case.must("a text becomes the first token", 66 not in ids and 7 in ids)
        case.must("the second token is shown",
                  case.ask(client, "/detokenize", {"tokens": [8, 66]}).json()["content"].strip()
                  == "ba")
    succeeds(case, "convert", "convert", path, "-o", "out", "--scheme", "f32", "--quiet")
    with case.server(case.work / "out") as client:
        case.must("the converted model shows the second token",
                  case.ask(client, "/detokenize", {"tokens": [8, 66]}).json()["content"]
                  .strip() == "ba")


@reported("a GGUF whose tokenizer.ggml.token_type is a long array of bytes: one line, and no memory for it")
def gguf_long_types(case: Case) -> None:
    path = model_files.gguf_with_tokenizer(case.work / "m.gguf")
    gguf = Gguf(path)
    for key in ("token_type", "scores"):
        other = Gguf(path)
        other.fields[f"tokenizer.ggml.{key}"] = (ARRAY, (U8, bytes(40_000_000)))
        other.write(path.with_name(f"{key}.gguf"))
        refused(case, key, "run", f"{key}.gguf", "-p", "a", "-n", 1, names=f"tokenizer.ggml.{key}")
    gguf.fields["other.nested"] = (ARRAY, (ARRAY, [(U8, bytes(40_000_000))]))
    gguf.write(path)
    succeeds(case, "an array in an array, which nothing needs", "run", path, "-p", "a", "-n", 1)
    megabytes = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024
    case.says(f"{megabytes} MB at most")
    case.must("the process takes less than 450 MB", megabytes < 450)


@reported("a GGUF whose tokenizer.ggml.token_type is of another size or type: one line about it")
def gguf_wrong_types(case: Case) -> None:
    for name, value in (("short", (ARRAY, (I32, [1] * 60))), ("texts", (ARRAY, (STRING, ["1"] * 67))),
                        ("number", (I32, 1)), ("text", (STRING, "1"))):
        gguf = Gguf(model_files.gguf_with_tokenizer(case.work / "m.gguf"))
        gguf.fields["tokenizer.ggml.token_type"] = value
        refused(case, name, "run", gguf.write(case.work / f"{name}.gguf"), "-p", "a", "-n", 1,
                names="tokenizer.ggml.token_type")


@reported("a GGUF with an unused tensor of a type that is not known: an error only where it is needed")
def gguf_unread_tensor(case: Case) -> None:
    for name, works in (("rope_freqs_unused.weight", True), ("blk.0.attn_q.weight", False)):
        gguf = Gguf(model_files.gguf_with_tokenizer(case.work / "m.gguf"))
        wanted = succeeds(case, "before", "run", case.work / "m.gguf", "-p", "ab", "-n", 4, "--quiet")
        if works:
            gguf.tensors += 1
            entry = model_files._packed_string(name) + (1).to_bytes(4, "little") + (32).to_bytes(8, "little")
            gguf.entries += entry + (200).to_bytes(4, "little") + (0).to_bytes(8, "little")
            path = gguf.write(case.work / "unused.gguf")
            case.must("the file with the tensor runs as before",
                      succeeds(case, name, "run", path, "-p", "ab", "-n", 4, "--quiet") == wanted)
        else:
            at = gguf.entries.index(name.encode()) + len(name) + 4 + 16
            gguf.entries[at:at + 4] = (200).to_bytes(4, "little")
            error = refused(case, name, "run", gguf.write(case.work / "needed.gguf"), "-p", "ab", names=name)
            case.must("the error has the type", "200" in error)


# More tokens than rows ----------------------------------------------------------------------------------------------

def add_token(model: pathlib.Path, id_: int) -> None:
    tokenizer = json.loads((model / "tokenizer.json").read_text())
    tokenizer["added_tokens"].append({"id": id_, "content": "<image_soft_token>", "special": True, "normalized": False})
    (model / "tokenizer.json").write_text(json.dumps(tokenizer))


def with_token_beyond(case: Case) -> pathlib.Path:
    model = case.model()
    add_token(model, 67)
    return model


@reported("a tokenizer with one token more than the embedding has rows (Gemma 3 1B): every command takes the model")
def token_beyond_embedding(case: Case) -> None:
    plain = case.model(folder="plain")
    model = with_token_beyond(case)
    (case.work / "text.txt").write_text("ab ba the " * 60)
    wanted = succeeds(case, "without the token", "run", plain, "-p", "ab", "-n", 8, "--quiet")
    case.must("run gives the same text", succeeds(case, "run", "run", model, "-p", "ab", "-n", 8, "--quiet") == wanted)
    succeeds(case, "chat", "run", model, "--chat", "-p", "<image_soft_token>", "-n", 2, "--quiet")
    succeeds(case, "eval", "eval", model, "--text", "text.txt", "--context", 16, "--quiet")
    succeeds(case, "calibrate", "calibrate", model, "--text", "text.txt", "-o", "m.stats", "--samples", 2, "--length", 16,
             "--quiet")
    case.must("embed gives the same vectors", vectors(case, model, "ab") == vectors(case, plain, "ab"))
    succeeds(case, "convert", "convert", model, "-o", "out", "--scheme", "f32", "--quiet")
    case.must("the converted model gives the same text",
              succeeds(case, "out", "run", "out", "-p", "ab", "-n", 8, "--quiet") == wanted)
    large = model_files.write_byte_level_model(case.work / "large")
    wanted = succeeds(case, "without the token", "run", large, "-p", "ab", "-n", 8, "--quiet")
    add_token(large, 260)
    succeeds(case, "convert to GGUF", "convert", large, "-o", "out.gguf", "--to", "gguf", "--scheme", "f32", "--quiet")
    case.must("the GGUF gives the same text",
              succeeds(case, "GGUF", "run", "out.gguf", "-p", "ab", "-n", 8, "--quiet") == wanted)


@reported("a text or ids with a token that the embedding has no row for: one line that names it, and 400")
def token_beyond_embedding_in_text(case: Case) -> None:
    model = with_token_beyond(case)
    (case.work / "text.txt").write_text("ab <image_soft_token> ba " * 60)
    for command in (["run", model, "-p", "a<image_soft_token>"], ["eval", model, "--text", "text.txt", "--context", 16],
                    ["embed", model, "--text", "text.txt"],
                    ["calibrate", model, "--text", "text.txt", "-o", "m.stats", "--samples", 2, "--length", 16]):
        refused(case, command[0], *command, names="image_soft_token")
    with case.server(model) as client:
        text = {"prompt": "a<image_soft_token>"}
        for path, body in (("/v1/completions", text), ("/v1/completions", {"prompt": [7, 67]}),
                           ("/v1/embeddings", {"input": "a<image_soft_token>"}), ("/v1/embeddings", {"input": [67]}),
                           ("/tokenize", text), ("/detokenize", {"tokens": [67]})):
            case.must(f"{path} {body} is answered with 400", case.ask(client, path, body).status == 400)
        chat = {"messages": [{"role": "user", "content": "<image_soft_token>"}], "max_tokens": 2}
        case.must("special tokens in a user's message are text",
                  case.ask(client, "/v1/chat/completions", chat).status == 200)


@reported("a tokenizer of another model: still refused")
def other_tokenizer(case: Case) -> None:
    model = case.model()
    tokenizer = json.loads((model / "tokenizer.json").read_text())
    tokenizer["model"]["vocab"] |= {f"word{i}": 67 + i for i in range(40)}
    (model / "tokenizer.json").write_text(json.dumps(tokenizer))
    refused(case, "run", "run", model, "-p", "ab", names="do not belong together")


# Templates ----------------------------------------------------------------------------------------------------------

@reported("chat_template.json (Mistral Small 3.1), alone or beside the tokenizer's own template, which goes before")
def template_of_processor(case: Case) -> None:
    model = case.model()
    (model / "chat_template.json").write_text(json.dumps({"chat_template": "P" + SEPARATE}))
    with case.server(model) as client:
        case.must("the tokenizer's template is preferred", "<|im_start|>" in prompt_of(case, client))
    edit_json(model / "tokenizer_config.json", chat_template=...)
    with case.server(model) as client:
        case.must("chat_template.json is read", prompt_of(case, client) == "Pab")
    succeeds(case, "convert", "convert", model, "-o", "out", "--scheme", "f32", "--quiet")
    with case.server(case.work / "out") as client:
        case.must("convert copies chat_template.json", prompt_of(case, client) == "Pab")


@reported("additional_chat_templates, and lists of templates without one that is called default")
def several_templates(case: Case) -> None:
    model = case.model()
    (model / "additional_chat_templates").mkdir()
    (model / "additional_chat_templates" / "rag.jinja").write_text("R" + SEPARATE)
    (model / "chat_template.jinja").write_bytes(b"\xef\xbb\xbfX\r\n" + SEPARATE.encode())
    succeeds(case, "convert", "convert", model, "-o", "out", "--scheme", "f32", "--quiet")
    for folder in (model, case.work / "out"):
        with case.server(folder) as client:
            case.must("chat_template.jinja is read without its byte order mark", prompt_of(case, client) == "X\nab")
    (model / "chat_template.jinja").unlink()
    (model / "additional_chat_templates" / "default.jinja").write_text("D" + SEPARATE)
    with case.server(model) as client:
        case.must("the default template is preferred to additional ones", prompt_of(case, client) == "Dab")
    other = case.model(folder="other")
    edit_json(other / "tokenizer_config.json", chat_template=[{"name": "own", "template": "O" + SEPARATE}])
    with case.server(other) as client:
        case.must("the only template of a list is used", prompt_of(case, client) == "Oab")
    edit_json(other / "tokenizer_config.json", chat_template=[{"name": "tool_use", "template": "T" + SEPARATE},
                                                              {"name": "default", "template": "D" + SEPARATE}])
    with case.server(other) as client:
        case.must("the default template of a list is used", prompt_of(case, client) == "Dab")


@reported("unk_token, pad_token and the other special tokens in templates, as transformers defines them")
def special_tokens_in_templates(case: Case) -> None:
    model = case.model()
    source = "{{ unk_token }}|{{ pad_token }}|{{ sep_token }}|{{ mask_token is defined }}|{{ image_token }}|{{ audio_token }}"
    edit_json(model / "tokenizer_config.json", chat_template=source + "|{{ add_bos_token is defined }}|" + SEPARATE,
              pad_token="a", sep_token={"content": "b", "lstrip": False}, image_token="c", add_bos_token=True,
              extra_special_tokens={"audio_token": "d"})
    with case.server(model) as client:
        case.must("templates have special tokens by name", prompt_of(case, client) == "<unk>|a|b|False|c|d|False|ab")
        case.must("/tokenizer_info has the pad token", client.get("/tokenizer_info").json()["pad_token"] == "a")
    gguf = model_files.gguf_with_tokenizer(case.work / "m.gguf", padding=9)
    file = Gguf(gguf)
    file.fields["tokenizer.chat_template"] = (STRING, "{{ unk_token }}{{ pad_token }}{{ bos_token }}" + SEPARATE)
    with case.server(file.write(gguf)) as client:
        case.must("templates of a GGUF have special tokens", prompt_of(case, client) == "<unk>c<s>ab")


@reported("special tokens that only special_tokens_map.json names, beside a tokenizer.json")
def special_tokens_map(case: Case) -> None:
    model = case.model()
    edit_json(model / "tokenizer_config.json", bos_token=..., eos_token=..., unk_token=...,
              chat_template="{{ bos_token }}{{ eos_token }}{{ pad_token }}" + SEPARATE)
    (model / "special_tokens_map.json").write_text(json.dumps(
        {"bos_token": "<s>", "eos_token": {"content": "<|im_end|>", "lstrip": False}, "pad_token": "a"}))
    with case.server(model) as client:
        case.must("templates have these special tokens", prompt_of(case, client) == "<s><|im_end|>aab")
        case.must("the end token is one of them", client.get("/tokenizer_info").json()["eos_token"] == "<|im_end|>")


@reported("bos_token: null in tokenizer_config.json (Qwen): undefined in templates, for any value in config.json")
def no_bos_token(case: Case) -> None:
    model = case.model()
    tokenizer = json.loads((model / "tokenizer.json").read_text()) | {"post_processor": None}
    (model / "tokenizer.json").write_text(json.dumps(tokenizer))
    edit_json(model / "tokenizer_config.json", bos_token=None,
              chat_template="{% if bos_token is defined %}{{ bos_token }}{% endif %}" + SEPARATE)
    with case.server(model) as client:
        case.must("bos_token is undefined in templates", prompt_of(case, client) == "ab")
        case.must("no token begins a text", client.get("/tokenizer_info").json()["bos_token"] is None)


# Unused fields and tensors -------------------------------------------------------------------------------------------

LEFTOVERS = [{"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4"},
             {"quant_method": "awq", "bits": 3, "group_size": 128, "zero_point": True, "version": "gemv_fast"},
             {"quant_method": "gptq", "bits": 7, "group_size": 128, "desc_act": False}, {"quant_method": "hqq"}, {},
             {"quant_method": "fp8", "weight_block_size": [128, 128]}, {"quant_method": "modelopt", "quant_algo": "FP8"},
             {"quant_method": "compressed-tensors", "format": "marlin-24", "config_groups": {}}]


@reported("a quantization_config that is left beside plain 16-bit tensors: what the tensors are decides")
def leftover_quantization(case: Case) -> None:
    model = case.model()
    wanted = succeeds(case, "without it", "run", model, "-p", "ab", "-n", 6, "--quiet")
    for leftover in LEFTOVERS:
        edit_json(model / "config.json", quantization_config=leftover)
        what = leftover.get("quant_method", "no method")
        case.must(what, succeeds(case, what, "run", model, "-p", "ab", "-n", 6, "--quiet") == wanted)
    succeeds(case, "convert", "convert", model, "-o", "out", "--scheme", "f32", "--quiet")
    case.must("the converted model gives the same text",
              succeeds(case, "out", "run", "out", "-p", "ab", "-n", 6, "--quiet") == wanted)


@reported("codes that bitsandbytes wrote: refused with one line, not read as weights")
def real_quantization(case: Case) -> None:
    for dtype, size in (("I8", 1), ("U8", 1)):
        model = case.model(folder=dtype)
        tensors = model_files.read_tensors(model)
        name = "model.layers.0.mlp.up_proj.weight"
        shape = tensors[name][1]
        tensors[name] = (dtype, shape, bytes(shape[0] * shape[1] * size))
        tensors["model.layers.0.mlp.up_proj.SCB"] = ("F32", [shape[0]], bytes(4 * shape[0]))
        model_files.write_tensors(model, tensors)
        edit_json(model / "config.json", quantization_config={"quant_method": "bitsandbytes", "load_in_8bit": True})
        refused(case, dtype, "run", model, "-p", "ab", names="bitsandbytes")


@reported("one tensor of a type that is not read (F8_E5M2, F8_E8M0, F4, U16, U64): an error only where it is needed")
def unread_tensor(case: Case) -> None:
    model = case.model()
    wanted = succeeds(case, "without it", "run", model, "-p", "ab", "-n", 6, "--quiet")
    tensors = model_files.read_tensors(model)
    kinds = {"F8_E5M2": 8, "F8_E8M0": 8, "F4": 4, "U16": 16, "U64": 64, "C64": 64, "F6_E2M3": 6, "NEW_TYPE": 8}
    for kind, bits in kinds.items():
        model_files.write_tensors(model, {**tensors, "visual.scale": (kind, [16], bytes(2 * bits))})
        case.must(kind, succeeds(case, kind, "run", model, "-p", "ab", "-n", 6, "--quiet") == wanted)
    listed = succeeds(case, "inspect", "inspect", model)
    case.must("inspect lists it", "NEW_TYPE" in listed)
    succeeds(case, "convert", "convert", model, "-o", "out", "--scheme", "f32", "--quiet")
    name = "model.layers.0.mlp.up_proj.weight"
    model_files.write_tensors(model, {**tensors, name: ("F8_E5M2", tensors[name][1], bytes(48 * 32))})
    error = refused(case, "needed", "run", model, "-p", "ab", names=name)
    case.must("the error has the tensor's type", "F8_E5M2" in error)


# Two tokenizers -----------------------------------------------------------------------------------------------------

def mistral_directory(case: Case, folder: str) -> pathlib.Path:
    model = case.work / folder
    fixtures.write_large_model(model, hidden=32, layers=1, mlp=32, vocabulary=model_files_vocabulary())
    edit_json(model / "config.json", bos_token_id=1, eos_token_id=2)
    (model / "tokenizer_config.json").write_text(json.dumps({"bos_token": "<s>", "eos_token": "</s>"}))
    return model


def model_files_vocabulary() -> int:
    return len(model_files.TEKKEN_SPECIAL) + 256 + 2


@reported("Mistral's directory with a tokenizer.json that cuts text in another way than tekken.json: mistral_common's ids")
def two_tokenizers(case: Case) -> None:
    model = mistral_directory(case, "model")
    model_files.write_tekken(model, "[ab ]+")
    model_files.write_tekken_as_json(model, "[^ ]+| ")
    with case.server(model) as client:
        reply = case.ask(client, "/tokenize", {"content": "a b", "add_special": False})
        case.must("the ids are those of tekken.json", reply.json()["tokens"] == [model_files_vocabulary() - 1])
        case.must("no warning", "tekken" not in client.server.log())


@reported("a tokenizer.json whose tokens are others than those of tekken.json beside it: tokenizer.json, and a line warns")
def changed_tokenizer(case: Case) -> None:
    model = mistral_directory(case, "model")
    model_files.write_tekken(model, "[ab ]+")
    model_files.write_tekken_as_json(model, "[^ ]+| ", ["<unk>", "<s>", "</s>", "<|im_start|>"])
    done = case.run("run", model, "-p", "a b", "-n", 1)
    told = [line for line in done.stderr.decode().splitlines() if "tekken.json" in line]
    case.must("the model runs, and one line has the id", done.returncode == 0 and len(told) == 1 and "3" in told[0])
    with case.server(model) as client:
        reply = case.ask(client, "/tokenize", {"content": "<|im_start|>", "add_special": False})
        case.must("the ids are those of tokenizer.json", reply.json()["tokens"] == [3])


# Related inputs ------------------------------------------------------------------------------------------------------

@reported("numbers that only Python writes (NaN, -Infinity), and byte order marks, in files that need neither")
def files_of_python(case: Case) -> None:
    model = case.model()
    wanted = succeeds(case, "before", "run", model, "-p", "ab", "-n", 6, "--quiet")
    for name in ("config.json", "tokenizer_config.json"):
        text = (model / name).read_text().rstrip()
        (model / name).write_text('\ufeff{"unused": [NaN, -Infinity, Infinity, "NaN"],' + text[1:], encoding="utf-8")
    text = (model / "tokenizer.json").read_text()
    (model / "tokenizer.json").write_text("\ufeff" + text, encoding="utf-8")
    case.must("the model runs as before", succeeds(case, "run", "run", model, "-p", "ab", "-n", 6, "--quiet") == wanted)


@reported("vocab.txt with a byte order mark, Windows line ends and a line that is there twice: the last one counts")
def vocabulary_lines(case: Case) -> None:
    model = case.model("bert")
    (model / "tokenizer.json").unlink()
    (model / "tokenizer_config.json").unlink()
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "a"]
    (model / "vocab.txt").write_bytes(b"\xef\xbb\xbf" + "\r\n".join(words).encode())
    edit_json(model / "config.json", vocab_size=len(words), pad_token_id=0)
    tensors = model_files.read_tensors(model)
    for name, (dtype, shape, data) in list(tensors.items()):
        if shape and shape[0] == 67:
            tensors[name] = (dtype, [len(words), *shape[1:]], data[:len(data) // 67 * len(words)])
    model_files.write_tensors(model, tensors)
    with case.server(model) as client:
        reply = case.ask(client, "/tokenize", {"content": "a b", "add_special": False})
        case.must("the last of equal lines has the id", reply.json()["tokens"] == [7, 6])


@reported("a pad_token_id that the tokenizer does not have: convert takes the model")
def unknown_padding(case: Case) -> None:
    model = case.model()
    edit_json(model / "config.json", pad_token_id=67)
    succeeds(case, "convert", "convert", model, "-o", "out", "--scheme", "f32", "--quiet")


@reported("eos_token_id as a list in config.json or in its text_config, and names of special tokens as objects")
def spelled_otherwise(case: Case) -> None:
    model = case.model()
    edit_json(model / "config.json", eos_token_id=2)
    prompt, end = long_text(case, model)
    edit_json(model / "tokenizer_config.json", eos_token={"__type": "AddedToken", "content": "<|im_end|>", "lstrip": False})
    edit_json(model / "config.json", eos_token_id=[2, end])
    with case.server(model) as client:
        case.must("a list ends a text", generated(case, client, prompt)[2] == "stop")
    edit_json(model / "config.json", eos_token_id=..., text_config={"eos_token_id": [2, end]})
    with case.server(model) as client:
        case.must("a list in text_config ends a text", generated(case, client, prompt)[2] == "stop")
