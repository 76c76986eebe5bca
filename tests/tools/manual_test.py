#!/usr/bin/env python3
"""Checks that man pages and completion agree with --help, and that the programs that read them report no errors.

    manual_test.py PROGRAM      with an emulator: EMULATOR [OPTION]... PROGRAM

Checks that need a shell or groff that this machine lacks are skipped with a line.
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

SHELLS = ("bash", "zsh", "fish")
OPTION = re.compile(r"^  ((?:-\w,)?--[\w-]+(?:,--[\w-]+)*|-\w)", re.M)

# Completes the words after `--` and prints the offered completions.
COMPLETE = """
source "$1"
shift
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_ballast
printf '%s\\n' "${COMPREPLY[@]}"
"""

passed = 0
failed = 0


def check(name: str, holds, detail="") -> None:
    global passed, failed
    if holds:
        passed += 1
        return
    failed += 1
    print(f"FAILED: {name}\n{str(detail)[:2000]}", flush=True)


def output(*words) -> str:
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def options_of(text: str) -> list[str]:
    """Returns all names of all options of a --help."""
    return [name for match in OPTION.finditer(text) for name in match.group(1).split(",")]


def helps_of(program: list[str]) -> dict[str, str]:
    """Returns the --help of the program ("") and of its commands, by name."""
    text = output(*program, "--help")
    section = re.search(r"^Subcommands:\n((?:  .*\n)+)", text, re.M).group(1)
    helps = {"": text}
    for name in re.findall(r"^  (\w+)", section, re.M):
        helps[name] = output(*program, name, "--help")
    return helps


def check_man_page(program: list[str], command: str, text: str, work: pathlib.Path) -> None:
    page = command or "ballast"
    roff = output(*program, "--man", page)
    name = "ballast-" + command if command else "ballast"
    file = work / f"{name}.1"
    file.write_text(roff)
    plain = roff.replace("\\-", "-").replace("\\(aq", "'").replace("\\e", "\\").replace("\\&", "")
    for option in options_of(text):
        check(f"{name}(1) has {option}", f"\\fB{option}\\fR" in plain, plain)
    for line in re.findall(r"^  (?:mpirun -n \d+ )?ballast .*", text, re.M):
        check(f"{name}(1) has the example '{line.strip()}'", line in plain, plain)
    check(f"{name}(1) has no date", f'.TH {name.upper()} 1 "" ' in plain, plain[:200])
    if shutil.which("groff"):
        run = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-z", file], capture_output=True, text=True, check=False)
        check(f"groff finds no fault in {name}(1)", run.returncode == 0 and run.stderr + run.stdout == "",
              run.stderr + run.stdout)


def offered(script: pathlib.Path, *words: str) -> list[str]:
    return output("bash", "-c", COMPLETE, "bash", script, "ballast", *words).split()


def check_bash(script: pathlib.Path, helps: dict[str, str]) -> None:
    commands = sorted(filter(None, helps))
    check("bash offers all commands", set(commands) <= set(offered(script, "")), offered(script, ""))
    for command, text in helps.items():
        words = [command] if command else []
        options = sorted(set(options_of(text)))
        found = sorted(offered(script, *words, "-"))
        check(f"bash offers the options of 'ballast {command}' and no others", found == options,
              f"{found}\n{options}")
    check("bash offers the values of an option", offered(script, "run", "m", "--kv", "f") == ["f32", "f16"],
          offered(script, "run", "m", "--kv", "f"))
    check("bash offers commands that begin so", offered(script, "conv") == ["convert"], offered(script, "conv"))
    check("bash leaves files to readline", offered(script, "eval", "m", "--text", "") == [])
    check("bash offers no option where a model is due", offered(script, "eval", "") == [])


def check_text(shell: str, script: str, helps: dict[str, str]) -> None:
    """Checks that all names are in the script, for shells that may not be installed."""
    for command, text in helps.items():
        for option in options_of(text):
            pattern = rf"[\s)*']{re.escape(option)}\[" if shell == "zsh" else \
                rf"-l {option[2:]}\b" if option.startswith("--") else rf"-s {option[1:]}\b"
            check(f"{shell}'s script has {option} of 'ballast {command}'", re.search(pattern, script), script)


def main() -> int:
    program = sys.argv[1:]
    helps = helps_of(program)
    check("--help lists commands", len(helps) > 1, helps)
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        if not shutil.which("groff"):
            print("groff is not here, and reads no man page")
        for command, text in helps.items():
            check_man_page(program, command, text, work)
        for shell in SHELLS:
            script = work / shell
            script.write_text(output(*program, "--completion", shell))
            check_text(shell, script.read_text(), helps) if shell != "bash" else check_bash(script, helps)
            if not shutil.which(shell):
                print(f"{shell} is not here, and reads no script")
                continue
            run = subprocess.run([shell, "-n", script], capture_output=True, text=True, check=False)
            check(f"{shell} finds no fault in its script", run.returncode == 0 and run.stderr == "", run.stderr)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
