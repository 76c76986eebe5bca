"""A loaded model: tokenization, logits, vectors, and generation."""

from __future__ import annotations

import dataclasses
import json
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypedDict, Unpack, overload

import numpy as np

from ballast import _ballast
from ballast._checkpoint import local_model
from ballast._options import PathLike, Size, cache_options, filled, model_options, named
from ballast._progress import Progress, shown, tell
from ballast.generation import Generation, OnStep, Stream, generation_of

Ids: TypeAlias = Any
"""Token ids: a sequence of int, or an array of integers of one dimension that NumPy or DLPack reads (a torch tensor);
one of int32 is not copied."""

Messages: TypeAlias = str | Iterable[Mapping[str, Any]]
"""A conversation, {"role": ..., "content": ...} for each turn, or the first message of the user. Other fields of a
turn, such as reasoning_content or name, are passed to the chat template."""

Tools: TypeAlias = Iterable[Mapping[str, Any]]
"""Tools as in OpenAI's API."""

# Each keeps the cache of its last call.
_IDLE_GENERATORS = 1


class GenerateFlags(TypedDict, total=False):
    """Options of generation."""

    max_tokens: int
    """Default 128."""
    temperature: float
    """0: always the most likely token, the default of `generate`; `chat` uses the model's generation_defaults."""
    top_k: int
    top_p: float
    min_p: float
    """Tokens less likely than this fraction of the most likely one are not chosen."""
    repetition_penalty: float
    """Divides positive logits of tokens in the prompt or the answer."""
    presence_penalty: float
    """Subtracted from the logits of tokens in the answer."""
    frequency_penalty: float
    """Subtracted for each occurrence in the answer."""
    penalty_window: int | None
    """All three penalties count this many last tokens of prompt and answer; 0: none."""
    allowed_tokens: Sequence[int]
    """Only these tokens are chosen."""
    forbidden_sequences: Sequence[Sequence[int]]
    """Token sequences that the answer never contains."""
    logit_bias: Mapping[int, float]
    """Values added to logits of token ids, -100 to 100."""
    schema: Mapping[str, Any] | bool | str
    """The answer is JSON that is valid under this JSON Schema: a mapping, its JSON text, or True: any JSON. Of schema,
    regex, choices and grammar, only one can be given."""
    regex: str
    """The answer matches this regular expression as a whole."""
    choices: Sequence[str]
    """The answer is one of these texts."""
    grammar: str
    """The answer is a text of this grammar, in EBNF like llama.cpp's GBNF, with the rule root."""
    seed: int
    """The same seed gives the same tokens."""
    stop: str | Sequence[str]
    """Generation ends before any of these."""
    stop_tokens: Sequence[int]
    """Generation ends after any of these, in addition to the model's own."""
    ignore_eos: bool
    show_stop: bool
    """The text includes the stop string or token that ended it."""
    show_special_tokens: bool
    """The text includes special tokens."""
    min_tokens: int
    source_language: str
    """For models with an encoder, whose prompt is the source text."""
    target_language: str
    draft: Model
    """A smaller model with the same tokenizer, which drafts tokens; the text stays the same."""
    draft_tokens: int
    """Most tokens drafted at once by `draft`, by the model's own head for multi-token prediction or from what the text
    repeats, default 8; 0: none."""
    reply_format: str
    """For chats: how the model writes thinking and calls, such as "hermes" or "harmony"; "auto", the default: as its chat
    template does; "none": all text is the answer."""
    logprobs: int
    """Returns each token's log-probability, and this many of the most likely ones."""
    adapter: Adapter
    """The text is written by the model with this adapter."""
    kv: Literal["auto", "f16", "int8", "f32"]
    window: int
    """Rolling cache: this many last tokens are kept, in addition to the first `sinks`."""
    sinks: int


@dataclass(frozen=True)
class Score:
    """The likelihood of a text by a model."""

    ids: np.ndarray = field(repr=False)
    """int32 [tokens]"""
    logprobs: np.ndarray = field(repr=False)
    """Natural logarithm of the probability of ids[1:], each given those before it; float64 [tokens - 1]."""

    @property
    def total(self) -> float:
        """Nats."""
        return float(self.logprobs.sum())

    @property
    def perplexity(self) -> float:
        return float(np.exp(-self.logprobs.mean())) if self.logprobs.size else float("nan")

    def __repr__(self) -> str:
        return f"<Score of {self.ids.size} tokens: {self.total:.3f} nats, perplexity {self.perplexity:.3f}>"


@dataclass(frozen=True)
class Classification:
    """The labels of a text, or of its tokens."""

    label: str | list[str]
    """The label with the highest score; of each token, if tokens have labels."""
    scores: np.ndarray = field(repr=False)
    """float32 [labels], or [tokens, labels]"""
    labels: list[str] = field(repr=False)
    """The model's."""
    tokens: list[str] | None = None
    """Texts of the tokens that have labels; without special ones."""


@dataclass(frozen=True)
class WrittenText:
    """A text that was written from a source text."""

    text: str
    """Without special tokens."""
    tokens: list[int] = field(repr=False)
    """Including the one that ended it."""
    score: float
    """The sum of its log-probabilities, divided by a power of its length."""
    others: list[WrittenText] = field(default_factory=list, repr=False)
    """The next best of the same source text."""


def ids_array(ids: Ids) -> np.ndarray:
    """int32 [tokens]; raises TypeError for other types than integers, ValueError for other shapes and ids out of
    range."""
    if not isinstance(ids, np.ndarray):
        ids = np.from_dlpack(ids) if hasattr(ids, "__dlpack__") else np.asarray(ids)
    if ids.ndim != 1:
        raise ValueError(f"ids: one dimension is needed, not {ids.ndim}")
    if ids.size and ids.dtype.kind not in "iu":
        raise TypeError(f"ids: integers are needed, not {ids.dtype}")
    if ids.size and ids.dtype != np.int32 and (ids.max() > np.iinfo(np.int32).max or ids.min() < 0):
        raise ValueError("ids: some are not in any vocabulary")
    return np.ascontiguousarray(ids, dtype=np.int32)


def messages_list(messages: Messages) -> list[Any]:
    if isinstance(messages, str):
        messages = [{"role": "user", "content": messages}]
    return [_chat_message(message) for message in messages]


def _chat_message(message: Mapping[str, Any]) -> Any:
    """Content that is not a str (parts) is passed to the template unchanged; an assistant's may be missing."""
    fields = {name: value for name, value in message.items() if name not in ("role", "content")}
    content = message.get("content") if message["role"] == "assistant" else message["content"]
    if content is not None and not isinstance(content, str):
        fields["content"] = content
        content = ""
    return _ballast.ChatMessage(message["role"], content or "", json.dumps(fields) if fields else "")


_CONSTRAINTS = ("schema", "regex", "choices", "grammar")


def _constraint(flags: GenerateFlags) -> Any:
    given = [name for name in _CONSTRAINTS if flags.get(name) is not None]
    if not given:
        return None
    if len(given) > 1:
        raise ValueError(f"only one of these can be given: {', '.join(given)}")
    value: Any = flags.get(given[0])
    if given[0] == "choices":
        return _ballast.Constraint(_ballast.ConstraintKind.choice, "", list(value))
    if given[0] == "schema":
        text = value if isinstance(value, str) else json.dumps(value if isinstance(value, bool) else dict(value))
        return _ballast.Constraint(_ballast.ConstraintKind.json_schema, text, [])
    return _ballast.Constraint(getattr(_ballast.ConstraintKind, given[0]), value, [])


def _options(flags: GenerateFlags) -> Any:
    unknown = flags.keys() - GenerateFlags.__annotations__.keys()
    if unknown:
        raise TypeError(f"unknown arguments: {', '.join(sorted(unknown))}")
    plain = {name: value for name, value in flags.items()
             if name not in ("adapter", "logit_bias", "stop", "draft", "kv", "window", "sinks", *_CONSTRAINTS)}
    options = filled(_ballast.GenerateOptions(), **plain)
    constraint = _constraint(flags)
    if constraint is not None:
        options.constraint = constraint
    if "adapter" in flags:
        options.adapter = flags["adapter"]._adapter  # noqa: SLF001
    stop = flags.get("stop", ())
    options.stop = [stop] if isinstance(stop, str) else list(stop)
    options.logit_bias = [_ballast.LogitBias(id_, bias) for id_, bias in flags.get("logit_bias", {}).items()]
    options.cache = cache_options(flags.get("kv"), flags.get("window"), flags.get("sinks"))
    return options


class Adapter:
    """An adapter of one model, from `Model.load_adapter`."""

    def __init__(self, adapter: Any) -> None:
        self._adapter = adapter


class Tokenizer:
    """The tokenizer of a model. Raises Error if the model has none."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def encode(self, text: str, *, special_tokens: bool = True) -> list[int]:
        """Ids of a text; with `special_tokens` also those that the model needs around every text (BOS)."""
        return self._model.encode(text, special_tokens)

    def decode(self, ids: Ids) -> str:
        """The text of ids without special tokens."""
        return self._model.decode(ids_array(ids))

    def token_bytes(self, id: int) -> bytes:  # noqa: A002
        """Bytes of a token, also of special ones; they may be a part of a UTF-8 sequence."""
        return self._model.token_bytes(id)

    @property
    def stop_tokens(self) -> list[int]:
        """Ids that end a text."""
        return self._model.stop_tokens()

    def chat_prompt(self, messages: Messages, **template_arguments: Any) -> str:
        """The prompt for a conversation by the model's chat template, ending where the answer begins."""
        arguments = json.dumps(template_arguments) if template_arguments else ""
        return self._model.chat_prompt(messages_list(messages), arguments)


def _classify_options(raw_scores: bool, most_tokens: int | None, kv: str | None) -> _ballast.ClassifyOptions:
    options = filled(_ballast.ClassifyOptions(), raw_scores=raw_scores, most_tokens=most_tokens)
    if kv is not None:
        options.cache_type = named(_ballast.CacheType, "kv", kv)
    return options


class Model:
    """A model in memory: a Hugging Face directory, a .gguf file, or a directory that ballast wrote.

    All methods may be called from any number of threads at once: generations then run as one batch on one set of
    weights, and the result of one does not depend on the others. Raises Error for files that cannot be read.

    activations: type of the inputs of matrices that a GGUF stores in codes: "int8", "int16", or "float", for which they
    are decoded. expert_memory: bytes for the experts of a mixture; the others are read on demand.
    chat_template: a file with Jinja text in place of the model's own. context: tokens that a sequence needs, for a
    model with two contexts. generation_config: "auto": the model's sampling values are the defaults of `chat`; "none":
    those of `generate`. engine, bf16: how floats are multiplied; default the values given to `use_processor`.
    """

    def __init__(self, path: PathLike, *, activations: str = "int8", expert_memory: Size | None = None,
                 chat_template: PathLike | None = None, context: int | None = None,
                 generation_config: Literal["auto", "none"] = "auto", engine: str | None = None,
                 bf16: bool | None = None) -> None:
        options = model_options(activations, expert_memory, chat_template, context, generation_config, engine, bf16)
        options.draft_head = True
        self._model = _ballast.Model(local_model(path), options, tell)
        self._idle: list[tuple[Model | None, Any]] = []
        self._lock = threading.Lock()
        _models.add(self)

    @property
    def path(self) -> Path:
        return self._model.path

    @property
    def architecture(self) -> str:
        """"llama\""""
        return self._model.architecture

    @property
    def layers(self) -> int:
        return self._model.layers

    @property
    def hidden_size(self) -> int:
        return self._model.hidden_size

    @property
    def vocab_size(self) -> int:
        return self._model.vocab_size

    @property
    def context_length(self) -> int:
        """The largest number of tokens of a sequence, prompt and continuation together."""
        return self._model.context_length

    @property
    def generation_defaults(self) -> dict[str, float]:
        """The model's recommended sampling values, by the names of the arguments of `chat`: the temperature and others
        from its generation_config.json. Empty if it has none, and with generation_config="none"."""
        return self._model.generation_defaults

    @property
    def tokenizer(self) -> Tokenizer:
        return Tokenizer(self._model)

    def __repr__(self) -> str:
        return (f"<Model {self.path.name}: {self.architecture}, {self.layers} layers of {self.hidden_size}, "
                f"context of {self.context_length} tokens>")

    def load_adapter(self, path: PathLike, *, scale: float = 1.0) -> Adapter:
        """An adapter (LoRA) of this model, or of the original that was converted to it: a folder as PEFT writes it, or a
        GGUF. `scale` multiplies what it adds. Generations with different adapters run as one batch."""
        return Adapter(self._model.load_adapter(os.fspath(path), scale))

    def logits(self, ids: Ids, *, adapter: Adapter | None = None) -> np.ndarray:
        """Logits of a new sequence, float32 [tokens, vocab_size], with a cache in F32. Row i predicts token
        i + 1. torch.from_dlpack() takes them without a copy."""
        return self._model.logits(ids_array(ids), None if adapter is None else adapter._adapter)  # noqa: SLF001

    def activations(self, ids: Ids, layer: int) -> np.ndarray:
        """The residual stream after a layer, float32 [tokens, hidden_size], of a new sequence: the values that
        calibration measures. Layers count from 1; 0 is the embedding."""
        return self._model.activations(ids_array(ids), layer)

    def score(self, text: str | Ids) -> Score:
        """The likelihood of a text, with the special tokens around it, or of token ids."""
        ids = ids_array(self.tokenizer.encode(text) if isinstance(text, str) else text)
        return Score(ids, self._model.log_probabilities(ids))

    def embed(self, texts: str | Sequence[str], *, pooling: Literal["mean", "cls", "last"] | None = None,
              normalized: bool | None = None, most_tokens: int | None = None, prompt_name: str | None = None,
              dimensions: int | None = None, kv: str | None = None, progress: Progress = False) -> np.ndarray:
        """A vector of each text, float32 [texts, size], or [size] of a single str. Absent options have the model's
        values. most_tokens: longer texts are truncated. prompt_name: a prompt of the model's, which is put before each
        text. dimensions: only the first values of a vector are kept."""
        options = filled(_ballast.EmbedOptions(), normalized=normalized, most_tokens=most_tokens,
                         prompt_name=prompt_name, dimensions=dimensions)
        if pooling is not None:
            options.pooling = named(_ballast.Pooling, "pooling", pooling)
        if kv is not None:
            options.cache_type = named(_ballast.CacheType, "kv", kv)
        several = [texts] if isinstance(texts, str) else list(texts)
        with shown(progress) as listener:
            vectors = self._model.embed(several, options, listener)
        return vectors[0] if isinstance(texts, str) else vectors

    @staticmethod
    def _token_options(most_tokens: int | None, prompt_name: str | None) -> _ballast.EmbedOptions:
        return filled(_ballast.EmbedOptions(), most_tokens=most_tokens, prompt_name=prompt_name)

    def embed_sparse(self, texts: Sequence[str], *, most_tokens: int | None = None, prompt_name: str | None = None,
                     progress: Progress = False) -> list[dict[int, float]]:
        """The weights of each text's words by the ids of their tokens, for models with sparse_linear.pt (bge-m3)."""
        with shown(progress) as listener:
            return self._model.embed_sparse(list(texts), self._token_options(most_tokens, prompt_name), listener)

    def embed_tokens(self, texts: Sequence[str], *, most_tokens: int | None = None, prompt_name: str | None = None,
                     progress: Progress = False) -> list[np.ndarray]:
        """Vectors of each text's tokens but the first, float32 [tokens, size], for models with colbert_linear.pt."""
        with shown(progress) as listener:
            return self._model.embed_tokens(list(texts), self._token_options(most_tokens, prompt_name), listener)

    @staticmethod
    def _classification(result: dict[str, Any], text: int) -> Classification:
        labels, first = result["labels"], result["first"]
        end = first[text + 1] if text + 1 < len(first) else len(result["scores"])
        rows = result["scores"][first[text]:end]
        tokens = result["tokens"][text]
        if not tokens and len(rows) == 1:
            return Classification(labels[int(rows[0].argmax())], rows[0], labels)
        return Classification([labels[i] for i in rows.argmax(axis=1)], rows, labels, tokens)

    @property
    def labels(self) -> list[str]:
        """The labels of the model's classifier; empty if it has none."""
        return self._model.labels

    def classify(self, texts: str | Sequence[str] | Sequence[tuple[str, str]], *, raw_scores: bool = False,
                 most_tokens: int | None = None, kv: str | None = None,
                 progress: Progress = False) -> Classification | list[Classification]:
        """The scores of each text, or pair of texts, by the model's classifier; of a single str, one Classification.
        raw_scores: before the sigmoid or softmax. most_tokens: longer texts are truncated."""
        options = _classify_options(raw_scores, most_tokens, kv)
        several = [texts] if isinstance(texts, str) else list(texts)
        pairs = bool(several) and not isinstance(several[0], str)
        run = self._model.classify_pairs if pairs else self._model.classify
        with shown(progress) as listener:
            result = run([tuple(text) for text in several] if pairs else several, options, listener)
        classified = [self._classification(result, i) for i in range(len(several))]
        return classified[0] if isinstance(texts, str) else classified

    def rerank(self, query: str, documents: Sequence[str], *, raw_scores: bool = False, most_tokens: int | None = None,
               kv: str | None = None, progress: Progress = False) -> np.ndarray:
        """A score of each document for the query, float32 [documents]: the classifier's, or the cosine of their vectors
        if the model has none."""
        options = _classify_options(raw_scores, most_tokens, kv)
        with shown(progress) as listener:
            return self._model.rerank(query, list(documents), options, listener)

    def translate(self, texts: str | Sequence[str] | Sequence[Sequence[int]], *, beams: int | None = None,
                  source_language: str = "", target_language: str = "", length_penalty: float | None = None,
                  early_stop: Literal["no", "yes", "never"] | None = None, no_repeat_ngram: int | None = None,
                  repetition_penalty: float | None = None, min_tokens: int | None = None,
                  max_tokens: int | None = None, first_tokens: Sequence[int] | None = None,
                  forbidden_sequences: Sequence[Sequence[int]] | None = None, hypotheses: int = 1,
                  texts_at_once: int | None = None, kv: str | None = None,
                  progress: Progress = False) -> WrittenText | list[WrittenText]:
        """Writes a text from each source text, with an encoder and a decoder; of a single str, one text. Lists of ids
        are source texts with their special tokens. Absent options have the model's values. beams: texts that are
        pursued at once; 1: the most likely token is always chosen. early_stop: whether a search ends when it has as
        many complete texts as beams ("yes"), when the beams are worse ("no"), or when no length can make them better
        ("never"). hypotheses: the best ones are kept in `others`, too."""
        options = filled(self._model.translate_options(), beams=beams, source_language=source_language,
                         target_language=target_language, length_penalty=length_penalty,
                         no_repeat_ngram=no_repeat_ngram, repetition_penalty=repetition_penalty,
                         min_tokens=min_tokens, max_tokens=max_tokens, hypotheses=hypotheses,
                         texts_at_once=texts_at_once)
        if early_stop is not None:
            options.early_stop = named(_ballast.EarlyStop, "early_stop", early_stop)
        if first_tokens is not None:
            options.first_tokens = list(first_tokens)
        if forbidden_sequences is not None:
            options.forbidden_sequences = [list(sequence) for sequence in forbidden_sequences]
        if kv is not None:
            options.cache_type = named(_ballast.CacheType, "kv", kv)
        several = [texts] if isinstance(texts, str) else list(texts)
        of_ids = bool(several) and not isinstance(several[0], str)
        run = self._model.translate_ids if of_ids else self._model.translate
        with shown(progress) as listener:
            results = run([list(map(int, ids)) for ids in several] if of_ids else several, options, listener)
        written = [[WrittenText(*result) for result in of_text] for of_text in results]
        best = [dataclasses.replace(of_text[0], others=of_text[1:]) for of_text in written]
        return best[0] if isinstance(texts, str) else best

    @overload
    def generate(self, prompt: str | Ids, *, stream: Literal[False] = False,
                 **flags: Unpack[GenerateFlags]) -> Generation: ...
    @overload
    def generate(self, prompt: str | Ids, *, stream: Literal[True], **flags: Unpack[GenerateFlags]) -> Stream: ...
    @overload
    def generate(self, prompt: str | Ids, *, stream: bool,
                 **flags: Unpack[GenerateFlags]) -> Generation | Stream: ...
    def generate(self, prompt: str | Ids, *, stream: bool = False,
                 **flags: Unpack[GenerateFlags]) -> Generation | Stream:
        """Continues a text, with the special tokens around it, or token ids from the beginning of a context.

        stream: returns a stream of pieces immediately, for `for` or `async for`. The common beginning with the last
        call's prompt is not read again. Raises Error if the context has no room for the prompt.
        """
        options = _options(flags)
        if isinstance(prompt, str):
            return self._run(stream, flags, options, lambda generator, on_step:
                             generator.generate(prompt, options, on_step))
        ids = ids_array(prompt)
        return self._run(stream, flags, options, lambda generator, on_step:
                         generator.generate_ids(ids, options, on_step))

    @overload
    def chat(self, messages: Messages, *, stream: Literal[False] = False,
             template_arguments: Mapping[str, Any] | None = None, tools: Tools | None = None,
             **flags: Unpack[GenerateFlags]) -> Generation: ...
    @overload
    def chat(self, messages: Messages, *, stream: Literal[True],
             template_arguments: Mapping[str, Any] | None = None, tools: Tools | None = None,
             **flags: Unpack[GenerateFlags]) -> Stream: ...
    @overload
    def chat(self, messages: Messages, *, stream: bool, template_arguments: Mapping[str, Any] | None = None,
             tools: Tools | None = None, **flags: Unpack[GenerateFlags]) -> Generation | Stream: ...
    def chat(self, messages: Messages, *, stream: bool = False, template_arguments: Mapping[str, Any] | None = None,
             tools: Tools | None = None, **flags: Unpack[GenerateFlags]) -> Generation | Stream:
        """Answers a conversation by the model's chat template. template_arguments: arguments of the template, such as
        {"enable_thinking": False}. tools: those that the model may call, as in OpenAI's API: {"type": "function",
        "function": {"name": .., "description": .., "parameters": (a JSON schema)}}. The defaults of sampling are
        generation_defaults. The model's thinking is in `thinking` of the generation and its calls in `tool_calls`, and
        not in its text; for a stream they are in parts(). Otherwise like `generate`."""
        options = _options({**self.generation_defaults, **flags})
        if template_arguments:
            options.template_arguments = json.dumps(dict(template_arguments))
        if tools:
            options.tools = json.dumps(list(tools))
        turns = messages_list(messages)
        return self._run(stream, flags, options, lambda generator, on_step: generator.chat(turns, options, on_step))

    def _run(self, stream: bool, flags: GenerateFlags, options: Any,
             call: Callable[[Any, OnStep | None], Any]) -> Generation | Stream:
        draft = flags.get("draft")

        def generate(on_step: OnStep | None) -> Generation:
            generator = self._take_generator(draft)
            try:
                return generation_of(call(generator, on_step), options.logprobs)
            finally:
                self._give_generator(draft, generator)

        return Stream(generate) if stream else generate(None)

    def _take_generator(self, draft: Model | None) -> Any:
        """An idle generator, preferably the one with the last call's context."""
        with self._lock:
            for place, (known, generator) in enumerate(self._idle):
                if known is draft:
                    del self._idle[place]
                    return generator
        return _ballast.Generator(self._model, *([] if draft is None else [draft._model]))

    def _give_generator(self, draft: Model | None, generator: Any) -> None:
        with self._lock:
            self._idle.insert(0, (draft, generator))
            del self._idle[_IDLE_GENERATORS:]


_models: weakref.WeakSet[Model] = weakref.WeakSet()


def _unlock_in_child() -> None:
    """Replaces locks in a forked process, which may not have the thread that held one."""
    for model in _models:
        model._lock = threading.Lock()


os.register_at_fork(after_in_child=_unlock_in_child)
