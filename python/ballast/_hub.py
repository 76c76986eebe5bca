"""Fetches models by their names on the Hub of Hugging Face, with its own library. The program runs this file, too."""

from __future__ import annotations

import re
import sys
from pathlib import Path

# The exit code of a process that has no huggingface_hub.
_NO_LIBRARY = 3

# Settings, tokenizers, templates, and weights; not the same weights in the files of other programs.
_FILES = ("*.json", "*.jinja", "*.txt", "*.model", "*.tiktoken", "*.safetensors", "sparse_linear.pt",
          "colbert_linear.pt")
_FILES_OF_OTHERS = ("consolidated*", "original/*", "onnx/*", "openvino/*", "coreml/*")


class HubError(Exception):
    """Its text continues a sentence that begins with the model's name."""


def fetch(repository: str, file: str = "", revision: str = "") -> Path:
    """Fetches what is not in the Hub's cache yet and returns the path of the checkpoint, or of the .gguf file. Raises
    ImportError without huggingface_hub, and HubError."""
    from huggingface_hub import constants, errors, snapshot_download

    wanted = [re.sub(r"-\d{5}-of-(\d{5})\.gguf$", r"-*-of-\1.gguf", file)] if file else list(_FILES)
    try:
        folder = Path(snapshot_download(repository, revision=revision or None, allow_patterns=wanted,
                                        ignore_patterns=None if file else list(_FILES_OF_OTHERS)))
    except errors.GatedRepoError:
        raise HubError("is gated: accept its terms on its page on the Hub, then run 'hf auth login'") from None
    except errors.RevisionNotFoundError:
        raise HubError(f"has no revision {revision} on the Hub") from None
    except errors.RepositoryNotFoundError:
        raise HubError("is no model on the Hub, or a private one: then run 'hf auth login'") from None
    except errors.LocalEntryNotFoundError:
        if constants.HF_HUB_OFFLINE:
            raise HubError("is not in the Hub's cache, and HF_HUB_OFFLINE is set") from None
        raise HubError("is not in the Hub's cache, and the Hub cannot be reached") from None
    except Exception as error:  # of the library under it as well, which differs from version to version
        raise HubError(f"cannot be fetched from the Hub: {' '.join(str(error).split())}") from None
    if file and not (folder / file).exists():
        raise HubError("is no file of this repository on the Hub")
    if not file and not any(folder.glob("*.safetensors")):
        raise HubError("has no .safetensors on the Hub; a GGUF is named OWNER/NAME/FILE.gguf")
    return folder / file if file else folder


def main() -> int:
    """Prints the path; otherwise what is wrong, with an exit code above 0."""
    sys.path = [place for place in sys.path if place]  # not the current folder's modules
    try:
        print(fetch(*sys.argv[1:]))
    except ImportError:
        return _NO_LIBRARY
    except HubError as error:
        print(error)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
