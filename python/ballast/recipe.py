"""The recipe of a conversion."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack

from ballast import _ballast
from ballast._options import PathLike, Size, byte_count, one_of


class RecipeFlags(TypedDict, total=False):
    """The flags of `ballast convert` that change a recipe, by their names. Absent flags change nothing."""

    bits: Literal[4, 5, 6, 8]
    """Bits of the linears' weights."""
    group_size: Literal[32, 64, 128, "channel"]
    """Weights that share a scale."""
    scale_bits: Literal[8, 16]
    """Bits of the groups' scales."""
    symmetric: bool
    """Weights without zero points; False: with one per group."""
    rounding: Literal["nearest", "search", "gptq"]
    target_size: Size
    """Largest size of the tensor files: formats are chosen matrix by matrix."""
    outliers: float
    """Share of each linear's input channels kept in 16 bits, 0 to 0.5."""
    activation_scales: Literal["token", "group"]
    """INT8 activations' scales: per token, or per token and group."""
    wide_inputs: float
    """With INT8 activations and formats chosen: the inputs that INT8 hurts most keep 16 bits, for this share of the
    work, 0 to 1."""
    embedding: str
    """Format of the embedding: "int8-g64"."""
    head: str
    """Format of a head that is not the embedding."""
    format: Mapping[str, str]
    """Formats of the tensors whose names match regular expressions; the first match wins."""
    prefix: str | Iterable[int]
    """Tokens before every sequence: "none", "auto" or ids."""
    fold_norms: bool
    fold_biases: bool
    center_norms: bool
    equalize: bool
    smooth: bool
    rotate: bool
    rotate_values: bool
    untie_head: bool
    wide_end: bool
    wide_amplified: bool
    shrink_experts: bool
    correct_drift: bool


_SWITCHES = ("fold_norms", "fold_biases", "center_norms", "equalize", "smooth", "rotate", "rotate_values",
             "untie_head", "wide_end", "wide_amplified", "shrink_experts", "correct_drift")
_CHOSEN_BY_SIZE = ("bits", "group_size", "scale_bits", "symmetric", "embedding", "head")
_NAMING_FORMATS = (*_CHOSEN_BY_SIZE, "outliers", "activation_scales")


def prefix_name(prefix: str | Iterable[int]) -> str:
    return prefix if isinstance(prefix, str) else ",".join(str(id_) for id_ in prefix)


def is_ballast_format(name: str) -> bool:
    """Whether weights of a format, "int4-g32", "nl5-g64-s8", "bf16", are codes of ballast's own files."""
    return name.startswith(("int", "nl"))


def _changed_format(name: str, flags: RecipeFlags) -> str:
    """"int4-g32-asym-s8" with other bits, groups, zero points or scales."""
    parts = name.split("-")
    if not parts[0].startswith("int"):
        raise ValueError(f"bits, group_size, scale_bits and symmetric need a scheme of integers with even "
                         f"steps, not {name} weights")
    bits = flags.get("bits", int(parts[0][3:]))
    group = flags.get("group_size", "channel" if "channel" in parts else int(parts[1][1:]))
    symmetric = flags.get("symmetric", "asym" not in parts)
    scale_bits = flags.get("scale_bits", 8 if "s8" in parts else 16)
    if scale_bits == 8 and group == "channel":
        raise ValueError("scale_bits: scales of 8 bits need a group_size other than channel")
    return (f"int{bits}-" + ("channel" if group == "channel" else f"g{group}") + ("" if symmetric else "-asym")
            + ("-s8" if scale_bits == 8 else ""))


def _share(name: str, share: float, most: float) -> float:
    if 0 <= share <= most:
        return share
    raise ValueError(f"{name}: {share} must be a share from 0 to {most}")


def _apply(fields: dict[str, Any], flags: RecipeFlags) -> None:
    unknown = flags.keys() - RecipeFlags.__annotations__.keys()
    if unknown:
        raise TypeError(f"unknown flags of a recipe: {', '.join(sorted(unknown))}")
    if any(flag in flags for flag in ("bits", "group_size", "scale_bits", "symmetric")):
        fields["linears"] = _changed_format(fields["linears"], flags)
    if any(flag in flags for flag in _NAMING_FORMATS) and fields["target_bytes"] == "natural":
        fields["target_bytes"] = 0
    if "target_size" in flags:
        if any(flag in flags for flag in _CHOSEN_BY_SIZE):
            raise ValueError("target_size chooses what bits, group_size, scale_bits, symmetric, embedding and head "
                             "would set; format fixes a matrix's format")
        if not is_ballast_format(fields["linears"]):
            raise ValueError(f"target_size needs a scheme of integers, not {fields['scheme']}")
        fields["target_bytes"] = byte_count("target_size", flags["target_size"])
    if "rounding" in flags:
        fields["rounding"] = one_of("rounding", flags["rounding"], ("nearest", "search", "gptq"))
    if "outliers" in flags:
        fields["outlier_fraction"] = _share("outliers", flags["outliers"], 0.5)
    if "activation_scales" in flags:
        if fields["activations"] != "int8":
            raise ValueError("activation_scales needs a scheme that quantizes activations (w8a8, w4a8)")
        scales = one_of("activation_scales", flags["activation_scales"], ("token", "group"))
        fields["activation_groups"] = scales == "group"
    if "wide_inputs" in flags:
        if fields["activations"] != "int8":
            raise ValueError("wide_inputs needs a scheme that quantizes activations (w8a8, w4a8)")
        if fields["target_bytes"] == 0:
            raise ValueError("wide_inputs is for formats that are chosen matrix by matrix, not for one that is named")
        fields["wide_fraction"] = _share("wide_inputs", flags["wide_inputs"], 1)
    if "prefix" in flags:
        fields["prefix"] = prefix_name(flags["prefix"])
    if "embedding" in flags:
        fields["embedding"] = flags["embedding"]
    if "head" in flags:
        fields["head"] = flags["head"]
    fields |= {name: bool(value) for name, value in flags.items() if name in _SWITCHES}
    if "format" in flags:
        first = [{"pattern": pattern, "format": name} for pattern, name in flags["format"].items()]
        fields["exceptions"] = first + fields["exceptions"]


class Recipe:
    """The recipe of a conversion, with all choices.

    `Recipe("w4a16", rounding="gptq")` starts from a scheme, `Recipe.load("recipe.json")` from a file; both accept the
    flags of `ballast convert`. Immutable. Raises Error for an unknown scheme or format, ValueError for flags that
    contradict the scheme.
    """

    def __init__(self, scheme: str = "w8a8", **flags: Unpack[RecipeFlags]) -> None:
        self._recipe = _ballast.recipe_for_scheme(scheme)
        self._change(flags, "recipe")

    def _change(self, flags: RecipeFlags, context: str) -> None:
        if not flags:
            return
        fields = self.to_dict()
        _apply(fields, flags)
        self._recipe = _ballast.parse_recipe(json.dumps(fields), context)

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any], **flags: Unpack[RecipeFlags]) -> Recipe:
        """Fields as in a recipe file; absent ones have the scheme's values. Raises Error for an unknown one."""
        return cls._of(_ballast.parse_recipe(json.dumps(dict(fields)), "recipe"), flags, "recipe")

    @classmethod
    def load(cls, path: PathLike, **flags: Unpack[RecipeFlags]) -> Recipe:
        """Raises FileError, and Error for an invalid file."""
        return cls._of(_ballast.read_recipe(Path(path)), flags, str(path))

    @classmethod
    def _of(cls, recipe: Any, flags: RecipeFlags, context: str) -> Recipe:
        made = cls.__new__(cls)
        made._recipe = recipe
        made._change(flags, context)
        return made

    def changed(self, **flags: Unpack[RecipeFlags]) -> Recipe:
        """Another recipe, with these flags."""
        return self._of(self._recipe, flags, "recipe")

    def to_dict(self) -> dict[str, Any]:
        return json.loads(_ballast.recipe_json(self._recipe))

    def save(self, path: PathLike) -> None:
        """Writes a file that `Recipe.load` and `ballast convert --recipe` read."""
        Path(path).write_text(_ballast.recipe_json(self._recipe), encoding="utf-8")

    @property
    def scheme(self) -> str:
        """The scheme that gave the defaults: "w8a8"."""
        return self.to_dict()["scheme"]

    def __eq__(self, other: object) -> bool:
        return self.to_dict() == other.to_dict() if isinstance(other, Recipe) else NotImplemented

    def __hash__(self) -> int:
        return hash(_ballast.recipe_json(self._recipe))

    def __repr__(self) -> str:
        return f"Recipe.from_dict({self.to_dict()!r})"


def schemes() -> list[str]:
    """Names of schemes, in the order of falling size."""
    return list(_ballast.scheme_names())
