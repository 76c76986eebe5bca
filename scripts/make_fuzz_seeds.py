#!/usr/bin/env python3
"""Writes tests/fuzz/corpus/{safetensors,torch,gguf,gguf_model,modules,config,statistics,recipe,quantized,foreign,template,
ranks,charsmap,reply,state}: small valid files that fuzzing starts from."""

import base64
import io
import json
import math
import pathlib
import struct
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
CORPUS = ROOT / "tests/fuzz/corpus"
GOLDEN = ROOT / "tests/data/models"  # written by make_golden_models.py
CHATS = ROOT / "tests/data/tokenizer/chat/chats.json"  # written by make_golden_chats.py
LLAMA = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 64, "intermediate_size": 128,
         "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 100,
         "max_position_embeddings": 256, "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "tie_word_embeddings": True,
         "eos_token_id": 2, "hidden_act": "silu", "attention_bias": False, "mlp_bias": False, "torch_dtype": "float16"}
U8, U16, U32, I32, F32, BOOL, STRING, ARRAY, U64 = 0, 2, 4, 5, 6, 7, 8, 9, 10
BLOCKS = {2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 10: (256, 84), 11: (256, 110), 12: (256, 144),
          13: (256, 176), 14: (256, 210), 16: (256, 66), 17: (256, 74), 18: (256, 98), 19: (256, 50), 20: (32, 18),
          21: (256, 110), 22: (256, 82), 23: (256, 136), 28: (1, 8), 29: (256, 56), 34: (256, 54), 35: (256, 66), 39: (32, 17),
          40: (64, 36)}


def safetensors(header: dict, data: bytes) -> bytes:
    text = json.dumps(header, separators=(",", ":")).encode()
    return struct.pack("<Q", len(text)) + text + data


def torch_archive(values: bytes, kind: str) -> bytes:
    """A file of torch.save with a weight [2, 3] and a bias [2], whose values follow each other."""
    def short(value: str) -> bytes:
        return b"X" + struct.pack("<I", len(value)) + value.encode()

    def tensor(offset: int, sizes: list[int], strides: list[int]) -> bytes:
        shape = b"".join(b"(" + b"".join(b"K" + bytes([n]) for n in numbers) + b"t" for numbers in (sizes, strides))
        return (b"ctorch._utils\n_rebuild_tensor_v2\nq\1((" + short("storage") + b"ctorch\n" + kind.encode() +
                b"Storage\n" + short("0") + short("cpu") + b"K\x08tQK" + bytes([offset]) + shape +
                b"\x89ccollections\nOrderedDict\n)RtR")

    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in (("data.pkl", b"\x80\2ccollections\nOrderedDict\n)Rq\0(" + short("weight") +
                               tensor(0, [2, 3], [3, 1]) + short("bias") + tensor(6, [2], [1]) + b"u}" +
                               short("_metadata") + b"h\0sb."), ("data/0", values), ("version", b"3\n")):
            archive.writestr(zipfile.ZipInfo("seed/" + name), content)  # without the time
    return file.getvalue()


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


def array(kind: int, values: list[bytes]) -> bytes:
    return struct.pack("<IQ", kind, len(values)) + b"".join(values)


def gguf(metadata: list[tuple[str, int, bytes]], tensors: list[tuple[str, list[int], int, int]], data: bytes,
         alignment: int = 32, version: int = 3) -> bytes:
    file = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(metadata))
    for key, kind, value in metadata:
        file += text(key) + struct.pack("<I", kind) + value
    for name, sizes, kind, offset in tensors:
        file += text(name) + struct.pack(f"<I{len(sizes)}QIQ", len(sizes), *sizes, kind, offset)
    return file + bytes(-len(file) % alignment) + data


def charsmap(rules: dict[bytes, bytes]) -> bytes:
    """Returns a compiled map of characters; each node of its trie has 256 units."""
    children: list[dict[int, int]] = [{}]
    values: dict[int, int] = {}
    texts = b""
    for sequence, replacement in rules.items():
        node = 0
        for byte in sequence:
            if byte not in children[node]:
                children[node][byte] = len(children)
                children.append({})
            node = children[node][byte]
        values[node] = len(texts)
        texts += replacement + b"\0"
    units = [0] * (256 * (len(children) + 1))
    units[0] = 256 << 10
    for node, below in enumerate(children):
        begin = 256 * (node + 1)
        if node in values:
            units[begin] = values[node] | 1 << 31
        for byte, child in below.items():
            place = begin ^ byte
            units[place] = (place ^ 256 * (child + 1)) << 10 | (child in values) << 8 | byte
    return struct.pack(f"<{len(units) + 1}I", 4 * len(units), *units) + texts


def write(folder: str, name: str, content: bytes) -> None:
    path = CORPUS / folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def tensors(values: dict[str, tuple[str, list[int], bytes]], metadata: dict[str, str]) -> bytes:
    header: dict = {"__metadata__": metadata}
    data = b""
    for name, (kind, shape, content) in values.items():
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    return safetensors(header, data)


def statistics() -> bytes:
    """Returns statistics of two channels, one layer and a sample of two tokens."""
    top = {"channel": 1, "position": 0, "sample": 0, "token": 7, "token_text": "a", "value": -2385.5}
    metadata = {"version": 2, "model": "m", "text": "t", "samples": 1, "length": 2, "seed": 3, "heads": 1,
                "layers": [{"layer": 0, "massive": False, "median": 0.1, "top": []},
                           {"layer": 1, "massive": True, "median": 1.5, "top": [top]}],
                "massive_channels": [{"channel": 1, "samples": 1}],
                "massive_tokens": [{"position": 0, "samples": 1, "token": -1, "token_text": ""}],
                "inputs": [["model.layers.0.self_attn.q_proj"]], "map": {"channels": [1], "layer": 1, "tokens": ["a"]}}
    values = {"samples.tokens": ("I32", [1, 2], struct.pack("<2i", 7, 8)), "sink_share": ("F32", [1], struct.pack("<f", .25)),
              "map": ("F32", [1], struct.pack("<f", 400))}
    ranges = {"min": (-2, -1), "max": (2, 2), "mean": (0, .5), "mean_square": (1.5, 1), "ordinary_absmax": (1, 2)}
    for group in ("inputs.0", "keys.0", "values.0"):
        for name, pair in ranges.items():
            values[f"{group}.{name}"] = ("F32", [2], struct.pack("<2f", *pair))
    return tensors(values, {"ballast.statistics": json.dumps(metadata)})


def quantized() -> dict[str, bytes]:
    """Returns a matrix [4, 64] named "m" in each stored format; fuzz_quantized.cc uses the same names of formats."""
    def codes(bits: int, count: int) -> tuple[str, list[int], bytes]:
        width = (count * bits + 7) // 8
        return "U8", [4, width], bytes(i * 37 % 256 for i in range(4 * width))

    half = struct.pack("<e", 0.01)
    outliers = {"m.outlier_columns": ("I32", [2], struct.pack("<2i", 3, 60)), "m.outlier_weight": ("F16", [4, 2], half * 8)}
    return {
        "int8-g32": tensors({"m.weight": codes(8, 64), "m.weight_scale": ("F16", [4, 2], half * 8)}, {}),
        "int4-g32-asym": tensors({"m.weight": codes(4, 64), "m.weight_scale": ("F16", [4, 2], half * 8),
                                  "m.weight_zero": codes(4, 2)} | outliers, {}),
        "int5-g32-s8": tensors({"m.weight": codes(5, 64), "m.weight_scale": ("U8", [4, 2], bytes(range(8))),
                                "m.weight_row_scale": ("F16", [4], half * 4)} | outliers, {}),
        "nl7-g32-s8": tensors({"m.weight": codes(7, 64), "m.weight_scale": ("U8", [4, 2], bytes(range(126, 134))),
                               "m.weight_row_scale": ("F16", [4], half * 4)} | outliers, {})}


def foreign() -> dict[str, bytes]:
    """Returns the line of a configuration and a matrix [8, 64] named "m" in other programs' formats."""
    def values(kind: str, shape: list[int], width: int) -> tuple[str, list[int], bytes]:
        return kind, shape, bytes(i * 37 % 256 for i in range(shape[0] * shape[1] * width))

    def halves(*shape: int) -> tuple[str, list[int], bytes]:
        return "F16", list(shape), b"".join(struct.pack("<e", (64 + i) / 4096) for i in range(shape[0] * shape[1]))

    def compressed(layout: str, **weights: object) -> dict:
        return {"quantization_config": {"quant_method": "compressed-tensors", "format": layout,
                                        "config_groups": {"g": {"weights": weights}}}}

    order = ("I32", [64], struct.pack("<64i", *(c % 2 for c in range(64))))
    found = {
        "gptq": ({"quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 32}},
                 {"qweight": values("I32", [8, 8], 4), "qzeros": values("I32", [2, 1], 4), "scales": halves(2, 8)}),
        "gptq-ordered": ({"quantization_config": {"quant_method": "gptq", "bits": 3, "group_size": 32, "checkpoint_format": "gptq_v2"}},
                         {"qweight": values("I32", [6, 8], 4), "qzeros": values("I32", [2, 1], 4), "scales": halves(2, 8),
                          "g_idx": order}),
        "awq": ({"quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 32, "version": "gemm"}},
                {"qweight": values("I32", [64, 1], 4), "qzeros": values("I32", [2, 1], 4), "scales": halves(2, 8)}),
        "mlx": ({"quantization": {"bits": 5, "group_size": 32}},
                {"weight": values("U32", [8, 10], 4), "scales": halves(8, 2), "biases": halves(8, 2)}),
        "fp8": ({"quantization_config": {"quant_method": "fp8", "weight_block_size": [4, 32]}},
                {"weight": ("F8_E4M3", [8, 64], bytes(i % 120 for i in range(512))),
                 "weight_scale_inv": ("F32", [2, 2], struct.pack("<4f", .1, .2, .3, .4))}),
        "compressed": (compressed("pack-quantized", num_bits=6, type="int", strategy="group", group_size=32, symmetric=False),
                       {"weight_packed": values("I32", [8, 12], 4), "weight_scale": halves(8, 2),
                        "weight_zero_point": values("I32", [2, 2], 4), "weight_shape": ("I64", [2], struct.pack("<2q", 8, 64))}),
        "nvfp4": (compressed("nvfp4-pack-quantized", num_bits=4, type="float", strategy="tensor_group", group_size=16),
                  {"weight_packed": values("U8", [8, 32], 1), "weight_scale": ("F8_E4M3", [8, 4], bytes(range(40, 72))),
                   "weight_global_scale": ("F32", [1], struct.pack("<f", 300))}),
        "modelopt": ({"quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4"}},
                     {"weight": values("U8", [8, 32], 1), "weight_scale": ("F8_E4M3", [8, 4], bytes(range(40, 72))),
                      "weight_scale_2": ("F32", [], struct.pack("<f", .003))}),
        "bytes": (compressed("int-quantized", num_bits=8, type="int", strategy="channel", symmetric=True),
                  {"weight": values("I8", [8, 64], 1), "weight_scale": halves(8, 1)})}
    return {name: json.dumps(config).encode() + b"\n" + tensors({f"m.{part}": value for part, value in parts.items()}, {})
            for name, (config, parts) in found.items()}


MARK = "\u2581"


def strings(values: list[str]) -> bytes:
    return array(STRING, [text(value) for value in values])


def gguf_model(vocabulary: list[tuple[str, int, bytes]], count: int, with_tensors: bool) -> bytes:
    """Returns a BERT of one layer and four channels with a vocabulary of `count` tokens."""
    numbers = {"block_count": 1, "context_length": 6, "embedding_length": 4, "feed_forward_length": 4,
               "attention.head_count": 1, "pooling_type": 1}
    metadata = [("general.architecture", STRING, text("bert")), ("general.alignment", U32, struct.pack("<I", 8)),
                ("bert.attention.layer_norm_epsilon", F32, struct.pack("<f", 1e-12))]
    metadata += [(f"bert.{key}", U32, struct.pack("<I", value)) for key, value in numbers.items()]
    sizes = {"token_embd.weight": [4, count], "position_embd.weight": [4, 6]}
    for module in ("token_embd_norm", "blk.0.attn_output_norm", "blk.0.layer_output_norm"):
        sizes |= {f"{module}.weight": [4], f"{module}.bias": [4]}
    for module in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_up", "ffn_down"):
        sizes |= {f"blk.0.{module}.weight": [4, 4], f"blk.0.{module}.bias": [4]}
    tensors, data = [], b""
    for name, shape in sizes.items() if with_tensors else ():
        tensors.append((name, shape, 1, len(data)))
        values = math.prod(shape)
        data += b"".join(struct.pack("<e", (i * 37 % 64 - 30) / 32) for i in range(values))
        data += bytes(-len(data) % 8)
    return gguf(metadata + vocabulary, tensors, data, alignment=8)


def gguf_models() -> dict[str, bytes]:
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", f"{MARK}a", "b"]
    pieces = ["<pad>", "</s>", "<unk>", MARK, f"{MARK}a", "b", "ab"]
    return {
        "word_piece": gguf_model([
            ("tokenizer.ggml.model", STRING, text("bert")), ("tokenizer.ggml.tokens", ARRAY, strings(words)),
            ("tokenizer.ggml.token_type", ARRAY, array(I32, [struct.pack("<i", kind) for kind in (3, 3, 3, 3, 1, 1)]))],
            len(words), with_tensors=True),
        "unigram": gguf_model([
            ("tokenizer.ggml.model", STRING, text("t5")), ("tokenizer.ggml.tokens", ARRAY, strings(pieces)),
            ("tokenizer.ggml.token_type", ARRAY, array(I32, [struct.pack("<i", k) for k in (3, 3, 2, 1, 1, 1, 1)])),
            ("tokenizer.ggml.scores", ARRAY, array(F32, [struct.pack("<f", -i) for i in range(len(pieces))])),
            ("tokenizer.ggml.precompiled_charsmap", ARRAY, array(U8, [bytes([i]) for i in struct.pack("<II", 4, 1)]))],
            len(pieces), with_tensors=False)}


def modules() -> bytes:
    """Returns the files that fuzz_modules.cc writes, in its order."""
    kinds = {"": "Transformer", "1_Pooling": "Pooling", "2_Dense": "Dense", "3_Normalize": "Normalize"}
    listed = [{"path": path, "type": f"sentence_transformers.models.{kind}"} for path, kind in kinds.items()]
    values = {"linear.weight": ("F32", [2, 3], struct.pack("<6f", *range(6))), "linear.bias": ("F16", [2], bytes(4))}
    configs = [listed, {"max_seq_length": 64}, {"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False},
               {"in_features": 3, "out_features": 2, "bias": True, "activation_function": "torch.nn.Tanh"}]
    return b"\xff".join([*(json.dumps(config).encode() for config in configs), tensors(values, {})])


# Templates that use many features of the interpreter.
JINJA = {
    "macros": "{% macro f(k, s='-') %}{{ k ~ s }}{% endmacro %}{% macro g(k) -%}\n {{ k }}{{ varargs }}{% if k > 0 %}"
              "{{ g(k - 1, 2) }}{{ caller }}{% endif %}{% endmacro %}{{ f(1) }}{{ g(3) }}{% call(y) g(0) %}{{ y }}{% endcall %}"
              "{% filter upper %}x{{ f }}{% endfilter %}",
    "loops": "{% set ns = namespace(n=0) %}{% for m in messages[::-1] if m.role != 'x' %}{% set ns.n = ns.n + loop.index %}"
             "{{ loop.cycle('a', 'b') }}{{ loop.nextitem }}{% if loop.last %}{% break %}{% endif %}{% endfor %}"
             "{% for k in [[1, [2]]] recursive %}{{ loop(k) if k is iterable else k }}{% endfor %}{{ ns }}",
    "filters": "{{ messages|map(attribute='role')|unique|list|tojson(indent=2) }}{{ {'b': 1, 'a': [none]}|dictsort }}"
               "{{ messages|selectattr('role', 'in', ['user'])|list|length }}{{ [3, 1]|sort(reverse=true)|batch(1)|list }}"
               "{{ messages|groupby('role')|first|string|title|replace('a', 'b')|trim('x')|indent(2, true)|e }}{{ '2.5'|float|round|int }}",
    "formats": "{{ '%5.1f|%-3s|%%' % (1.5, 'x') }}{{ '{:*^8}|{x[0]!r}'.format('a', x=messages) }}{{ '%s' % messages[0].content }}"
               "{{ messages[0].content.split()[1:] }}{{ strftime_now('%d %b %Y') }}{{ raise_exception('no') }}",
    "space": "{#- a -#} b {%- raw -%} {{ x }} {%- endraw +%}\n  {% if true %}\n  c\n  {%- elif 1 < 2 <= 3 -%} d {% endif %}\n"
             "{%+ set x %}e{% endset %}{{- x[-1:] ~ 'f' * 3 -}}\n",
}


def state(mixers: bool) -> bytes:
    """Returns a file of the prefix cache on disk, for the layout of fuzz_state.cc: a page with two F16 rows."""
    tokens = 128
    numbers = bytes([0, 1]) + b"\xff" * (tokens - 2)  # the others are codes
    rows = struct.pack("<16e", *range(16))
    page = bytes(tokens * (4 + 16)) + struct.pack("<f", 0.5) * 2 * tokens + numbers
    payload = page + rows + (struct.pack("<4f", *range(4)) * mixers)
    return struct.pack("<8sII32xQ8xI4x", b"ballastS", 1, 1, len(payload), len(rows)) + payload


def main() -> None:
    write("state", "page", state(mixers=False))
    write("state", "page_and_mixers", state(mixers=True))
    write("statistics", "small", statistics())
    write("recipe", "w4a16", json.dumps({
        "scheme": "w4a16", "rounding": "gptq", "outlier_fraction": 0.01, "target_bytes": 92000000, "smooth": True,
        "exceptions": [{"pattern": "down_proj$", "format": "bf16"}], "linears": "int4-g32", "prefix": "198,0"}).encode())
    for name, content in quantized().items():
        write("quantized", name, content)
    for name, content in foreign().items():
        write("foreign", name, content)
    write("safetensors", "floats", safetensors(
        {"__metadata__": {"format": "pt", "xxh3.a": "0123456789abcdef"},
         "a": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]},
         "b": {"dtype": "BF16", "shape": [3], "data_offsets": [16, 22]},
         "c": {"dtype": "F16", "shape": [1, 1], "data_offsets": [22, 24]}}, bytes(range(24))))
    write("safetensors", "integers", safetensors(
        {"i": {"dtype": "I64", "shape": [], "data_offsets": [0, 8]},
         "none": {"dtype": "U8", "shape": [0, 3], "data_offsets": [8, 8]}}, bytes(8)))

    write("torch", "floats", torch_archive(struct.pack("<8f", *range(8)), "Float"))
    write("torch", "halves", torch_archive(struct.pack("<8e", *range(8)), "Half"))

    metadata = [("general.architecture", STRING, text("llama")), ("general.alignment", U32, struct.pack("<I", 32)),
                ("llama.rope.freq_base", F32, struct.pack("<f", 1e4)), ("flag", BOOL, b"\1"),
                ("big", U64, struct.pack("<Q", 1 << 40)),
                ("tokens", ARRAY, array(STRING, [text(t) for t in ("<s>", "a", "é")])),
                ("types", ARRAY, array(U8, [bytes([i]) for i in range(70)])),
                ("nested", ARRAY, array(ARRAY, [array(U8, [b"\0"]), array(STRING, [])]))]
    write("gguf", "metadata", gguf(metadata, [("t", [2, 2], 0, 0)], bytes(16)))
    split = [("split.no", U16, struct.pack("<H", 1)), ("split.count", U16, struct.pack("<H", 3)),
             ("split.tensors.count", I32, struct.pack("<i", 2))]
    write("gguf", "part", gguf(split, [("t", [2, 2], 0, 0)], bytes(16)))
    tensors, data = [], b""
    for kind, (elements, size) in BLOCKS.items():
        tensors.append((f"q{kind}", [elements], kind, len(data)))
        data += bytes(i * 37 % 120 for i in range(size))
        data += bytes(-len(data) % 32)
    write("gguf", "blocks", gguf([], tensors, data, version=2))

    for name, content in gguf_models().items():
        write("gguf_model", name, content)
    write("modules", "dense", modules())

    for config in sorted(GOLDEN.glob("*/config.json")):
        write("config", f"golden_{config.parent.name}", json.dumps(json.loads(config.read_text())).encode())
    write("config", "gemma3", json.dumps({
        "model_type": "gemma3", "text_config": json.loads((GOLDEN / "gemma3_text/config.json").read_text())}).encode())
    sizes = {key: LLAMA[key] for key in ("hidden_size", "num_attention_heads", "vocab_size", "max_position_embeddings")}
    for family in ("palm", "gopher"):
        write("config", family, json.dumps(LLAMA | {"model_type": family, "num_key_value_heads": 1}).encode())
    write("config", "megatron", json.dumps(sizes | {
        "model_type": "megatron", "num_layers": 2, "num_query_groups": 2, "position_embedding_type": "rope",
        "rotary_percent": 0.5, "rotary_base": 5000, "normalization": "RMSNorm", "swiglu": True,
        "add_qkv_bias": True, "add_bias_linear": False}).encode())
    biases = dict.fromkeys(("query", "key", "value", "attention_output", "latent", "up", "down", "head"), False)
    write("config", "written", json.dumps(LLAMA | {"ballast": {
        "version": 1, "norm": "rms", "norm_bias": False, "biases": biases, "massive_tokens": [-1, 7]}}).encode())
    write("config", "llama", json.dumps(LLAMA).encode())
    scaled = LLAMA | {"eos_token_id": [1, 2], "rope_scaling": {
        "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 128}}
    write("config", "llama3", json.dumps(scaled, indent=1).encode())

    more = [b"he", b"ll", b"hell", b"hello", b" hello", "é".encode()]
    in_base64 = [base64.b64encode(token).decode() for token in more]
    write("ranks", "list", "".join(f"{token} {256 + i}\n" for i, token in enumerate(in_base64)).encode())
    write("ranks", "tekken", json.dumps({
        "config": {"pattern": r"\s+|\S+", "default_vocab_size": 264, "default_num_special_tokens": 3},
        "vocab": [{"rank": 256 + i, "token_bytes": token} for i, token in enumerate(in_base64)],
        "special_tokens": [{"rank": 1, "token_str": "<s>"}]}).encode())
    write("charsmap", "letter", charsmap({b"a": b"b", b"\r": b" "}))
    # The place of a format in reply_formats(), and whether its marks are special tokens.
    for name, first, special, reply in (
            ("none", 0, 0, "<think>a</think>b"),
            ("harmony", 1, 1, "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>yes<|return|>"),
            ("harmony_text", 1, 0, "<|channel|>commentary to=f<|message|>{}<|call|>"),
            ("gemma", 2, 0, "<|channel>thought\nhm\n<channel|>yes"),
            ("command", 3, 1, "<|START_THINKING|>hm<|END_THINKING|><|START_RESPONSE|>yes<|END_RESPONSE|>"),
            ("mistral", 4, 1, "a [THINK]b[/THINK] c"),
            ("think", 32, 0, " <think>\nhm </thin\n</think>\n\nyes <think> <"),
            ("mistral_call", 4, 1, '[TOOL_CALLS]f[ARGS]{"a": "x"}[TOOL_CALLS] [{"name": "g", "arguments": {}}]'),
            ("kimi_call", 6, 1, "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>"
                                '{"b": 1}<|tool_call_end|><|tool_calls_section_end|>'),
            ("deepseek_call", 7, 0, "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>g\n```json\n{}\n```"
                                    "<｜tool▁call▁end｜><｜tool▁calls▁end｜>"),
            ("dsml_call", 9, 0, '<｜DSML｜function_calls>\n<｜DSML｜invoke name="f">\n<｜DSML｜parameter name="a" string="true">x'
                                "</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>"),
            ("gemma_call", 2, 1, 'a<|tool_call>call:f{a:<|"|>x<|"|>,b:[1,{k:None}]}<tool_call|>'),
            ("m1_call", 12, 0, '<tool_calls>\n{"name": "f", "arguments": {"a": "x"}}\n{"name": "g", "arguments": {}}\n</tool_calls>'),
            ("m3_call", 13, 1, "]<]minimax[>[<tool_call>\n]<]minimax[>[<invoke name=\"f\">]<]minimax[>[<b>]<]minimax[>[<item>1"
                               "]<]minimax[>[</item>]<]minimax[>[</b>]<]minimax[>[</invoke>\n]<]minimax[>[</tool_call>"),
            ("minicpm_call", 14, 0, '<function name="f"><param name="a"><![CDATA[x</param>]]></param><param name="b">1</param>'
                                    "</function>"),
            ("glm_call", 18, 0, "<tool_call>f\n<arg_key>c</arg_key>\n<arg_value>null</arg_value>\n</tool_call>"),
            ("coder_call", 19, 0, "<tool_call>\n<function=f>\n<parameter=a>\nx</parameter>y\n</parameter>\n<parameter=b>\n1\n"
                                  "</parameter>\n</function>\n</tool_call>"),
            ("lfm2_call", 20, 1, "<|tool_call_start|>[f(a='x', b=[1, {'k': None}]), g()]<|tool_call_end|>"),
            ("apertus_call", 27, 0, '<|tools_prefix|>[{"f": {"a": "x"}}, {"g": {}}]<|tools_suffix|>'),
            ("llama_call", 29, 0, '{"name": "f", "parameters": {"a": "\\u00e9"}}; {"parameters": {}, "name": "g"}'),
            ("hermes_call", 30, 0, '<tool_call>\n{"name": "f", "arguments": {"a": "</tool_call>"}}\n</tool_call>\n<tool_call>{')):
        write("reply", name, bytes([first, special]) + reply.encode())

    messages = json.dumps({"messages": [
        {"role": "system", "content": " Be brief. "}, {"role": "user", "content": [{"type": "text", "text": "Hi\n"}]},
        {"role": "assistant", "content": "<think>\n?</think>Hello."}, {"role": "user", "content": "2 + 2?"}],
        "chat_template_kwargs": {"enable_thinking": False}})
    for name, template in JINJA.items():
        write("template", name, template.encode() + b"\xff" + messages.encode())
    for chat in json.loads(CHATS.read_text(encoding="utf-8"))["templates"]:
        if len(chat["template"]) > 800:
            continue  # each input is cut and changed at every byte
        name = "".join(letter if letter.isalnum() else "_" for letter in chat["name"].lower())
        write("template", name, chat["template"].encode() + b"\xff" + messages.encode())


if __name__ == "__main__":
    main()
