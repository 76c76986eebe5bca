"""Reads and writes parts of models' files: safetensors, GGUF, tokenizers of both kinds."""

import base64
import json
import pathlib
import struct

from golden import fixtures

GGUF_FORMATS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
STRING, ARRAY, U32, I32, F32, BOOL, U8 = 8, 9, 4, 5, 6, 7, 0
NORMAL, UNKNOWN, CONTROL, USER_DEFINED = 1, 2, 3, 4


def read_tensors(folder: pathlib.Path) -> dict:
    """Returns {name: (dtype, shape, bytes)} of a model.safetensors."""
    data = (folder / "model.safetensors").read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + length])
    header.pop("__metadata__", None)
    body = data[8 + length:]
    return {name: (entry["dtype"], entry["shape"], body[slice(*entry["data_offsets"])]) for name, entry in header.items()}


def write_tensors(folder: pathlib.Path, tensors: dict) -> None:
    header, body = {}, b""
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    (folder / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + body)


class Gguf:
    """A GGUF whose metadata can be changed; `fields` are {key: (type, value)}, an array's value (element type, list)."""

    def __init__(self, path: pathlib.Path):
        self._data, self._at = path.read_bytes(), 4
        self._number("I")
        self.tensors, count = self._number("Q"), self._number("Q")
        self.fields = {}
        for _ in range(count):
            key = self._string()
            kind = self._number("I")
            self.fields[key] = (kind, self._value(kind))
        begin = self._at
        for _ in range(self.tensors):
            self._string()
            dimensions = self._number("I")
            self._at += 8 * dimensions + 12
        self.entries = bytearray(self._data[begin:self._at])
        self.body = self._data[-(-self._at // 32) * 32:]

    def _number(self, form: str):
        value = struct.unpack_from("<" + form, self._data, self._at)[0]
        self._at += struct.calcsize("<" + form)
        return value

    def _string(self) -> str:
        size = self._number("Q")
        self._at += size
        return self._data[self._at - size:self._at].decode()

    def _value(self, kind: int):
        if kind == STRING:
            return self._string()
        if kind == ARRAY:
            element, count = self._number("I"), self._number("Q")
            return element, [self._value(element) for _ in range(count)]
        return self._number(GGUF_FORMATS[kind])

    def set_tokenizer(self, tokens: list[str], types: list[int], **ids: int) -> None:
        """Sets the fields of a SentencePiece tokenizer; ids by name: eos=2 is tokenizer.ggml.eos_token_id."""
        self.fields |= {"tokenizer.ggml.model": (STRING, "llama"),
                        "tokenizer.ggml.tokens": (ARRAY, (STRING, tokens)),
                        "tokenizer.ggml.token_type": (ARRAY, (I32, types)),
                        "tokenizer.ggml.scores": (ARRAY, (F32, [0.0] * len(tokens)))}
        self.fields |= {f"tokenizer.ggml.{name}_token_id": (U32, value) for name, value in ids.items()}

    def write(self, path: pathlib.Path) -> pathlib.Path:
        head = b"".join(_packed_string(key) + struct.pack("<I", kind) + _packed(kind, value)
                        for key, (kind, value) in self.fields.items())
        start = b"GGUF" + struct.pack("<IQQ", 3, self.tensors, len(self.fields)) + head + bytes(self.entries)
        path.write_bytes(start + bytes(-len(start) % 32) + self.body)
        return path


def _packed_string(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _packed(kind: int, value) -> bytes:
    if kind == STRING:
        return _packed_string(value)
    if kind != ARRAY:
        return struct.pack("<" + GGUF_FORMATS[kind], value)
    element, values = value
    count = struct.pack("<IQ", element, len(values))
    if isinstance(values, bytes):
        return count + values
    return count + b"".join(_packed(element, item) for item in values)


def gguf_with_tokenizer(path: pathlib.Path, names: dict[int, str] | None = None, types: dict[int, int] | None = None,
                        **ids: int) -> pathlib.Path:
    """Writes llama.gguf of tests/data/models with a tokenizer of letters; `names` and `types` replace those of tokens."""
    gguf = Gguf(fixtures.MODELS / "llama.gguf")
    tokens = fixtures.SPECIAL + fixtures.CHARACTERS
    tokens += [f"<{i}>" for i in range(67 - len(tokens))]
    kinds = [UNKNOWN] + [CONTROL] * 3 + [NORMAL] * 63
    for id_, name in (names or {}).items():
        tokens[id_] = name
    for id_, kind in (types or {}).items():
        kinds[id_] = kind
    gguf.set_tokenizer(tokens, kinds, **({"bos": 1, "eos": 2, "unknown": 0} | ids))
    return gguf.write(path)


def byte_alphabet() -> dict[int, str]:
    """Returns GPT-2's characters for bytes."""
    own = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = {byte: chr(byte) for byte in own}
    others = [byte for byte in range(256) if byte not in letters]
    return letters | {byte: chr(256 + i) for i, byte in enumerate(others)}


TEKKEN_SPECIAL = ["<unk>", "<s>", "</s>", "[INST]"]


def write_tekken(folder: pathlib.Path, pattern: str = "[^ ]+| ", specials: list[str] | None = None) -> None:
    """Writes a tekken.json of all bytes and two words, after four special tokens."""
    specials = specials or TEKKEN_SPECIAL
    words = [bytes([byte]) for byte in range(256)] + [b"ab", b"a b"]
    tekken = {"config": {"pattern": pattern, "num_vocab_tokens": len(words), "version": "v11",
                         "default_vocab_size": len(words) + len(specials), "default_num_special_tokens": len(specials)},
              "vocab": [{"rank": i, "token_bytes": base64.b64encode(word).decode(), "token_str": None}
                        for i, word in enumerate(words)],
              "special_tokens": [{"rank": i, "token_str": name, "is_control": True} for i, name in enumerate(specials)]}
    (folder / "tekken.json").write_text(json.dumps(tekken))


def byte_level_tokenizer(specials: list[str], words: list[str], cuts: list[dict], merges: list[str]) -> dict:
    """Returns a tokenizer.json of special tokens, all bytes and some words; <s> is put before a text."""
    vocabulary = [*byte_alphabet_in_order(), *words]
    return {
        "added_tokens": [{"id": i, "content": name, "special": True, "normalized": False}
                         for i, name in enumerate(specials)],
        "normalizer": None, "pre_tokenizer": {"type": "Sequence", "pretokenizers": cuts},
        "post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
                                                                    {"Sequence": {"id": "A", "type_id": 0}}],
                           "pair": [], "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}},
        "decoder": {"type": "ByteLevel"},
        "model": {"type": "BPE", "vocab": {word: len(specials) + i for i, word in enumerate(vocabulary)},
                  "merges": merges},
    }


def byte_alphabet_in_order() -> list[str]:
    letters = byte_alphabet()
    return [letters[byte] for byte in range(256)]


def byte_level(cuts: bool) -> dict:
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": cuts}


def write_tekken_as_json(folder: pathlib.Path, pattern: str, specials: list[str] | None = None) -> None:
    """Writes a tokenizer.json with the tokens of write_tekken(), which splits text by `pattern`."""
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    words = ["ab", f"a{byte_alphabet()[32]}b"]
    tokenizer = byte_level_tokenizer(specials or TEKKEN_SPECIAL, words, [split, byte_level(False)], ["a b"])
    tokenizer["model"]["ignore_merges"] = True
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))


def write_byte_level_model(folder: pathlib.Path) -> pathlib.Path:
    """Writes a Llama that splits text as GPT-2 does, so that GGUFs of it can be written."""
    fixtures.write_large_model(folder, hidden=32, layers=1, mlp=32, vocabulary=260)
    tokenizer = byte_level_tokenizer(TEKKEN_SPECIAL, [], [byte_level(True)], [])
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    config = {"bos_token": "<s>", "eos_token": "</s>", "chat_template": fixtures.CHATML}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    model = json.loads((folder / "config.json").read_text()) | {"bos_token_id": 1, "eos_token_id": 2}
    (folder / "config.json").write_text(json.dumps(model))
    return folder
