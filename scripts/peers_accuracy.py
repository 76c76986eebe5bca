#!/usr/bin/env python3
"""Measures how accurate other programs' quantizations of a model are, as input of `ballast sweep --peers`.

    peers_accuracy.py --model SmolLM2-135M --converter llama.cpp/convert_hf_to_gguf.py \\
        --llama-bin llama.cpp/build/bin --openvino-python openvino/bin/python \\
        --text wiki.txt --calibration-text wiki-train.txt --chunks 24 --out peers.csv

Each result is compared with the original in chunks of --context tokens, the second half of each scored, as `ballast
eval` does. Programs without an option are left out. Created files stay in --work and are reused.

llama.cpp quantizes with an importance matrix from the calibration text, and llama-perplexity compares with the F16
original. llama.cpp's converter writes it, which needs a Python with torch and transformers (--python); --gguf names an
existing one. ik_llama.cpp, a fork with additional types, starts from the same file.

OpenVINO's models are quantized by NNCF and compared with OpenVINO's F32 original, in F32 except for the INT8
activations of variants that end in -A8. docs/performance.md describes the environment.

Writes a CSV with the columns name, program, file_mb, kl, top1, and with --bench the speeds pp512 and tg128.
"""

import argparse
import csv
import os
import pathlib
import sys

from peers import llama_accuracy, openvino_accuracy
from peers.runs import Accuracy, PeerError, discard

LLAMA_VARIANTS = "IQ4_NL,Q4_K_M,Q5_K_M,Q6_K,Q8_0"
IK_LLAMA_VARIANTS = "IQ4_KS,IQ4_K,IQ5_K,IQ6_K"
OPENVINO_VARIANTS = "INT8,INT8-A8,INT4-AWQ-SE,INT4-AWQ-SE-A8,INT4-ALL-AWQ-SE"


def say(text: str) -> None:
    print(f"peers_accuracy: {text}", file=sys.stderr, flush=True)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=pathlib.Path, metavar="DIR",
                        help="Hugging Face directory; llama.cpp does not need it with --gguf")
    parser.add_argument("--llama-bin", type=pathlib.Path, metavar="DIR",
                        help="folder with llama-quantize, llama-imatrix, llama-perplexity and, with --bench, llama-bench")
    parser.add_argument("--ik-llama-bin", type=pathlib.Path, metavar="DIR", help="the same programs of ik_llama.cpp")
    parser.add_argument("--gguf", type=pathlib.Path, metavar="FILE", help="the model as an F16 GGUF")
    parser.add_argument("--converter", type=pathlib.Path, metavar="FILE",
                        help="convert_hf_to_gguf.py in llama.cpp's sources, needed without --gguf")
    parser.add_argument("--python", type=pathlib.Path, default=pathlib.Path(sys.executable),
                        help="Python that runs the converter (default: this one)")
    parser.add_argument("--text", type=pathlib.Path, required=True, metavar="FILE", help="text to score")
    parser.add_argument("--calibration-text", type=pathlib.Path, required=True, metavar="FILE",
                        help="text for calibration")
    parser.add_argument("--calibration-chunks", type=int, default=0, metavar="N",
                        help="use at most this many of its chunks of 512 tokens; 0: all (default)")
    parser.add_argument("--variants", default=LLAMA_VARIANTS, metavar="LIST",
                        help="types of llama.cpp (default %(default)s); with -pure at its end all matrices have the type")
    parser.add_argument("--ik-llama-variants", default=IK_LLAMA_VARIANTS, metavar="LIST",
                        help="types of ik_llama.cpp (default %(default)s)")
    parser.add_argument("--ours", type=pathlib.Path, nargs="+", default=[], metavar="FILE.gguf",
                        help="GGUF files of the model by `ballast convert --to gguf`, which llama.cpp also scores")
    parser.add_argument("--openvino-python", type=pathlib.Path, metavar="PYTHON",
                        help="Python of an environment with openvino-genai, optimum-intel and nncf")
    parser.add_argument("--openvino-variants", default=OPENVINO_VARIANTS, metavar="LIST",
                        help=f"some of {', '.join(openvino_accuracy.VARIANTS)} (default %(default)s)")
    parser.add_argument("--context", type=int, default=512, metavar="N", help="tokens per chunk (default %(default)s)")
    parser.add_argument("--chunks", type=int, default=0, metavar="N", help="score at most this many; 0: all (default)")
    parser.add_argument("--bench", action="store_true", help="also measure speed, on an otherwise idle machine")
    parser.add_argument("--threads", type=int, metavar="N", default=len(os.sched_getaffinity(0)),
                        help="(default: the available processors, %(default)s)")
    parser.add_argument("--work", type=pathlib.Path, metavar="DIR", help="folder for models (default: OUT.work)")
    parser.add_argument("--out", type=pathlib.Path, required=True, metavar="FILE.csv")
    arguments = parser.parse_args()
    llama = arguments.llama_bin or arguments.ik_llama_bin
    if llama is None and arguments.openvino_python is None:
        parser.error("one of --llama-bin, --ik-llama-bin and --openvino-python is needed")
    if llama and arguments.gguf is None and (arguments.model is None or arguments.converter is None):
        parser.error("for llama.cpp either --gguf is needed, or --model and --converter")
    if arguments.openvino_python and arguments.model is None:
        parser.error("for OpenVINO --model is needed")
    arguments.openvino_variants = arguments.openvino_variants.split(",")
    for variant in arguments.openvino_variants:
        if variant not in openvino_accuracy.VARIANTS:
            parser.error(f"{variant}: OpenVINO's variants are {', '.join(openvino_accuracy.VARIANTS)}")
    for file in (arguments.text, arguments.calibration_text, *arguments.ours):
        if not file.is_file():
            parser.error(f"{file}: does not exist")
    if arguments.ours and arguments.llama_bin is None:
        parser.error("--ours needs --llama-bin")
    if arguments.work is None:
        arguments.work = arguments.out.with_name(arguments.out.name + ".work")
    return arguments


def tell(result: Accuracy) -> None:
    say(f"{result.program} {result.name}: {result.file_mb:.1f} MB, KL {result.kl:.4f}")


def measure_llama(arguments: argparse.Namespace, program: str, binaries: pathlib.Path, variants: str,
                  ours: list[pathlib.Path]) -> list[Accuracy]:
    original = arguments.gguf or llama_accuracy.write_original(
        arguments.converter, arguments.python, arguments.model, arguments.work)
    peer = llama_accuracy.LlamaAccuracy(program, binaries, original, arguments.work, arguments.threads,
                                        arguments.bench)
    say(f"{program}: importance matrix")
    peer.weigh(arguments.calibration_text, arguments.calibration_chunks)
    try:
        say(f"{program}: the original's logits")
        peer.keep_logits(arguments.text, arguments.context, arguments.chunks)
        results = []
        for variant in variants.split(","):
            results.append(peer.measure(variant))
            tell(results[-1])
        for model in ours:
            results.append(peer.score(model, model.stem, "ballast in llama.cpp"))
            tell(results[-1])
        return results
    finally:
        peer.discard_logits()


def measure_openvino(arguments: argparse.Namespace) -> list[Accuracy]:
    say("OpenVINO's original")
    peer = openvino_accuracy.OpenVinoAccuracy(arguments.openvino_python, arguments.model, arguments.work,
                                              arguments.threads)
    models = {}
    for variant in arguments.openvino_variants:
        say(f"OpenVINO {variant}: model")
        models[variant] = peer.quantize(variant, arguments.calibration_text, arguments.calibration_chunks)
    say("OpenVINO: comparing")
    results = peer.measure(models, arguments.text, arguments.context, arguments.chunks, arguments.bench)
    for result in results:
        tell(result)
    return results


def measure(arguments: argparse.Namespace) -> list[Accuracy]:
    arguments.work.mkdir(parents=True, exist_ok=True)
    results = []
    if arguments.llama_bin:
        results += measure_llama(arguments, llama_accuracy.LLAMA, arguments.llama_bin, arguments.variants,
                                 arguments.ours)
    if arguments.ik_llama_bin:
        results += measure_llama(arguments, llama_accuracy.IK_LLAMA, arguments.ik_llama_bin,
                                 arguments.ik_llama_variants, [])
    if arguments.openvino_python:
        results += measure_openvino(arguments)
    return results


def write_csv(path: pathlib.Path, results: list[Accuracy]) -> None:
    tests = list(dict.fromkeys(test for result in results for test in result.speeds))
    partial = path.with_name(path.name + ".part")
    try:
        with partial.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["name", "program", "file_mb", "kl", "top1", *tests])
            for result in results:
                writer.writerow([result.name, result.program, f"{result.file_mb:.3f}", f"{result.kl:.6g}",
                                 f"{result.top1:.5f}", *(result.speeds.get(test, "") for test in tests)])
        partial.rename(path)
    finally:
        discard(partial)


def main() -> None:
    arguments = parse_arguments()
    try:
        write_csv(arguments.out, measure(arguments))
    except PeerError as error:
        sys.exit(f"peers_accuracy: {error}")
    except OSError as error:
        place = f"{error.filename}: {error.strerror}" if error.filename else error
        sys.exit(f"peers_accuracy: {place}")
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
