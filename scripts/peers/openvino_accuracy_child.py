"""Quantizes with NNCF and compares with the original; runs in an environment with openvino, nncf and transformers.

    openvino_accuracy_child.py compress '{"original": DIR, "target": DIR, "options": {..}, "calibration": TEXT or null}'
    openvino_accuracy_child.py compare '{"original": DIR, "models": [[DIR, ACTIVATION_GROUP], ..], "threads": N,
                                         "text": TEXT}'

TEXT is {"file", "length", "count"}: at most `count` chunks of `length` tokens without overlap, 0: all.
`options` are those of nncf.compress_weights, `calibration` is for methods that use activations.

`compare` prints [{"kl": .., "top1": ..}, ..] of the models, counted as `ballast eval` does: the second half of each
chunk is scored. All is computed in F32, keys and values too, but for what quantized weights are multiplied with: that
is INT8, with a scale per token for each ACTIVATION_GROUP of its channels, where this is not 0.
"""

import json
import pathlib
import shutil
import sys

import numpy as np
import openvino

MODEL = "openvino_model"
ROWS = 32  # compared at a time: an F64 array of them takes 12 MB for 49,152 ids


def read_chunks(model: str, file: str, length: int, count: int) -> np.ndarray:
    """Returns ids [chunks][length]; BOS replaces the first id of each chunk if the tokenizer adds it."""
    import transformers  # slow to load, and without text not needed

    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    ids = tokenizer(pathlib.Path(file).read_text(encoding="utf-8"), add_special_tokens=False, verbose=False).input_ids
    whole = len(ids) // length
    if not whole:
        sys.exit(f"{file}: has {len(ids)} tokens, fewer than the {length} of a chunk")
    chosen = min(whole, count or whole)
    chunks = np.array(ids[:chosen * length], dtype=np.int64).reshape(chosen, length)
    if tokenizer("").input_ids[:1] == [tokenizer.bos_token_id]:
        chunks[:, 0] = tokenizer.bos_token_id
    return chunks


def inputs_for(model, ids: np.ndarray) -> dict[str, np.ndarray]:
    """Returns the inputs of the exported model for a text that begins with `ids`, with an empty cache."""
    known = {"input_ids": ids[None, :], "attention_mask": np.ones((1, ids.size), np.int64),
             "position_ids": np.arange(ids.size, dtype=np.int64)[None, :], "beam_idx": np.zeros(1, np.int32)}
    return {port.get_any_name(): known[port.get_any_name()] for port in model.inputs}


def compress(original: str, target: str, options: dict, calibration: dict | None) -> None:
    import nncf  # `compare` does without

    arguments = {**options, "mode": nncf.CompressWeightsMode[options["mode"]]}
    model = openvino.Core().read_model(f"{original}/{MODEL}.xml")
    if calibration:
        chunks = read_chunks(original, **calibration)
        arguments["dataset"] = nncf.Dataset([inputs_for(model, ids) for ids in chunks])
        arguments["subset_size"] = len(chunks)
    model = nncf.compress_weights(model, **arguments)
    shutil.copytree(original, target, ignore=shutil.ignore_patterns(f"{MODEL}.*"))
    openvino.save_model(model, f"{target}/{MODEL}.xml")


class Runner:
    def __init__(self, folder: str, activation_group: int, threads: int):
        self._model = openvino.Core().compile_model(f"{folder}/{MODEL}.xml", "CPU", {
            "INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f32", "INFERENCE_NUM_THREADS": threads,
            "DYNAMIC_QUANTIZATION_GROUP_SIZE": activation_group})
        self._request = self._model.create_infer_request()

    def logits(self, ids: np.ndarray) -> np.ndarray:
        """Returns logits [tokens][vocabulary], valid until the next call."""
        self._request.reset_state()
        self._request.infer(inputs_for(self._model, ids))
        return self._request.get_tensor("logits").data[0]


def log_softmax(logits: np.ndarray) -> np.ndarray:
    shifted = logits.astype(np.float64) - logits.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def compare(original: str, models: list, threads: int, text: dict) -> None:
    chunks = read_chunks(original, **text)
    reference = Runner(original, 0, threads)
    candidates = [Runner(folder, activation_group, threads) for folder, activation_group in models]
    divergence, same = np.zeros(len(models)), np.zeros(len(models))
    first, last = text["length"] // 2, text["length"] - 1  # the last token predicts what is not in the chunk
    for ids in chunks:
        expected = reference.logits(ids)
        actual = [candidate.logits(ids) for candidate in candidates]
        for begin in range(first, last, ROWS):
            rows = slice(begin, min(begin + ROWS, last))
            p = log_softmax(expected[rows])
            weights, likeliest = np.exp(p), p.argmax(axis=-1)
            for index, logits in enumerate(actual):
                divergence[index] += (weights * (p - log_softmax(logits[rows]))).sum()
                same[index] += (logits[rows].argmax(axis=-1) == likeliest).sum()
    scored = len(chunks) * (last - first)
    print(json.dumps([{"kl": kl / scored, "top1": top1 / scored}
                      for kl, top1 in zip(divergence, same, strict=True)]))


if __name__ == "__main__":
    {"compress": compress, "compare": compare}[sys.argv[1]](**json.loads(sys.argv[2]))
