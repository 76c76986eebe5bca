"""Checks of bad input: exit code 1, one line that names the file, no partial files, existing files unchanged."""

import re
import resource
import shutil
import signal

from golden import safetensors
from golden.suite import Run, Suite

EVERY_COMMAND = ("inspect", "calibrate -o made", "convert -o made", "convert -o made --scheme f32", "convert --explain",
                 "verify --expected llama3.expected.safetensors", "eval --text text.txt --context 32",
                 "sweep --text text.txt --context 32 -o made --schemes f32", "run -p a", "bench -p 1 -n 1 -r 1")
CALIBRATE = ("--text", "calibration.txt", "--samples", 8, "--length", 64)


def fails(suite: Suite, name: str, line: str, *arguments) -> Run:
    """Checks that the program fails with one line that matches the regular expression `line`, after progress or not."""
    run = suite.run(*arguments)
    told = re.fullmatch(rf"(?:[^\n]+\n)*?ballast: {line}\n", run.err)
    suite.check(name, run.code == 1 and run.out == "" and told, run)
    return run


def truncate(path, size: int) -> None:
    path.write_bytes(path.read_bytes()[:size])


def check_damaged_models(suite: Suite) -> None:
    damages = {
        "cut-data": (lambda folder: truncate(folder / "model.safetensors", 30000),
                     r"cut-data/model\.safetensors: tensor \"[\w.]+\": [^\n]+; truncated\?"),
        "cut-header": (lambda folder: truncate(folder / "model.safetensors", 100),
                       r"cut-header/model\.safetensors: byte 0: header length \d+ exceeds [^\n]+; truncated\?"),
        "no-config": (lambda folder: (folder / "config.json").unlink(), r"no-config: has no config\.json, [^\n]+"),
        "bad-config": (lambda folder: (folder / "config.json").write_text('{"a":'),
                       r"bad-config/config\.json: byte \d+: not valid JSON: [^\n]+"),
        "unknown": (lambda folder: (folder / "config.json").write_text('{"model_type": "nobody"}'),
                    r"unknown/config\.json: architecture 'nobody' is not supported; supported: llama, [^\n]+"),
    }
    for name, (damage, line) in damages.items():
        shutil.copytree(suite.work / "llama3", suite.work / name)
        damage(suite.work / name)
        for command in EVERY_COMMAND:
            first, *rest = command.split()
            run = suite.run(first, name, *rest)
            suite.check(f"'{command}' of a damaged model ({name}) fails with one line",
                        run.code == 1 and run.out == "" and re.fullmatch(rf"ballast: {line}\n", run.err), run)
        suite.same(f"commands on a damaged model ({name}) leave no files", suite.left_in("made"), [])
    cut = suite.work / "cut.gguf"
    shutil.copy(suite.work / "llama.gguf", cut)
    truncate(cut, 1000)
    fails(suite, "a truncated GGUF fails with one line", r"cut\.gguf: byte \d+: [^\n]+", "inspect", "cut.gguf")


def check_checksums(suite: Suite) -> None:
    suite.succeeds("convert", "llama3", "-o", "flipped", "--scheme", "bf16", "-q")
    path = suite.work / "flipped" / "model.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    for command in (["run", "flipped", "-p", "a"], ["verify", "flipped", "--expected", "llama3.expected.safetensors"]):
        fails(suite, f"'{command[0]}' finds a flipped bit in a written tensor",
              r"flipped/model\.safetensors: [^\n]+checksum[^\n]+", *command)


def check_other_inputs(suite: Suite) -> None:
    (suite.work / "empty.txt").write_text("")
    (suite.work / "field.json").write_text('{"scheme": "w8a8", "nofield": 1}')
    suite.succeeds("calibrate", "llama", "-o", "llama.stats", "-q", *CALIBRATE)
    convert = ("convert", "llama3", "-o", "made")
    cases = [
        ("statistics that are none", r"text\.txt: [^\n]+", (*convert, "--stats", "text.txt")),
        ("statistics that are not there", r"nofile: cannot be opened: [^\n]+", (*convert, "--stats", "nofile")),
        ("a recipe that is not there", r"nofile: [^\n]+", (*convert, "--recipe", "nofile")),
        ("a recipe with an unknown field", r"field\.json: unknown field 'nofield' in the recipe",
         (*convert, "--recipe", "field.json")),
        ("a text that is not there", r"nofile: [^\n]+", (*convert, "--text", "nofile")),
        ("a text that is empty", r"empty\.txt: [^\n]+", ("calibrate", "llama3", "-o", "made", "--text", "empty.txt",
                                                        "--length", 64)),
        ("samples longer than the context", r"length: 65 is more than the model's context of 64",
         ("calibrate", "llama3", "-o", "made", "--length", 65)),
        ("a folder that is not there", r"nodir: [^\n]+", ("convert", "llama3", "-o", "nodir/made")),
        ("a file to verify with that is not there", r"nofile: [^\n]+", ("verify", "llama3", "--expected", "nofile")),
        ("a file to verify with that holds something else", r"llama3/model\.safetensors: has no tensor \"input_ids\"",
         ("verify", "llama3", "--expected", "llama3/model.safetensors")),
        ("a text that is empty, to eval", r"empty\.txt: is empty",
         ("eval", "llama3", "--text", "empty.txt", "--context", 16)),
        ("a context that is too long", r"context: 65 is more than the model's 64",
         ("eval", "llama3", "--text", "text.txt", "--context", 65)),
        ("an encoder, to eval", r"bert: is an encoder[^\n]+", ("eval", "bert", "--text", "text.txt", "--context", 16)),
        ("a reference that is not there", r"nomodel: does not exist; [^\n]+",
         ("eval", "llama3", "--text", "text.txt", "--context", 16, "--reference", "nomodel")),
        ("questions that are none", r"text\.txt:1: [^\n]+", ("eval", "llama3", "--choices", "text.txt")),
        ("an encoder, to sweep", r"bert: is an encoder[^\n]+",
         ("sweep", "bert", "--text", "text.txt", "--context", 16, "--schemes", "bf16", "-o", "made")),
        ("an encoder, to bench", r"bert: is an encoder[^\n]+", ("bench", "bert")),
        ("a model without tokenizer", r"llama\.gguf: has no tokenizer\.json or [^\n]+", ("run", "llama.gguf", "-p", "a")),
    ]
    for what, line, command in cases:
        run = fails(suite, f"{what}: {command[0]} fails with one line", line, *command)
        suite.check(f"{what}: {command[0]} fails before any work", run.err.count("\n") == 1, run)
    suite.same("commands on bad input leave no files", suite.left_in("made"), [])
    fails(suite, "the error of a target size that is too small has the smallest possible one",
          r"target size: 2000 bytes are too few: with the smallest formats the model takes \d+",
          *convert, "--scheme", "w4a16", "--target-size", "2kB", "--text", "calibration.txt")
    fails(suite, "statistics of another model are refused", r"statistics: they are of another model: [^\n]+",
          *convert, "--stats", "llama.stats")
    fails(suite, "a pattern that matches no matrix is an error", r"format for 'nothing': [^\n]+",
          *convert, "--format", "nothing=bf16", "--text", "calibration.txt")
    fails(suite, "calibrate fails for a folder that does not exist", r"nodir/[^\n]+",
          "calibrate", "llama3", "-o", "nodir/stats", *CALIBRATE)
    suite.same("a failed conversion leaves no files", suite.left_in("made"), [])


def check_existing_directories(suite: Suite) -> None:
    convert = ("convert", "llama3", "-q", "--scheme")
    suite.succeeds(*convert, "bf16", "-o", "kept-model")
    before = safetensors.hashes(suite.work / "kept-model" / "model.safetensors")
    fails(suite, "convert refuses to replace a model", r"kept-model: exists; use --force to replace it, or [^\n]+",
          *convert, "f32", "-o", "kept-model")
    suite.same("convert does not change a model that it does not replace",
               safetensors.hashes(suite.work / "kept-model" / "model.safetensors"), before)
    suite.succeeds(*convert, "f32", "-o", "kept-model", "--force")
    suite.check("--force replaces a model that ballast wrote",
                safetensors.hashes(suite.work / "kept-model" / "model.safetensors") != before)
    (suite.work / "mine").mkdir()
    (suite.work / "mine" / "file").write_text("precious")
    for output in ("mine", "text.txt"):
        fails(suite, f"--force does not replace files that ballast did not write ({output})",
              rf"{output}: is not a model that ballast wrote: [^\n]+", *convert, "bf16", "-o", output, "--force")
    fails(suite, "sweep refuses folders that are not a sweep's", r"mine: holds something other than a sweep's [^\n]+",
          "sweep", "llama3", "--text", "text.txt", "--context", 16, "--schemes", "bf16", "--no-bench", "-o", "mine")
    suite.same("files that ballast did not write are unchanged", suite.bytes_of("mine/file"), b"precious")
    suite.same("no partial files are left", suite.hidden("kept-model", "mine"), [])


# Has the effect of a full disk for this process: its files cannot grow beyond `size` bytes.
def check_full_disk(suite: Suite) -> None:
    def limit(size: int):
        def set_limit() -> None:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
        return set_limit

    suite.succeeds("convert", "llama3", "-o", "full-kept", "--scheme", "bf16", "-q")
    before = suite.bytes_of("full-kept/model.safetensors")
    for name, words in {"full-model": ("convert", "llama3", "--scheme", "f32", "-o", "full-model"),
                        "full-kept": ("convert", "llama3", "--scheme", "f32", "-o", "full-kept", "--force"),
                        "full-stats": ("calibrate", "llama3", *CALIBRATE, "-o", "full-stats")}.items():
        run = suite.run(*words, "-q", preexec_fn=limit(2000))
        suite.check(f"{words[0]} to {name} on a full disk fails with a line about it",
                    run.code == 1 and run.out == "" and
                    re.search(r"^ballast: [^\n]*full-[^\n]*: [^\n]*File too large[^\n]*\n\Z", run.err, re.M), run)
    suite.same("on a full disk the old output stays complete", suite.bytes_of("full-kept/model.safetensors"), before)
    suite.same("on a full disk no partial files are left", suite.left_in("full-"), ["full-kept"])


GROUPS = (check_damaged_models, check_checksums, check_other_inputs, check_existing_directories, check_full_disk)
