"""Reads the files of `convert`, and writes checkpoints, without ballast."""

import collections
import hashlib
import json
import pathlib
import re
import struct


def read(path: pathlib.Path) -> tuple[dict, dict[str, tuple[str, list[int], bytes]]]:
    """Returns the metadata, and each tensor's type, shape and bytes."""
    data = path.read_bytes()
    (length,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8:8 + length])
    metadata = header.pop("__metadata__", {})
    return metadata, {name: (entry["dtype"], entry["shape"],
                             data[8 + length + entry["data_offsets"][0]:8 + length + entry["data_offsets"][1]])
                      for name, entry in header.items()}


def write(path: pathlib.Path, tensors: dict[str, tuple[str, list[int], bytes]]) -> None:
    """Writes a file of such tensors."""
    header, data = {}, b""
    for name, (dtype, shape, values) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def hashes(path: pathlib.Path) -> dict[str, str]:
    """Returns SHA-256 of each tensor's type, shape and bytes, so that any change is detected."""
    return {name: f"{dtype} {shape} {hashlib.sha256(data).hexdigest()}"
            for name, (dtype, shape, data) in read(path)[1].items()}


def structure(path: pathlib.Path, hashed: bool = True) -> dict[str, str]:
    """Returns types, shapes and number of the tensors whose names differ only in numbers, and a hash of their bytes."""
    groups: dict[str, list[tuple[str, bytes]]] = {}
    for name, (dtype, shape, data) in sorted(read(path)[1].items()):
        groups.setdefault(re.sub(r"\b\d+\b", "*", name), []).append((f"{dtype} {shape}", data))
    lines = {}
    for name, tensors in groups.items():
        kinds = collections.Counter(kind for kind, _ in tensors)
        lines[name] = ", ".join(f"{kind} x{count}" for kind, count in sorted(kinds.items()))
        if hashed:
            lines[name] += " " + hashlib.sha256(b"".join(data for _, data in tensors)).hexdigest()[:16]
    return lines
