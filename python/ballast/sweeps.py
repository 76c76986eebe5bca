"""Many recipes for one model, each measured."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ballast import _ballast
from ballast._figures import sweep_figure
from ballast._options import PathLike, byte_count, filled, one_of, paths
from ballast._page import framed
from ballast._processor import compute_options
from ballast._progress import Progress, shown
from ballast.jobs import benchmark_options, convert_options, inspect, statistics_file
from ballast.recipe import Recipe
from ballast.results import Benchmark, Evaluation, from_json
from ballast.statistics import Statistics

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

_SIZED_SCHEME = "w4a16"
_DEFAULT_BITS = (7.0, 6.25, 5.5, 4.75)


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


@dataclass(frozen=True)
class Sweep:
    """Accuracy, size and speed by recipe."""

    model: str
    original_bytes: int
    original_bits_per_weight: float
    text: str
    calibration: str
    context: int
    program: str
    rows: list[SweepRow]
    folder: str = ""
    """The folder of the page, the table and the progress."""

    def page(self) -> str:
        """One self-contained HTML page: divergence over size and over speed, and all figures."""
        return (Path(self.folder) / "index.html").read_text(encoding="utf-8")

    def to_pandas(self) -> pandas.DataFrame:
        """A row for each recipe; needs pandas."""
        import pandas

        rows = []
        for row in self.rows:
            figures: dict[str, Any] = {"recipe": row.name}
            if row.evaluation is not None:
                measured = row.evaluation
                figures |= {"MB": measured.file_bytes / 1e6, "bits_per_weight": measured.bits_per_weight,
                            "ppl": measured.ppl, "kl_mean": measured.kl_mean,
                            "top1_agreement": measured.top1_agreement}
            if row.benchmark is not None:
                figures |= {result.test: result.tokens_per_second for result in row.benchmark.results}
            rows.append(figures | {"error": row.error})
        return pandas.DataFrame(rows)

    def plot(self) -> Figure:
        """A figure of matplotlib: divergence over size and, if it was measured, over speed, with a point for each
        recipe, except those below 1e-5, which differ from the original only by the rounding of sums. A line joins the
        points that no other beats. Raises ValueError if there is nothing to draw."""
        return sweep_figure(self)

    def _repr_html_(self) -> str:
        return framed(self.page())


def _size_name(size: float) -> str:
    """At least three digits, because neighbouring sizes may differ by a tenth."""
    if size < 1e3:
        return f"{size:.0f}B"
    small = size < 1e6
    value = size / (1e3 if small else 1e6)
    return f"{value:.{2 if value < 10 else 1 if value < 100 and small else 0}f}" + ("kB" if small else "MB")


def _recipe(scheme: str, preset: str, size: str | None = None) -> Any:
    recipe = Recipe(scheme) if size is None else Recipe(scheme, target_size=byte_count("size", size))
    conversion = convert_options(recipe, preset)
    return filled(_ballast.SweepRecipe(), name=scheme if size is None else f"{scheme}@{size}", conversion=conversion)


def _of_file(file: Path, preset: str) -> Any:
    conversion = convert_options(Recipe.load(file), preset, keep_rounding=True)
    return filled(_ballast.SweepRecipe(), name=file.stem.replace(" ", "_"), conversion=conversion)


def _default_recipes(model: PathLike, preset: str) -> list[Any]:
    weights = inspect(model).parameters
    sizes = [_size_name(bits / 8 * weights) for bits in _DEFAULT_BITS]
    plain = [_recipe(scheme, preset) for scheme in ("w8a16", "w8a8")]
    return plain + [_recipe(scheme, preset, size) for scheme in ("w4a16", "w4a8") for size in sizes]


def sweep(model: PathLike, output: PathLike, *, text: PathLike, schemes: Iterable[str] = (), sizes: Iterable[str] = (),
          recipe: PathLike | Iterable[PathLike] = (), preset: str = "balanced",
          stats: Statistics | PathLike | None = None, calibration_text: PathLike | Iterable[PathLike] = (),
          context: int = 512, chunks: int = 0, bench: bool = True, peers: PathLike | None = None,
          keep_models: bool = False, progress: Progress = None) -> Sweep:
    """Converts a model by many recipes, compares the results with the original and measures their speed.

    output: a directory for table, page and progress; results in it are used again.
    text, context, chunks: see `evaluate`.
    schemes: see `convert`, or with a size: "w4a8@92MB". sizes: for w4a16. recipe: files. Without these: from 8 bits for
    a weight to fewer than 5.
    preset: amount of work for each. stats: what `calibrate` returned or wrote; None: one calibration for all, on
    `calibration_text`. bench: measure speed, too. peers: CSV with other programs' figures for the page.
    keep_models: in the directory's models/.

    A recipe that fails has an `error` in its row, and the others continue.
    """
    one_of("preset", preset, _ballast.preset_names())
    calibration_files = paths(calibration_text)
    if stats is not None and calibration_files:
        raise ValueError("stats and calibration_text exclude each other: the statistics have their text")
    recipes = []
    for scheme in schemes:
        name, _, size = scheme.partition("@")
        recipes.append(_recipe(name, preset, size or None))
    recipes += [_recipe(_SIZED_SCHEME, preset, size) for size in sizes]
    recipes += [_of_file(file, preset) for file in paths(recipe)]
    options = filled(_ballast.SweepOptions(), context=context, chunks=chunks, keep_models=keep_models,
                     compute=compute_options())
    options.recipes = recipes or _default_recipes(model, preset)
    options.text_file = Path(text)
    # The number of samples of a conversion without statistics, so that both give the same model.
    options.calibration = convert_options(Recipe(), preset).calibration
    options.calibration.text_files = calibration_files
    options.benchmark = benchmark_options() if bench else None
    with statistics_file(stats) as file, shown(progress) as listener:
        options.statistics = file
        peers_file = None if peers is None else Path(peers)
        result = from_json(Sweep, _ballast.sweep(Path(model), Path(output), options, peers_file, listener))
    return Sweep(**{**vars(result), "folder": str(output)})
