#!/usr/bin/env python3
"""Writes a Llama or Qwen3 MoE checkpoint of random BF16 weights, to measure speed and memory at any size.

    pip install numpy
    make_random_checkpoint.py OUT_DIR [--layers 28] [--hidden 1536] [--heads 12] [--kv-heads 2] [--mlp 8960] [--vocab 49152]
        [--shards 1] [--head-size 0] [--experts 0] [--per-token 8]

The default has the shape of Qwen2.5-1.5B with a vocabulary of 49,152 (2.8 GB). With experts, --mlp is the size of one;
4 layers of Qwen3-30B-A3B's shape (6.2 GB) are

    --layers 4 --hidden 2048 --heads 32 --kv-heads 4 --head-size 128 --mlp 768 --experts 128 --vocab 151936

One tensor is in memory at a time. With several shards model.safetensors.index.json maps tensors to shards.
"""
import argparse
import json
import pathlib
import struct

import numpy as np


def bf16(values: np.ndarray) -> np.ndarray:
    """Round to nearest even, as the upper half of F32."""
    bits = values.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def tensor_shapes(args) -> dict[str, tuple[int, ...]]:
    head = args.head_size or args.hidden // args.heads
    queries, keys = args.heads * head, args.kv_heads * head
    shapes = {"model.embed_tokens.weight": (args.vocab, args.hidden)}
    for i in range(args.layers):
        prefix = f"model.layers.{i}."
        shapes |= {
            prefix + "input_layernorm.weight": (args.hidden,),
            prefix + "self_attn.q_proj.weight": (queries, args.hidden),
            prefix + "self_attn.k_proj.weight": (keys, args.hidden),
            prefix + "self_attn.v_proj.weight": (keys, args.hidden),
            prefix + "self_attn.o_proj.weight": (args.hidden, queries),
            prefix + "post_attention_layernorm.weight": (args.hidden,),
        }
        if args.experts:
            shapes |= {
                prefix + "self_attn.q_norm.weight": (head,),
                prefix + "self_attn.k_norm.weight": (head,),
                prefix + "mlp.gate.weight": (args.experts, args.hidden),
            }
        for mlp in [f"mlp.experts.{e}." for e in range(args.experts)] or ["mlp."]:
            shapes |= {
                prefix + mlp + "gate_proj.weight": (args.mlp, args.hidden),
                prefix + mlp + "up_proj.weight": (args.mlp, args.hidden),
                prefix + mlp + "down_proj.weight": (args.hidden, args.mlp),
            }
    shapes["model.norm.weight"] = (args.hidden,)
    return shapes


def write_tensors(path: pathlib.Path, shapes: dict[str, tuple[int, ...]], rng: np.random.Generator) -> int:
    """Returns the bytes of the tensors."""
    header, offset = {}, 0
    for name, shape in shapes.items():
        size = 2 * int(np.prod(shape))
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for shape in shapes.values():
            values = rng.standard_normal(shape, dtype=np.float32)
            values = 1 + 0.1 * values if len(shape) == 1 else values * np.float32(0.7 / shape[-1] ** 0.5)
            file.write(bf16(values).tobytes())
    return offset


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=pathlib.Path)
    for name, default in dict(layers=28, hidden=1536, heads=12, kv_heads=2, mlp=8960, vocab=49152, seed=0,
                              shards=1, head_size=0, experts=0, per_token=8).items():
        parser.add_argument("--" + name.replace("_", "-"), type=int, default=default)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
        "num_hidden_layers": args.layers, "hidden_size": args.hidden, "num_attention_heads": args.heads,
        "num_key_value_heads": args.kv_heads, "intermediate_size": args.mlp, "vocab_size": args.vocab,
        "max_position_embeddings": 32768, "rms_norm_eps": 1e-6, "tie_word_embeddings": True,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1000000.0}, "bos_token_id": 1, "eos_token_id": 2,
    }
    if args.head_size:
        config["head_dim"] = args.head_size
    if args.experts:
        config |= {
            "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "num_experts": args.experts,
            "num_experts_per_tok": args.per_token, "moe_intermediate_size": args.mlp, "norm_topk_prob": True,
        }
    (args.out / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    shapes = tensor_shapes(args)
    rng = np.random.default_rng(args.seed)
    shard_of = {name: i * args.shards // len(shapes) for i, name in enumerate(shapes)}
    files = [f"model-{i + 1:05}-of-{args.shards:05}.safetensors" for i in range(args.shards)]
    if args.shards == 1:
        files = ["model.safetensors"]
    total = 0
    for shard, file in enumerate(files):
        total += write_tensors(args.out / file, {n: s for n, s in shapes.items() if shard_of[n] == shard}, rng)
    if args.shards > 1:
        index = {"metadata": {"total_size": total}, "weight_map": {name: files[i] for name, i in shard_of.items()}}
        (args.out / "model.safetensors.index.json").write_text(json.dumps(index, indent=2) + "\n")
    print(f"{args.out}: {total / 1e9:.2f} GB")


if __name__ == "__main__":
    main()
