"""A model that writes a given text: with its weights, the next token is a function of the position only.

GPT-2 without attention and MLP, whose embedding of position p is a vector of its own, which the embedding of the token
that the script has after p points to.
"""

import array
import json
import math
import pathlib
import string
from collections.abc import Sequence

POSITIONS = 256
SPECIAL = ["<unk>", "<s>", "<|im_start|>", "<|im_end|>"]
HARMONY = ["<|start|>", "<|channel|>", "<|message|>", "<|end|>", "<|constrain|>", "<|return|>", "<|call|>"]
THINK = ["[THINK]", "[/THINK]"]
CHARACTERS = [" ", "\n", "\r", *string.ascii_letters, *string.digits, *"<>/[]{}|.,:=_'\"-"]
CHATML = ("{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
          "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}")
SCALE = 64.0  # of a position beside a token in the residual stream


def tokens_of(text: str, special: Sequence[str]) -> list[str]:
    """Returns the tokens of a text: special tokens, and one for each other character."""
    tokens = []
    while text:
        found = next((token for token in special if text.startswith(token)), text[0])
        tokens.append(found)
        text = text[len(found):]
    return tokens


class ScriptedModel:
    """A model that generates a given reply and then its end token."""

    def __init__(self, folder: pathlib.Path, chat_template: str = CHATML, special: Sequence[str] = (),
                 end: str = "<|im_end|>"):
        self.folder = folder
        self.special = [*SPECIAL, *(token for token in special if token not in SPECIAL)]
        self.names = self.special + CHARACTERS
        self.end = end
        folder.mkdir()
        self._write_tokenizer(chat_template)
        self._write_config()

    def write(self, reply: str, prompt_tokens: int) -> pathlib.Path:
        """Writes the weights with which the model answers a prompt of a given number of tokens."""
        script = [self.names.index(token) for token in [*tokens_of(reply, self.special), self.end]]
        size, vocab = POSITIONS, len(self.names)
        tokens, positions = array.array("f", bytes(4 * vocab * size)), array.array("f", bytes(4 * size * size))
        for place in range(size):
            positions[place * size + place] = SCALE
        for place, token in enumerate(script, prompt_tokens - 1):
            tokens[token * size + place] = 1.0
        block = "transformer.h.0."
        shapes = {f"{block}{norm}.{part}": (size,) for norm in ("ln_1", "ln_2") for part in ("weight", "bias")}
        shapes |= {f"{block}attn.c_attn.weight": (size, 3 * size), f"{block}attn.c_attn.bias": (3 * size,),
                   f"{block}attn.c_proj.weight": (size, size), f"{block}attn.c_proj.bias": (size,),
                   f"{block}mlp.c_fc.weight": (size, 32), f"{block}mlp.c_fc.bias": (32,),
                   f"{block}mlp.c_proj.weight": (32, size), f"{block}mlp.c_proj.bias": (size,)}
        values = {name: bytes(4 * math.prod(shape)) for name, shape in shapes.items()}
        shapes |= {"transformer.wte.weight": (vocab, size), "transformer.wpe.weight": (size, size),
                   "transformer.ln_f.weight": (size,), "transformer.ln_f.bias": (size,)}
        values |= {"transformer.wte.weight": tokens.tobytes(), "transformer.wpe.weight": positions.tobytes(),
                   "transformer.ln_f.weight": array.array("f", [1.0] * size).tobytes(),
                   "transformer.ln_f.bias": bytes(4 * size)}
        header, begin = {}, 0
        for name, data in values.items():
            header[name] = {"dtype": "F32", "shape": shapes[name], "data_offsets": [begin, begin + len(data)]}
            begin += len(data)
        text = json.dumps(header).encode()
        (self.folder / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + b"".join(values.values()))
        return self.folder

    def _write_tokenizer(self, chat_template: str) -> None:
        tokenizer = {
            "added_tokens": [{"id": i, "content": name, "special": True, "normalized": False}
                             for i, name in enumerate(self.special)],
            "normalizer": None, "pre_tokenizer": None, "post_processor": None, "decoder": {"type": "Fuse"},
            "model": {"type": "BPE", "unk_token": "<unk>", "vocab": {name: i for i, name in enumerate(self.names)},
                      "merges": []},
        }
        (self.folder / "tokenizer.json").write_text(json.dumps(tokenizer))
        config = {"eos_token": self.end, "unk_token": "<unk>", "chat_template": chat_template}
        (self.folder / "tokenizer_config.json").write_text(json.dumps(config))

    def _write_config(self) -> None:
        config = {"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "activation_function": "gelu_new",
                  "eos_token_id": self.names.index(self.end), "layer_norm_epsilon": 1e-05, "n_embd": POSITIONS, "n_head": 4,
                  "n_inner": 32, "n_layer": 1, "n_positions": POSITIONS, "scale_attn_weights": True,
                  "tie_word_embeddings": True, "vocab_size": len(self.names), "dtype": "float32"}
        (self.folder / "config.json").write_text(json.dumps(config))
