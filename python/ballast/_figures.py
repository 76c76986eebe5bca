"""Figures by matplotlib, which is imported on demand."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from ballast import _ballast
from ballast._progress import in_notebook
from ballast.results import SweepRow

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SMALLEST_DRAWN = 1e-5
"""Smaller divergences come from the rounding of sums; a point there would squeeze the others together."""

_SHADE = "#d95f0230"


def _figure(panels: int, width: float, height: float) -> tuple[Figure, list[Axes]]:
    """Adjacent panels, each of this size in inches. The figure is closed, because a notebook would show an open one
    twice."""
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, panels, figsize=(width * panels, height), squeeze=False, layout="constrained")
    if in_notebook():
        pyplot.close(figure)
    for axis in axes[0]:
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(alpha=0.25)
    return figure, list(axes[0])


def _whole_numbers(axis: Any) -> None:
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(integer=True))


def _plot_magnitudes(axes: Axes, medians: np.ndarray, top: np.ndarray, massive_layers: np.ndarray) -> None:
    layers = np.arange(medians.size)
    largest = np.array([np.abs(top["value"][top["layer"] == layer]).max(initial=0) for layer in layers])
    for layer in massive_layers:
        axes.axvspan(layer - 0.5, layer + 0.5, color=_SHADE, linewidth=0)
    with np.errstate(divide="ignore"):
        axes.plot(layers, np.where(largest > 0, largest, np.nan), color="#d95f02", marker="o", markersize=3,
                  label="largest")
        axes.plot(layers, np.where(medians > 0, medians, np.nan), color="#05798d", marker="o", markersize=3,
                  label="median")
    axes.set_yscale("log")
    axes.set(xlabel="layer (0: the embedding)", ylabel="magnitude",
             title="Output of each layer" + (", massive ones shaded" if massive_layers.size else ""))
    if top.size:
        place = top[np.abs(top["value"]).argmax()]
        words = f"{place['value']:,.0f} in channel {place['channel']},\nat token {place['position']} of its sample"
        axes.annotate(words, (place["layer"], abs(place["value"])), textcoords="offset points", fontsize="small",
                      xytext=(0, 6), ha="center")
        axes.margins(y=0.2)
    axes.legend(loc="lower right")
    _whole_numbers(axes.xaxis)


def _plot_sinks(axes: Axes, share: np.ndarray, sink_heads: int) -> None:
    layers, heads = share.shape
    axes.grid(visible=False)
    image = axes.imshow(share, vmin=0, vmax=1, cmap="viridis", aspect="auto", origin="lower",
                        extent=(-0.5, heads - 0.5, 0.5, layers + 0.5))
    assert axes.figure is not None
    axes.figure.colorbar(image, ax=axes, label="share of the attention")
    axes.set(xlabel="head", ylabel="layer",
             title=f"Attention on the first token: {sink_heads} sink heads")
    _whole_numbers(axes.xaxis)
    _whole_numbers(axes.yaxis)


def _plot_inputs(axes: Axes, inputs: Iterable[tuple[str, float]]) -> None:
    """The largest value, if a layer has several inputs of a kind, as with experts."""
    ratios: dict[str, dict[int, float]] = {}
    for linear, ratio in inputs:
        layer = re.search(r"\.(\d+)\.", linear)
        if layer is not None:
            by_layer = ratios.setdefault(linear.rpartition(".")[2], {})
            number = int(layer[1]) + 1
            by_layer[number] = max(by_layer.get(number, 0), ratio)
    for kind, by_layer in ratios.items():
        axes.plot(list(by_layer), list(by_layer.values()), marker="o", markersize=3, label=kind)
    axes.set_yscale("log")
    axes.set(xlabel="layer", ylabel="largest channel / median channel", title="Inputs of the linears")
    if ratios:
        axes.legend()
    _whole_numbers(axes.xaxis)


def statistics_figure(title: str, *, medians: np.ndarray, top_values: np.ndarray, massive_layers: np.ndarray,
                      sink_share: np.ndarray, sink_heads: int, inputs: Iterable[tuple[str, float]]) -> Figure:
    """sink_heads: their number. inputs: of each input its first linear and its absmax_ratio. The others are those of
    `Statistics`."""
    figure, axes = _figure(3, 4.6, 3.8)
    _plot_magnitudes(axes[0], medians, top_values, massive_layers)
    _plot_sinks(axes[1], sink_share, sink_heads)
    _plot_inputs(axes[2], inputs)
    figure.suptitle(title)
    return figure


def _best(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """The points for which no other is both left and below, from left to right."""
    best: list[tuple[float, float]] = []
    for point in sorted(points):
        if not best or point[1] < best[-1][1]:
            best.append(point)
    return best


def _kind(row: SweepRow) -> str:
    """The group of a recipe: the scheme, and whether formats are chosen matrix by matrix."""
    scheme = row.recipe["scheme"]
    fixed = row.recipe["target_bytes"] == 0 and _ballast.parse_format(row.recipe["linears"]).is_ballast_format
    return f"{scheme}, one format for all" if fixed else scheme


def _plot_points(axes: Axes, rows: list[tuple[float, float, SweepRow]], more_is_better: bool) -> None:
    sign = -1 if more_is_better else 1
    line = _best([(sign * x, kl) for x, kl, _ in rows])
    axes.plot([sign * x for x, _ in line], [kl for _, kl in line], color="#888888", linewidth=1, zorder=1)
    kinds = list(dict.fromkeys(_kind(row) for _, _, row in rows))
    for kind in kinds:
        own = [(x, kl) for x, kl, row in rows if _kind(row) == kind]
        axes.scatter([x for x, _ in own], [kl for _, kl in own], label=kind, zorder=2)
    for x, kl, row in rows:
        axes.annotate(row.name, (x, kl), textcoords="offset points", xytext=(5, 5), fontsize="small")
    axes.set_yscale("log")
    axes.set_ylabel("KL divergence from the original, nats per token")
    axes.margins(x=0.2, y=0.15)
    if len(kinds) > 1:
        axes.legend()


def sweep_figure(rows: list[SweepRow], title: str) -> Figure:
    measured = [(row.evaluation, row) for row in rows
                if row.evaluation is not None and (row.evaluation.kl_mean or 0) >= SMALLEST_DRAWN]
    if not measured:
        raise ValueError("no recipe has a divergence to draw")
    tests = list(dict.fromkeys(result.test for _, row in measured if row.benchmark is not None
                               for result in row.benchmark.results))
    figure, axes = _figure(1 + len(tests), 5.6, 4.2)
    _plot_points(axes[0], [(evaluation.file_bytes / 1e6, evaluation.kl_mean or 0, row)
                           for evaluation, row in measured], more_is_better=False)
    axes[0].set(xlabel="size of the tensor files, MB", title="Lower and further to the left is better")
    for axis, test in zip(axes[1:], tests, strict=True):
        _plot_points(axis, [(result.tokens_per_second, evaluation.kl_mean or 0, row) for evaluation, row in measured
                            if row.benchmark is not None for result in row.benchmark.results if result.test == test],
                     more_is_better=True)
        axis.set(xlabel=f"{test}, tokens per second", title="Lower and further to the right is better")
    figure.suptitle(title)
    return figure
