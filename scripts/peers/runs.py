"""The measurements, and functions that run other programs for them."""

import contextlib
import dataclasses
import itertools
import pathlib
import re
import shutil
import subprocess


class PeerError(Exception):
    """An error of another program, in one line: what happened, where, and what to do."""


@dataclasses.dataclass(frozen=True)
class Workload:
    """A prompt and a generation after `depth` tokens in the cache; 0 tokens: not measured."""

    depth: int
    prompt: int
    generate: int

    def prompt_test(self) -> str:
        return test_name("pp", self.prompt, self.depth)

    def generate_test(self) -> str:
        return test_name("tg", self.generate, self.depth)


SPEED = Workload(depth=0, prompt=512, generate=128)  # of a model whose accuracy is measured


@dataclasses.dataclass(frozen=True)
class Speed:
    test: str  # as test_name() spells it
    tokens_per_second: float
    fraction_of_limit: float | None = None  # of read bandwidth or INT8 peak, if the program measures it


@dataclasses.dataclass(frozen=True)
class Run:
    """The result of one round of one program."""

    round: int
    program: str
    variant: str
    speed: Speed


@dataclasses.dataclass(frozen=True)
class Accuracy:
    """The accuracy of one variant of one program against its original."""

    name: str
    program: str
    file_mb: float  # 10^6 bytes
    kl: float
    top1: float  # share of positions with the same most likely token
    speeds: dict[str, float]  # tokens per second by test, empty when not measured


def test_name(kind: str, tokens: int, depth: int) -> str:
    return f"{kind}{tokens}" + (f"@{depth}" if depth else "")


def parse_tests(names: list[str]) -> list[Workload]:
    """Parses tests like pp512, tg128, pp512@4096; those of one depth share a workload, whose cache is filled once."""
    prompts, generations = {}, {}
    for name in names:
        match = re.fullmatch(r"(pp|tg)([1-9]\d*)(?:@(\d+))?", name)
        if not match:
            raise ValueError(f"{name}: a test is like pp512, tg128 or pp512@4096")
        kind = prompts if match[1] == "pp" else generations
        kind.setdefault(int(match[3] or 0), []).append(int(match[2]))
    workloads = []
    for depth in sorted(prompts | generations):
        pairs = itertools.zip_longest(prompts.get(depth, []), generations.get(depth, []), fillvalue=0)
        workloads += [Workload(depth, prompt, generate) for prompt, generate in pairs]
    return workloads


def run(command: list) -> str:
    """Returns the standard output of a program; raises PeerError with its last line if it fails."""
    words = [str(word) for word in command]
    try:
        done = subprocess.run(words, capture_output=True, text=True, errors="replace", check=False,
                              stdin=subprocess.DEVNULL)
    except OSError as error:
        raise PeerError(f"{words[0]}: does not start ({error.strerror})") from error
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip() or "without a word").splitlines()[-1]
        raise PeerError(f"{words[0]}: failed with code {done.returncode}: {said}")
    return done.stdout


@contextlib.contextmanager
def reading(origin):
    """Surrounds code that parses the output of `origin`, a program or a file: exceptions become PeerErrors."""
    try:
        yield
    except OSError as error:
        raise PeerError(f"{origin}: {error.strerror or error}") from error
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise PeerError(f"{origin}: has an unexpected form ({type(error).__name__}: {error})") from error


def make(target: pathlib.Path, source: pathlib.Path, write) -> pathlib.Path:
    """Returns `target`, made from `source` by `write(temporary path)` unless an earlier run made it."""
    source_note = target.with_name(target.name + ".source")
    if target.exists():
        before = source_note.read_text(encoding="utf-8") if source_note.exists() else "a model not recorded"
        if before != str(source.resolve()):
            raise PeerError(f"{target}: made from {before}, not {source.resolve()}; delete it or give another --out")
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(target.name + ".part")
    discard(partial)  # left by a run that was killed
    try:
        write(partial)
        if not partial.exists():
            raise PeerError(f"{target}: was not written, but no error was reported")
        source_note.write_text(str(source.resolve()), encoding="utf-8")
        partial.rename(target)
    finally:
        discard(partial)
    return target


def discard(path: pathlib.Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
