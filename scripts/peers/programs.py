"""The compared programs: how each gets its model, and how it is timed."""

import json
import os
import pathlib

from . import gguf_writer
from .runs import PeerError, Speed, Workload, make, reading, run, test_name


def ballast_bench(program: str, model: pathlib.Path, load: Workload, threads: int, cache: str) -> dict:
    """Returns the results of one round of `ballast bench`, without its warm-up round."""
    output = run([program, "bench", model, "-p", load.prompt, "-n", load.generate, "-d", load.depth, "-r", 1,
                  "-t", threads, "--kv", cache, "--json", "-q"])
    with reading(f"output of {program}"):
        return json.loads(output)


class Ballast:
    name = "ballast"
    variants = ("w8a8", "w4a8", "w4a16")

    def __init__(self, program: str, threads: int):
        self._program = program
        self._threads = threads
        self._models = {}
        self.machines = []  # what each run measured of the machine

    def prepare(self, variant: str, model: pathlib.Path, work: pathlib.Path) -> None:
        self._models[variant] = make(
            work / f"ballast-{variant}", model,
            lambda path: run([self._program, "convert", model, "-o", path, "--scheme", variant, "--bits", variant[1], "-q"]))

    def measure(self, variant: str, load: Workload) -> list[Speed]:
        cache = "int8" if load.depth else "auto"
        figures = ballast_bench(self._program, self._models[variant], load, self._threads, cache)
        with reading(f"output of {self._program}"):
            self.machines.append(figures["machine"])
            return [Speed(result["test"].replace(" @ d", "@"), result["tokens_per_second"],
                          result["fraction_of_limit"]) for result in figures["results"]]


def require_llama_tools(binaries: pathlib.Path, tools: tuple[str, ...]) -> None:
    for program in tools:
        if not os.access(binaries / program, os.X_OK):
            raise PeerError(f"{binaries}: has no {program}: build llama.cpp's tools")


def llama_bench(program: pathlib.Path, model: pathlib.Path, load: Workload, threads: int) -> list[Speed]:
    """Returns the results of one round of llama-bench, with a cache of its default type or, after many tokens, INT8."""
    cache = ["-fa", "1", "-ctk", "q8_0", "-ctv", "q8_0"] if load.depth else []
    output = run([program, "-m", model, "-p", load.prompt, "-n", load.generate, "-d", load.depth, "-r", 1,
                  "-t", threads, "-o", "json", *cache])
    with reading(f"output of {program}"):
        return [Speed(test_name("pp", row["n_prompt"], load.depth) if row["n_prompt"] else
                      test_name("tg", row["n_gen"], load.depth), float(row["avg_ts"]))
                for row in json.loads(output)]


class LlamaCpp:
    name = "llama.cpp"
    variants = ("Q8_0", "Q4_0")

    def __init__(self, binaries: pathlib.Path, gguf: pathlib.Path | None, threads: int):
        require_llama_tools(binaries, ("llama-bench", "llama-quantize"))
        self._binaries = binaries
        self._gguf = gguf
        self._threads = threads
        self._models = {}

    def prepare(self, variant: str, model: pathlib.Path, work: pathlib.Path) -> None:
        def write_original(path: pathlib.Path) -> None:
            with reading(model):
                gguf_writer.write_gguf(model, path)

        def quantize(path: pathlib.Path) -> None:
            original = self._gguf or make(work / "llama-original.gguf", model, write_original)
            run([self._binaries / "llama-quantize", original, path, variant, self._threads])

        self._models[variant] = make(work / f"llama-{variant}.gguf", self._gguf or model, quantize)

    def measure(self, variant: str, load: Workload) -> list[Speed]:
        return llama_bench(self._binaries / "llama-bench", self._models[variant], load, self._threads)


def require_openvino(python: pathlib.Path) -> None:
    run([python, "-c", "import openvino_genai, optimum.intel, nncf"])


def export_openvino(python: pathlib.Path, model: pathlib.Path, target: pathlib.Path, weights: str, *options) -> None:
    run([python.parent / "optimum-cli", "export", "openvino", "--model", model, "--task", "text-generation-with-past",
         "--weight-format", weights, *options, target])


def openvino_bench(python: pathlib.Path, model: pathlib.Path, load: Workload, threads: int) -> list[Speed]:
    """Returns the results of one round of LLMPipeline."""
    child = pathlib.Path(__file__).with_name("openvino_child.py")
    output = run([python, child, model, threads, load.depth, load.prompt, load.generate])
    tests = {"prompt": load.prompt_test(), "generate": load.generate_test()}
    with reading(f"output of {child.name}"):
        return [Speed(tests[kind], float(figure)) for kind, figure in json.loads(output.splitlines()[-1]).items()]


class OpenVino:
    name = "OpenVINO"
    variants = ("int8", "int4")

    def __init__(self, python: pathlib.Path, threads: int):
        require_openvino(python)
        self._python = python
        self._threads = threads
        self._models = {}

    def prepare(self, variant: str, model: pathlib.Path, work: pathlib.Path) -> None:
        options = ["--sym", "--ratio", "1.0", "--group-size", self._group_size(model)] if variant == "int4" else []
        self._models[variant] = make(work / f"openvino-{variant}", model,
                                     lambda path: export_openvino(self._python, model, path, variant, *options))

    def _group_size(self, model: pathlib.Path) -> int:
        """Returns 128, or the largest smaller group size that divides the model's sizes: NNCF leaves other matrices at
        8 bits."""
        path = model / "config.json"
        with reading(path):
            config = json.loads(path.read_text(encoding="utf-8"))
            sizes = (config["hidden_size"], config["intermediate_size"])
            return next(group for group in (128, 64, 32, 16) if all(size % group == 0 for size in sizes) or group == 16)

    def measure(self, variant: str, load: Workload) -> list[Speed]:
        return openvino_bench(self._python, self._models[variant], load, self._threads)
