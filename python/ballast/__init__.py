"""ballast makes language models small and fast on CPUs without losing what their outliers carry.

    import ballast

    statistics = ballast.calibrate("SmolLM2-135M", text="wiki.txt")
    ballast.convert("SmolLM2-135M", "smollm2-w4a16", scheme="w4a16", stats=statistics)
    print(ballast.evaluate("smollm2-w4a16", text="test.txt", reference="SmolLM2-135M"))
    print(ballast.Model("smollm2-w4a16").generate("The ship took on"))
"""

from ballast import _ballast
from ballast._processor import simd_targets, use_processor
from ballast.errors import Error, FileError, UnsupportedError
from ballast.generation import Generation, ReplyPart, Stream, ToolCall
from ballast.jobs import (
    benchmark,
    benchmark_speculation,
    calibrate,
    compare_vectors,
    convert,
    evaluate,
    evaluate_choices,
    explain,
    export,
    inspect,
    plan,
    verify,
)
from ballast.model import Adapter, Classification, Model, Score, Tokenizer, WrittenText
from ballast.recipe import Recipe, schemes
from ballast.statistics import Statistics
from ballast.sweeps import Sweep, sweep

__version__: str = _ballast.version()

__all__ = [
    "Adapter",
    "Classification",
    "Error",
    "FileError",
    "Generation",
    "Model",
    "Recipe",
    "ReplyPart",
    "Score",
    "Statistics",
    "Stream",
    "Sweep",
    "Tokenizer",
    "ToolCall",
    "UnsupportedError",
    "WrittenText",
    "benchmark",
    "benchmark_speculation",
    "calibrate",
    "compare_vectors",
    "convert",
    "evaluate",
    "evaluate_choices",
    "explain",
    "export",
    "inspect",
    "plan",
    "schemes",
    "simd_targets",
    "sweep",
    "use_processor",
    "verify",
]
