"""Inputs of the program itself: model files that are truncated while they are in use, messages, tables."""

import itertools
import os
import pathlib
import shutil

from cut_files import run_and_cut, write_model
from golden import fixtures
from reported import Case, edit_json, reported

CUT_OFF = "was cut off while it was in use"
ASKED = {"prompt": "a b a", "max_tokens": 6, "temperature": 0}


def reports_cut(log: str, file: pathlib.Path) -> bool:
    lines = [line for line in log.splitlines() if CUT_OFF in line]
    return len(lines) == 1 and lines[0].startswith("ballast: ") and file.name in lines[0]


def cut_while_served(case: Case, model: pathlib.Path, file: pathlib.Path, *options) -> None:
    """Checks an answer before the cut; after it the same answer, from a copy in memory, or one line and exit code 1."""
    with case.server(model, *options) as client:
        before = client.post("/v1/completions", ASKED).json()["choices"][0]["text"]
        os.truncate(file, file.stat().st_size // 2)
        try:
            reply = client.post("/v1/completions", ASKED)
            answered = reply.status == 200 and reply.json()["choices"][0]["text"] == before
            case.says(f"{' '.join(map(str, options))} after the cut: {reply.status}")
        except OSError as error:
            answered = False
            case.says(f"{' '.join(map(str, options))} after the cut: {type(error).__name__}")
        if answered:
            return
        code = client.server.end()
        case.says(f"the server's exit code {code}: {client.server.lines[-1]}")
        case.must("the server ends with exit code 1 and a line that names the file",
                  code == 1 and reports_cut(client.server.log(), file))


def jobs(model: pathlib.Path, work: pathlib.Path, converts: bool, gguf: bool) -> dict[str, list]:
    text = work / "text.txt"
    text.write_text(fixtures.text(300, 1))
    commands = {
        "run": ["run", model, "-p", "a b", "-n", 40, "-q"],
        "eval": ["eval", model, "--text", text, "--context", 64, "-q"],
        "embed": ["embed", model, "--text", text, "-q"],
        "bench": ["bench", model, "-p", 16, "-n", 8, "-r", 1, "-q"],
        "calibrate": ["calibrate", model, "-o", work / "out", "--text", text, "--samples", 4, "--length", 32, "-q"],
    }
    if converts:
        commands["convert"] = ["convert", model, "-o", work / "out", "--scheme", "w4a8", "--text", text, "--samples", 4,
                               "-q"]
    if gguf:
        commands["convert to GGUF"] = ["convert", model, "-o", work / "out", "--to", "gguf", "--scheme", "bf16", "-q"]
    return commands


def cut_while_used(case: Case, model: pathlib.Path, file: pathlib.Path, converts: bool = True, gguf: bool = True,
                   options=()) -> None:
    """Runs each command with the file cut at its beginning, in the middle and near its end, early and late."""
    whole = file.read_bytes()
    cuts = itertools.cycle(itertools.product((0, len(whole) // 2, len(whole) - 1), (0, 0.03)))
    outcomes = {}
    for name, command in jobs(model, case.work, converts, gguf).items():
        own = [*command, *options] if name in ("run", "eval", "bench") else command
        size, delay = next(cuts)
        code, errors = run_and_cut([*case.program, *own], file, size, delay, case.work)
        file.write_bytes(whole)
        outcomes.setdefault(f"exit code {code}", []).append(name)
        case.must(f"{name} ends with 0 or 1, not {code}: {errors[-300:]}", code in (0, 1))
        if code == 1:
            case.must(f"{name} names the file in one line: {errors[-300:]}", reports_cut(errors, file))
            case.must(f"{name} leaves no output", not (case.work / "out").exists())
        case.must(f"{name} leaves no partial output", not list(case.work.glob(".*partial*")))
        for output in case.work.glob("out*"):
            shutil.rmtree(output) if output.is_dir() else output.unlink()
    for outcome, names in sorted(outcomes.items()):
        case.says(f"{outcome}: {', '.join(names)}")


def cut_kind(case: Case, dtype: str, tied: bool, shards: int = 1) -> None:
    files = write_model(case.work / "model", dtype, tied, shards)
    cut_while_used(case, case.work / "model", files[-1])
    cut_while_served(case, case.work / "model", files[0])


@reported("a BF16 model with a head of its own is cut while it is used: a line and exit 1")
def cut_bf16_untied(case: Case) -> None:
    cut_kind(case, "BF16", tied=False)


@reported("a BF16 model with a tied head is cut while it is used: a line and exit 1")
def cut_bf16_tied(case: Case) -> None:
    cut_kind(case, "BF16", tied=True)


@reported("an F16 model with a head of its own is cut while it is used: a line and exit 1")
def cut_f16_untied(case: Case) -> None:
    cut_kind(case, "F16", tied=False)


@reported("an F32 model with a head of its own is cut while it is used: a line and exit 1")
def cut_f32_untied(case: Case) -> None:
    cut_kind(case, "F32", tied=False)


@reported("an F32 model with a tied head is cut while it is used: a line and exit 1")
def cut_f32_tied(case: Case) -> None:
    cut_kind(case, "F32", tied=True)


@reported("one of the shards of a BF16 model is cut while it is used: a line and exit 1")
def cut_shard(case: Case) -> None:
    cut_kind(case, "BF16", tied=False, shards=3)


def converted(case: Case, *options) -> pathlib.Path:
    write_model(case.work / "original", "BF16", tied=False)
    output = case.work / ("model.gguf" if "gguf" in options else "model")
    done = case.run("convert", case.work / "original", "-o", output, "-q", *options,
                    *([] if "bf16" in options else ["--rounding", "nearest"]))
    case.must("the model is converted", done.returncode == 0)
    case.said.clear()
    return output


@reported("a w8a8 model is cut while it is used: a line and exit 1, or it goes on from memory")
def cut_w8a8(case: Case) -> None:
    model = converted(case, "--scheme", "w8a8", "--no-smooth")
    cut_while_used(case, model, model / "model.safetensors", converts=False, gguf=False)
    cut_while_served(case, model, model / "model.safetensors")


@reported("a w4a16 model is cut while it is used: a line and exit 1, or it goes on from memory")
def cut_w4a16(case: Case) -> None:
    model = converted(case, "--scheme", "w4a16", "--no-smooth")
    cut_while_used(case, model, model / "model.safetensors", converts=False, gguf=False)
    cut_while_served(case, model, model / "model.safetensors")


def cut_gguf(case: Case, *types) -> None:
    model = converted(case, "--to", "gguf", *types)
    cut_while_used(case, model, model)
    for activations in ("int8", "float"):
        whole = model.read_bytes()
        cut_while_served(case, model, model, "--activations", activations)
        model.write_bytes(whole)


@reported("a GGUF in Q8_0 is cut while it is used: a line and exit 1, or it goes on from memory")
def cut_gguf_q8_0(case: Case) -> None:
    cut_gguf(case, "--scheme", "w8a16", "--no-smooth", "--format", ".=q8_0")


@reported("a GGUF in Q4_0 is cut while it is used: a line and exit 1, or it goes on from memory")
def cut_gguf_q4_0(case: Case) -> None:
    cut_gguf(case, "--scheme", "w4a16", "--no-smooth", "--format", ".=q4_0")


@reported("a GGUF in Q4_K is cut while it is used: a line and exit 1, or it goes on from memory")
def cut_gguf_q4_k(case: Case) -> None:
    cut_gguf(case, "--scheme", "w4a16", "--no-smooth", "--format", ".=q4_k")


@reported("a GGUF in BF16 is cut while it is used: a line and exit 1, or it goes on from memory")
def cut_gguf_bf16(case: Case) -> None:
    cut_gguf(case, "--scheme", "bf16")


def cut_mixture(case: Case, *options) -> None:
    model = case.model("qwen3_moe")
    file = model / "model.safetensors"
    whole = file.read_bytes()
    cut_while_used(case, model, file, gguf=False, options=options)
    file.write_bytes(whole)
    cut_while_served(case, model, file, *options)


@reported("a mixture is cut while it is used: a line and exit 1, or it goes on from memory")
def cut_mixture_in_memory(case: Case) -> None:
    cut_mixture(case)


@reported("a mixture whose experts stay on disk is cut while it is used: a line and exit 1")
def cut_mixture_on_disk(case: Case) -> None:
    cut_mixture(case, "--expert-memory", "100kB")


def smollm_shapes(case: Case) -> pathlib.Path:
    """Writes a model of one layer with SmolLM2-135M's shapes: 576 columns, which 128 does not divide."""
    fixtures.write_large_model(case.work / "model", hidden=576, layers=1, mlp=1536, heads=9, kv_heads=3)
    return case.work / "model"


@reported("groups of 128 on 576 columns, for AWQ, GPTQ, MLX and compressed-tensors: the refusal says which sizes divide")
def groups_that_do_not_divide(case: Case) -> None:
    model = smollm_shapes(case)
    for program in ("awq", "gptq", "mlx", "compressed-tensors"):
        plan = ("convert", model, "--dry-run", "--to", program, "--scheme", "w4a16", "-q", "--group-size")
        errors = case.run(*plan, 128).stderr.decode()
        case.must(f"{program} says which sizes divide",
                  "576 columns are not a multiple of 128; use --group-size 64 or 32" in errors)
        case.must(f"{program} takes the first of them", case.run(*plan, 64).returncode == 0)


@reported("a format in groups of 128 for one matrix of 576 columns: the refusal names formats that fit")
def format_that_does_not_fit_one_matrix(case: Case) -> None:
    done = case.run("convert", smollm_shapes(case), "--dry-run", "--to", "gptq", "--scheme", "w4a16", "--group-size", 64,
                    "--format", "q_proj=int8-g128", "-q")
    case.must("formats are named", done.returncode == 1 and
              b"576 columns are not a multiple of 128; choose int8-g64, int8-g32 or f16 for it" in done.stderr)


@reported("a GGUF's blocks of 256 values on 576 columns: the refusal names types that fit")
def blocks_that_do_not_fit(case: Case) -> None:
    files = write_model(case.work / "model", "F32", tied=True, hidden=576)
    done = case.run("convert", files[0].parent, "--dry-run", "--to", "gguf", "--scheme", "w4a8", "--format", "q_proj=q4_k",
                    "-q")
    case.must("types are named", done.returncode == 1 and
              b"576 columns are not a multiple of 256, the values of a block; choose " in done.stderr
              and b"q4_0" in done.stderr)


@reported("a conversion to six formats for each kind of matrix: the table has at most a screen, with --verbose all rows")
def table_of_a_screen(case: Case) -> None:
    fixtures.write_large_model(case.work / "model", hidden=128, layers=6, mlp=256)
    formats = [word for layer, name in enumerate(["int4-g32", "int5-g32", "int6-g32", "int8-g32", "int8-g64", "int8-g128"])
               for word in ("--format", rf"layers\.{layer}\.={name}")]
    command = ("convert", case.work / "model", "-o", case.work / "out", "--scheme", "w8a16", "--rounding", "nearest",
               "--no-smooth", "--force", "-q", *formats)
    rows = {}
    for option in ((), ("--verbose",)):
        lines = case.run(*command, *option).stdout.decode().splitlines()
        rows[option] = sum(line.startswith("model.") for line in lines)
    case.says(f"{rows[()]} rows, with --verbose {rows['--verbose',]}")
    case.must("the table has at most 24 rows", 0 < rows[()] <= 24)
    case.must("--verbose shows all rows", rows["--verbose",] == 3 + 7 * 6 + 1)


@reported("a model is cut while a chat goes on: a line and exit 1")
def cut_while_chatting(case: Case) -> None:
    import subprocess
    file = write_model(case.work / "model", "BF16", tied=False)[0]
    edit_json(case.work / "model" / "config.json", max_position_embeddings=512)
    chat = subprocess.Popen([*case.program, "run", str(case.work / "model"), "--chat", "-n", "4"], cwd=case.work,
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    chat.stdin.write(b"a\n")
    chat.stdin.flush()
    chat.stdout.read(1)  # the first answer has begun
    os.truncate(file, 0)
    _, errors = chat.communicate(b"b\n" * 8, timeout=120)
    case.says(f"exit code {chat.returncode}: {errors.decode(errors='replace')}")
    case.must("the chat ends with exit code 1 and a line that names the file",
              chat.returncode == 1 and reports_cut(errors.decode(), file))
