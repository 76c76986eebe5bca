"""Quantizes with llama.cpp, or a fork of it, with an importance matrix, and measures the accuracy."""

import pathlib
import re

from .programs import llama_bench, require_llama_tools
from .runs import SPEED, Accuracy, PeerError, discard, make, reading, run


LLAMA = "llama.cpp"
IK_LLAMA = "ik_llama.cpp"  # a fork with types of its own


class LlamaAccuracy:
    """Accuracy of llama.cpp's variants. Files of WORK are reused; see make(). Speeds are measured only if `with_speed`."""

    def __init__(self, program: str, binaries: pathlib.Path, original: pathlib.Path, work: pathlib.Path, threads: int,
                 with_speed: bool):
        require_llama_tools(binaries, ("llama-imatrix", "llama-perplexity", "llama-quantize",
                                       *(["llama-bench"] if with_speed else [])))
        self._program = program
        self._prefix = program.removesuffix(".cpp")
        self._with_speed = with_speed
        self._binaries = binaries
        self._original = original
        self._work = work
        self._threads = threads
        self._logits = work / f"{self._prefix}-logits.bin"
        self._importance = None

    def weigh(self, text: pathlib.Path, chunks: int) -> None:
        """Computes the importance matrix from `chunks` chunks of a calibration text; 0: all of it."""
        self._importance = make(
            self._work / f"{self._prefix}-imatrix{chunks or ''}.gguf", text,
            lambda path: self._run("llama-imatrix", "-m", self._original, "-f", text, "--no-escape",
                                   "--chunks", chunks or -1, "-o", path))

    def keep_logits(self, text: pathlib.Path, context: int, chunks: int) -> None:
        """Stores the original's logits on the scored text: 2 bytes for each id at half of the tokens."""
        self._run("llama-perplexity", "-m", self._original, "-f", text, "--no-escape", "-c", context,
                  "--chunks", chunks or -1, "--save-all-logits", self._logits)

    def discard_logits(self) -> None:
        discard(self._logits)

    def measure(self, variant: str) -> Accuracy:
        """Returns the accuracy of a variant like Q4_K_M; with -pure at its end all matrices have that type."""
        model = make(self._work / f"{self._importance.stem}-{variant}.gguf", self._original,
                     lambda path: self._quantize(variant, path))
        return self.score(model, variant, self._program)

    def score(self, model: pathlib.Path, name: str, program: str) -> Accuracy:
        """Returns the accuracy of any GGUF of the same model."""
        output = self._run("llama-perplexity", "-m", model, "--kl-divergence", "--kl-divergence-base", self._logits)
        speeds = llama_bench(self._binaries / "llama-bench", model, SPEED, self._threads) if self._with_speed else []
        return Accuracy(name, program, model.stat().st_size / 1e6, printed(output, r"Mean +KLD: +([-0-9.]+)"),
                        printed(output, r"Same top p: +([0-9.]+)") / 100,
                        {speed.test: speed.tokens_per_second for speed in speeds})

    def _quantize(self, variant: str, path: pathlib.Path) -> None:
        pure = ["--pure"] if variant.endswith("-pure") else []
        run([self._binaries / "llama-quantize", *pure, "--imatrix", self._importance, self._original, path,
             variant.removesuffix("-pure"), self._threads])

    def _run(self, program: str, *arguments) -> str:
        return run([self._binaries / program, *arguments, "-t", self._threads])


def printed(output: str, pattern: str) -> float:
    match = re.search(pattern, output)
    if not match:
        raise PeerError(f"llama-perplexity printed no line like {pattern!r}; its version may have another output")
    with reading("output of llama-perplexity"):
        return float(match[1])


def write_original(converter: pathlib.Path, python: pathlib.Path, model: pathlib.Path,
                   work: pathlib.Path) -> pathlib.Path:
    """Converts the model to an F16 GGUF with its vocabulary by llama.cpp's own converter."""
    if not converter.is_file():
        raise PeerError(f"{converter}: does not exist; pass convert_hf_to_gguf.py of llama.cpp's sources")
    return make(work / "llama-f16.gguf", model,
                lambda path: run([python, converter, "--outtype", "f16", "--outfile", path, model]))
