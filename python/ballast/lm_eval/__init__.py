"""Runs lm-evaluation-harness on models of ballast, in the same process.

    python -m ballast.lm_eval run --model ballast --model_args path=smollm2-w8a8 --tasks lambada_openai

is `lm_eval` with the model `ballast`, and so is `lm_eval.simple_evaluate(model="ballast", ...)` once `ballast.lm_eval`
has been imported. Tokens, windows and the truncation of long texts are those of the harness's `hf`.
"""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from lm_eval.api.model import TemplateLM
from lm_eval.api.registry import register_model
from lm_eval.models.utils import normalize_gen_kwargs
from lm_eval.utils import get_rolling_token_windows, make_disjoint_window
from tqdm import tqdm

from ballast import _ballast
from ballast._options import Size, cache_options
from ballast.model import Model

_SLICES = 4  # of each thread's work, so that none waits long for the last one
_SAMPLING = ("top_p", "top_k", "min_p", "repetition_penalty", "seed")


def _named_token(model: Model, name: str) -> int | None:
    """The id of a token that tokenizer_config.json names: "bos_token"."""
    file = model.path / "tokenizer_config.json"
    if not file.is_file():
        return None
    token = json.loads(file.read_text(encoding="utf-8")).get(name)
    text = token.get("content") if isinstance(token, dict) else token
    ids = model.tokenizer.encode(text, special_tokens=False) if text else []
    return ids[0] if len(ids) == 1 else None


@register_model("ballast")
class BallastLM(TemplateLM):
    """Options are the harness's model_args.

    path (or pretrained): the model. batch_size: requests at once; those with a common beginning are adjacent, so that
    it is read once. max_length: tokens of a text; None: the model's context. kv: type of the cache.
    activations, expert_memory, chat_template, context: as of Model. prefix_token_id: before texts without a context.
    """

    def __init__(self, path: str | None = None, pretrained: str | None = None, batch_size: int | str = 8,
                 max_length: int | None = None, kv: Any = "f32", activations: str = "int8",
                 expert_memory: Size | None = None, chat_template: str | None = None, context: int | None = None,
                 prefix_token_id: int | None = None, **ignored: Any) -> None:
        super().__init__()
        place = path or pretrained
        if place is None:
            raise ValueError("model_args: path=MODEL is missing")
        unknown = ignored.keys() - {"device", "max_batch_size", "trust_remote_code"}
        if unknown:
            raise ValueError(f"model_args: unknown {', '.join(sorted(unknown))}")
        self.model = Model(Path(place), activations=activations, expert_memory=expert_memory,
                           chat_template=chat_template, context=context)
        self.batch_size = int(batch_size) if str(batch_size).isdigit() and int(batch_size) > 0 else 8
        self.max_length = min(max_length or self.model.context_length, self.model.context_length)
        self.max_gen_toks = 256
        self._kv = kv
        stops = self.model.tokenizer.stop_tokens
        eos = _named_token(self.model, "eos_token")
        self._eos = eos if eos is not None else stops[0] if stops else 0
        leading = self.model.tokenizer.encode("")
        bos = _named_token(self.model, "bos_token")
        known = (prefix_token_id, bos, *leading[:1], self._eos)
        self._prefix = next(token for token in known if token is not None)

    @property
    def eot_token_id(self) -> int:
        return self._eos

    @property
    def prefix_token_id(self) -> int:
        return self._prefix

    @property
    def tokenizer_name(self) -> str:
        return str(self.model.path).replace("/", "__")

    def apply_chat_template(self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        if not add_generation_prompt:
            raise NotImplementedError("ballast's chat prompts end where the answer begins")
        return self.model.tokenizer.chat_prompt(chat_history)

    def tok_encode(self, string: str, add_special_tokens: bool | None = None, **_: Any) -> list[int]:
        if add_special_tokens is None:
            prefix = self.model.tokenizer.token_bytes(self._prefix).decode(errors="replace")
            add_special_tokens = not (prefix and string.startswith(prefix))
        return self.model.tokenizer.encode(string, special_tokens=add_special_tokens)

    def _in_parallel(self, work: Callable[[Iterable[int], threading.Event], None], order: list[int]) -> None:
        """Processes slices of `order` with one thread per request of a batch; the engine merges their steps into one
        batch.

        The event is set after a failure or Ctrl-C: then a slice ends, and the running request should end, too.
        """
        slices = np.array_split(order, min(len(order), self.batch_size * _SLICES)) if order else []
        ended = threading.Event()

        def run(part: Iterable[int]) -> None:
            try:
                work(itertools.takewhile(lambda _: not ended.is_set(), part), ended)
            except BaseException:
                ended.set()
                raise

        with ThreadPoolExecutor(self.batch_size) as pool:
            try:
                for _ in pool.map(run, slices):
                    pass
            finally:
                ended.set()

    def _loglikelihood_tokens(self, requests: list[tuple[Any, list[int], list[int]]], disable_tqdm: bool = False,
                              **_: Any) -> list[tuple[float, bool]]:
        results: list[tuple[float, bool]] = [(0.0, True)] * len(requests)
        cache = cache_options(self._kv)
        with tqdm(total=len(requests), disable=disable_tqdm, desc="Running loglikelihood requests") as bar:

            def score(part: Iterable[int], _ended: threading.Event) -> None:
                generator = _ballast.Generator(self.model._model)
                for index in part:
                    _, context, continuation = requests[index]
                    ids = np.array((context + continuation)[-(self.max_length + 1):], dtype=np.int32)
                    if continuation:
                        first = len(ids) - len(continuation)
                        logprobs, likeliest = generator.score(ids, first, cache)
                        results[index] = (float(logprobs.sum()), bool((likeliest == ids[first:]).all()))
                    bar.update()
                    if requests[index][0] is not None:
                        self.cache_hook.add_partial("loglikelihood", requests[index][0], results[index])

            self._in_parallel(score, sorted(range(len(requests)), key=lambda index: requests[index][1]))
        return results

    def loglikelihood_rolling(self, requests: list[Any], disable_tqdm: bool = False) -> list[float]:
        windows: list[tuple[None, list[int], list[int]]] = []
        counts = []
        for (string,) in (request.args for request in requests):
            rolling = get_rolling_token_windows(token_list=self.tok_encode(string), prefix_token=self.prefix_token_id,
                                                max_seq_len=self.max_length, context_len=1)
            parts = [(None, *make_disjoint_window(window)) for window in rolling]
            windows += parts
            counts.append(len(parts))
        scores = [score for score, _ in self._loglikelihood_tokens(windows, disable_tqdm)]
        ends = np.cumsum(counts)
        totals = [float(sum(scores[end - count:end])) for end, count in zip(ends, counts, strict=True)]
        for request, total in zip(requests, totals, strict=True):
            self.cache_hook.add_partial("loglikelihood_rolling", request.args, total)
        return totals

    def generate_until(self, requests: list[Any], disable_tqdm: bool = False) -> list[str]:
        results = [""] * len(requests)
        prompts = [self.tok_encode(request.args[0]) for request in requests]
        with tqdm(total=len(requests), disable=disable_tqdm, desc="Running generate_until requests") as bar:

            def generate(part: Iterable[int], ended: threading.Event) -> None:
                for index in part:
                    options = normalize_gen_kwargs(requests[index].args[1], self.max_gen_toks)
                    most = options["max_gen_toks"]
                    if most >= self.max_length:
                        raise ValueError(f"max_gen_toks: {most} leave no room in a context of {self.max_length}")
                    sampling: Any = {name: options[name] for name in _SAMPLING if options.get(name) is not None}
                    # Several tries of the same text need different samples.
                    sampling["seed"] = sampling.get("seed", 0) + index
                    stream = self.model.generate(prompts[index][-(self.max_length - most):], max_tokens=most,
                                                 temperature=options.get("temperature", 0.0), stop=options["until"],
                                                 kv=self._kv, stream=True, **sampling)
                    for _ in stream:
                        if ended.is_set():
                            stream.close()
                            return
                    results[index] = stream.result.text
                    self.cache_hook.add_partial("generate_until", requests[index].args, results[index])
                    bar.update()

            self._in_parallel(generate, sorted(range(len(requests)), key=lambda index: prompts[index]))
        return results
