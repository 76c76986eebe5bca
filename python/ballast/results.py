"""Results of jobs. The fields are those of the program's --json; sizes are bytes, divergences nats per token, times
seconds."""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from dataclasses import dataclass, field
from typing import Any, TypeVar

T = TypeVar("T")


def from_json(kind: type[T], text: str) -> T:
    return from_fields(kind, json.loads(text))


def from_fields(kind: Any, fields: dict[str, Any]) -> Any:
    """Returns the dataclass with these fields; absent ones have its defaults. Raises TypeError for an unknown one: the
    program must not print what the package does not have."""
    hints = typing.get_type_hints(kind)
    return kind(**{name: _converted(hints.get(name), value) for name, value in fields.items()})


def _converted(hint: Any, value: Any) -> Any:
    if value is None:
        return None
    if isinstance(hint, types.UnionType):
        return _converted(next(kind for kind in typing.get_args(hint) if kind is not types.NoneType), value)
    if typing.get_origin(hint) is list:
        (item,) = typing.get_args(hint)
        return [_converted(item, entry) for entry in value]
    return from_fields(hint, value) if dataclasses.is_dataclass(hint) else value


@dataclass(frozen=True)
class TensorGroup:
    """Tensors that differ only in their layer."""

    name: str
    """"model.layers.*.mlp.down_proj.weight\""""
    type: str
    """"F16", "Q4_1", "int8-g64\""""
    tensors: int
    weights: int
    bytes: int


@dataclass(frozen=True)
class Inspection:
    """The description of a model."""

    architecture: str
    parameters: int
    file_bytes: int
    bits_per_weight: float
    layers: int
    hidden_size: int
    vocab_size: int
    context_length: int
    tokenizer: str
    """Its kind, or why it has none."""
    tensor_groups: list[TensorGroup]
    advice: list[str]
    """Possible next steps, one line each."""
    causal: bool = True
    tied_embeddings: bool = False
    details: dict[str, Any] = field(default_factory=dict, repr=False)
    """All that `ballast inspect --json` prints."""


@dataclass(frozen=True)
class ConvertedGroup:
    """Tensors that a conversion treated in the same way."""

    name: str
    format: str
    """"int8-g64 + 7 columns f16\""""
    tensors: int
    weights: int
    bytes_before: int
    bytes_after: int
    cost: float = 0.0
    """Divergence expected from its rounding, with a target size."""
    next_gain: float = 0.0
    """The part of it that one more byte would save."""


@dataclass(frozen=True)
class Conversion:
    """The result of a conversion."""

    output: str
    bytes_before: int
    bytes_after: int
    bits_per_weight: float
    notes: list[str]
    """The effect of each pass, one line each."""
    groups: list[ConvertedGroup] = field(repr=False)
    expected_divergence: float | None = None
    """The expected cost of rounding, if formats were chosen automatically."""


@dataclass(frozen=True)
class PlannedGroup:
    name: str
    format: str
    """"int8-g64", or, if formats are chosen automatically, the smallest and the largest: "nl4-g128-s8 to
    int8-g32-s8\""""
    tensors: int
    weights: int
    bytes_before: int
    least_bytes: int
    most_bytes: int


@dataclass(frozen=True)
class ConversionPlan:
    """The expected result and cost of a conversion."""

    bytes_before: int
    least_bytes: int
    most_bytes: int
    calibrates: bool
    """Whether a calibration comes first."""
    groups: list[PlannedGroup] = field(repr=False)
    memory_bytes: int | None = None
    available_bytes: int | None = None
    seconds: float | None = None


@dataclass(frozen=True)
class Fold:
    """The treatment of a bias or a gain by a conversion, with the reason."""

    what: str
    outcome: str
    """"kept", "folded", "dropped", "part dropped" or "applied\""""
    reason: str
    into: str | None = None


@dataclass(frozen=True)
class Verification:
    """The difference of logits from expected ones; for a model without a head of hidden values, without the last two
    figures."""

    ok: bool
    max_abs_error: float
    relative_error: float
    """max |a - b| / std(expected)"""
    kl_mean: float | None = None
    top1_agreement: float | None = None


@dataclass(frozen=True)
class PositionRange:
    """Figures of predictions made from positions `first` to `last` of all chunks."""

    first: int
    last: int
    tokens: int
    ppl: float
    reference_ppl: float | None = None
    kl_mean: float | None = None


@dataclass(frozen=True)
class StreamSegment:
    """Figures of a segment of a stream."""

    first: int
    tokens: int
    ppl: float
    kl_mean: float | None = None


@dataclass(frozen=True)
class Prediction:
    id: int
    text: str
    probability: float
    reference_probability: float | None = None


@dataclass(frozen=True)
class DivergentToken:
    """A position whose prediction diverges from the reference's."""

    chunk: int
    position: int
    context: str
    next: Prediction
    """The next token of the text."""
    top: Prediction
    reference_top: Prediction
    kl: float


@dataclass(frozen=True)
class ExpertFigures:
    """Statistics of the expert cache (`expert_memory`)."""

    hit_rate: float
    """Share of the needed experts that were in memory."""
    used: int
    """Experts that layers needed, each once per layer and batch of tokens."""
    loaded_bytes: int
    """Bytes of the loaded experts."""
    experts: int
    """Of the model."""
    in_memory: int
    """Experts in memory at the end."""
    bytes: int
    """Bytes of these experts."""


@dataclass(frozen=True)
class Evaluation:
    """The quality of a model's predictions on a text. Without a reference, the comparisons with it are None."""

    tokens: int
    """Scored tokens."""
    ppl: float
    ppl_stderr: float
    file_bytes: int
    bits_per_weight: float
    seconds: float | None = None
    """Time of the forward passes; not set in a sweep."""
    chunks: int = 0
    reference_ppl: float | None = None
    kl_mean: float | None = None
    """KL(reference || model), nats per token."""
    kl_p99: float | None = None
    top1_agreement: float | None = None
    segments: list[StreamSegment] = field(default_factory=list, repr=False)
    cache_bytes: int | None = None
    positions: list[PositionRange] = field(default_factory=list, repr=False)
    worst: list[DivergentToken] = field(default_factory=list, repr=False)
    experts: ExpertFigures | None = None
    """With `expert_memory`."""


@dataclass(frozen=True)
class ChoiceEvaluation:
    """How often the right answer is the most likely one. Shares; `norm`: most likely per character."""

    questions: int
    acc: float
    acc_stderr: float
    acc_norm: float
    acc_norm_stderr: float
    file_bytes: int
    bits_per_weight: float
    seconds: float
    answers: list[dict[str, Any]] = field(repr=False)
    reference_acc: float | None = None
    reference_acc_stderr: float | None = None
    reference_acc_norm: float | None = None
    reference_acc_norm_stderr: float | None = None
    reference_answers: list[dict[str, Any]] | None = field(default=None, repr=False)
    agreement: float | None = None
    agreement_norm: float | None = None


@dataclass(frozen=True)
class VectorComparison:
    """Comparison of the vectors of texts with those of a reference."""

    texts: int
    tokens: int
    cosine_mean: float
    cosine_p1: float
    cosine_min: float
    ranked_texts: int
    rank_correlation: float
    nearest_agreement: float
    top10_agreement: float
    file_bytes: int
    bits_per_weight: float
    seconds: float


@dataclass(frozen=True)
class EngineChoice:
    """The implementation of float GEMM for a number of tokens."""

    tokens: int
    engine: str
    """"ballast", "onednn\""""
    speed: float
    """Of oneDNN, over ballast's."""


@dataclass(frozen=True)
class Machine:
    cpu: str
    simd_target: str
    threads: int
    read_gb_s: float
    peak_gops: float
    peak_type: str
    engines: list[EngineChoice] = field(default_factory=list)
    bf16_products: bool = False
    """Floats were rounded to BF16 before they were multiplied."""


@dataclass(frozen=True)
class BenchmarkResult:
    test: str
    """"pp512", "tg128 @ d4096\""""
    tokens_per_second: float
    stddev: float
    gb_s: float
    gop_s: float
    fraction_of_limit: float


@dataclass(frozen=True)
class Benchmark:
    """Speed and the machine's limits, which were measured in the same run."""

    results: list[BenchmarkResult]
    machine: Machine
    load_seconds: float
    peak_rss_bytes: int | None = None
    """Of the process; not set in a sweep."""
    experts: ExpertFigures | None = None
    """With `expert_memory`."""


@dataclass(frozen=True)
class SpeculationBenchmark:
    """The gain of speculative decoding on a text."""

    prompt_tokens: int
    generated_tokens: int
    plain_tokens_per_second: float
    tokens_per_second: float
    speedup: float
    draft_tokens: int
    accepted_tokens: int


@dataclass(frozen=True)
class SweepFormat:
    """The number of weights in a format, and their bytes."""

    name: str
    weights: int
    bytes: int


@dataclass(frozen=True)
class SweepRow:
    """The results of one recipe."""

    name: str
    recipe: dict[str, Any] = field(default_factory=dict, repr=False)
    formats: list[SweepFormat] = field(default_factory=list, repr=False)
    evaluation: Evaluation | None = None
    benchmark: Benchmark | None = None
    error: str | None = None
    """Why a result above is absent."""
