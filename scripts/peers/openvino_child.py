"""Times one workload with OpenVINO GenAI's LLMPipeline; runs in an environment that has it.

    openvino_child.py MODEL_DIR THREADS DEPTH PROMPT GENERATE

Prints {"prompt": tokens/s, "generate": tokens/s}, each if its count is not 0. The pipeline's defaults apply
(attention by pages, activations quantized to INT8 on the fly); keys and values are INT8, its default on CPUs.
"""

import json
import sys

import numpy as np
import openvino
import openvino_genai


class Pipeline:
    def __init__(self, model: str, threads: int):
        with open(f"{model}/config.json", encoding="utf-8") as file:
            self._vocabulary = json.load(file)["vocab_size"]
        self._random = np.random.default_rng(0)
        self._pipeline = openvino_genai.LLMPipeline(model, "CPU", INFERENCE_NUM_THREADS=threads,
                                                    PERFORMANCE_HINT="LATENCY", KV_CACHE_PRECISION="u8")

    def seconds(self, prompt: int, generate: int) -> tuple[float, float]:
        """Returns the seconds until the first token, and from there to the last. Prompts differ, so that no prefix
        cache helps."""
        config = openvino_genai.GenerationConfig()
        config.max_new_tokens = generate
        config.ignore_eos = True
        config.do_sample = False
        ids = self._random.integers(0, self._vocabulary, (1, prompt), dtype=np.int64)
        inputs = openvino_genai.TokenizedInputs(openvino.Tensor(ids), openvino.Tensor(np.ones_like(ids)))
        metrics = self._pipeline.generate(inputs, config).perf_metrics
        first = metrics.get_ttft().mean / 1e3
        return first, metrics.get_generate_duration().mean / 1e3 - first


def main() -> None:
    depth, prompt, generate = map(int, sys.argv[3:6])
    pipeline = Pipeline(sys.argv[1], int(sys.argv[2]))
    speeds = {}
    if prompt:
        pipeline.seconds(depth + prompt, 1)
        whole = pipeline.seconds(depth + prompt, 1)[0]
        before = pipeline.seconds(depth, 1)[0] if depth else 0.0  # no way to start after a filled cache
        if whole <= before:
            sys.exit(f"{depth + prompt} tokens took no longer than {depth}: the machine is too noisy")
        speeds["prompt"] = prompt / (whole - before)
    if generate:
        pipeline.seconds(1, 2)
        speeds["generate"] = generate / pipeline.seconds(max(1, depth), generate + 1)[1]
    print(json.dumps(speeds))


if __name__ == "__main__":
    main()
