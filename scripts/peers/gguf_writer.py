"""Writes a Hugging Face checkpoint as a GGUF for speed tests: weights in their own type, no vocabulary.

llama.cpp's own converter needs torch, and a tokenizer that it knows; speed needs neither. The container is GGUF version
3 (docs/gguf.md of ggml). Llama, Mistral and Qwen2 checkpoints with dense MLPs.
"""

import json
import mmap
import pathlib
import struct

from .runs import PeerError

ALIGNMENT = 32
GGML_TYPES = {"F32": 0, "F16": 1, "BF16": 30}
ELEMENT_BYTES = {"F32": 4, "F16": 2, "BF16": 2}
ARCHITECTURES = {"llama": "llama", "mistral": "llama", "qwen2": "qwen2"}
OUTER_NAMES = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
BLOCK_NAMES = {
    "input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
}


def gguf_string(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def gguf_entry(key: str, value: str | int | float) -> bytes:
    if isinstance(value, str):
        return gguf_string(key) + struct.pack("<I", 8) + gguf_string(value)
    if isinstance(value, int):
        return gguf_string(key) + struct.pack("<II", 4, value)
    return gguf_string(key) + struct.pack("<If", 6, value)


def gguf_name(name: str) -> str:
    stem, _, kind = name.rpartition(".")
    if stem in OUTER_NAMES:
        return f"{OUTER_NAMES[stem]}.{kind}"
    parts = stem.split(".", 3)
    if parts[:2] != ["model", "layers"] or len(parts) < 4 or parts[3] not in BLOCK_NAMES:
        raise PeerError(f"{name}: unknown to the GGUF writer; pass --gguf with a file by llama.cpp's own converter")
    return f"blk.{parts[2]}.{BLOCK_NAMES[parts[3]]}.{kind}"


def to_f32(data: bytes, dtype: str) -> bytes:
    if dtype == "F32":
        return data
    if dtype == "F16":
        count = len(data) // 2
        return struct.pack(f"<{count}f", *struct.unpack(f"<{count}e", data))
    wide = bytearray(2 * len(data))  # BF16 is the upper half of F32
    wide[2::4], wide[3::4] = data[0::2], data[1::2]
    return bytes(wide)


def interleave_heads(data: bytes, rows: int, heads: int) -> bytes:
    """Rows of q and k in the order of llama.cpp's "llama" RoPE: pairs are adjacent, not half a head apart."""
    row_bytes, head = len(data) // rows, rows // heads
    order = [h * head + half * (head // 2) + i for h in range(heads) for i in range(head // 2) for half in (0, 1)]
    return b"".join(data[row * row_bytes:(row + 1) * row_bytes] for row in order)


class Checkpoint:
    def __init__(self, directory: pathlib.Path):
        try:
            self.config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
            files = sorted(directory.glob("*.safetensors"))
            self.tensors = {}  # name -> dtype, shape, memory, offsets
            for file in files:
                self._map(file)
        except (OSError, ValueError, struct.error) as error:
            raise PeerError(f"{directory}: is not a Hugging Face checkpoint: {error}") from error
        if not self.tensors:
            raise PeerError(f"{directory}: has no .safetensors file")

    def _map(self, file: pathlib.Path) -> None:
        with file.open("rb") as stream:
            memory = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        (length,) = struct.unpack("<Q", memory[:8])
        for name, entry in json.loads(memory[8:8 + length]).items():
            if name != "__metadata__":
                if entry["dtype"] not in GGML_TYPES:
                    raise PeerError(f"{file}: {name} is {entry['dtype']}; the GGUF writer supports F32, F16 and BF16")
                begin, end = entry["data_offsets"]
                self.tensors[name] = (entry["dtype"], entry["shape"], memory, 8 + length + begin, 8 + length + end)

    def tensor(self, name: str) -> bytes:
        _, _, memory, begin, end = self.tensors[name]
        return memory[begin:end]


def metadata(config: dict, architecture: str) -> bytes:
    heads = config["num_attention_heads"]
    head_size = config.get("head_dim") or config["hidden_size"] // heads
    theta = config.get("rope_theta") or (config.get("rope_parameters") or {}).get("rope_theta", 10000.0)
    own = {
        "context_length": config["max_position_embeddings"], "embedding_length": config["hidden_size"],
        "block_count": config["num_hidden_layers"], "feed_forward_length": config["intermediate_size"],
        "attention.head_count": heads, "attention.head_count_kv": config.get("num_key_value_heads") or heads,
        "attention.key_length": head_size, "attention.value_length": head_size, "rope.dimension_count": head_size,
        "attention.layer_norm_rms_epsilon": float(config["rms_norm_eps"]), "rope.freq_base": float(theta),
        "vocab_size": config["vocab_size"],
    }
    entries = {"general.architecture": architecture, "general.alignment": ALIGNMENT, "tokenizer.ggml.model": "no_vocab"}
    entries |= {f"{architecture}.{key}": value for key, value in own.items()}
    return struct.pack("<Q", len(entries)) + b"".join(gguf_entry(key, value) for key, value in entries.items())


def write_gguf(directory: pathlib.Path, output: pathlib.Path) -> None:
    checkpoint = Checkpoint(directory)
    config = checkpoint.config
    architecture = ARCHITECTURES.get(config.get("model_type"))
    if architecture is None:
        raise PeerError(f"{directory}: the GGUF writer supports llama, mistral and qwen2, not "
                        f"{config.get('model_type')!r}; pass --gguf with a file by llama.cpp's own converter")
    try:
        header = metadata(config, architecture)
    except KeyError as error:
        raise PeerError(f"{directory}/config.json: lacks {error}") from error
    heads = {"q_proj": config["num_attention_heads"],
             "k_proj": config.get("num_key_value_heads") or config["num_attention_heads"]}
    names = [name for name in checkpoint.tensors
             if not (name == "lm_head.weight" and config.get("tie_word_embeddings"))]

    directory_of_tensors, offset = b"", 0
    for name in names:
        dtype, shape = checkpoint.tensors[name][:2]
        stored = "F32" if len(shape) == 1 else dtype
        count = 1
        for size in shape:
            count *= size
        directory_of_tensors += gguf_string(gguf_name(name)) + struct.pack("<I", len(shape))
        directory_of_tensors += struct.pack(f"<{len(shape)}Q", *reversed(shape))
        directory_of_tensors += struct.pack("<IQ", GGML_TYPES[stored], offset)
        offset += -(-count * ELEMENT_BYTES[stored] // ALIGNMENT) * ALIGNMENT

    with output.open("wb") as file:
        file.write(b"GGUF" + struct.pack("<IQ", 3, len(names)) + header + directory_of_tensors)
        for name in names:
            file.write(bytes(-file.tell() % ALIGNMENT))
            dtype, shape = checkpoint.tensors[name][:2]
            data = checkpoint.tensor(name)
            if len(shape) == 1:
                data, dtype = to_f32(data, dtype), "F32"
            part = name.split(".")[-2]
            if architecture == "llama" and part in heads:
                data = interleave_heads(data, shape[0], heads[part])
            file.write(data)
        file.write(bytes(-file.tell() % ALIGNMENT))
