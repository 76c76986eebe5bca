#!/usr/bin/env python3
"""Compares models with adapters beside them with PEFT: random models of several families, converted in several ways.

    check_adapters.py PROGRAM [--seed N] [--deviation D]

Needs torch, transformers and peft. D is the standard deviation of what the adapters' second factors have. Prints, for each
model and each way, the largest error of a logit in deviations of the logits, and first the error of torch itself: both
compute in F32 and are compared with F64. Exits with 1 if an error is above 1e-5 and above twice that of torch.
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile

import peft
import torch
import transformers
from safetensors.torch import save_file

SHAPE = {"vocab_size": 257, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
         "max_position_embeddings": 128}
DECODER = SHAPE | {"num_key_value_heads": 2, "intermediate_size": 96}
TOKENS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
LINEARS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
GEMMA = {"head_dim": 16, "query_pre_attn_scalar": 16}

# The family's classes, fields of its configuration, and the adapter.
FAMILIES = {
    "llama": ("Llama", DECODER, {"target_modules": LINEARS}),
    "qwen2": ("Qwen2", DECODER | {"tie_word_embeddings": False},
              {"target_modules": [*LINEARS, "lm_head", "embed_tokens"], "use_rslora": True,
               "alpha_pattern": {"v_proj": 3}}),
    "qwen3": ("Qwen3", DECODER | {"head_dim": 16}, {"target_modules": LINEARS}),
    "gemma2": ("Gemma2", DECODER | GEMMA, {"target_modules": LINEARS}),
    "cohere": ("Cohere", DECODER, {"target_modules": LINEARS}),
    "granite": ("Granite", DECODER | {"embedding_multiplier": 6.0, "residual_multiplier": 0.3,
                                      "attention_multiplier": 0.2, "logits_scaling": 3.0}, {"target_modules": LINEARS}),
    "phi3": ("Phi3", DECODER, {"target_modules": ["qkv_proj", "gate_up_proj", "down_proj"]}),
    "phi": ("Phi", DECODER, {"target_modules": ["q_proj", "k_proj", "v_proj", "dense", "fc1", "fc2"]}),
    "gpt_neox": ("GPTNeoX", SHAPE | {"intermediate_size": 96},
                 {"target_modules": ["query_key_value", "dense", "dense_h_to_4h", "dense_4h_to_h"]}),
}
WAYS = {
    "folded": [],
    "unfolded": ["--no-fold-biases", "--no-fold-norms"],
    "smoothed": ["--smooth"],
    "all passes": ["--smooth", "--equalize", "--rotate", "--rotate-values"],
}


def make_model(family: str, folder: pathlib.Path, seed: int, deviation: float) -> float:
    """Writes a model, its adapter and the expected logits. Returns the error of torch in F32."""
    name, fields, lora = FAMILIES[family]
    torch.manual_seed(seed)
    config = getattr(transformers, f"{name}Config")(**fields, **TOKENS)
    model = getattr(transformers, f"{name}ForCausalLM")(config).float().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:  # gains and biases, which begin as ones and zeros
                parameter.add_(torch.randn(parameter.shape) * 0.3)
    model.save_pretrained(folder)
    adapted = peft.get_peft_model(model, peft.LoraConfig(r=4, lora_alpha=16, **lora)).eval()
    with torch.no_grad():
        for parameter, values in adapted.named_parameters():
            if "lora_B" in parameter or "lora_embedding_B" in parameter:
                values.copy_(torch.randn(values.shape) * deviation)
        adapted.save_pretrained(folder / "adapter")
        ids = torch.randint(3, SHAPE["vocab_size"], (2, 30))
        single = adapted(input_ids=ids).logits
        double = adapted.double()(input_ids=ids).logits
    save_file({"input_ids": ids, "logits": double.float().contiguous()}, str(folder / "expected.safetensors"))
    return float((single - double).abs().max() / double.std())


def error_of(program: str, model: pathlib.Path, expected: pathlib.Path, adapter: pathlib.Path) -> float:
    done = subprocess.run([program, "verify", model, "--expected", expected, "--adapter", adapter, "--tolerance", "1"],
                          check=True, capture_output=True, text=True)
    return float(next(line for line in done.stdout.splitlines() if line.startswith("relative error")).split()[2])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--deviation", type=float, default=0.02)
    arguments = parser.parse_args()
    failed = False
    with tempfile.TemporaryDirectory() as work:
        for family in FAMILIES:
            folder = pathlib.Path(work) / family
            own = make_model(family, folder, arguments.seed, arguments.deviation)
            errors = {"original": error_of(arguments.program, folder, folder / "expected.safetensors",
                                           folder / "adapter")}
            for way, flags in WAYS.items():
                written = folder / way.replace(" ", "_")
                subprocess.run([arguments.program, "convert", folder, "-o", written, "--scheme", "f32", "-q", *flags],
                               check=True, capture_output=True)
                errors[way] = error_of(arguments.program, written, folder / "expected.safetensors", folder / "adapter")
            failed |= any(error > max(1e-5, 2 * own) for error in errors.values())
            print(f"{family:9} torch {own:.1e}  " + "  ".join(f"{way} {error:.1e}" for way, error in errors.items()),
                  flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
