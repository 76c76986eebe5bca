"""The program's jobs, with its flags as keyword arguments.

`model` is a Hugging Face directory, a .gguf file, a directory that ballast wrote, or, where huggingface_hub is installed,
the name of a model on the Hub. Jobs leave their old output or
their complete new one; an interrupted job continues when the same call is repeated. They release the interpreter's
lock. Ctrl-C ends jobs with progress at their next step; the others are short, except `verify`, which ends after its
sequence. They raise Error for bad input, ValueError for invalid keyword arguments.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Unpack

from ballast import _ballast, results
from ballast._checkpoint import files_of, local_model
from ballast._options import (
    PathLike,
    Size,
    cache_options,
    filled,
    model_options,
    named,
    one_of,
    paths,
)
from ballast._processor import compute_options
from ballast._progress import Progress, shown, tell
from ballast.errors import Error, FileError
from ballast.recipe import Recipe, RecipeFlags, changes_of, prefix_name
from ballast.statistics import Statistics


def inspect(model: PathLike) -> results.Inspection:
    """Describes a model without running it."""
    details = json.loads(_ballast.inspect(local_model(model)))
    shown = {name: value for name, value in details.items() if name in results.Inspection.__annotations__}
    return results.from_fields(results.Inspection, shown | {"details": details})


def _check_output(place: PathLike, force: bool) -> None:
    """Checks an output before a long job."""
    folder = Path(place).absolute().parent
    if not folder.is_dir():
        raise FileError(f"{place}: cannot be written: {folder} is not a folder", str(place))
    if not force and os.path.lexists(place):
        raise Error(f"{place}: exists already; give another name, or force=True to replace it", str(place))


def calibrate(model: PathLike | Any, output: PathLike | None = None, *, text: PathLike | Iterable[PathLike] = (),
              samples: int = 128, length: int | None = None, seed: int = 0,
              prefix: str | Iterable[int] | None = None, report: PathLike | None = None, force: bool = False,
              tokenizer: Any = None, progress: Progress = None) -> Statistics:
    """Runs text through a model and records statistics of its activations.

    model: a path, or a model of transformers with its `tokenizer`, which is saved to a temporary directory.
    output: statistics file to write; None: none is written, and an interrupted call starts over.
    text: UTF-8 files to run; None: text that the model generates.
    samples: pieces of text, fewer if it is shorter. length: tokens of each; None: 512, or the model's context.
    seed: for the choice of samples, or for the sampling.
    prefix: tokens before every sample: "none", "auto" (those found massive) or ids.
    report: an HTML page to write. force: replaces existing files.
    """
    for place in (output, report):
        if place is not None:
            _check_output(place, force)
    options = filled(_ballast.CalibrateOptions(), samples=samples, length=length, seed=seed,
                     compute=compute_options())
    options.text_files = paths(text)
    if prefix is not None:
        options.prefix = _ballast.parse_prefix(prefix_name(prefix), "prefix")
    if output is not None:
        options.state_folder = _ballast.state_folder_beside(Path(output))
    with files_of(model, tokenizer) as files, shown(progress) as listener:
        options.model_identity = files.identity
        statistics = Statistics(_ballast.calibrate(files.path, options, listener, tell))
    if output is not None:
        statistics.save(output, force=force)
        _ballast.discard_calibration_state(options)
    if report is not None:
        statistics.save_page(report, force=force)
    return statistics


def recipe_of(scheme: str | None, recipe: Recipe | PathLike | None, flags: RecipeFlags) -> Recipe:
    if recipe is None:
        return Recipe(scheme or "w8a8", **flags)
    if scheme is not None:
        raise ValueError("scheme and recipe exclude each other")
    return recipe.changed(**flags) if isinstance(recipe, Recipe) else Recipe.load(recipe, **flags)


def _output_format(to: str, flags: RecipeFlags) -> str:
    name = one_of("to", to, _ballast.output_format_names())
    _ballast.check_changes(changes_of(flags), name)
    return name


def _convert_options(recipe: Recipe, preset: str | None, keep_rounding: bool) -> Any:
    """A preset's rounding applies only if the preset was named and no rounding."""
    options = _ballast.ConvertOptions()
    options.recipe = recipe._recipe
    name = one_of("preset", preset or "balanced", _ballast.preset_names())
    options.apply_preset(name, preset is not None and not keep_rounding)
    return options


@contextlib.contextmanager
def statistics_file(stats: Statistics | PathLike | None) -> Iterator[Path | None]:
    if not isinstance(stats, Statistics):
        yield None if stats is None else Path(stats)
        return
    with tempfile.TemporaryDirectory(prefix="ballast-") as folder:
        file = Path(folder) / "statistics"
        stats.save(file)
        yield file


def _conversion(model: PathLike, to: str, scheme: str | None, recipe: Recipe | PathLike | None, stats: Path | None,
                preset: str | None, text: PathLike | Iterable[PathLike], samples: int | None,
                target_bpw: float | None, flags: RecipeFlags) -> Any:
    if target_bpw is not None:
        if "target_size" in flags:
            raise ValueError("target_bpw and target_size exclude each other")
        flags = {**flags, "target_size": int(target_bpw * inspect(model).parameters / 8)}
    options = _convert_options(recipe_of(scheme, recipe, flags), preset, "rounding" in flags)
    options.use_output_format(_output_format(to, flags))
    files = paths(text)
    if stats is not None and files:
        raise ValueError("stats and text exclude each other: the statistics have their text")
    if stats is not None:
        options.statistics = stats
    filled(options.calibration, text_files=files, samples=samples, compute=compute_options())
    return options


def convert(model: PathLike | Any, output: PathLike, *, to: str = "ballast", scheme: str | None = None,
            recipe: Recipe | PathLike | None = None, stats: Statistics | PathLike | None = None,
            preset: str | None = None, text: PathLike | Iterable[PathLike] = (), samples: int | None = None,
            target_bpw: float | None = None,
            deterministic: bool = False, force: bool = False, tokenizer: Any = None, progress: Progress = None,
            **flags: Unpack[RecipeFlags]) -> results.Conversion:
    """Quantizes a model.

    model: a path, or a model of transformers with its `tokenizer`, which is saved to a temporary directory first.
    output: directory to write; for to="gguf" a file.
    to: the program whose files to write, rounded to its types: "ballast", "gguf", "compressed-tensors", "mlx", "awq",
    "gptq".
    scheme: "f32", "bf16", "w8a16", "w8a8" (default without a recipe), "w4a16", "w4a8".
    recipe: replaces the scheme. flags: change either, see RecipeFlags.
    stats: what `calibrate` returned or wrote; None: a short calibration on `text` runs first.
    preset: amount of work: "fast", "balanced", "best".
    text, samples: for that calibration. target_bpw: target_size as bits per weight.
    deterministic: the same bytes for any number of MPI ranks. force: replaces an existing output.
    """
    with files_of(model, tokenizer) as files, statistics_file(stats) as statistics:
        options = _conversion(files.path, to, scheme, recipe, statistics, preset, text, samples, target_bpw, flags)
        options.calibration.model_identity = files.identity
        options.deterministic = deterministic
        options.replace = force
        with shown(progress) as listener:
            report = _ballast.convert(files.path, Path(output), options, listener, tell)
    return results.from_fields(results.Conversion, json.loads(report) | {"output": str(output)})


def plan(model: PathLike, *, to: str = "ballast", scheme: str | None = None, recipe: Recipe | PathLike | None = None,
         stats: Statistics | PathLike | None = None, preset: str | None = None,
         text: PathLike | Iterable[PathLike] = (), samples: int | None = None, target_bpw: float | None = None,
         **flags: Unpack[RecipeFlags]) -> results.ConversionPlan:
    """Plans `convert` with these arguments from the shapes of the model: formats, size, time and memory (--dry-run)."""
    with statistics_file(stats) as statistics:
        options = _conversion(model, to, scheme, recipe, statistics, preset, text, samples, target_bpw, flags)
        return results.from_json(results.ConversionPlan, _ballast.plan_conversion(local_model(model), options))


def explain(model: PathLike, *, to: str = "ballast", scheme: str | None = None,
            recipe: Recipe | PathLike | None = None, **flags: Unpack[RecipeFlags]) -> list[results.Fold]:
    """Explains what `convert` would do with each bias and gain of a model, and why (--explain)."""
    text = _ballast.explain(local_model(model), recipe_of(scheme, recipe, flags)._recipe, _output_format(to, flags))
    return [results.from_fields(results.Fold, fold) for fold in json.loads(text)["folds"]]


def export(model: PathLike, output: PathLike, *, to: str, force: bool = False,
           progress: Progress = None) -> results.Conversion:
    """Writes a model that ballast wrote in the files of another program. Nothing is rounded: features that these files
    cannot hold exactly are refused."""
    with shown(progress) as listener:
        report = _ballast.export(local_model(model), Path(output), to, force, listener)
    return results.from_fields(results.Conversion, json.loads(report) | {"output": str(output)})


def verify(model: PathLike, expected: PathLike, *, tolerance: float = 1e-3) -> results.Verification:
    """Compares a model's logits with expected ones: a safetensors file with input_ids [batch, tokens] and logits
    [batch, tokens, vocab], or, for a model without a head, last_hidden_state. `ok`: no error is above `tolerance`, in
    deviations of the expected values; unlike the program, this returns in both cases."""
    return results.from_json(results.Verification, _ballast.verify(local_model(model), Path(expected), tolerance,
                                                                    compute_options()))


def evaluate(model: PathLike, *, text: PathLike, reference: PathLike | None = None, context: int = 512,
             chunks: int = 0, stream: int = 0, reference_cache: PathLike | None = None, per_position: bool = False,
             worst: int = 0, kv: str | None = None, window: int = 0, sinks: int = 0, activations: str = "int8",
             expert_memory: Size | None = None, progress: Progress = None) -> results.Evaluation:
    """Measures perplexity on a text, by the definition of llama.cpp's tool, and divergence from a reference.

    text: a UTF-8 file. reference: model to compare with, usually the original.
    context: tokens per chunk, of which the second half is scored. chunks: maximum number; 0: all of the text.
    stream: scores this many tokens as one sequence instead of chunks. window, sinks: for a rolling cache.
    reference_cache: a directory that stores the reference's logits for other models on the same chunks.
    per_position: adds figures by position. worst: adds this many positions that diverge most.
    kv: type of the cache, "f32" (the default), "f16" or "int8".
    activations: for matrices in a GGUF or quantized by other programs. expert_memory: for the experts of a mixture.
    """
    options = filled(_ballast.EvaluateOptions(), context=context, chunks=chunks, stream=stream,
                     per_position=per_position, worst=worst)
    options.text_file = Path(text)
    if reference is not None:
        options.reference = local_model(reference)
    if reference_cache is not None:
        options.reference_cache = Path(reference_cache)
    options.cache = cache_options(kv or "f32", window, sinks)
    options.model = model_options(activations, expert_memory)
    with shown(progress) as listener:
        return results.from_json(results.Evaluation, _ballast.evaluate(local_model(model), options, listener, tell))


def evaluate_choices(model: PathLike, *, choices: PathLike, reference: PathLike | None = None, delimiter: str = " ",
                     kv: str | None = None, activations: str = "int8", expert_memory: Size | None = None,
                     progress: Progress = None) -> results.ChoiceEvaluation:
    """Evaluates multiple choice like lm-evaluation-harness (`ballast eval --choices`).

    choices: a file of lines {"question": TEXT, "choices": [TEXT, ...], "answer": INDEX}.
    delimiter: text between question and choice.
    """
    options = filled(_ballast.ChoiceOptions(), delimiter=delimiter)
    options.questions_file = Path(choices)
    if reference is not None:
        options.reference = local_model(reference)
    options.cache = cache_options(kv or "f32")
    options.model = model_options(activations, expert_memory)
    with shown(progress) as listener:
        return results.from_json(results.ChoiceEvaluation,
                                 _ballast.evaluate_choices(local_model(model), options, listener, tell))


def compare_vectors(model: PathLike, *, vectors: PathLike, reference: PathLike, kv: str | None = None,
                    activations: str = "int8", expert_memory: Size | None = None,
                    progress: Progress = None) -> results.VectorComparison:
    """Compares a model's vectors of texts with a reference's (`ballast eval --vectors`). vectors: a file with one text
    per line, at least two."""
    options = _ballast.VectorOptions()
    options.text_file = Path(vectors)
    options.reference = local_model(reference)
    if kv is not None:
        options.embed.cache_type = named(_ballast.CacheType, "kv", kv)
    options.model = model_options(activations, expert_memory)
    with shown(progress) as listener:
        return results.from_json(results.VectorComparison,
                                 _ballast.compare_vectors(local_model(model), options, listener, tell))


def benchmark_options(**counts: int | bool) -> Any:
    return filled(_ballast.BenchmarkOptions(), **counts)


def benchmark(model: PathLike, *, prompt: int = 512, generate: int = 128, depth: int = 0, sequences: int = 1,
              share_depth: bool = False, repetitions: int = 5, kv: str | None = None, window: int = 0, sinks: int = 0,
              activations: str = "int8", expert_memory: Size | None = None,
              progress: Progress = None) -> results.Benchmark:
    """Measures speed like llama-bench, and the machine's limits.

    prompt, generate: tokens of each test; 0: none. depth: tokens already in the cache. sequences: generated at once by
    the generation test; share_depth: they share these tokens. repetitions: measured rounds.
    """
    if prompt == 0 and generate == 0:
        raise ValueError("prompt=0 and generate=0 leave nothing to measure")
    options = benchmark_options(prompt=prompt, generate=generate, depth=depth, sequences=sequences,
                                share_depth=share_depth, repetitions=repetitions)
    options.cache = cache_options(kv, window, sinks)
    options.model = model_options(activations, expert_memory)
    with shown(progress) as listener:
        return results.from_json(results.Benchmark, _ballast.benchmark(local_model(model), options, listener, tell))


def benchmark_speculation(model: PathLike, *, text: PathLike, draft: PathLike | None = None, draft_tokens: int = 8,
                          temperature: float = 0, generate: int = 128, repetitions: int = 5, kv: str | None = None,
                          window: int = 0, sinks: int = 0, activations: str = "int8",
                          expert_memory: Size | None = None,
                          progress: Progress = None) -> results.SpeculationBenchmark:
    """Measures the gain of drafts when a text is continued (`ballast bench --text`)."""
    options = filled(_ballast.SpeculationBenchmarkOptions(), draft_tokens=draft_tokens, temperature=temperature,
                     generate=generate, repetitions=repetitions)
    options.text_file = Path(text)
    if draft is not None:
        options.draft = local_model(draft)
    options.cache = cache_options(kv, window, sinks)
    options.model = model_options(activations, expert_memory)
    with shown(progress) as listener:
        return results.from_json(results.SpeculationBenchmark,
                                 _ballast.benchmark_speculation(local_model(model), options, listener, tell))
