"""Quantizes a model for OpenVINO with NNCF, and measures the accuracy."""

import dataclasses
import json
import pathlib

from .programs import export_openvino, openvino_bench, require_openvino
from .runs import SPEED, Accuracy, make, reading, run

CHILD = pathlib.Path(__file__).with_name("openvino_accuracy_child.py")
CALIBRATION_LENGTH = 512
ACTIVATION_GROUP = 32  # channels that share a scale: OpenVINO's default on CPUs


@dataclasses.dataclass(frozen=True)
class Weights:
    """How NNCF compresses the weights."""

    options: dict  # of nncf.compress_weights
    calibrated: bool = False


INT4 = {"mode": "INT4_ASYM", "group_size": 32, "ratio": 1.0}
AWQ_SE = {"awq": True, "scale_estimation": True}

# INT4 leaves the embedding and the head at 8 bits, except in ALL.
WEIGHTS = {
    "INT8": Weights({"mode": "INT8_ASYM"}),
    "INT4": Weights(INT4),
    "INT4-AWQ-SE": Weights(INT4 | AWQ_SE, calibrated=True),
    "INT4-ALL-AWQ-SE": Weights(INT4 | AWQ_SE | {"all_layers": True}, calibrated=True),
}
INT8_ACTIVATIONS = "-A8"  # ends the name of a variant that quantizes them on the fly
VARIANTS = [weights + suffix for weights in WEIGHTS for suffix in ("", INT8_ACTIVATIONS)]


class OpenVinoAccuracy:
    """Accuracy of OpenVINO's variants. Files of WORK are reused; see make()."""

    def __init__(self, python: pathlib.Path, model: pathlib.Path, work: pathlib.Path, threads: int):
        require_openvino(python)
        self._python = python
        self._work = work
        self._threads = threads
        self._original = make(work / "openvino-f32", model, lambda path: export_openvino(python, model, path, "fp32"))

    def quantize(self, variant: str, text: pathlib.Path, chunks: int) -> pathlib.Path:
        """Returns the variant's model, calibrated if necessary on `chunks` chunks of a text; 0: all of it."""
        name = variant.removesuffix(INT8_ACTIVATIONS)
        arguments = {"original": str(self._original), "options": WEIGHTS[name].options, "calibration": None}
        source, target = self._original, self._work / f"openvino-{name}"
        if WEIGHTS[name].calibrated:
            arguments["calibration"] = text_argument(text, CALIBRATION_LENGTH, chunks)
            source, target = text, self._work / f"openvino-calibrated{chunks or ''}-{name}"
        return make(target, source, lambda path: self._child("compress", arguments | {"target": str(path)}))

    def measure(self, models: dict[str, pathlib.Path], text: pathlib.Path, context: int, chunks: int,
                with_speed: bool) -> list[Accuracy]:
        """Returns the accuracy of each variant's model, and the speed of those with INT8 activations, by
        LLMPipeline."""
        output = self._child("compare", {
            "original": str(self._original), "threads": self._threads, "text": text_argument(text, context, chunks),
            "models": [[str(model), ACTIVATION_GROUP if variant.endswith(INT8_ACTIVATIONS) else 0]
                       for variant, model in models.items()]})
        with reading(f"output of {CHILD.name}"):
            figures = [(float(figure["kl"]), float(figure["top1"]))
                       for figure in json.loads(output.splitlines()[-1])]
        results = []
        for (variant, model), (kl, top1) in zip(models.items(), figures, strict=True):
            size = sum((model / f"openvino_model.{kind}").stat().st_size for kind in ("bin", "xml"))
            timed = with_speed and variant.endswith(INT8_ACTIVATIONS)
            speeds = openvino_bench(self._python, model, SPEED, self._threads) if timed else []
            results.append(Accuracy(variant, "OpenVINO", size / 1e6, kl, top1,
                                    {speed.test: speed.tokens_per_second for speed in speeds}))
        return results

    def _child(self, task: str, arguments: dict) -> str:
        return run([self._python, CHILD, task, json.dumps(arguments)])


def text_argument(file: pathlib.Path, length: int, count: int) -> dict:
    return {"file": str(file), "length": length, "count": count}
