"""Signals: a running job ends with 128 + signal, prints one line, and leaves no partial files.

Jobs are signalled when they report progress, and are so long that they cannot be done by then.
"""

import hashlib
import pathlib
import re
import shutil
import signal
import subprocess
import threading

from golden import fixtures, safetensors
from golden.suite import Run, Suite

UNENDING = ("-n", 100000000, "--window", 16, "--sinks", 2)

TARGETS = {
    "the default": (),
    "gguf": ("--to", "gguf", "--scheme", "w4a8"),
    "compressed-tensors": ("--to", "compressed-tensors", "--scheme", "w4a16"),
    "mlx": ("--to", "mlx", "--scheme", "w4a16"),
    "awq": ("--to", "awq", "--scheme", "w4a16", "--group-size", 64),
    "gptq": ("--to", "gptq", "--scheme", "w4a16"),
}


def signalled(suite: Suite, sign: str, number: signal.Signals, *arguments, stream: str = "stderr", stdin: str = "",
              prelude: tuple[str, ...] = ()) -> Run:
    """Sends `number` once a line of `stream` matches `sign`, a regular expression."""
    words = tuple(str(argument) for argument in arguments)
    process = subprocess.Popen([*prelude, *suite.program, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, cwd=suite.work, bufsize=0)
    process.stdin.write(stdin.encode())
    watched = getattr(process, stream)
    seen = b""
    while not re.search(sign, seen.decode(errors="replace"), re.M):
        byte = watched.read(1)
        if not byte:
            break
        seen += byte
    process.send_signal(number)
    rest = {"stdout": b"", "stderr": b""}
    with process.stdin:  # its end, not the signal, would end a chat
        readers = [threading.Thread(target=lambda name=name: rest.update({name: getattr(process, name).read()}))
                   for name in rest]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
    rest[stream] = seen + rest[stream]
    process.stdout.close()
    process.stderr.close()
    return Run(words, process.wait(), rest["stdout"].decode(errors="replace"), rest["stderr"].decode(errors="replace"))


def file_hashes(place: pathlib.Path) -> dict[str, str]:
    """Returns the hashes of a file, or of all files in a folder."""
    files = [place] if place.is_file() else sorted(path for path in place.rglob("*") if path.is_file())
    return {path.name if path != place else "": hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def remove(place: pathlib.Path) -> None:
    if place.is_dir():
        shutil.rmtree(place)
    else:
        place.unlink()


def large_model(suite: Suite) -> None:
    if not (suite.work / "large").exists():
        fixtures.write_large_model(suite.work / "large")
        (suite.work / "long.txt").write_text(fixtures.text(8000, 4))


def check_jobs(suite: Suite) -> None:
    large_model(suite)
    words = (suite.work / "long.txt").read_text()
    (suite.work / "long-lines.txt").write_text("\n".join(words.split()) + "\n")
    # The signal comes while it calibrates, while it converts, and while it measures.
    text = ("--text", "long.txt")
    jobs = {
        "calibrate": (r"^writing text: ", ("calibrate", "large", "-o", "stopped")),
        "calibrate --text": (r"^calibrating: ", ("calibrate", "large", "-o", "stopped", *text, "--length", 256)),
        "convert": (r"^calibrating: ", ("convert", "large", "-o", "stopped", *text)),
        "convert --rounding": (r"^(planning|converting): ",
                               ("convert", "large", "-o", "stopped", *text, "--samples", 2)),
        "convert --target-size": (r"^weighing formats: ", ("convert", "large", "-o", "stopped", *text, "--samples", 2,
                                                          "--target-size", "5MB")),
        "eval": (r"^evaluating: ", ("eval", "large", *text, "--context", 64)),
        "eval --reference": (r"^(running the reference|evaluating): ",
                             ("eval", "large", *text, "--context", 64, "--reference", "large")),
        "embed": (r"^embedding: ", ("embed", "large", "--text", "long-lines.txt", "-o", "stopped.npy")),
        "sweep": (r"^w8a8 \(1 of 1\): ", ("sweep", "large", *text, "--calibration-text", "text.txt", "--preset", "fast",
                                         "--schemes", "w8a8", "-o", "stopped-sweep")),
        "bench": (r"^pp16: ", ("bench", "large", "-p", 16, "-n", 16, "-r", 1000000)),
    }
    for name, (sign, arguments) in jobs.items():
        run = signalled(suite, sign, signal.SIGINT, *arguments)
        told = run.err.endswith("\nballast: interrupted\n") and run.err.count("interrupted") == 1
        suite.check(f"an interrupted '{name}' exits with 130 and ends with one line",
                    run.code == 130 and run.out == "" and told, run)
        # Completed work is kept for resuming.
        kept = re.compile(r"\.stopped\.resume[\w-]*|stopped-sweep")
        suite.same(f"an interrupted '{name}' leaves no complete or partial output",
                   [left for left in suite.left_in("stopped") if not kept.fullmatch(left)], [])
    names = [path.name for path in (suite.work / "stopped-sweep").iterdir()]
    suite.check("an interrupted sweep has no results", names and
                not any(name.startswith(("results", "index")) for name in names), names)


def check_generation(suite: Suite) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        run = signalled(suite, ".", number, "run", "mistral", "-p", "the cat", *UNENDING, stream="stdout")
        suite.check(f"{number.name} ends a text without end with {128 + number} and one line",
                    run.code == 128 + number and run.err == "ballast: interrupted\n", run)
    chat = signalled(suite, ".", signal.SIGINT, "run", "mistral", "--chat", *UNENDING, stream="stdout",
                     stdin="the cat\n")
    suite.check("an interrupt ends a chat without a terminal", chat.code == 130 and chat.err.count("\n") == 2 and
                chat.err.endswith("\nballast: interrupted\n"), chat)


def check_ignored_interrupts(suite: Suite) -> None:
    run = signalled(suite, r"^writing text: ", signal.SIGINT, "calibrate", "llama3", "-o", "ignored", "--samples", 256,
                    "--length", 16, prelude=("sh", "-c", 'trap "" INT; exec "$@"', "sh"))
    suite.check("an interrupt that is ignored at the start stays ignored",
                run.code == 0 and "interrupted" not in run.err and suite.left_in("ignored") == ["ignored"], run)


def check_going_on(suite: Suite) -> None:
    large_model(suite)
    calibrate = ("calibrate", "large", "--samples", 72, "--length", 16, "-o")
    suite.succeeds(*calibrate, "undisturbed.stats")
    stopped = signalled(suite, r"^calibrating: 0/", signal.SIGTERM, *calibrate, "resumed.stats")
    suite.check("a terminated calibration exits with 143", stopped.code == 143, stopped)
    suite.same("a terminated calibration keeps its progress in a file beside the output",
               suite.left_in("resumed"), [".resumed.stats.resume"])
    resumed = suite.succeeds(*calibrate, "resumed.stats")
    written = re.search(r"^writing text: (\d+)/", resumed.err, re.M)
    suite.check("the same command resumes: the first 64 texts, which are saved, are not written again",
                not written or int(written[1]) >= 64 * 16, resumed)
    suite.check("a resumed calibration has the same bytes",
                suite.bytes_of("resumed.stats") == suite.bytes_of("undisturbed.stats"))
    suite.same("a finished calibration deletes its progress", suite.left_in("resumed"), ["resumed.stats"])

    convert = ("convert", "large", "--stats", "undisturbed.stats", "--preset", "fast", "-o")
    suite.succeeds(*convert, "undisturbed")
    stopped = signalled(suite, r"^converting: ", signal.SIGINT, *convert, "resumed")
    suite.check("an interrupted conversion exits with 130", stopped.code == 130, stopped)
    suite.succeeds(*convert, "resumed")
    suite.same("a resumed conversion has the same bytes",
               safetensors.hashes(suite.work / "resumed" / "model.safetensors"),
               safetensors.hashes(suite.work / "undisturbed" / "model.safetensors"))
    suite.same("a finished conversion deletes its progress", suite.left_in("resumed"), ["resumed", "resumed.stats"])


def check_kills(suite: Suite) -> None:
    """While formats are weighed, and while blocks are rounded, of which some are kept by then. Of a model without
    tokenizer: that of the other fixtures has no place in a GGUF."""
    large_model(suite)
    suite.succeeds("calibrate", "large", "--samples", 16, "--length", 64, "--text", "long.txt", "-o", "killed.stats")
    (suite.work / "untold-large").mkdir()
    for name in ("config.json", "model.safetensors"):
        shutil.copy(suite.work / "large" / name, suite.work / "untold-large" / name)
    for name, flags in TARGETS.items():
        convert = ("convert", "untold-large", "--stats", "killed.stats", *flags, "-o")
        suite.succeeds(*convert, "undisturbed", "--force")
        for sign in (r"^(weighing formats|converting): [1-9]", r"^converting: [3-9]"):
            killed = signalled(suite, sign, signal.SIGKILL, *convert, "killed")
            suite.check(f"{name}: is killed while it prints {sign}", killed.code == -signal.SIGKILL, killed)
            suite.check(f"{name}: a kill leaves no output", "killed" not in suite.left_in("killed"))
        resumed = suite.succeeds(*convert, "killed")
        suite.check(f"{name}: a killed conversion resumes", "going on after block" in resumed.err, resumed)
        suite.same(f"{name}: a resumed conversion has the same bytes", file_hashes(suite.work / "killed"),
                   file_hashes(suite.work / "undisturbed"))
        for place in ("killed", "undisturbed"):
            remove(suite.work / place)


GROUPS = (check_jobs, check_generation, check_ignored_interrupts, check_going_on, check_kills)
LONG_GROUPS = (check_going_on, check_kills)  # jobs that are run again
