"""Inputs of the checks: the models of tests/data/models, with a tokenizer for their ids, and texts."""

import array
import json
import math
import pathlib
import random
import shutil
import string

MODELS = pathlib.Path(__file__).resolve().parents[2] / "data" / "models"
FAMILIES = sorted(path.name for path in MODELS.iterdir() if path.is_dir())
CLASSIFIERS = MODELS.parent / "classifiers"
TRANSLATORS = MODELS.parent / "translators"
GGUFS = sorted(path.name for path in MODELS.iterdir() if path.suffix == ".gguf")

SPECIAL = ["<unk>", "<s>", "<|im_start|>", "<|im_end|>"]
MERGES = ["t h", "h e", "i n", "e r", "a n", "r e", "▁ t", "▁ a"]
CHARACTERS = ["▁", "\n", ".", *string.ascii_letters]
CHATML = ("{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>'"
          " + '\\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}")


def write_tokenizer(folder: pathlib.Path) -> None:
    """Writes a BPE tokenizer of letters and some pairs, or of small letters if there are fewer ids; chats in
    ChatML."""
    merges = MERGES
    names = SPECIAL + CHARACTERS + [merge.replace(" ", "") for merge in merges]
    if json.loads((folder / "config.json").read_text())["vocab_size"] < len(names):
        merges = []
        names = SPECIAL + [character for character in CHARACTERS if not character.isupper()]
    tokenizer = {
        "added_tokens": [{"id": i, "content": name, "special": True, "normalized": False}
                         for i, name in enumerate(SPECIAL)],
        "normalizer": None,
        "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True},
        "post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
                                                                    {"Sequence": {"id": "A", "type_id": 0}}],
                           "pair": [], "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}},
        "decoder": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True},
        "model": {"type": "BPE", "unk_token": "<unk>", "vocab": {name: i for i, name in enumerate(names)},
                  "merges": merges},
    }
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    config = {"bos_token": "<s>", "eos_token": "<|im_end|>", "unk_token": "<unk>", "chat_template": CHATML}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))


def copy_model(name: str, folder: pathlib.Path) -> None:
    """Copies the family `name` with a tokenizer, and the file that `verify` expects: NAME.expected.safetensors."""
    shutil.copytree(MODELS / name, folder)
    (folder / "expected.safetensors").rename(folder.with_name(folder.name + ".expected.safetensors"))
    write_tokenizer(folder)


def copy_classifier(name: str, folder: pathlib.Path) -> None:
    """Copies a classifier with a tokenizer."""
    shutil.copytree(CLASSIFIERS / name, folder, ignore=shutil.ignore_patterns("expected.safetensors"))
    write_tokenizer(folder)


def copy_translator(name: str, folder: pathlib.Path) -> None:
    """Copies a model with an encoder and a decoder, with a tokenizer."""
    shutil.copytree(TRANSLATORS / name, folder, ignore=shutil.ignore_patterns("expected.safetensors"))
    write_tokenizer(folder)


def text(words: int, seed: int) -> str:
    """Returns random letters, the same on every machine."""
    source = random.Random(seed)
    return " ".join("".join(source.choice(string.ascii_lowercase) for _ in range(source.randint(1, 7)))
                    for _ in range(words)) + ".\n"


def write_inputs(work: pathlib.Path) -> None:
    for name in FAMILIES:
        copy_model(name, work / name)
    for name in GGUFS:
        shutil.copy(MODELS / name, work / name)
    (work / "text.txt").write_text(text(400, 1))
    (work / "calibration.txt").write_text(text(1200, 2))
    questions = [{"question": f"what is {word}", "choices": ["the one", "another"], "answer": i % 2}
                 for i, word in enumerate(text(6, 3).rstrip(".\n").split())]
    (work / "questions.jsonl").write_text("".join(json.dumps(question) + "\n" for question in questions))


def write_random_tensors(path: pathlib.Path, shapes: dict[str, tuple[int, ...]], seed: int) -> None:
    """Writes tensors of random values that repeat."""
    source = random.Random(seed)
    values = array.array("f", (source.gauss(0, 1) for _ in range(4099)))
    header, data = {}, bytearray()
    for name, shape in shapes.items():
        scale = 1 / shape[-1] ** 0.5 if len(shape) == 2 else 1
        scaled = array.array("f", (value * scale for value in values)).tobytes()
        size = 4 * math.prod(shape)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + size]}
        data += (scaled * (size // len(scaled) + 1))[:size]
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def write_adapter(model: pathlib.Path, folder: pathlib.Path, seed: int = 1, rank: int = 2) -> None:
    """Writes a LoRA of all queries and last linears of a model's blocks."""
    config = json.loads((model / "config.json").read_text())
    hidden, mlp = config["hidden_size"], config["intermediate_size"]
    queries = config["num_attention_heads"] * config["head_dim"]
    shapes = {}
    for layer in range(config["num_hidden_layers"]):
        for module, outputs, inputs in (("self_attn.q_proj", queries, hidden), ("mlp.down_proj", hidden, mlp)):
            name = f"base_model.model.model.layers.{layer}.{module}"
            shapes |= {f"{name}.lora_A.weight": (rank, inputs), f"{name}.lora_B.weight": (outputs, rank)}
    folder.mkdir(parents=True)
    write_random_tensors(folder / "adapter_model.safetensors", shapes, seed)
    fields = {"peft_type": "LORA", "r": rank, "lora_alpha": rank, "base_model_name_or_path": str(model)}
    (folder / "adapter_config.json").write_text(json.dumps(fields))


def write_large_model(folder: pathlib.Path, hidden: int = 192, layers: int = 6, mlp: int = 512, vocabulary: int = 67,
                      family: str = "llama", heads: int = 4, kv_heads: int = 4) -> None:
    """A model that is large enough to be caught at work: 3 million weights, of random values that repeat. `family`: llama,
    qwen2 (with biases) or qwen3 (with norms of heads)."""
    shapes = {"model.embed_tokens.weight": (vocabulary, hidden), "model.norm.weight": (hidden,)}
    for layer in range(layers):
        block = f"model.layers.{layer}."
        shapes |= {f"{block}self_attn.{part}_proj.weight": (hidden // heads * (kv_heads if part in "kv" else heads), hidden)
                   for part in "qkvo"}
        shapes |= {f"{block}mlp.{part}_proj.weight": (mlp, hidden) for part in ("gate", "up")}
        shapes |= {f"{block}mlp.down_proj.weight": (hidden, mlp), f"{block}input_layernorm.weight": (hidden,),
                   f"{block}post_attention_layernorm.weight": (hidden,)}
        if family == "qwen2":
            shapes |= {f"{block}self_attn.{part}_proj.bias": shapes[f"{block}self_attn.{part}_proj.weight"][:1]
                       for part in "qkv"}
        if family == "qwen3":
            shapes |= {f"{block}self_attn.{part}_norm.weight": (hidden // heads,) for part in "qk"}
    config = json.loads((MODELS / family / "config.json").read_text())
    config |= {"hidden_size": hidden, "num_hidden_layers": layers, "intermediate_size": mlp, "head_dim": hidden // heads,
               "num_attention_heads": heads, "num_key_value_heads": kv_heads, "max_position_embeddings": 512,
               "vocab_size": vocabulary, "tie_word_embeddings": True}
    config.pop("layer_types", None)  # of as many layers as the tiny model has
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    write_random_tensors(folder / "model.safetensors", shapes, 5)
    write_tokenizer(folder)
