"""Models of every kind that is memory-mapped, and processes whose model file is truncated while they use it."""

import array
import json
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import time

from golden import fixtures, safetensors

TOKENIZER = fixtures.MODELS.parent / "tokenizer" / "smollm" / "tokenizer.json"
PATIENCE = 120  # seconds until a process that hangs is ended


def write_safetensors(path: pathlib.Path, tensors: dict[str, tuple[str, list[int], bytes]]) -> None:
    header, position = {}, 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [position, position + len(data)]}
        position += len(data)
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(data for _, _, data in tensors.values()))


def in_type(dtype: str, data: bytes) -> bytes:
    """Converts F32 to another type."""
    if dtype == "F32":
        return data
    if dtype == "BF16":
        half = bytearray(len(data) // 2)
        half[0::2], half[1::2] = data[2::4], data[3::4]
        return bytes(half)
    values = array.array("f", data)
    return struct.pack(f"<{len(values)}e", *values)


def write_model(folder: pathlib.Path, dtype: str, tied: bool, shards: int = 1, hidden: int = 256) -> list[pathlib.Path]:
    """Writes a Llama with a million weights and a token for every byte; returns its tensor files."""
    fixtures.write_large_model(folder, hidden=hidden, layers=2, mlp=512, vocabulary=448)
    shutil.copy(TOKENIZER, folder / "tokenizer.json")
    words = {"bos_token": "<|im_start|>", "eos_token": "<|im_end|>", "chat_template": fixtures.CHATML}
    (folder / "tokenizer_config.json").write_text(json.dumps(words))
    file = folder / "model.safetensors"
    tensors = {name: (dtype, shape, in_type(dtype, data)) for name, (_, shape, data) in safetensors.read(file)[1].items()}
    config = json.loads((folder / "config.json").read_text())
    config["tie_word_embeddings"] = tied
    (folder / "config.json").write_text(json.dumps(config))
    if not tied:
        tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"]
    if shards == 1:
        write_safetensors(file, tensors)
        return [file]
    file.unlink()
    names, files, places = list(tensors), [], {}
    for i in range(shards):
        files.append(folder / f"model-{i + 1:05}-of-{shards:05}.safetensors")
        part = {name: tensors[name] for name in names[i::shards]}
        write_safetensors(files[-1], part)
        places |= dict.fromkeys(part, files[-1].name)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": places}))
    return files


def is_mapped(process: int, file: pathlib.Path) -> bool:
    try:
        return str(file) in pathlib.Path(f"/proc/{process}/maps").read_text()
    except OSError:
        return False


def run_and_cut(command: list, file: pathlib.Path, size: int, delay: float, work: pathlib.Path) -> tuple[int, str]:
    """Truncates `file` to `size` bytes a number of seconds after `command` has mapped it, while the process is stopped.
    Returns its exit code, or minus the signal that ended it, and what it printed on standard error."""
    environment = os.environ | {"OMP_NUM_THREADS": "2"}
    with open(work / "errors.txt", "w+") as errors:
        process = subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL, stderr=errors, cwd=work,
                                   stdin=subprocess.DEVNULL, env=environment)
        end = time.monotonic() + PATIENCE
        while process.poll() is None and not is_mapped(process.pid, file) and time.monotonic() < end:
            pass
        time.sleep(delay)
        if process.poll() is None:
            process.send_signal(signal.SIGSTOP)
            os.truncate(file, size)
            process.send_signal(signal.SIGCONT)
        try:
            code = process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            code = -signal.SIGALRM
        errors.seek(0)
        return code, errors.read()
