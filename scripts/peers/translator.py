#!/usr/bin/env python3
"""Measures the tokens per second of a translator in INT8 beside CTranslate2, with random weights in the shape of opus-mt.

    scripts/peers/translator.py --ballast build/release/ballast --python build/release/python --work /tmp/peers

makes the model, converts it for both programs, and lets them write texts of as many tokens as they may from the same
random source texts, in turns: one text at a time and 32, greedily and with 4 beams. Random weights never end a text, so
that both write the same number of tokens. Needs torch, transformers and ctranslate2.
"""

import argparse
import os
import pathlib
import random
import statistics
import subprocess
import sys
import time

VOCABULARY = 58101
END, PADDING = 0, VOCABULARY - 1
MOST_TOKENS = 48
# Texts at once, beams, texts of a round.
CASES = ((1, 1, 6), (1, 4, 4), (32, 1, 64), (32, 4, 32))


def make_model(path: pathlib.Path) -> None:
    import torch
    from transformers import MarianConfig, MarianMTModel

    torch.manual_seed(3)
    model = MarianMTModel(MarianConfig(
        vocab_size=VOCABULARY, d_model=512, encoder_layers=6, decoder_layers=6, encoder_attention_heads=8,
        decoder_attention_heads=8, encoder_ffn_dim=2048, decoder_ffn_dim=2048, max_position_embeddings=512,
        activation_function="swish", scale_embedding=True, pad_token_id=PADDING, eos_token_id=END,
        decoder_start_token_id=PADDING, forced_eos_token_id=END))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim == 2 and "embed_positions" not in name:
                parameter.copy_(torch.randn_like(parameter) / parameter.shape[1] ** 0.5)
        model.final_logits_bias[0, END] = -30
        model.final_logits_bias[0, PADDING] = -1000
    model.save_pretrained(path)


def make_ctranslate2(original: pathlib.Path, path: pathlib.Path) -> None:
    from ctranslate2.converters import transformers as converters

    class Vocabulary:
        """The tokens of a model without a tokenizer."""

        unk_token, pad_token, eos_token, bos_token, additional_special_tokens = "<unk>", "<pad>", "</s>", None, []

        def get_vocab(self):
            names = {END: "</s>", 1: "<unk>", PADDING: "<pad>"}
            return {names.get(i, token_name(i)): i for i in range(VOCABULARY)}

        def __len__(self):
            return VOCABULARY

    converters.TransformersConverter.load_tokenizer = lambda self, *_, **__: Vocabulary()
    converters.TransformersConverter(str(original)).convert(str(path), quantization="int8", force=True)


def token_name(token: int) -> str:
    return "</s>" if token == END else f"t{token}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("--ballast", "--python", "--work"):
        parser.add_argument(name, type=pathlib.Path, required=True)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--convert-options", default="", help="options of `ballast convert`, like --group-size 128")
    arguments = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = str(arguments.threads)
    sys.path.insert(0, str(arguments.python))
    import ballast
    import ctranslate2

    original, own, peer = (arguments.work / name for name in ("original", "ballast", "ctranslate2"))
    if not original.exists():
        make_model(original)
    if not peer.exists():
        make_ctranslate2(original, peer)
    subprocess.run([arguments.ballast, "convert", original, "-o", own, "--scheme", "w8a8", "--samples", "4", "--force",
                    "-q", *arguments.convert_options.split()], check=True)
    model = ballast.Model(own)
    translator = ctranslate2.Translator(str(peer), device="cpu", compute_type="int8", inter_threads=1,
                                        intra_threads=arguments.threads)

    def run_ballast(sources, at_once, beams):
        return [text.tokens for text in model.translate(sources, beams=beams, max_tokens=MOST_TOKENS,
                                                        texts_at_once=at_once)]

    def run_ctranslate2(sources, at_once, beams):
        named = [[token_name(token) for token in source] for source in sources]
        return [result.hypotheses[0] for result in translator.translate_batch(
            named, beam_size=beams, max_decoding_length=MOST_TOKENS, max_batch_size=at_once, batch_type="examples")]

    source = random.Random(1)
    for at_once, beams, count in CASES:
        speeds = {run_ballast: [], run_ctranslate2: []}
        for _ in range(arguments.rounds):
            sources = [[source.randint(2, PADDING - 1) for _ in range(source.randint(15, 35))] + [END]
                       for _ in range(count)]
            for run, of_run in speeds.items():
                start = time.perf_counter()
                written = run(sources, at_once, beams)
                of_run.append(sum(map(len, written)) / (time.perf_counter() - start))
        ours, theirs = (statistics.median(of_run) for of_run in speeds.values())
        ratio = statistics.median(a / b for a, b in zip(*speeds.values(), strict=True))
        print(f"{at_once:2} at once, {beams} beams: ballast {ours:5.0f} tokens/s, CTranslate2 {theirs:5.0f}, ratio {ratio:.2f}",
              flush=True)


if __name__ == "__main__":
    main()
