#!/usr/bin/env python3
"""Measures the sentences per second of a BERT or MPNet encoder with mean pooling, in INT8: ballast and its peers.

    scripts/peers/encoder.py --ballast build/release/ballast --original all-MiniLM-L6-v2 --model minilm-w8a8 \\
        --text sentences.txt --calibration-text calibration.txt --work /tmp/peers

The peers are onnxruntime and OpenVINO. Each program tokenizes, runs and pools the lines of --text in its own process, in
turns. The peers' batches are sorted by length, so that they pad little. ballast's time is that of `ballast embed` without
the time of an empty run. Needs torch, transformers, onnx, onnxruntime, openvino and nncf.
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import time

BATCH = 32
MOST_TOKENS = 256


def export(original, path):
    import torch
    from transformers import AutoModel

    model = AutoModel.from_pretrained(original, dtype=torch.float32, attn_implementation="eager").eval()

    class Pooled(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, input_ids, attention_mask):
            hidden = self.model.embeddings(input_ids=input_ids)
            mask = (1.0 - attention_mask[:, None, None, :].float()) * -10000.0
            if self.model.config.model_type == "mpnet":  # its layers share biases by distance
                hidden = self.model.encoder(hidden, mask)[0]
            else:
                for layer in self.model.encoder.layer:
                    hidden = layer(hidden, mask)
                    if isinstance(hidden, tuple):
                        hidden = hidden[0]
            weights = attention_mask.unsqueeze(-1).float()
            vectors = (hidden * weights).sum(1) / weights.sum(1)
            return vectors / vectors.norm(dim=1, keepdim=True)

    ids = torch.randint(1000, 2000, (4, 17))
    axes = {"input_ids": {0: "b", 1: "t"}, "attention_mask": {0: "b", 1: "t"}, "vectors": {0: "b"}}
    torch.onnx.export(Pooled(), (ids, torch.ones_like(ids)), str(path), input_names=["input_ids", "attention_mask"],
                      output_names=["vectors"], dynamic_axes=axes, opset_version=17, dynamo=False)


def encoded(tokenizer, lines):
    return [encoding.ids for encoding in tokenizer.encode_batch(lines)]


def run_batches(tokenizer, lines, run):
    """Returns [lines][size], in the order of the lines."""
    import numpy as np

    ids = encoded(tokenizer, lines)
    order = sorted(range(len(lines)), key=lambda i: len(ids[i]))
    vectors = None
    for begin in range(0, len(order), BATCH):
        some = order[begin:begin + BATCH]
        width = max(len(ids[i]) for i in some)
        batch = np.zeros((len(some), width), np.int64)
        mask = np.zeros((len(some), width), np.int64)
        for row, i in enumerate(some):
            batch[row, :len(ids[i])] = ids[i]
            mask[row, :len(ids[i])] = 1
        out = run(batch, mask)
        vectors = np.zeros((len(lines), out.shape[1]), np.float32) if vectors is None else vectors
        vectors[some] = out
    return vectors


def onnxruntime_int8(work, threads):
    import onnxruntime
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from onnxruntime.quantization.preprocess import quant_pre_process

    quant_pre_process(str(work / "model.onnx"), str(work / "prepared.onnx"), skip_symbolic_shape=True)
    quantize_dynamic(work / "prepared.onnx", work / "int8.onnx", weight_type=QuantType.QInt8, per_channel=True)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(str(work / "int8.onnx"), options, providers=["CPUExecutionProvider"])
    return lambda ids, mask: session.run(None, {"input_ids": ids, "attention_mask": mask})[0]


def openvino_int8(work, threads, tokenizer, calibration):
    import nncf
    import numpy as np
    import openvino

    core = openvino.Core()
    data = [{"input_ids": np.array([ids]), "attention_mask": np.ones((1, len(ids)), np.int64)}
            for ids in encoded(tokenizer, calibration)]
    model = nncf.quantize(core.read_model(work / "model.onnx"), nncf.Dataset(data),
                          model_type=nncf.ModelType.TRANSFORMER, subset_size=len(data))
    request = core.compile_model(model, "CPU", {"INFERENCE_NUM_THREADS": threads}).create_infer_request()

    def run(ids, mask):
        return next(iter(request.infer({"input_ids": ids, "attention_mask": mask}).values())).copy()

    return run


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("--ballast", "--original", "--model", "--text", "--calibration-text", "--work"):
        parser.add_argument(name, type=pathlib.Path, required=True)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = str(arguments.threads)

    import numpy as np
    from tokenizers import Tokenizer

    arguments.work.mkdir(parents=True, exist_ok=True)
    tokenizer = Tokenizer.from_file(str(arguments.original / "tokenizer.json"))
    tokenizer.enable_truncation(MOST_TOKENS)
    tokenizer.no_padding()
    lines = arguments.text.read_text().splitlines()
    calibration = [line for line in arguments.calibration_text.read_text().splitlines() if len(line) > 30][:300]
    export(arguments.original, arguments.work / "model.onnx")

    def ballast(text, model=arguments.model):
        out = arguments.work / "vectors.npy"
        start = time.perf_counter()
        subprocess.run([arguments.ballast, "embed", model, "--text", text, "-o", out, "--force", "-q", "--threads",
                        str(arguments.threads)], check=True, stderr=subprocess.DEVNULL)
        return time.perf_counter() - start, np.load(out)

    one = arguments.work / "one.txt"
    one.write_text(lines[0] + "\n")
    peers = {"onnxruntime, INT8": onnxruntime_int8(arguments.work, arguments.threads),
             "OpenVINO, INT8": openvino_int8(arguments.work, arguments.threads, tokenizer, calibration)}
    exact = ballast(arguments.text, arguments.original)[1]
    seconds, cosines = {}, {}

    def add(name, took, vectors):
        seconds.setdefault(name, []).append(took)
        cosines[name] = float((vectors * exact).sum(1).mean())

    for run in peers.values():
        run_batches(tokenizer, lines[:10 * BATCH], run)
    for _ in range(arguments.rounds):
        for name, run in peers.items():
            start = time.perf_counter()
            vectors = run_batches(tokenizer, lines, run)
            add(name, time.perf_counter() - start, vectors)
        empty = ballast(one)[0]
        took, vectors = ballast(arguments.text)
        add("ballast", took - empty, vectors)
    for name, times in seconds.items():
        print(f"{name:20} {len(lines) / statistics.median(times):8.0f} sentences/s   cosine {cosines[name]:.6f}")


if __name__ == "__main__":
    main()
