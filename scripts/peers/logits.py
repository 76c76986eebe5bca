#!/usr/bin/env python3
"""Writes the logits that another program computes for a checkpoint, so that `ballast verify` compares them with ours.

    logits.py mlx CHECKPOINT --text wikitext.txt --out logits.safetensors
    ballast verify CHECKPOINT --expected logits.safetensors

Runs in an environment with the program: mlx-lm (MLX and AWQ; `pip install mlx[cpu] mlx-lm`), transformers (with
compressed-tensors), or onnxruntime, whose model onnxruntime_genai.models.builder makes (--onnx). All compute in F32,
unless --dtype sets another type.
"""

import argparse
import pathlib

import numpy as np
import safetensors.numpy
import transformers


def chunks_of(checkpoint: str, text: pathlib.Path, count: int, length: int) -> np.ndarray:
    """Returns ids [count][length] without overlap."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(checkpoint)
    ids = tokenizer(text.read_text(encoding="utf-8"), add_special_tokens=False, verbose=False).input_ids
    return np.array(ids[:count * length], dtype=np.int64).reshape(count, length)


def with_mlx(arguments: argparse.Namespace, ids: np.ndarray) -> np.ndarray:
    import mlx.core as mx
    import mlx_lm

    mx.set_default_device(mx.cpu)
    model, _ = mlx_lm.load(arguments.checkpoint)
    model.set_dtype(getattr(mx, arguments.dtype))
    return np.stack([np.array(model(mx.array(chunk[None])).astype(mx.float32))[0] for chunk in ids])


def with_transformers(arguments: argparse.Namespace, ids: np.ndarray) -> np.ndarray:
    import torch

    dtype = getattr(torch, arguments.dtype)
    model = transformers.AutoModelForCausalLM.from_pretrained(arguments.checkpoint, dtype=dtype).eval()
    with torch.no_grad():
        return np.stack([model(torch.tensor(chunk[None])).logits[0].float().numpy() for chunk in ids])


def with_onnx(arguments: argparse.Namespace, ids: np.ndarray) -> np.ndarray:
    import onnxruntime

    session = onnxruntime.InferenceSession(arguments.onnx, providers=["CPUExecutionProvider"])

    def inputs_for(chunk: np.ndarray) -> dict[str, np.ndarray]:
        inputs = {"input_ids": chunk[None], "attention_mask": np.ones((1, chunk.size), np.int64),
                  "position_ids": np.arange(chunk.size, dtype=np.int64)[None]}
        for port in session.get_inputs():
            if port.name.startswith("past_key_values"):  # [batch, heads, tokens, size], of which there are none
                inputs[port.name] = np.zeros((1, port.shape[1], 0, port.shape[3]), np.float32)
        return {port.name: inputs[port.name] for port in session.get_inputs()}

    return np.stack([session.run(["logits"], inputs_for(chunk))[0][0] for chunk in ids])


PROGRAMS = {"mlx": with_mlx, "transformers": with_transformers, "onnx": with_onnx}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", choices=PROGRAMS)
    parser.add_argument("checkpoint", help="Hugging Face directory")
    parser.add_argument("--onnx", metavar="FILE", help="the model that ONNX Runtime runs")
    parser.add_argument("--dtype", default="float32", help="type for MLX and transformers (default %(default)s)")
    parser.add_argument("--text", type=pathlib.Path, required=True, metavar="FILE")
    parser.add_argument("--chunks", type=int, default=2, metavar="N", help="(default %(default)s)")
    parser.add_argument("--length", type=int, default=256, metavar="TOKENS", help="tokens of each chunk (default %(default)s)")
    parser.add_argument("--out", type=pathlib.Path, required=True, metavar="FILE")
    arguments = parser.parse_args()
    ids = chunks_of(arguments.checkpoint, arguments.text, arguments.chunks, arguments.length)
    logits = PROGRAMS[arguments.program](arguments, ids)
    safetensors.numpy.save_file({"input_ids": ids, "logits": np.ascontiguousarray(logits)}, arguments.out)


if __name__ == "__main__":
    main()
