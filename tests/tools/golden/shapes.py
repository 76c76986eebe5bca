"""The fields of --json and their types. A field that is not listed here is an error, too."""

import math


class Number:
    """A finite number, at least `least` if that is given."""

    def __init__(self, least: float = -math.inf, whole: bool = False):
        self.least, self.whole = least, whole

    def problems(self, value, place: str) -> list[str]:
        kinds = (int,) if self.whole else (int, float)
        if isinstance(value, bool) or not isinstance(value, kinds) or not math.isfinite(value) or value < self.least:
            return [f"{place}: {value!r} is not a {'whole ' if self.whole else ''}number from {self.least}"]
        return []


class Kind:
    def __init__(self, kind: type):
        self.kind = kind

    def problems(self, value, place: str) -> list[str]:
        return [] if isinstance(value, self.kind) else [f"{place}: {value!r} is no {self.kind.__name__}"]


class OrNull:
    def __init__(self, of):
        self.of = of

    def problems(self, value, place: str) -> list[str]:
        return [] if value is None else self.of.problems(value, place)


class List:
    def __init__(self, of):
        self.of = of

    def problems(self, value, place: str) -> list[str]:
        if not isinstance(value, list):
            return [f"{place}: {value!r} is no list"]
        return [problem for i, entry in enumerate(value) for problem in self.of.problems(entry, f"{place}[{i}]")]


class Object:
    """Fields whose name ends with `_or_none` of the keyword arguments' names may be absent."""

    OPTIONAL = "_or_none"

    def __init__(self, **fields):
        self.required = {name: shape for name, shape in fields.items() if not name.endswith(self.OPTIONAL)}
        self.optional = {name.removesuffix(self.OPTIONAL): shape for name, shape in fields.items()
                         if name.endswith(self.OPTIONAL)}

    def problems(self, value, place: str) -> list[str]:
        if not isinstance(value, dict):
            return [f"{place}: {value!r} is no object"]
        found = [f"{place}: field '{name}' is missing" for name in self.required if name not in value]
        known = {**self.required, **self.optional}
        for name, entry in value.items():
            if name in known:
                found += known[name].problems(entry, f"{place}.{name}")
            else:
                found.append(f"{place}: field '{name}' is not in the contract")
        return found


FLAG, TEXT, ANY_OBJECT = Kind(bool), Kind(str), Kind(dict)
FIGURE, POSITIVE, COUNT = Number(), Number(0), Number(0, whole=True)
ID = Number(-1, whole=True)

TENSOR_GROUP = Object(name=TEXT, type=TEXT, tensors=COUNT, weights=COUNT, bytes=COUNT)
ROPE = Object(theta=POSITIVE, rotary_size=COUNT, scaling_or_none=TEXT, factor_or_none=POSITIVE)
INSPECT = Object(
    architecture=TEXT, layers=COUNT, hidden_size=COUNT, heads=COUNT, kv_heads=COUNT, head_size=COUNT, mlp_size=COUNT,
    vocab_size=COUNT, context_length=COUNT, long_context_or_none=COUNT, norm=TEXT, layout=TEXT, causal=FLAG,
    positions=TEXT, tied_embeddings=FLAG, parameters=COUNT, file_bytes=COUNT, bits_per_weight=POSITIVE,
    tensor_groups=List(TENSOR_GROUP), tokenizer=TEXT,
    advice=List(TEXT), windows_or_none=List(COUNT), experts_or_none=COUNT, prefix_or_none=List(ID),
    recipe_or_none=ANY_OBJECT, rope_or_none=ROPE, ropes_or_none=List(OrNull(ROPE)))

CALIBRATE = Object(
    layers=List(Object(layer=COUNT, median=POSITIVE, massive=FLAG,
                       top=List(Object(value=FIGURE, sample=COUNT, position=COUNT, token=TEXT, channel=COUNT)))),
    massive_channels=List(COUNT),
    massive_tokens=List(Object(token=ID, position=COUNT, text=TEXT, samples=COUNT)),
    sink_heads=List(Object(layer=COUNT, head=COUNT, share=POSITIVE)),
    linears=List(Object(name=TEXT, absmax_ratio=POSITIVE, outlier_channels=List(COUNT))),
    experts_or_none=List(Object(layer=COUNT, tokens=List(COUNT), stand_ins=List(COUNT), entropy=POSITIVE,
                                starved=List(COUNT))),
    samples=COUNT, length=COUNT, prefix=List(ID), plan=Object(memory_bytes=COUNT, seconds=POSITIVE))

CONVERTED_GROUP = Object(name=TEXT, format=TEXT, tensors=COUNT, weights=COUNT, bytes_before=COUNT, bytes_after=COUNT,
                         cost_or_none=POSITIVE, next_gain_or_none=POSITIVE)
CONVERT = Object(notes=List(TEXT), groups=List(CONVERTED_GROUP), bytes_before=COUNT, bytes_after=COUNT,
                 bits_per_weight=POSITIVE, expected_divergence_or_none=POSITIVE)
EXPLAIN = Object(folds=List(Object(what=TEXT, outcome=TEXT, reason=TEXT, into_or_none=TEXT)))

VERIFY = Object(max_abs_error=POSITIVE, relative_error=POSITIVE, kl_mean=FIGURE, top1_agreement=POSITIVE, ok=FLAG)

ON_DISK = Object(hit_rate=POSITIVE, used=COUNT, loaded_bytes=COUNT, experts=COUNT, in_memory=COUNT, bytes=COUNT)
EVAL_FIELDS = dict(experts_or_none=ON_DISK, chunks=COUNT, tokens=COUNT, ppl=POSITIVE, ppl_stderr=POSITIVE, file_bytes=COUNT,
                   bits_per_weight=POSITIVE, seconds=POSITIVE)
AGAINST_REFERENCE = dict(reference_ppl=POSITIVE, kl_mean=FIGURE, kl_p99=FIGURE, top1_agreement=POSITIVE)
EVAL = Object(**EVAL_FIELDS)
EVAL_REFERENCE = Object(**EVAL_FIELDS, **AGAINST_REFERENCE)
POSITION = dict(first=COUNT, last=COUNT, tokens=COUNT, ppl=POSITIVE)
PREDICTION = dict(id=COUNT, text=TEXT, probability=POSITIVE)
EVAL_DETAILS = Object(
    **EVAL_FIELDS, **AGAINST_REFERENCE,
    positions=List(Object(**POSITION, reference_ppl=POSITIVE, kl_mean=FIGURE)),
    worst=List(Object(chunk=COUNT, position=COUNT, context=TEXT, kl=FIGURE, top=Object(**PREDICTION),
                      next=Object(**PREDICTION, reference_probability=POSITIVE), reference_top=Object(**PREDICTION))))
EVAL_STREAM = Object(**EVAL_FIELDS, cache_bytes=COUNT,
                     segments=List(Object(first=COUNT, tokens=COUNT, ppl=POSITIVE)))

ANSWERS = List(Object(pick=COUNT, pick_norm=COUNT, log_likelihoods=List(FIGURE)))
CHOICE_FIGURES = dict(acc=POSITIVE, acc_stderr=POSITIVE, acc_norm=POSITIVE, acc_norm_stderr=POSITIVE, answers=ANSWERS)
EVAL_CHOICES = Object(
    questions=COUNT, file_bytes=COUNT, bits_per_weight=POSITIVE, seconds=POSITIVE, **CHOICE_FIGURES,
    **{"reference_" + name: shape for name, shape in CHOICE_FIGURES.items()}, agreement=POSITIVE,
    agreement_norm=POSITIVE)

EVAL_VECTORS = Object(
    texts=COUNT, tokens=COUNT, cosine_mean=POSITIVE, cosine_p1=POSITIVE, cosine_min=POSITIVE, ranked_texts=COUNT,
    rank_correlation=POSITIVE, nearest_agreement=Number(0), top10_agreement=Number(0), file_bytes=COUNT,
    bits_per_weight=POSITIVE, seconds=POSITIVE)

EMBED = Object(texts=COUNT, size=COUNT, tokens=COUNT, cut=COUNT, vectors_or_none=List(List(Number())),
               output_or_none=TEXT)

CLASSIFY = Object(labels=List(TEXT), tokens=COUNT, cut=COUNT, output_or_none=TEXT, texts_or_none=List(Object(
    label_or_none=TEXT, score_or_none=Number(), scores_or_none=List(Number()),
    tokens_or_none=List(Object(token=TEXT, label=TEXT, score=Number(), scores=List(Number()))))))

BENCH_RESULT = Object(test=TEXT, tokens_per_second=POSITIVE, stddev=POSITIVE, gb_s=POSITIVE,
                      gop_s=POSITIVE, fraction_of_limit=POSITIVE)
BENCH = Object(
    experts_or_none=ON_DISK,
    machine=Object(cpu=TEXT, simd_target=TEXT, threads=COUNT, read_gb_s=POSITIVE, peak_type=TEXT,
                   peak_gops=POSITIVE,
                   engines=List(Object(tokens=COUNT, engine=TEXT, speed=POSITIVE)), bf16_products=FLAG),
    results=List(BENCH_RESULT), load_seconds=POSITIVE, peak_rss_bytes=COUNT)

BENCH_TEXT = Object(prompt_tokens=COUNT, generated_tokens=COUNT, plain_tokens_per_second=POSITIVE,
                    tokens_per_second=POSITIVE, speedup=POSITIVE, draft_tokens=COUNT, accepted_tokens=COUNT)

SWEEP_ROW = Object(
    name=TEXT, recipe=ANY_OBJECT, formats=List(Object(name=TEXT, weights=COUNT, bytes=COUNT)),
    evaluation_or_none=Object(**{name: shape for name, shape in EVAL_FIELDS.items() if name != "seconds"},
                              **AGAINST_REFERENCE),
    benchmark_or_none=Object(**{name: shape for name, shape in BENCH.required.items() if name != "peak_rss_bytes"}),
    error_or_none=TEXT)
SWEEP = Object(model=TEXT, original_bytes=COUNT, original_bits_per_weight=POSITIVE, text=TEXT, calibration=TEXT,
               context=COUNT, program=TEXT, rows=List(SWEEP_ROW))
