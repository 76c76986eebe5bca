"""Many recipes for one model, each measured."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ballast import _ballast
from ballast._figures import sweep_figure
from ballast._checkpoint import local_model
from ballast._options import PathLike, filled, one_of, paths
from ballast._page import framed
from ballast._processor import compute_options
from ballast._progress import Progress, shown
from ballast.jobs import benchmark_options, inspect, statistics_file
from ballast.results import SweepRow, from_json
from ballast.statistics import Statistics

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure


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
        return sweep_figure(self.rows, f"{self.model}, {self.original_bytes / 1e6:.4g} MB: accuracy by recipe")

    def _repr_html_(self) -> str:
        return framed(self.page())


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
    names = [*schemes, *(f"{_ballast.SIZED_SCHEME}@{size}" for size in sizes)]
    recipes = [_ballast.sweep_recipe(name, preset) for name in names]
    recipes += [_ballast.read_sweep_recipe(file, preset) for file in paths(recipe)]
    options = filled(_ballast.SweepOptions(), context=context, chunks=chunks, keep_models=keep_models,
                     compute=compute_options())
    options.recipes = recipes or _ballast.default_sweep_recipes(inspect(model).parameters, preset)
    options.text_file = Path(text)
    # The number of samples of a conversion without statistics, so that both give the same model.
    conversion = _ballast.ConvertOptions()
    conversion.apply_preset(preset, True)
    options.calibration = conversion.calibration
    options.calibration.text_files = calibration_files
    options.benchmark = benchmark_options() if bench else None
    with statistics_file(stats) as file, shown(progress) as listener:
        options.statistics = file
        peers_file = None if peers is None else Path(peers)
        result = from_json(Sweep, _ballast.sweep(local_model(model), Path(output), options, peers_file, listener))
    return Sweep(**{**vars(result), "folder": str(output)})
