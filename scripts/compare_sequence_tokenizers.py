#!/usr/bin/env python3
"""Compares ballast's tokenizers of encoder-decoder models with transformers', text by text.

    compare_sequence_tokenizers.py --program build/release/tokenize_lines --text FILE [--seeds 3] [--lines 2000]
    compare_sequence_tokenizers.py --write-golden tests/data/sequence_tokenizers

Trains small SentencePiece models on lines of FILE and of made up text, and writes the files of every family as published
models have them and as transformers saves them. Compares the ids that an encoder and a decoder read, and what random
ids decode to. Needs transformers, sentencepiece and protobuf. Exits with 1 when anything differs.
"""

import argparse
import io
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

import compare_tokenizer

os.environ["HF_HUB_OFFLINE"] = "1"

SPECIAL = ["</s>", "<s>", "<pad>", "<unk>", "<mask>", "<extra_id_0>", "<extra_id_99>", " <extra_id_5> ", ">>deu<<",
           ">>fra<< ", ">>xx<<", "__en__", "eng_Latn", "fr_XX", "<mask_1>", " <mask_2>", "<unk_2>", "\u2581", "\u2581\u2581"]
SPACED = ["I do n't , he 's here . ok ? ' quoted ' x !  ,", "a ' . b  ' s c", "x ' "]
T5_IDS = {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1}


def train(lines, model_type, vocab_size, **options):
    import sentencepiece

    trained = io.BytesIO()
    options.setdefault("character_coverage", 0.98)
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=trained, model_type=model_type, vocab_size=vocab_size, num_threads=1,
        minloglevel=2, hard_vocab_limit=model_type == "bpe", **options)
    return trained.getvalue()


def pieces_of(model):
    import sentencepiece

    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    return [processor.id_to_piece(i) for i in range(processor.get_piece_size())]


def train_models(lines, vocab_size, **options):
    """Returns the models that families share: T5's, others' of both types, and those of a second language."""
    other = lines[len(lines) // 3:]
    return {"t5": train(lines, "unigram", vocab_size, **T5_IDS, **options),
            "unigram": train(lines, "unigram", vocab_size, **options), "bpe": train(lines, "bpe", vocab_size, **options),
            "unigram_target": train(other, "unigram", vocab_size * 4 // 5, **options),
            "bpe_target": train(other, "bpe", vocab_size * 4 // 5, **options)}


def added(content, **properties):
    return {"content": content, "lstrip": False, "normalized": False, "rstrip": False, "single_word": False, "special": True,
            **properties}


def vocabulary(first, models, last=(), kept=0.97):
    """Returns the tokens `first`, some of the models' pieces and `last` with their ids."""
    rng = random.Random(0)
    pieces = sorted({piece for model in models for piece in pieces_of(model)[3:]})
    return {token: i for i, token in enumerate([*first, *(p for p in pieces if rng.random() < kept), *last])}


def families(models, languages=None):
    """Returns files by family: bytes of a model, or JSON. `languages` are used instead of the whole lists."""
    from transformers.models.m2m_100.tokenization_m2m_100 import FAIRSEQ_LANGUAGE_CODES as m2m_codes
    from transformers.models.nllb.tokenization_nllb import FAIRSEQ_LANGUAGE_CODES as nllb_codes

    names = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "sep_token": "</s>", "cls_token": "<s>",
             "pad_token": "<pad>"}
    mask = {**added("<mask>", lstrip=True, normalized=True), "__type": "AddedToken"}
    codes = languages or list(nllb_codes)
    sentinels = 100 if languages is None else 3
    first = ["</s>", "<unk>", ">>deu<<", ">>fra<<", ">>zho_Hans<<"]
    count = len(pieces_of(models["t5"]))
    size = len(pieces_of(models["bpe"])) + 1
    t5_added = {0: "<pad>", 1: "</s>", 2: "<unk>"} | {count + sentinels - 1 - i: f"<extra_id_{i}>" for i in range(sentinels)}
    nllb_added = {0: "<s>", 1: "<pad>", 2: "</s>", 3: "<unk>"} | {size + i: code for i, code in enumerate(codes)}
    marian = {"source.spm": models["bpe"], "target.spm": models["bpe_target"], "config.json": {"model_type": "marian"},
              "vocab.json": vocabulary(first, [models["bpe"], models["bpe_target"]], ["<pad>"]),
              "tokenizer_config.json": {"source_lang": "eng", "target_lang": "mul"}}
    nllb = {"sentencepiece.bpe.model": models["bpe"], "config.json": {"model_type": "m2m_100"},
            "tokenizer_config.json": {**names, "mask_token": mask, "src_lang": None, "additional_special_tokens": codes,
                                      "tokenizer_class": "NllbTokenizer"}}
    mbart = {"sentencepiece.bpe.model": models["unigram"], "config.json": {"model_type": "mbart"}}
    m2m100 = {"sentencepiece.bpe.model": models["bpe"], "config.json": {"model_type": "m2m_100"},
              "vocab.json": vocabulary(["<s>", "<pad>", "</s>", "<unk>"], [models["bpe"]]),
              "tokenizer_config.json": {"tokenizer_class": "M2M100Tokenizer", "src_lang": "de", "tgt_lang": "fr"}}
    m2m_tokens = [f"__{code}__" for code in m2m_codes["m2m100"]]
    pegasus = {"spiece.model": models["t5"], "config.json": {"model_type": "pegasus"}}
    result = {
        "t5": {"spiece.model": models["t5"], "config.json": {"model_type": "t5"},
               "tokenizer_config.json": {"tokenizer_class": "T5Tokenizer", "extra_ids": sentinels}},
        "t5_listed": {"spiece.model": models["t5"], "config.json": {"model_type": "t5"}, "tokenizer_config.json": {
            "added_tokens_decoder": {str(i): added(token) for i, token in t5_added.items()}, "extra_ids": sentinels,
            "clean_up_tokenization_spaces": True, "tokenizer_class": "T5TokenizerFast",
            "additional_special_tokens": [f"<extra_id_{i}>" for i in range(sentinels)]}},
        "byt5": {"config.json": {"model_type": "t5", "tokenizer_class": "ByT5Tokenizer"},
                 "tokenizer_config.json": {"tokenizer_class": "ByT5Tokenizer"}},
        "marian": marian,
        "marian_separate": marian | {
            "vocab.json": vocabulary(first[:2], [models["bpe"]], ["<pad>"]),
            "target_vocab.json": vocabulary(first[:2], [models["bpe_target"]], ["<pad>"]),
            "tokenizer_config.json": {"separate_vocabs": True, "tokenizer_class": "MarianTokenizer",
                                      "clean_up_tokenization_spaces": True}},
        "m2m100": m2m100,
        "m2m100_listed": m2m100 | {"special_tokens_map.json": names | {"additional_special_tokens": m2m_tokens},
                                   "tokenizer_config.json": {"tokenizer_class": "M2M100Tokenizer"}},
        "nllb": nllb,
        "nllb_legacy": nllb | {"tokenizer_config.json": nllb["tokenizer_config.json"] | {
            "legacy_behaviour": True, "tgt_lang": "fra_Latn",
            "added_tokens_decoder": {str(i): added(token) for i, token in nllb_added.items()}}},
        "mbart": mbart | {"tokenizer_config.json": {"model_max_length": 1024}},
        "mbart50": mbart | {"tokenizer_config.json": {"tokenizer_class": "MBart50Tokenizer", "mask_token": mask}},
        "pegasus": pegasus | {"tokenizer_config.json": {
            "mask_token": "<mask_2>", "mask_token_sent": "<mask_1>", "tokenizer_class": "PegasusTokenizer",
            "offset": 103 if languages is None else 8}},
    }
    if languages is None:
        result |= {
            "t5_bare": {"spiece.model": models["t5"], "config.json": {"model_type": "t5"}},
            "pegasus_bare": pegasus,
            "marian_unigram": marian | {
                "source.spm": models["unigram"], "target.spm": models["unigram_target"],
                "vocab.json": vocabulary(first, [models["unigram"], models["unigram_target"]], ["<pad>"])},
        }
    return result


LANGUAGES = {"m2m100": ("cs", "zh"), "nllb": ("fra_Latn", "zho_Hans"), "mbart": ("de_DE", "ro_RO")}


def languages_of(name):
    """Returns pairs of languages to compare; "" is the default."""
    pairs = [pair for family, pair in LANGUAGES.items() if name.startswith(family)]
    return [("", ""), *pairs]


def write_files(folder, files):
    folder.mkdir(parents=True)
    for name, content in files.items():
        if isinstance(content, bytes):
            (folder / name).write_bytes(content)
        else:
            text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
            (folder / name).write_text(text, encoding="utf-8")


def load(folder):
    import transformers

    transformers.logging.set_verbosity_error()
    return transformers.AutoTokenizer.from_pretrained(str(folder))


def saved(folder, other):
    """Saves the tokenizer of `folder` by transformers; returns whether this makes a tokenizer.json."""
    tokenizer = load(folder)
    if not tokenizer.is_fast:
        return False
    tokenizer.save_pretrained(str(other))
    (other / "config.json").write_bytes((folder / "config.json").read_bytes())
    return True


def original_results(tokenizer, texts, source, target):
    """Returns for each text its ids for an encoder, those for a decoder, and the text that the latter decode to."""
    name = type(tokenizer).__name__
    if source:
        tokenizer.src_lang = source
    if target:
        tokenizer.tgt_lang = target
    code = getattr(tokenizer, "tgt_lang", None)
    begin = [] if code is None else [tokenizer.convert_tokens_to_ids(f"__{code}__" if name == "M2M100Tokenizer" else code)]
    results = []
    for text in texts:
        read = tokenizer(text).input_ids
        if name == "MarianTokenizer":
            written = tokenizer(text_target=text).input_ids[:-1]
        else:
            written = begin + tokenizer.encode(text, add_special_tokens=False)
        results.append([read, written, tokenizer.decode(written, skip_special_tokens=True)])
    return results


def run(program, folder, arguments, records):
    payload = b"".join(b"%d\n" % len(record) + record for record in records)
    result = subprocess.run([program, str(folder), *arguments], input=payload, stdout=subprocess.PIPE, check=True)
    return [json.loads(line) for line in result.stdout.decode().split("\n")[:-1]]


def is_excused(name, one, other):
    """SentencePiece's versions choose differently between equally likely splits, and ByT5 adds no end after an end."""
    if name.startswith("marian_unigram"):
        return sorted(one[0]) == sorted(other[0]) and sorted(one[1]) == sorted(other[1])
    return name.startswith("byt5") and one[0] + one[0][-1:] == other[0] and one[1:] == other[1:]


def compare(program, name, folder, texts):
    tokenizer = load(folder)
    agree = True
    for source, target in languages_of(name):
        expected = original_results(tokenizer, texts, source, target)
        found = run(program, folder, ["--sequences", source, target], [text.encode() for text in texts])
        pairs = list(zip(texts, expected, found))
        excused = sum(a != b and is_excused(name, a, b) for _, a, b in pairs)
        wrong = [pair for pair in pairs if pair[1] != pair[2] and not is_excused(name, *pair[1:])]
        rng = random.Random(1)
        # Marian's ids of a separate vocabulary only have names below its size.
        size = len(tokenizer.target_encoder) if name.startswith("marian_separate") else len(tokenizer)
        lists = [[rng.randrange(4, size - 1) for _ in range(rng.randint(1, 12))] for _ in range(len(texts))]
        decoded = run(program, folder, ["--decode"], [" ".join(map(str, ids)).encode() for ids in lists])
        wrong += [(ids, tokenizer.decode(ids, skip_special_tokens=True), text) for ids, text in zip(lists, decoded)
                  if tokenizer.decode(ids, skip_special_tokens=True) != text]
        print(f"{name} {source or '-'} {target or '-'}: {len(wrong)} of {2 * len(texts)} differ, {excused} excused", flush=True)
        for text, a, b in wrong[:2]:
            print(f"  {text!r}\n    original {a}\n    ballast  {b}")
        agree = agree and not wrong
    return agree


def made_up_lines(count, seed):
    lines = [record.decode("utf-8", "replace").replace("\0", "") for record in compare_tokenizer.records(count, seed)]
    rng = random.Random(seed)
    for _ in range(count // 2):
        parts = [rng.choice(SPECIAL) if rng.random() < 0.4 else compare_tokenizer.random_text(rng)[:20].replace("\0", "")
                 for _ in range(rng.randint(1, 6))]
        lines.append(("".join(parts) if rng.random() < 0.7 else ">>deu<< " + "".join(parts)))
    return ["", " ", "  a  b ", *SPACED, *lines]


def compare_all(program, text, seeds, count, vocab_size):
    lines = [line.strip() for line in text.read_text(encoding="utf-8").split("\n") if len(line.strip()) > 20]
    agree = True
    for seed in range(seeds):
        rng = random.Random(seed)
        made_up = [line for text in made_up_lines(1500, seed + 100) for line in text.split("\n") if line.strip()]
        models = train_models(rng.sample(lines, 600) + made_up, vocab_size + 500 * seed)
        texts = made_up_lines(count, seed) + [rng.choice(lines)[:rng.randint(1, 300)] for _ in range(count // 2)]
        with tempfile.TemporaryDirectory() as root:
            for name, files in families(models).items():
                folder = pathlib.Path(root) / name
                write_files(folder, files)
                agree = compare(program, name, folder, texts) and agree
                if saved(folder, folder.with_name(name + "_saved")):
                    agree = compare(program, name + "_saved", folder.with_name(name + "_saved"), texts) and agree
    return agree


GOLDEN_TEXTS = [
    "", "  two  spaces ", "Hello world, this is 1 test.", "na\u00efve caf\u00e9 \u00dcbung \ufb01n", "\u4f60\u597d \u4e16\u754c\u3002",
    "\u041f\u0440\u0438\u0432\u0435\u0442 \U0001f600 \u0645\u0631\u062d\u0628\u0627", "a</s>b <extra_id_0> c", ">>deu<< the house",
    ">>xx<<house", "x<mask> <pad>y<unk>", "__en__ eng_Latn en_XX", "he 's here , is n't he ?", "a\tb\nc\u3000d\u00a0e",
]


def write_golden(directory):
    """Writes models, files of the families, and what transformers makes of a few texts, for tests without Python."""
    words = "the house is here and this test has some words in it hello world he was not there naive cafe a b c d x y".split()
    rng = random.Random(0)
    lines = [" ".join(rng.choice(words) for _ in range(8)) for _ in range(400)]
    lines += [text for text in GOLDEN_TEXTS if "<" not in text and text.strip()] * 3
    lines += [line for code in compare_tokenizer.CODE for line in code.split("\n")] + compare_tokenizer.WORDS["latin"]
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as root:
        rules = pathlib.Path(root) / "rules.tsv"
        rules.write_text("FB01\t66 69\n3000\t20\nA0\t20\n9\t20\nA\t20\n3002\t2E\n")
        models = train_models(lines, 150, normalization_rule_tsv=str(rules))
        cases = []
        file_of = {content: f"{name}.model" for name, content in models.items()}
        for name, files in families(models, ["eng_Latn", "fra_Latn", "zho_Hans"]).items():
            folder = pathlib.Path(root) / name
            write_files(folder, files)
            cases.append(golden_case(name, folder, {n: file_of.get(c, c) if isinstance(c, bytes) else c
                                                    for n, c in files.items()}))
            other = folder.with_name(name + "_saved")
            if name in ("t5", "nllb", "pegasus") and saved(folder, other):
                contents = {path.name: json.loads(path.read_text(encoding="utf-8")) for path in other.iterdir()}
                cases.append(golden_case(other.name, other, contents))
    for name, content in models.items():
        if any(f"{name}.model" in case["files"].values() for case in cases):
            (directory / f"{name}.model").write_bytes(content)
    lines = ",\n".join(json.dumps(case, ensure_ascii=False, separators=(",", ":")) for case in cases)
    (directory / "cases.json").write_text(
        '{"texts":' + json.dumps(GOLDEN_TEXTS, separators=(",", ":")) + ',\n"cases":[\n' + lines + "\n]}\n", encoding="utf-8")


def golden_case(name, folder, files):
    source, target = languages_of(name)[-1]
    if target == "zho_Hans" and "legacy" in name:
        source, target = "", ""
    results = original_results(load(folder), GOLDEN_TEXTS, source, target)
    case = {"name": name, "source": source, "target": target, "files": files, "read": [read for read, _, _ in results],
            "written": [written for _, written, _ in results], "decoded": [text for _, _, text in results]}
    return case


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", help="the build's program tokenize_lines")
    parser.add_argument("--text", type=pathlib.Path, help="a text file to train on and to compare")
    parser.add_argument("--seeds", type=int, default=3, help="sets of models (default 3)")
    parser.add_argument("--lines", type=int, default=2000, help="made up texts to compare (default 2000)")
    parser.add_argument("--vocab-size", type=int, default=1500, help="pieces of the first set (default 1500)")
    parser.add_argument("--write-golden", type=pathlib.Path, metavar="DIR", help="write tests/data/sequence_tokenizers")
    options = parser.parse_args()
    if options.write_golden:
        write_golden(options.write_golden)
        return
    if not options.program or not options.text:
        parser.error("--program and --text are needed to compare")
    agree = compare_all(options.program, options.text, options.seeds, options.lines, options.vocab_size)
    sys.exit(0 if agree else 1)


if __name__ == "__main__":
    main()
