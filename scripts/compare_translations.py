#!/usr/bin/env python3
"""Compares the texts that ballast and transformers write from random source texts, with the same searches.

    scripts/compare_translations.py --python build/release/python MODEL...

MODEL is a Hugging Face directory with an encoder and a decoder. Prints, for each search, how many source texts have the
same best text, and how many the same hypotheses in the same order. Texts contain no padding. Needs torch and transformers.
"""

import argparse
import pathlib
import sys

# The arguments of transformers' generate() and of Model.translate().
SEARCHES = (
    ({"num_beams": 1}, {"beams": 1}),
    ({"num_beams": 4}, {"beams": 4}),
    ({"num_beams": 4, "early_stopping": True, "length_penalty": 0.6},
     {"beams": 4, "early_stop": "yes", "length_penalty": 0.6}),
    ({"num_beams": 3, "early_stopping": "never", "length_penalty": 2.0},
     {"beams": 3, "early_stop": "never", "length_penalty": 2.0}),
    ({"num_beams": 4, "no_repeat_ngram_size": 2, "min_new_tokens": 4},
     {"beams": 4, "no_repeat_ngram": 2, "min_tokens": 4}),
    ({"num_beams": 2, "repetition_penalty": 1.3}, {"beams": 2, "repetition_penalty": 1.3}),
)
MOST_TOKENS = 20


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", type=pathlib.Path, required=True)
    parser.add_argument("--texts", type=int, default=50)
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("models", type=pathlib.Path, nargs="+", metavar="MODEL")
    arguments = parser.parse_args()
    sys.path.insert(0, str(arguments.python))

    import ballast
    import torch
    from transformers import AutoModelForSeq2SeqLM

    differences = 0
    for path in arguments.models:
        original = AutoModelForSeq2SeqLM.from_pretrained(path, dtype=torch.float32).eval()
        own = ballast.Model(path)
        end, padding = original.config.eos_token_id, original.config.pad_token_id
        generator = torch.Generator().manual_seed(arguments.seed)

        def random_text():
            length = int(torch.randint(3, 40, (1,), generator=generator))
            return torch.randint(3, original.config.vocab_size - 3, (length,), generator=generator).tolist() + [end]

        sources = [random_text() for _ in range(arguments.texts)]
        for settings, options in SEARCHES:
            beams = settings["num_beams"]
            written = own.translate(sources, max_tokens=MOST_TOKENS, hypotheses=beams, kv="f32",
                                    forbidden_sequences=[[padding]], **options)
            best = all_of_them = 0
            for source, text in zip(sources, written, strict=True):
                with torch.no_grad():
                    found = original.generate(torch.tensor([source]), max_new_tokens=MOST_TOKENS, do_sample=False,
                                              num_return_sequences=beams, bad_words_ids=[[padding]], **settings)
                expected = [ids[1:].tolist() for ids in found]
                expected = [ids[:ids.index(end) + 1] if end in ids else ids for ids in expected]
                got = [list(one.tokens) for one in (text, *text.others)]
                best += got[0] == expected[0]
                all_of_them += got == expected
            differences += len(sources) - best
            print(f"{path.name} {settings}: {best} of {len(sources)} texts, {all_of_them} with all hypotheses", flush=True)
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
