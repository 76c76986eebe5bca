"""Runs several requests at once in OpenVINO GenAI's ContinuousBatchingPipeline, in a separate process.

openvino_serving_child.py MODEL THREADS AT_ONCE REQUESTS PROMPT_TOKENS OUTPUT_TOKENS SEED
prints {"tokens_per_second": X}.
"""

import json
import random
import sys
import time

import numpy
import openvino
import openvino_genai


def prompt_ids(source: random.Random, vocabulary: int, tokens: int) -> openvino.Tensor:
    """Returns ids of ordinary tokens: their meaning does not affect the time."""
    return openvino.Tensor(numpy.array([[source.randrange(1000, min(vocabulary, 40000)) for _ in range(tokens)]],
                                       dtype=numpy.int64))


def serve(pipeline, at_once: int, prompts: list, output_tokens: int) -> float:
    """Returns the seconds until all requests are answered."""
    config = openvino_genai.GenerationConfig(max_new_tokens=output_tokens, ignore_eos=True, do_sample=False)
    waiting = list(enumerate(prompts))
    under_way = []
    begin = time.perf_counter()
    while waiting or under_way:
        while waiting and len(under_way) < at_once:
            number, ids = waiting.pop()
            under_way.append(pipeline.add_request(number, ids, config))
        pipeline.step()
        still = []
        for handle in under_way:
            if handle.can_read():
                handle.read()
            if handle.get_status() == openvino_genai.GenerationStatus.RUNNING:
                still.append(handle)
        under_way = still
    return time.perf_counter() - begin


def main() -> None:
    model = sys.argv[1]
    threads, at_once, requests, prompt_tokens, output_tokens, seed = (int(word) for word in sys.argv[2:])
    scheduler = openvino_genai.SchedulerConfig()
    scheduler.max_num_seqs = max(256, at_once)
    scheduler.max_num_batched_tokens = 512
    scheduler.cache_size = 2  # GB
    pipeline = openvino_genai.ContinuousBatchingPipeline(model, scheduler, "CPU", {"INFERENCE_NUM_THREADS": threads})
    vocabulary = len(pipeline.get_tokenizer().get_vocab())
    source = random.Random(seed)
    serve(pipeline, 1, [prompt_ids(source, vocabulary, prompt_tokens)], 8)  # the first one is slower
    prompts = [prompt_ids(source, vocabulary, prompt_tokens) for _ in range(requests)]
    seconds = serve(pipeline, at_once, prompts, output_tokens)
    print(json.dumps({"tokens_per_second": requests * output_tokens / seconds}))


if __name__ == "__main__":
    main()
