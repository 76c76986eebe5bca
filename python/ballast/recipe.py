"""The recipe of a conversion."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack

from ballast import _ballast
from ballast._options import PathLike, Size, byte_count, named, one_of


class RecipeFlags(TypedDict, total=False):
    """The flags of `ballast convert` that change a recipe, by their names. Absent flags change nothing."""

    bits: Literal[2, 3, 4, 5, 6, 8]
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


def prefix_name(prefix: str | Iterable[int]) -> str:
    return prefix if isinstance(prefix, str) else ",".join(str(id_) for id_ in prefix)


def _value(flag: str, value: Any) -> Any:
    """The value of a flag as `RecipeChanges` has it."""
    match flag:
        case "group_size":
            return 0 if value == "channel" else value
        case "rounding":
            return named(_ballast.Rounding, flag, value)
        case "target_size":
            return byte_count(flag, value)
        case "activation_scales":
            return one_of(flag, value, ("token", "group")) == "group"
        case "embedding" | "head":
            return _ballast.parse_format(value)
        case "format":
            return [_ballast.FormatOverride(pattern, _ballast.parse_format(name)) for pattern, name in value.items()]
        case "prefix":
            return _ballast.parse_prefix(prefix_name(value), flag)
    return value


def changes_of(flags: RecipeFlags) -> Any:
    """The flags for the library, which has the rules."""
    unknown = flags.keys() - RecipeFlags.__annotations__.keys()
    if unknown:
        raise TypeError(f"unknown flags of a recipe: {', '.join(sorted(unknown))}")
    changes = _ballast.RecipeChanges()
    switches: dict[str, bool] = {}
    for flag, value in flags.items():
        if hasattr(changes, flag):
            setattr(changes, flag, _value(flag, value))
        else:
            switches[flag] = bool(value)
    changes.switches = switches
    return changes


class Recipe:
    """The recipe of a conversion, with all choices.

    `Recipe("w4a16", rounding="gptq")` starts from a scheme, `Recipe.load("recipe.json")` from a file; both accept the
    flags of `ballast convert`. Immutable. Raises Error for an unknown scheme or format, ValueError for flags that
    contradict the scheme.
    """

    def __init__(self, scheme: str = "w8a8", **flags: Unpack[RecipeFlags]) -> None:
        self._recipe = _ballast.change_recipe(_ballast.recipe_for_scheme(scheme), changes_of(flags))

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any], **flags: Unpack[RecipeFlags]) -> Recipe:
        """Fields as in a recipe file; absent ones have the scheme's values. Raises Error for an unknown one."""
        return cls._of(_ballast.parse_recipe(json.dumps(dict(fields)), "recipe"), flags)

    @classmethod
    def load(cls, path: PathLike, **flags: Unpack[RecipeFlags]) -> Recipe:
        """Raises FileError, and Error for an invalid file."""
        return cls._of(_ballast.read_recipe(Path(path)), flags)

    @classmethod
    def _of(cls, recipe: Any, flags: RecipeFlags) -> Recipe:
        made = cls.__new__(cls)
        made._recipe = _ballast.change_recipe(recipe, changes_of(flags))
        return made

    def changed(self, **flags: Unpack[RecipeFlags]) -> Recipe:
        """Another recipe, with these flags."""
        return self._of(self._recipe, flags)

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
