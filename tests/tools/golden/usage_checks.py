"""Checks of the behaviour in a shell: help, version, exit codes, one line for a failure, silence with --quiet."""

import os
import pathlib
import re
import shlex
import subprocess

from golden.suite import Suite

COMMANDS = ("inspect", "calibrate", "convert", "export", "verify", "eval", "sweep", "run", "embed", "classify", "serve",
            "bench")

# A missing path is a failure, not wrong usage.
WITH_MISSING_MODEL = ("inspect", "calibrate -o stats", "convert -o dir", "convert --explain",
                      "export --to gguf -o dir",
                      "verify --expected llama3.expected.safetensors", "eval --text text.txt",
                      "eval --choices questions.jsonl", "sweep --text text.txt -o dir", "run -p text",
                      "embed --text text.txt", "classify --text text.txt", "bench -p 1 -n 1 -r 1")

WRONG_USAGE = [
    ("", "command is missing"),
    ("no-such-command", "no-such-command"),
    ("--man no-such-page", "not in {ballast,inspect"),
    ("--completion no-such-shell", "not in {bash,zsh,fish}"),
    ("inspect m --threads 1", "--threads"),
    ("calibrate m", "--output is required"),
    ("calibrate m -o stats --length 1", "whole number from 2"),
    ("convert m", "OUT is missing"),
    ("export m --to gguf", "--output is required"),
    ("export m -o dir --to ballast", "not in {gguf,compressed-tensors,mlx,awq,gptq}"),
    ("convert m -o dir --scheme w3a3", "there are f32"),
    ("convert m -o dir --scheme w8a8 --recipe file.json", "excludes"),
    ("convert m -o dir --symmetric --asymmetric", "excludes"),
    ("convert m -o dir --stats s --text t", "excludes"),
    ("convert m -o dir --explain", "excludes"),
    ("convert m -o dir --outliers 2", "like 1.5%"),
    ("convert m -o dir --to mlx --outliers 2%", "cannot mix 16 bits and integers"),
    ("convert m -o file --to gguf --wide-inputs 30%", "cannot mix 16 bits and integers"),
    ("convert m -o dir --wide-inputs 130%", "from 0% to 100%"),
    ("convert m -o dir --scheme w4a16 --wide-inputs 30%", "needs a scheme that quantizes activations"),
    ("convert m -o dir --format '(=bf16'", "not a regular expression"),
    ("convert m -o dir --bits 7", "--bits: 7 not in"),
    ("convert m -o dir --scheme f32 --target-size 1MB", "needs a scheme of integers"),
    ("convert m -o dir --target-size 1MB --target-bpw 4", "excludes"),
    ("convert m -o dir --target-size large", "a size like 92MB"),
    ("convert m -o dir --preset quick", "quick not in"),
    ("verify m", "--expected is required"),
    ("verify m --expected file --tolerance -1", "not below 0"),
    ("eval m", "--text FILE, --choices FILE or --vectors FILE"),
    ("eval m --vectors file", "--reference MODEL"),
    ("eval m --vectors file --text file", "excludes"),
    ("eval m --text file -t 0", "whole number from 1"),
    ("eval m --text file --context 3", "whole number from 4"),
    ("eval m --text file --stream 1", "whole number from 2"),
    ("eval m --text file --stream 8 --chunks 1", "excludes"),
    ("eval m --text file --choices file", "--text excludes --choices"),
    ("eval m --text file --worst 3", "requires --reference"),
    ("eval m --text file --reference-cache dir", "requires --reference"),
    ("sweep m -o dir", "--text is required"),
    ("sweep m --text file -o dir --schemes w8a8,w3a3", "there are f32"),
    ("sweep m --text file -o dir --preset quick", "quick not in"),
    ("sweep m --text file -o dir --sizes 92MB,large", "a size like 92MB"),
    ("sweep m --text file -o dir --stats a --calibration-text b", "excludes"),
    ("embed m", "--text is required"),
    ("embed m --text file -o vectors.txt", "must end in .npy or .jsonl"),
    ("embed m --text file --pooling max", "max not in"),
    ("run m", "PROMPT is missing"),
    ("run m -p text --sinks 4", "requires --window"),
    ("run m -p text --top-p 0", "above 0 and at most 1"),
    ("run m -p text --temperature -1", "not below 0"),
    ("run m -p text --stop ''", "must not be empty"),
    ("run m -p text --json", "--json"),
    ("serve m --target-itl 0", "above 0"),
    ("serve m --tls-key key.pem", "need each other"),
    ("serve m --cache-memory much", "a size like 92MB"),
    ("serve m --models-memory much", "a size like 92MB"),
    ("serve", "MODEL is required"),
    ("serve m n --name o", "--name is of one model"),
    ("serve m=n,size=3", "'size' is not an option of a model"),
    ("bench m --kv int4", "int4 not in"),
    ("bench m -p 0 -n 0", "nothing to measure"),
]


def words(text: str) -> str:
    """Returns text without line breaks, which the library chooses."""
    return " ".join(text.split())


def check_help(suite: Suite) -> None:
    for command in ("", *COMMANDS, "doctor"):
        run = suite.succeeds(*command.split(), "--help")
        path = f"help/{command or 'ballast'}.txt"
        suite.check(f"'ballast {command} --help' prints nothing on standard error", run.err == "", run)
        suite.golden_text(f"'ballast {command} --help' tells the flags that users have", path, run.out, words)
        suite.same(f"'ballast {command} -h' is the same", suite.run(*command.split(), "-h").out, run.out)
        example = re.search(r"^Examples?:\n  ballast ", run.out, re.M)
        suite.check(f"'ballast {command} --help' shows an example", example, run)
    version = suite.succeeds("--version")
    suite.check("--version prints the version and the features of this build",
                re.fullmatch(r"ballast \d+\.\d+\.\d+\n\ninstructions  \w+; built for \w+(, \w+)*\n"
                             r"oneDNN        (yes|no)\nMPI           (yes|no)\nserve         HTTP and HTTPS\n", version.out)
                and version.err == "", version)


def check_wrong_usage(suite: Suite) -> None:
    needed = {"calibrate": "-o s", "export": "--to gguf -o e", "verify": "--expected e", "sweep": "--text t -o d",
              "embed": "--text t", "classify": "--text t"}
    cases = WRONG_USAGE + [(f"{command} m {needed.get(command, '')} --no-such-option", "--no-such-option")
                           for command in COMMANDS]
    cases += [(command, "MODEL is required") for command in COMMANDS]
    for arguments, telling in cases:
        run = suite.run(*shlex.split(arguments))
        command = arguments.split()[0] + " " if arguments.startswith(COMMANDS) else ""
        suite.check(f"wrong usage '{arguments}' exits with 2, prints '{telling}', then how to get help",
                    run.code == 2 and run.out == "" and telling in run.err and
                    re.fullmatch(rf"ballast: [^\n]+\nTry 'ballast {command}--help'\.\n", run.err), run)


def check_missing_model(suite: Suite) -> None:
    for command in WITH_MISSING_MODEL:
        first, *rest = command.split()
        run = suite.run(first, "missing-model", *rest)
        suite.check(f"'{first} missing-model' fails with one line that names it",
                    run.code == 1 and run.out == "" and re.fullmatch(r"ballast: missing-model: [^\n]+\n", run.err), run)
    suite.same("commands on a missing model leave no files", suite.left_in("stats", "dir"), [])


# Runs in a shell, which can close a stream.
def check_streams(suite: Suite) -> None:
    def shell(script: str) -> subprocess.CompletedProcess:
        return subprocess.run(["sh", "-c", script, "sh", *suite.program], capture_output=True, text=True, check=False)

    if pathlib.Path("/dev/full").exists():
        full = shell('"$@" --version >/dev/full')
        suite.check("standard output that cannot be written is an error that names it",
                    full.returncode == 1 and full.stderr.startswith("ballast: standard output: "), full)
    closed = shell('"$@" --version >&-')
    suite.check("a closed standard output is a failure", closed.returncode == 1, closed)
    silent = shell('"$@" inspect missing-model 2>&-')
    suite.check("a failure without standard error has exit code 1", silent.returncode == 1, silent)
    reader, writer = os.pipe()
    os.close(reader)
    unread = subprocess.run([*suite.program, "--help"], stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)
    suite.check("a closed pipe at standard output ends the program silently",
                unread.returncode == 0 and unread.stderr == b"", unread)


GROUPS = (check_help, check_wrong_usage, check_missing_model, check_streams)
