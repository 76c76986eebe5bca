"""Statistics of a model's activations from a calibration."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ballast import _ballast
from ballast._figures import statistics_figure
from ballast._options import PathLike
from ballast._page import framed

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

SINK_SHARE: float = _ballast.SINK_SHARE
"""The share of attention to the first token from which a head counts as a sink head."""

TOP_VALUE = np.dtype([("layer", "i4"), ("value", "f4"), ("times_median", "f8"), ("sample", "i8"), ("position", "i8"),
                      ("token", "i4"), ("channel", "i8")])


@dataclass(frozen=True)
class MassiveToken:
    """A token with massive values."""

    token: int
    """Its id; -1: the first token of a sample."""
    text: str
    position: int
    """The earliest at which it was massive."""
    samples: int
    """Samples in which it is massive."""


class ChannelRanges:
    """Ranges of a set of channels over all tokens; every array is float32 [channels] and read-only."""

    def __init__(self, channels: Any) -> None:
        self.min: np.ndarray = channels.min
        self.max: np.ndarray = channels.max
        self.mean: np.ndarray = channels.mean
        self.mean_square: np.ndarray = channels.mean_square
        self.ordinary_absmax: np.ndarray = channels.ordinary_absmax
        """Absmax without massive tokens; empty if not recorded."""
        self.absmax: np.ndarray = channels.absmax


class InputSummary(ChannelRanges):
    """An input that several linears share, as q, k and v do, or gate and up."""

    def __init__(self, measured: Any) -> None:
        super().__init__(measured.channels)
        self.linears: list[str] = measured.linears
        self.absmax_ratio: float = measured.absmax_ratio
        """The largest channel's absmax divided by the median channel's."""
        self.outlier_channels = np.array(measured.outlier_channels, dtype=np.int64)
        """Channels whose absmax on ordinary tokens is at least 6 times the median channel's, ascending."""

    def __repr__(self) -> str:
        return (f"<InputSummary of {self.linears[0]}, {self.min.size} channels, "
                f"largest {self.absmax_ratio:.1f} x the median>")


@dataclass(frozen=True)
class KeysAndValues:
    """Of a layer: channel = kv_head * head_size + i; keys after rotation. Empty for a layer without attention."""

    keys: ChannelRanges
    values: ChannelRanges


@dataclass(frozen=True)
class Experts:
    """How a mixture's router distributed tokens in a layer."""

    layer: int
    tokens: np.ndarray
    """Tokens of each expert, uint64 [experts]."""
    stand_ins: np.ndarray
    """Tokens that were not routed to it and on which it was measured, too, uint64 [experts]."""
    entropy: float
    """Entropy of the choice in bits: log2(experts) if all are chosen equally often."""
    starved: np.ndarray
    """Experts with fewer tokens than columns, int64, ascending."""


class Statistics:
    """The result of `calibrate`. Layers count from 1; 0 is the embedding's output.

    A value of a layer's output is massive when its magnitude is above 100 and at least 1000 times the layer's median
    (Sun et al. 2024, arXiv:2402.17762).

    Arrays refer to the measured values without a copy where these lie in memory as arrays do; they are read-only.
    """

    def __init__(self, measured: Any) -> None:
        """Wraps the extension's object; users call `calibrate` or `Statistics.load`."""
        self._measured = measured

    @classmethod
    def load(cls, path: PathLike) -> Statistics:
        """Reads a file of `ballast calibrate`. Raises FileError, and Error for an incomplete file."""
        return cls(_ballast.load_statistics(Path(path)))

    def save(self, path: PathLike, *, force: bool = False) -> None:
        """Writes the file completely or not at all; an existing file is an Error unless `force`."""
        _ballast.save_statistics(self._measured, Path(path), force)

    def page(self) -> str:
        """One self-contained HTML page with these statistics."""
        return _ballast.calibration_page(self._measured)

    def save_page(self, path: PathLike, *, force: bool = False) -> None:
        _ballast.save_calibration_page(self._measured, Path(path), force)

    def to_dict(self) -> dict[str, Any]:
        """The object that `ballast calibrate --json` prints."""
        return json.loads(_ballast.statistics_json(self._measured))

    @property
    def model(self) -> str:
        """Name of the directory or file that was measured."""
        return self._measured.model

    @property
    def text(self) -> str:
        """The source of the text."""
        return self._measured.text

    @property
    def samples(self) -> int:
        return self._measured.samples

    @property
    def length(self) -> int:
        """Tokens per sample."""
        return self._measured.length

    @property
    def seed(self) -> int:
        return self._measured.seed

    @property
    def tokens(self) -> np.ndarray:
        """The tokens that were run, int32 [samples, length]."""
        return self._measured.tokens

    @property
    def prefix(self) -> np.ndarray:
        """The tokens before every sample, int32 ids."""
        return self._measured.prefix

    @functools.cached_property
    def medians(self) -> np.ndarray:
        """Medians of the magnitudes of each layer's output, float64 [layers + 1]."""
        return np.array([layer.median for layer in self._measured.layers])

    @functools.cached_property
    def massive_layers(self) -> np.ndarray:
        """Layers whose output has a massive value, ascending."""
        return np.array([layer.layer for layer in self._measured.layers if layer.massive], dtype=np.int64)

    @functools.cached_property
    def top_values(self) -> np.ndarray:
        """The largest values of each layer's output, one for each of the largest channels: a structured array of
        TOP_VALUE, by layer and in descending order of magnitude."""
        rows = [(layer.layer, top.value, abs(top.value) / layer.median if layer.median > 0 else np.inf, top.sample,
                 top.position, top.token, top.channel) for layer in self._measured.layers for top in layer.top]
        return np.array(rows, dtype=TOP_VALUE)

    @property
    def massive_activations(self) -> np.ndarray:
        """Those of `top_values` that are massive."""
        massive = [_ballast.is_massive(abs(top.value), layer.median) for layer in self._measured.layers
                   for top in layer.top]
        return self.top_values[np.array(massive, dtype=bool)]

    @functools.cached_property
    def massive_channels(self) -> np.ndarray:
        """Channels of the residual stream that have massive values, int64."""
        return np.array([channel.channel for channel in self._measured.massive_channels], dtype=np.int64)

    @functools.cached_property
    def massive_tokens(self) -> list[MassiveToken]:
        return [MassiveToken(token.token, token.token_text.decode(errors="replace"), token.position, token.samples)
                for token in self._measured.massive_tokens]

    @property
    def sink_share(self) -> np.ndarray:
        """Mean attention to the first token over all queries after it, float32 [layers, heads]; row 0 is layer 1."""
        return self._measured.sink_share

    @property
    def sink_heads(self) -> np.ndarray:
        """(layer, head) of the heads that give the first token at least SINK_SHARE of their attention, int64 [n, 2]."""
        return np.argwhere(self.sink_share >= np.float32(SINK_SHARE)) + [1, 0]

    @functools.cached_property
    def inputs(self) -> list[InputSummary]:
        """The inputs of linears, in the order of the forward pass."""
        return [InputSummary(measured) for measured in self._measured.inputs]

    @functools.cached_property
    def key_values(self) -> list[KeysAndValues]:
        """Keys and values of each layer."""
        return [KeysAndValues(ChannelRanges(pair.keys), ChannelRanges(pair.values))
                for pair in self._measured.key_values]

    @functools.cached_property
    def experts(self) -> list[Experts]:
        """Statistics of each layer with routed experts."""
        return [Experts(layer.layer, layer.tokens, layer.stand_ins, layer.entropy,
                        np.array(layer.starved, dtype=np.int64)) for layer in self._measured.experts]

    def to_pandas(self) -> pandas.DataFrame:
        """A row for each of `inputs`: its first linear, channels, absmax, absmax_ratio and the number of outlier
        channels. Needs pandas; `pandas.DataFrame(statistics.top_values)` is the table of large values."""
        import pandas

        return pandas.DataFrame({
            "linears": [", ".join(measured.linears) for measured in self.inputs],
            "channels": [measured.min.size for measured in self.inputs],
            "absmax": [float(measured.absmax.max()) for measured in self.inputs],
            "absmax_ratio": [measured.absmax_ratio for measured in self.inputs],
            "outlier_channels": [measured.outlier_channels.size for measured in self.inputs],
        })

    def plot(self) -> Figure:
        """A figure of matplotlib: magnitudes of each layer's output, attention to the first token by layer and head,
        and the spread of the channels of linears' inputs. `.savefig("statistics.png")` writes it."""
        title = f"{self.model}: {self.samples} samples of {self.length} tokens, {self.text}"
        inputs = [(measured.linears[0], measured.absmax_ratio) for measured in self.inputs]
        return statistics_figure(title, medians=self.medians, top_values=self.top_values,
                                 massive_layers=self.massive_layers, sink_share=self.sink_share,
                                 sink_heads=len(self.sink_heads), inputs=inputs)

    def __repr__(self) -> str:
        return (f"<Statistics of {self.model}: {self.samples} samples of {self.length} tokens, "
                f"{self.massive_layers.size} layers with massive values, {len(self.sink_heads)} sink heads>")

    def _repr_html_(self) -> str:
        return framed(self.page())
