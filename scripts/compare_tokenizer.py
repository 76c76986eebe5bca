#!/usr/bin/env python3
"""Compares ballast's token ids with transformers', text by text.

    compare_tokenizer.py MODEL... --program build/release/tokenize_lines [--lines 3000]
    compare_tokenizer.py --families --program ...      trains tiny tokenizers with the pre-tokenizers of known families
                                                       and of the other kinds (tokenizer_kinds.py)
    compare_tokenizer.py MODEL... --program ... --speed TEXT   seconds for a text file, and ballast's memory, instead
    compare_tokenizer.py --write-golden tests/data/tokenizer

MODEL is a Hugging Face directory or a GGUF file; of a GGUF the tokenizer is first written out as tokenizer.json by
ballast and then read by both. Needs transformers, tokenizers, sentencepiece, tiktoken, protobuf and gguf. Exits with 1
when any text differs.
"""

import argparse
import itertools
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time
import unicodedata

import tokenizer_kinds

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
DEEPSEEK_V3 = (
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"""
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
CL100K = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]"
    r"|\s+(?!\S)|\s"
)

CASED_WORDS = "|".join(
    r"[^\r\n\p{L}\p{N}]?" + upper + lower + "%s" for upper, lower in (
        (r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"),
        (r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]*")))
AFTER_WORDS = r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
RANKED = {
    "tiktoken.model": CASED_WORDS % ((r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?",) * 2) + r"|\p{N}{1,3}" + AFTER_WORDS,  # o200k
    "tekken.json": CASED_WORDS % ("", "") + r"|\p{N}" + AFTER_WORDS,
}

WORDS = {
    "latin": "the quick brown fox don't I'LL we've o'clock naïve café Straße ﬁle İstanbul ﬀ ſo 'ſ it'ſ über-cool "
             "cooperate e-mail Hello WORLD CamelCase snake_case x86_64 mp3 3D B2B".split(),
    "accents_nfd": "café naïve Ångström à la carte Việt".split(),
    "cyrillic": "Привет мир ёлка съешь ещё этих мягких французских булок".split(),
    "greek": "Καλημέρα κόσμε ΐ Ωμέγα".split(),
    "chinese": "你好 世界 我们今天去北京 天安门广场 人工智能模型 一二三 䶮 𠮷".split(),
    "japanese": "こんにちは 世界 カタカナ ひらがな 東京タワー がぎ ガ が ﾊﾝｶｸ 々".split(),
    "korean": "안녕하세요 세계 한국어 각 ㅋㅋㅋ".split(),
    "arabic": "مرحبا بالعالم السَّلَامُ عَلَيْكُمْ ١٢٣ لا ﷺ".split(),
    "hebrew": "שלום עולם בְּרֵאשִׁית".split(),
    "hindi": "नमस्ते दुनिया क्षत्रिय हिन्दी १२३४ क़ ज्ञ".split(),
    "thai": "สวัสดีชาวโลก ภาษาไทย ๑๒๓ ก็ น้ำ".split(),
    "tamil": "வணக்கம் உலகம் கொ".split(),
    "emoji": "😀 👨‍👩‍👧‍👦 🏳️‍🌈 👍🏽 🇩🇪 ❤️ 🤦🏼‍♂️ ☃ ⌚️ #️⃣".split(),
    "digits": "0 7 42 123 1234 1234567890 ３４ ٣٤ ४५ ௧௨ Ⅷ ½ ² ①⑳ 3.14 1,000,000 0x1F 12:34 2024-01-31".split(),
    "symbols": "... !!! ?! -- → ≠ ∑ € £ © ™ “quoted” ‘x’ «a» … • § ¶ % & @ # $ ^ * ( ) [ ] { } < > | \\ / ~ ` ' \"".split(),
    "special": "<|endoftext|> <|im_start|> <|im_end|> <|pad|> <|im_start <|end|> <tool> <tool >> <mark> mask [MASK]".split(),
    "odd": "\u180e \u200b \u200d \ufeff \u00ad \u0301 \u20dd \ufffd \u2028x a\u2029b \u0085 \U000e0001 \ufdd0 \ue000 "
           "\u1680 \u3000 \x00 \x01 \x7f \u0378".split(" "),
}
SPACES = [" "] * 12 + ["  ", "   ", "    ", "\t", "\n", "\r\n", "\r", "\n\n", "\n\n\n", " \n", "\n ", "\t\t", "\u00a0", "\u2003",
                       "\u3000", "\u2028", "\u0085", "\u1680", "\u180e", "\u200b", "\v", "\f", "", "", ""]
CODE = [
    "def f(x):\n    return x ** 2  # square\n",
    "for (int i = 0; i < n; ++i) {\n\t\tsum += a[i] * b[i];\n}\n",
    "if (a==b&&c!=d||!e) x->y::z<T>();",
    "SELECT * FROM t WHERE a='it''s' AND b<>3;\r\n",
    "<div class=\"a b\">x &amp; y</div>",
    "https://example.com/a/b?c=d&e=%20f#g",
    "\\frac{1}{2} \\sum_{i=0}^{n}",
    "{\"key\": [1, 2.5e-3, null, true]}",
    "#!/bin/sh\nset -eu; echo \"${HOME}\" | sed 's/a/b/g' > /dev/null 2>&1\n",
    "        deep indent\n            deeper\n\n\n        back",
]


def random_character(rng):
    """Returns a random character that this Python knows: the libraries differ about characters of later Unicode
    versions."""
    while True:
        low, high = rng.choice([(0x20, 0x250), (0x250, 0xD800), (0xE000, 0x20000)])
        character = chr(rng.randrange(low, high))
        if unicodedata.category(character) != "Cn":
            return character


def random_text(rng):
    """Returns a text of a few words, in most cases of one script, in some of several."""
    kind = rng.random()
    if kind < 0.12:
        return "".join(rng.choice(CODE) for _ in range(rng.randint(1, 3)))
    if kind < 0.16:
        return "".join(random_character(rng) for _ in range(rng.randint(1, 40)))
    if kind < 0.20:
        return rng.choice(SPACES[10:]) * rng.randint(1, 40) + rng.choice(["", "x", ".", "\n", "1"])
    if kind < 0.22:
        return rng.choice("aé1 .\n世😀'") * rng.randint(50, 400)
    scripts = list(WORDS)
    if kind < 0.6:
        scripts = [rng.choice(scripts)]
    return "".join(rng.choice(WORDS[rng.choice(scripts)]) + rng.choice(SPACES) for _ in range(rng.randint(1, 30)))


def random_bytes(rng):
    """Returns the UTF-8 of a random text; every fifth one is damaged."""
    data = bytearray(random_text(rng).encode("utf-8"))
    if rng.random() < 0.2:
        for _ in range(rng.randint(1, 6)):
            position = rng.randrange(len(data) + 1)
            damage = rng.random()
            if damage < 0.4:
                data[position:position] = bytes(rng.randrange(0x80, 0x100) for _ in range(rng.randint(1, 4)))
            elif damage < 0.7:
                del data[position:position + 1]
            else:
                data[position:position] = rng.choice([b"\xed\xa0\x80", b"\xf0\x9f\x98", b"\xe2\x82", b"\xc0\xaf", b"\xff",
                                                      b"\xf4\x90\x80\x80", b"\xe0\x80\x80", b"\xf8\x88\x80\x80\x80"])
    return bytes(data)


def records(count, seed=0):
    rng = random.Random(seed)
    return [b"", b" ", "'ſ'S'll'LL".encode()] + [random_bytes(rng) for _ in range(count - 3)]


def ballast_ids(program, model, texts, export=None):
    payload = b"".join(b"%d\n" % len(text) + text for text in texts)
    command = [program, str(model)] + ([str(export)] if export else [])
    result = subprocess.run(command, input=payload, stdout=subprocess.PIPE, check=True)
    return [[int(word) for word in line.split()] for line in result.stdout.decode().split("\n")[:-1]]


def compare(name, expected, found, texts):
    certain = [i for i, ids in enumerate(expected) if ids is not None]
    expected, found, texts = ([values[i] for i in certain] for values in (expected, found, texts))
    equal = sum(a == b for a, b in zip(expected, found))
    print(f"{name}: {equal} of {len(texts)} texts agree, {sum(map(len, expected))} tokens")
    for text, a, b in zip(texts, expected, found):
        if a != b:
            print(f"  {text[:200]!r}\n    original     {a[:60]}\n    ballast      {b[:60]}")
            break
    return equal == len(texts) == len(found)


def compare_model(program, model, texts):
    import transformers

    with tempfile.TemporaryDirectory() as directory:
        exported = None if pathlib.Path(model).is_dir() else directory
        found = ballast_ids(program, model, texts, exported)
        tokenizer = transformers.AutoTokenizer.from_pretrained(exported or model)
        expected = [tokenizer.encode(text.decode("utf-8", "replace"), add_special_tokens=False) for text in texts]
        return compare(str(model), expected, found, texts)


def measure(program, model, text, rounds=5):
    """Compares the time in which both encode the text in one piece on one thread, the best of some rounds."""
    os.environ |= {"RAYON_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    import tokenizers

    def best(action):
        seconds = []
        for _ in range(rounds):
            begin = time.perf_counter()
            action()
            seconds.append(time.perf_counter() - begin)
        return min(seconds)

    with tempfile.TemporaryDirectory() as directory:
        exported = model if pathlib.Path(model).is_dir() else directory
        if exported == directory:
            ballast_ids(program, model, [b""], directory)
        original = tokenizers.Tokenizer.from_file(f"{exported}/tokenizer.json")
        original.no_truncation()
        whole = text.decode("utf-8", "replace")
        theirs = best(lambda: original.encode(whole, add_special_tokens=False))
        without_offsets = best(lambda: original.encode_batch_fast([whole], add_special_tokens=False))
    result = subprocess.run([program, str(model), "--time", str(rounds)], input=b"%d\n" % len(text) + text,
                            stdout=subprocess.PIPE, check=True)
    seconds, kilobytes = result.stdout.split()
    print(f"{model}: {len(text) / 1e6:.2f} MB: ballast {float(seconds):.3f} s, {int(kilobytes) / 1e3:.1f} MB of memory; "
          f"tokenizers {theirs:.3f} s, without offsets {without_offsets:.3f} s: "
          f"{without_offsets / float(seconds):.1f} times as fast")


def train(pre_tokenizer, normalizer, texts, vocab_size, added=(), **options):
    import tokenizers

    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(**options))
    tokenizer.pre_tokenizer = pre_tokenizer
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=vocab_size, show_progress=False, special_tokens=["<|endoftext|>"],
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_special_tokens(["<|im_start|>", "<|im_end|>"])
    tokenizer.add_tokens(list(added))
    return tokenizer


def families():
    """Returns the arguments of train() by name."""
    from tokenizers import AddedToken, Regex, normalizers, pre_tokenizers as pre

    def split(expression, behavior="isolated", invert=False):
        return pre.Split(Regex(expression), behavior, invert)

    byte_level = pre.ByteLevel(add_prefix_space=False, use_regex=False)
    gpt2 = pre.ByteLevel(add_prefix_space=False, use_regex=True)
    added = [AddedToken("<tool>", lstrip=True, normalized=False), AddedToken("<mark>", rstrip=True, normalized=True),
             AddedToken("mask", single_word=True, normalized=False), AddedToken("é", normalized=True),
             AddedToken("[MASK]", lstrip=True, rstrip=True, single_word=True, normalized=False)]
    return {
        "gpt2": (gpt2, None, {}),
        "smollm": (pre.Sequence([pre.Digits(individual_digits=True), gpt2]), None, {}),
        "llama3": (pre.Sequence([split(LLAMA3), byte_level]), None, {"ignore_merges": True}),
        "qwen2": (pre.Sequence([split(QWEN2), byte_level]), normalizers.NFC(), {}),
        "gpt_neox": (gpt2, normalizers.NFC(), {"added": [AddedToken(" " * n, normalized=True) for n in range(24, 1, -1)]}),
        "deepseek_v3": (pre.Sequence([split(r"\p{N}{1,3}"), split(r"[一-龥぀-ゟ゠-ヿ]+"), split(DEEPSEEK_V3), byte_level]),
                        normalizers.Sequence([]), {}),
        "cl100k": (pre.Sequence([split(CL100K, "removed", True), byte_level]), None, {}),
        "prefix_space": (pre.Sequence([pre.Digits(individual_digits=False), pre.ByteLevel(add_prefix_space=True)]), None, {}),
        "behaviors": (pre.Sequence([pre.Split("e", "merged_with_previous"), split(r"[aio]", "merged_with_next"),
                                    split(r"\s", "contiguous"), split(r"\w(?=\w)", "merged_with_next", True), byte_level]),
                      None, {}),
        "removed": (pre.Sequence([split(r"\s+", "removed"), split(r"(?=[A-Z])"), byte_level]), None, {"fuse_unk": True}),
        "added_tokens": (gpt2, normalizers.NFC(), {"added": added}),
    }


def training_texts():
    return [text.decode("utf-8", "replace") for text in records(1500, seed=1)]


def byte_level_trainer(vocab_size):
    def train_byte_level(name):
        pre_tokenizer, normalizer, options = families()[name]
        return train(pre_tokenizer, normalizer, training_texts(), vocab_size, **options)

    return train_byte_level


def write_kinds(root, vocab_size):
    return tokenizer_kinds.write_kinds(root, training_texts(), vocab_size, byte_level_trainer(vocab_size))


def compare_kinds(program, texts, vocab_size):
    agree = True
    with tempfile.TemporaryDirectory() as directory:
        large = tokenizer_kinds.write_large_kinds(
            pathlib.Path(directory), training_texts(), vocab_size, byte_level_trainer(vocab_size), RANKED)
        for name, model, encode in itertools.chain(write_kinds(pathlib.Path(directory), vocab_size), large):
            found = ballast_ids(program, model, texts)
            expected = [encode(text.decode("utf-8", "replace")) for text in texts]
            agree = compare(name, expected, found, texts) and agree
            if model.suffix == ".gguf":  # what is written for it must be the same tokenizer
                exported = pathlib.Path(directory) / (name + "_exported")
                exported.mkdir()
                ballast_ids(program, model, texts[:1], exported)
                agree = compare(exported.name, expected, ballast_ids(program, exported, texts), texts) and agree
    return agree


def compare_families(program, texts, vocab_size):
    agree = True
    for name, (pre_tokenizer, normalizer, options) in families().items():
        tokenizer = train(pre_tokenizer, normalizer, training_texts(), vocab_size, **options)
        with tempfile.TemporaryDirectory() as directory:
            tokenizer.save(f"{directory}/tokenizer.json")
            found = ballast_ids(program, directory, texts)
        expected = [tokenizer.encode(text.decode("utf-8", "replace"), add_special_tokens=False).ids for text in texts]
        agree = compare(name, expected, found, texts) and agree
    return agree


def write_golden(directory):
    """Writes tiny tokenizers with a hundred texts and their ids, for tests that run without Python."""
    texts = [text[:100] for text in records(100, seed=2)]
    for name, (pre_tokenizer, normalizer, options) in families().items():
        tokenizer = train(pre_tokenizer, normalizer, training_texts(), 420, **options)
        folder = directory / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "tokenizer.json").write_text(
            json.dumps(json.loads(tokenizer.to_str()), ensure_ascii=False, separators=(",", ":")), encoding="utf-8")
        ids = [tokenizer.encode(text.decode("utf-8", "replace"), add_special_tokens=False).ids for text in texts]
        (folder / "ids.txt").write_text("".join(" ".join(map(str, line)) + "\n" for line in ids))
    for name, _, encode in write_kinds(directory, 420):
        ids = [encode(text.decode("utf-8", "replace")) for text in texts]
        lines = ["ambiguous" if line is None else " ".join(map(str, line)) for line in ids]
        (directory / name / "ids.txt").write_text("".join(line + "\n" for line in lines))
    (directory / "texts.bin").write_bytes(b"".join(b"%d\n" % len(text) + text for text in texts))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL")
    parser.add_argument("--program", help="the build's program tokenize_lines")
    parser.add_argument("--lines", type=int, default=3000, help="texts to compare (default 3000)")
    parser.add_argument("--families", action="store_true", help="train and compare tokenizers of known families")
    parser.add_argument("--vocab-size", type=int, default=3000, help="size of the trained tokenizers")
    parser.add_argument("--speed", type=pathlib.Path, metavar="TEXT", help="measure instead of comparing")
    parser.add_argument("--write-golden", type=pathlib.Path, metavar="DIR", help="write the files of tests/data/tokenizer")
    options = parser.parse_args()

    agree = True
    if options.write_golden:
        write_golden(options.write_golden)
    if (options.models or options.families) and not options.program:
        parser.error("--program is needed to compare")
    texts = records(options.lines)
    for model in options.models if options.speed else []:
        measure(options.program, model, options.speed.read_bytes())
    for model in [] if options.speed else options.models:
        agree = compare_model(options.program, model, texts) and agree
    if options.families:
        agree = compare_families(options.program, texts, options.vocab_size) and agree
        agree = compare_kinds(options.program, texts, options.vocab_size) and agree
    sys.exit(0 if agree else 1)


if __name__ == "__main__":
    main()
