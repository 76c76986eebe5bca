#!/usr/bin/env python3
"""Writes tests/data/models: tiny random Llama checkpoints and the logits that transformers computes for them.

    llama/        tied embeddings, plain RoPE, F32
    llama.gguf    the same weights in F32, F16 and Q8_0, with GGUF's order of rows in q and k
    llama3/       in BF16; Llama 3's stretched RoPE, a head of its own, biases everywhere, and a massive activation in
                  channel 3 of the token with which texts begin

Each directory holds expected.safetensors: input_ids I64 [batch, tokens], logits F32 [batch, tokens, vocab]. What a fold or
a reader could get wrong is made large: norm gains spread over a decade, biases far from zero, key biases most of all.
Needs: pip install torch transformers gguf safetensors numpy.
"""

import argparse
import json
import pathlib

import gguf
import numpy as np
import torch
from safetensors.torch import save_file
from transformers import LlamaConfig, LlamaForCausalLM

SIZES = dict(vocab_size=67, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             intermediate_size=48, max_position_embeddings=64, bos_token_id=1, eos_token_id=1, pad_token_id=None)
MODELS = {
    "llama": dict(tie_word_embeddings=True, rms_norm_eps=1e-5),
    "llama3": dict(attention_bias=True, mlp_bias=True, tie_word_embeddings=False, head_dim=16,
                   rope_parameters=dict(rope_type="llama3", rope_theta=500000.0, factor=8.0, low_freq_factor=1.0,
                                        high_freq_factor=4.0, original_max_position_embeddings=32)),
}
FIRST_TOKEN, MASSIVE_CHANNEL = 1, 3
BATCH, TOKENS = 2, 14
GGUF_NAMES = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
              "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
              "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm"}


def is_q8(name: str) -> bool:
    return "gate_proj" in name or "up_proj" in name


def is_f16(name: str) -> bool:
    return "self_attn" in name


@torch.no_grad()
def fill(model: LlamaForCausalLM, generator: torch.Generator) -> None:
    tied = model.config.tie_word_embeddings
    for name, parameter in model.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        if name.endswith("bias"):
            value = 0.3 * noise
            if "k_proj" in name:
                value[::11] *= 20
        elif parameter.ndim == 1:
            value = torch.exp(0.6 * noise)
        elif "embed" in name:
            value = 0.2 * noise
        else:
            value = noise * 0.8 / parameter.shape[1] ** 0.5
        # Values that the files' types hold exactly, so that the logits are those of what is stored.
        if is_q8(name) and parameter.ndim == 2:
            blocks = gguf.quants.quantize(value.numpy(), gguf.GGMLQuantizationType.Q8_0)
            value = torch.from_numpy(gguf.quants.dequantize(blocks, gguf.GGMLQuantizationType.Q8_0))
        elif is_f16(name):
            value = value.half().float()
        parameter.copy_(value if tied else value.bfloat16().float())
    # Tied, a large value would stand in the logits too.
    model.get_input_embeddings().weight[FIRST_TOKEN, MASSIVE_CHANNEL] = 4.0 if tied else 400.0


def interleave_rope(values: np.ndarray, heads: int) -> np.ndarray:
    pairs = values.reshape(heads, 2, values.shape[0] // heads // 2, *values.shape[1:])
    return pairs.swapaxes(1, 2).reshape(values.shape)


def write_gguf(model: LlamaForCausalLM, path: pathlib.Path) -> None:
    config = model.config
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    for name, parameter in model.named_parameters():
        values = parameter.detach().numpy()
        if name == "model.embed_tokens.weight":
            target = "token_embd.weight"
        elif name == "model.norm.weight":
            target = "output_norm.weight"
        else:
            _, _, layer, module = name.split(".", 3)
            target = f"blk.{layer}.{GGUF_NAMES[module.rsplit('.', 1)[0]]}.weight"
        if "q_proj" in name:
            values = interleave_rope(values, config.num_attention_heads)
        if "k_proj" in name:
            values = interleave_rope(values, config.num_key_value_heads)
        if is_q8(name):
            quantized = gguf.quants.quantize(values, gguf.GGMLQuantizationType.Q8_0)
            writer.add_tensor(target, quantized, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
        else:
            writer.add_tensor(target, values.astype(np.float16 if is_f16(name) else np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_model(name: str, output: pathlib.Path, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    model = LlamaForCausalLM(LlamaConfig(**{**SIZES, **MODELS[name]})).float().eval()
    fill(model, generator)
    ids = torch.randint(2, SIZES["vocab_size"], (BATCH, TOKENS), generator=generator)
    ids[:, 0] = FIRST_TOKEN
    with torch.no_grad():
        logits = model(ids).logits
    path = output / name
    path.mkdir(parents=True, exist_ok=True)
    (path / "config.json").write_text(json.dumps(json.loads(model.config.to_json_string()), indent=2) + "\n")
    dtype = torch.float32 if model.config.tie_word_embeddings else torch.bfloat16
    tensors = {key: value.to(dtype).contiguous() for key, value in model.named_parameters()}
    save_file(tensors, path / "model.safetensors", metadata={"format": "pt"})
    save_file({"input_ids": ids, "logits": logits.contiguous()}, path / "expected.safetensors")
    for file in path.iterdir():
        file.chmod(0o644)  # save_file makes files that only their owner can read
    if name == "llama":
        write_gguf(model, output / "llama.gguf")
    print(f"{name}: logits of spread {logits.std():.3f}, largest {logits.abs().max():.2f}")


def main() -> None:
    default = pathlib.Path(__file__).resolve().parent.parent / "tests/data/models"
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=pathlib.Path, default=default)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    for index, name in enumerate(MODELS):
        write_model(name, arguments.output, arguments.seed * len(MODELS) + index)


if __name__ == "__main__":
    main()
