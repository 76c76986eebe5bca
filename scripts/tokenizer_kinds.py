"""Trains small tokenizers of all kinds except byte-level BPE in a tokenizer.json, for compare_tokenizer.py.

Each is written in the files of published models, and returned with a function that computes the original library's ids
of a text, without special tokens around it.
"""

import json
import re

SPACE_MARK = "\u2581"
CHAT_TOKENS = ["<|im_start|>", "<|im_end|>"]


def write_json(path, value):
    path.write_text(json.dumps(value, ensure_ascii=False, separators=(",", ":")), encoding="utf-8")


def train_sentencepiece(path, texts, vocab_size, model_type, **options):
    """Writes a tokenizer.model and returns its protocol buffer."""
    import io

    import sentencepiece
    from sentencepiece import sentencepiece_model_pb2

    lines = [line for text in texts for line in text.replace("\0", "").split("\n") if line.strip()]
    trained = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=trained, model_type=model_type, vocab_size=vocab_size,
        num_threads=1, minloglevel=2, hard_vocab_limit=model_type == "bpe", **options)
    path.write_bytes(trained.getvalue())
    return sentencepiece_model_pb2.ModelProto.FromString(trained.getvalue())


def sentencepiece_ids(proto, added, later_prefix=False):
    """Ids by the library for the text between added tokens; only the first text gets the space in front.

    None where two ways to cut a text are equally likely: which one is taken differs between versions of the library.
    """
    import sentencepiece

    first = sentencepiece.SentencePieceProcessor(model_proto=proto.SerializeToString())
    changed = type(proto).FromString(proto.SerializeToString())
    changed.normalizer_spec.add_dummy_prefix = changed.normalizer_spec.add_dummy_prefix and later_prefix
    later = sentencepiece.SentencePieceProcessor(model_proto=changed.SerializeToString())
    pattern = re.compile("(" + "|".join(re.escape(token) for token in sorted(added, key=len, reverse=True)) + ")")

    def is_ambiguous(processor, part):
        if proto.trainer_spec.model_type != 1:
            return False
        ways = processor.nbest_encode(part, nbest_size=2, out_type=int)
        scores = [sum(processor.get_score(i) for i in ids) for ids in ways]
        return len(scores) > 1 and abs(scores[0] - scores[1]) < 1e-3

    def encode(text):
        ids, at = [], 0
        for part in pattern.split(text):
            if part in added:
                ids.append(added[part])
            elif part:
                processor = later if at else first
                if is_ambiguous(processor, part):
                    return None
                ids += processor.encode(part)
            at += len(part)
        return ids

    return encode


def sentencepiece_directory(folder, texts, vocab_size, model_type, **options):
    proto = train_sentencepiece(folder / "tokenizer.model", texts, vocab_size, model_type, **options)
    added = {p.piece: i for i, p in enumerate(proto.pieces) if p.type in (2, 3)}
    added |= {token: len(proto.pieces) + i for i, token in enumerate(CHAT_TOKENS)}
    decoder = {str(i): {"content": token, "special": True, "normalized": False, "lstrip": False, "rstrip": False,
                        "single_word": False} for token, i in added.items()}
    write_json(folder / "tokenizer_config.json", {
        "tokenizer_class": "LlamaTokenizer", "legacy": False, "add_bos_token": True, "add_eos_token": False,
        "added_tokens_decoder": decoder, "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"})
    return proto, sentencepiece_ids(proto, added)


def merges_of(vocab):
    """Returns merges as transformers makes them from a SentencePiece model: pieces in the order of their ids, all their
    halves."""
    merges = []
    for piece, rank in vocab.items():
        halves = [(piece[:i], piece[i:]) for i in range(1, len(piece))]
        merges += sorted((rank, len(a), len(b), a, b) for a, b in halves if a in vocab and b in vocab)
    return [(a, b) for _, _, _, a, b in sorted(merges)]


def byte_fallback_bpe(proto, kind):
    """Returns a tokenizer.json like Llama 2's or Mistral's: the normalizer or the pre-tokenizer replaces spaces."""
    import tokenizers
    from tokenizers import decoders, normalizers, pre_tokenizers, processors

    vocab = {p.piece: i for i, p in enumerate(proto.pieces)}
    usual = {p.piece: i for i, p in enumerate(proto.pieces) if p.type == 1}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(
        vocab=vocab, merges=merges_of(usual), unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    if kind == "normalizer":
        tokenizer.normalizer = normalizers.Sequence(
            [normalizers.Prepend(SPACE_MARK), normalizers.Replace(" ", SPACE_MARK)])
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(SPACE_MARK, kind, split=kind == "always")
    tokenizer.decoder = decoders.Sequence([decoders.Replace(SPACE_MARK, " "), decoders.ByteFallback(), decoders.Fuse(),
                                           decoders.Strip(" ", 1, 0)])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A $B", special_tokens=[("<s>", vocab["<s>"])])
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>"] + CHAT_TOKENS)
    return tokenizer


def unigram(proto, byte_fallback):
    import tokenizers
    from tokenizers import decoders, normalizers, pre_tokenizers, processors

    tokenizer = tokenizers.Tokenizer(tokenizers.models.Unigram(
        [(p.piece, p.score) for p in proto.pieces], proto.trainer_spec.unk_id, byte_fallback))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.NFKC(), normalizers.Replace(tokenizers.Regex(" {2,}"), " "), normalizers.Strip(False, True)])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(SPACE_MARK, "always", split=True)
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace(SPACE_MARK, "always")])
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", pair="$A </s> $B </s>",
                                                            special_tokens=[("</s>", 2)])
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>"] + CHAT_TOKENS)
    return tokenizer


def word_piece(texts, vocab_size, lowercase):
    import tokenizers
    from tokenizers import decoders, normalizers, pre_tokenizers, processors

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.train_from_iterator(
        texts, tokenizers.trainers.WordPieceTrainer(vocab_size=vocab_size, special_tokens=special, show_progress=False))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    return tokenizer


def write_gguf(path, proto, model="llama"):
    """`model`: "llama" for a BPE, "t5" for a unigram model with its rules for characters and spaces."""
    import gguf

    writer = gguf.GGUFWriter(path, model)
    writer.add_tokenizer_model(model)
    writer.add_token_list([p.piece for p in proto.pieces])
    writer.add_token_scores([p.score for p in proto.pieces])
    writer.add_token_types([p.type for p in proto.pieces])
    writer.add_bos_token_id(proto.trainer_spec.bos_id)
    writer.add_eos_token_id(proto.trainer_spec.eos_id)
    writer.add_unk_token_id(proto.trainer_spec.unk_id)
    if model == "t5":
        writer.add_add_space_prefix(proto.normalizer_spec.add_dummy_prefix)
        writer.add_remove_extra_whitespaces(proto.normalizer_spec.remove_extra_whitespaces)
        writer.add_precompiled_charsmap(proto.normalizer_spec.precompiled_charsmap)
    write_metadata(writer)


def write_word_piece_gguf(path, tokenizer):
    """Writes a GGUF with marks as by llama.cpp's converter: on tokens that begin a word, not on those that continue one."""
    import gguf

    special = {token.content for token in tokenizer.get_added_tokens_decoder().values()}
    tokens = [tokenizer.id_to_token(i) for i in range(tokenizer.get_vocab_size())]
    writer = gguf.GGUFWriter(path, "bert")
    writer.add_tokenizer_model("bert")
    writer.add_token_list([token if token in special else token[2:] if token.startswith("##") else SPACE_MARK + token
                           for token in tokens])
    writer.add_token_types([3 if token in special else 1 for token in tokens])
    writer.add_bos_token_id(tokens.index("[CLS]"))
    writer.add_sep_token_id(tokens.index("[SEP]"))
    writer.add_unk_token_id(tokens.index("[UNK]"))
    write_metadata(writer)


def write_metadata(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()


def library_ids(tokenizer):
    return lambda text: tokenizer.encode(text, add_special_tokens=False).ids


def write_kinds(root, texts, vocab_size, train_byte_level):
    """Writes every kind into a folder of its own below `root`; yields name, what to open, and the original's ids.

    `train_byte_level(name)` gives a byte-level tokenizer of compare_tokenizer.py's family `name`.
    """

    def folder(name):
        path = root / name
        path.mkdir(parents=True, exist_ok=True)
        return path

    # A vocabulary must hold 256 byte tokens and at least some of the characters.
    size = max(vocab_size, 700)
    path = folder("sentencepiece_bpe")
    bpe, encode = sentencepiece_directory(
        path, texts, size, "bpe", byte_fallback=True, character_coverage=0.98, split_digits=True,
        normalization_rule_name="identity", remove_extra_whitespaces=False, allow_whitespace_only_pieces=True)
    yield path.name, path, encode
    path = folder("sentencepiece_unigram")
    yield path.name, path, sentencepiece_directory(path, texts, size, "unigram", character_coverage=0.98,
                                                         normalization_rule_name="identity")[1]

    path = folder("gguf_llama")
    write_gguf(path / "tokenizer.gguf", bpe)
    added = {p.piece: i for i, p in enumerate(bpe.pieces) if p.type in (2, 3)}
    yield path.name, path / "tokenizer.gguf", sentencepiece_ids(bpe, added, later_prefix=True)

    tokenizers = {"llama_" + kind: byte_fallback_bpe(bpe, kind) for kind in ("normalizer", "first", "always", "never")}
    with_bytes = train_sentencepiece(path / "unused.model", texts, size, "unigram", byte_fallback=True,
                                     character_coverage=0.98)
    (path / "unused.model").unlink()
    tokenizers["unigram_bytes"] = unigram(with_bytes, True)
    tokenizers["unigram_unknown"] = unigram(with_bytes, False)
    tokenizers["bert_cased"] = word_piece(texts, size, False)
    tokenizers["bert_uncased"] = word_piece(texts, size, True)
    for name, tokenizer in tokenizers.items():
        path = folder(name)
        write_json(path / "tokenizer.json", json.loads(tokenizer.to_str()))
        yield name, path, library_ids(tokenizer)

    path = folder("bert_vocab_txt")
    tokens = sorted(tokenizers["bert_uncased"].get_vocab().items(), key=lambda item: item[1])
    (path / "vocab.txt").write_text("".join(token + "\n" for token, _ in tokens), encoding="utf-8")
    write_json(path / "tokenizer_config.json", {"tokenizer_class": "BertTokenizer", "do_lower_case": True})
    yield path.name, path, library_ids(tokenizers["bert_uncased"])

    for family, tokenizer_class in (("gpt2", "GPT2Tokenizer"), ("qwen2", "Qwen2Tokenizer")):
        tokenizer = train_byte_level(family)
        path = folder(family + "_files")
        tokenizer.model.save(str(path))
        decoder = {str(i): {"content": token.content, "special": True} for i, token in
                   tokenizer.get_added_tokens_decoder().items()}
        write_json(path / "tokenizer_config.json", {"tokenizer_class": tokenizer_class,
                                                    "added_tokens_decoder": decoder})
        yield path.name, path, library_ids(tokenizer)


def compiled_map(proto, like_t5):
    """Returns a unigram tokenizer with SentencePiece's own normalization, as in T5's or XLM-R's tokenizer.json."""
    import tokenizers
    from tokenizers import Regex, decoders, normalizers, pre_tokenizers as pre

    tokenizer = tokenizers.Tokenizer(tokenizers.models.Unigram([(p.piece, p.score) for p in proto.pieces], 0, False))
    rules = normalizers.Precompiled(proto.normalizer_spec.precompiled_charsmap)
    if like_t5:
        tokenizer.normalizer = normalizers.Sequence([
            rules, normalizers.Strip(left=False, right=True), normalizers.Replace(Regex(" {2,}"), SPACE_MARK)])
        tokenizer.pre_tokenizer = pre.Metaspace(prepend_scheme="always")
    else:
        tokenizer.normalizer = rules
        tokenizer.pre_tokenizer = pre.Sequence([pre.WhitespaceSplit(), pre.Metaspace()])
    tokenizer.decoder = decoders.Metaspace()
    return tokenizer


def write_ranks(path, name, tokens, expression):
    """Writes tokens (bytes, by rank) as a tiktoken.model or tekken.json; returns a function with tiktoken's ids."""
    import base64

    import tiktoken

    ranks = {token: rank for rank, token in enumerate(tokens)}
    in_base64 = [base64.b64encode(token).decode() for token in tokens]
    if name == "tekken.json":
        first = 100
        write_json(path / name, {
            "config": {"pattern": expression, "default_vocab_size": len(tokens) + first, "version": "v3",
                       "default_num_special_tokens": first},
            "vocab": [{"rank": rank, "token_bytes": token} for rank, token in enumerate(in_base64)]})
    else:
        first = 0
        (path / name).write_text("".join(f"{token} {rank}\n" for rank, token in enumerate(in_base64)))
        write_json(path / "config.json", {"model_type": "gpt_oss"})
    encoding = tiktoken.Encoding(name, pat_str=expression, mergeable_ranks=ranks, special_tokens={})
    return lambda text: [first + token for token in encoding.encode(text)]


def write_large_kinds(root, texts, vocab_size, train_byte_level, expressions):
    """Does the same as write_kinds with files that are too large for the tree. `expressions`: expression by file of
    ranks."""
    from tokenizers import pre_tokenizers as pre

    for name in ("xlm_r", "t5"):
        path = root / name
        path.mkdir()
        proto = train_sentencepiece(path / "unused.model", texts, max(vocab_size, 700), "unigram")
        (path / "unused.model").unlink()
        tokenizer = compiled_map(proto, name == "t5")
        write_json(path / "tokenizer.json", json.loads(tokenizer.to_str()))
        yield name, path, library_ids(tokenizer)
        if name == "t5":
            write_gguf(root / "gguf_t5.gguf", proto, "t5")
            tokenizer.add_special_tokens([p.piece for p in proto.pieces if p.type in (2, 3)])
            ids = library_ids(tokenizer)
            # U+0085 is a space to transformers at the end of T5's texts and anywhere in XLM-R's, a letter to SentencePiece.
            yield "gguf_t5", root / "gguf_t5.gguf", lambda text: None if "\x85" in text else ids(text)

    for name in ("bert_cased", "bert_uncased"):
        tokenizer = word_piece(texts, max(vocab_size, 700), name == "bert_uncased")
        write_word_piece_gguf(root / f"gguf_{name}.gguf", tokenizer)
        yield "gguf_" + name, root / f"gguf_{name}.gguf", library_ids(tokenizer)

    alphabet = {character: byte for byte in range(256) for character in byte_character(byte)}
    vocab = train_byte_level("llama3").get_vocab(with_added_tokens=False)
    tokens = [bytes(alphabet[c] for c in text) for text in sorted(vocab, key=vocab.get) if not text.startswith("<|")]
    assert len(pre.ByteLevel.alphabet()) == len(alphabet)
    for file, expression in expressions.items():
        path = root / file.replace(".", "_")
        path.mkdir()
        yield path.name, path, write_ranks(path, file, tokens, expression)


def byte_character(byte):
    """Returns the spelling of bytes in byte-level vocabularies."""
    printable = [b for b in range(256) if 33 <= b <= 126 or 161 <= b <= 172 or 174 <= b <= 255]
    return chr(byte) if byte in printable else chr(256 + [b for b in range(256) if b not in printable].index(byte))
