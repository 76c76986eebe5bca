#!/usr/bin/env python3
"""Tests the scripts: their checks before a build, and the folders that they reuse."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FUNCTIONS = ROOT / "scripts" / "functions"
# Commands that end before they have read all input, which ends their writer by SIGPIPE.
EARLY_LEAVER = re.compile(r"\|&?\s*(?:[ef]?grep\s(?:\S+\s)*?(?:-\w*[qm]\w*|--quiet|--max-count\S*)(?:\s|$)|head(?:\s|$)"
                          r"|sed\s[^|]*(?<![\w/])\d*q['\";]|awk\s[^|]*\bexit\b)")


def scripts() -> list[pathlib.Path]:
    names = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, check=True,
                           capture_output=True, text=True).stdout.split("\0")
    files = [ROOT / name for name in names if name]
    return [file for file in files if file.is_file()
            and (file.suffix == ".sh" or file.read_bytes()[:64].split(b"\n")[0].endswith((b"bash", b"/sh")))]


class Fakes(unittest.TestCase):
    """Fake programs that take precedence over the machine's, and Bash with the scripts' functions."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.programs = self.folder / "bin"
        self.programs.mkdir()

    def fake(self, name: str, script: str) -> None:
        path = self.programs / name
        path.write_text("#!/bin/sh\n" + script)
        path.chmod(0o755)

    def bash(self, script: str, **variables: str) -> subprocess.CompletedProcess:
        path = f"{self.programs}:{os.environ['PATH']}"
        start = f"set -euo pipefail\nsource {FUNCTIONS}/made_from.sh\nsource {FUNCTIONS}/separate_apt.sh\n"
        return subprocess.run(["bash", "-c", start + script], cwd=self.folder, env=os.environ | {"PATH": path} | variables,
                              capture_output=True, text=True, check=False)


class Pipes(unittest.TestCase):
    def test_the_pattern_matches_commands_that_end_early(self):
        for line in ("apt-cache madison libc6-dev | grep --quiet bookworm; then", "wheel=$(ls -t dist/*.whl | head -1)",
                     "dpkg -l | grep -q ccache", "cat file | sed '1q'", "sort file | awk 'NR == 1 { print; exit }'"):
            self.assertRegex(line, EARLY_LEAVER)
        for line in ("sort -V | tail -n 1", "grep -qF needle file", "a | awk '{ print $2 }'", "x | sed -E 's/q/r/'"):
            self.assertNotRegex(line, EARLY_LEAVER)

    def test_no_command_ends_a_pipe_early_under_pipefail(self):
        found = scripts()
        self.assertGreater(len(found), 10)
        for script in found:
            text = script.read_text()
            if "pipefail" not in text and script.parent != FUNCTIONS:
                continue
            for number, line in enumerate(text.replace("\\\n", " ").splitlines(), 1):
                self.assertNotRegex(line, EARLY_LEAVER, f"{script.relative_to(ROOT)}, about line {number}")

    def test_all_scripts_are_valid_bash(self):
        for script in scripts():
            shell = "sh" if script.read_text().startswith("#!/bin/sh") else "bash"
            run = subprocess.run([shell, "-n", str(script)], capture_output=True, text=True, check=False)
            self.assertEqual(run.returncode, 0, run.stderr)


class SeparateApt(Fakes):
    """apt's settings for another machine: this machine's sources, with those of their packages' sources."""

    def test_the_settings_name_only_the_folder(self):
        run = self.bash("use_separate_apt apt riscv64 'libhwy* libboost*'; cat apt/apt.conf apt/preferences")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn('APT::Architecture "riscv64";', run.stdout)
        self.assertIn("Package: libhwy* libboost*\nPin: release n=trixie\n", run.stdout)

    @unittest.skipUnless(pathlib.Path("/etc/apt/sources.list.d").is_dir(), "no apt")
    def test_the_sources_also_have_those_of_their_packages(self):
        run = self.bash("use_separate_apt apt amd64 none; add_package_sources apt; cat apt/sources.list.d/*")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertRegex(run.stdout, r"(?m)^(Types: deb deb-src$|deb-src )")


class Portable(Fakes):
    """Programs for older C libraries."""

    def test_other_arguments_are_refused(self):
        for script, message in (("portable/setup.sh", "usage: scripts/portable/setup.sh [x86_64|aarch64]\n"),
                                ("build_program.sh", "usage: scripts/portable/setup.sh [x86_64|aarch64]\n")):
            run = subprocess.run([ROOT / "scripts" / script, "riscv64"], capture_output=True, text=True, check=False)
            self.assertEqual((run.returncode, run.stderr), (2, message))
        run = subprocess.run([ROOT / "scripts/build_wheel.sh", "--chekc"], capture_output=True, text=True, check=False)
        self.assertEqual((run.returncode, run.stderr), (2, "usage: scripts/build_wheel.sh [--check] [--aarch64] [PYTHON]...\n"))

    def test_a_python_that_wheels_are_not_built_with_is_refused(self):
        self.fake("python9", 'case "$*" in *print*) echo 9.9;; esac\n')
        run = subprocess.run([ROOT / "scripts/build_wheel.sh", self.programs / "python9"], capture_output=True, text=True,
                             check=False)
        self.assertEqual(run.returncode, 1)
        self.assertIn("python9 is 9.9: build with 3.11, or with 3.13, whose wheel is for 3.12 and all later ones", run.stderr)

    @unittest.skipUnless(shutil.which("cc"), "no compiler")
    def test_what_older_libraries_lack_works(self):
        program = self.folder / "older_glibc_test"
        files = [ROOT / "scripts/portable" / name for name in ("older_glibc.c", "fortran.c")]
        test = ROOT / "tests/scripts/portable_test.c"
        subprocess.run(["cc", "-O1", "-Wall", "-Wextra", "-Werror", *files, test, "-o", program, "-pthread", "-Wl,--wrap=dlsym"],
                       check=True)
        for found in ("found", "missing"):
            run = subprocess.run([program, found], capture_output=True, text=True, check=False, timeout=60)
            self.assertEqual((run.returncode, run.stdout, run.stderr), (0, "ok\n", ""))


class Kept(Fakes):
    """A reused folder records what it was made from."""

    def test_a_folder_made_from_other_inputs_is_made_again(self):
        make = ("if is_made_from kept '{what}'; then echo kept; else mkdir kept; touch kept/{what}; "
                "mark_made_from kept '{what}'; fi; ls kept")
        self.assertEqual(self.bash(make.format(what="bookworm")).stdout, "bookworm\nmade-from\n")
        self.assertEqual(self.bash(make.format(what="bookworm")).stdout, "kept\nbookworm\nmade-from\n")
        self.assertEqual(self.bash(make.format(what="trixie")).stdout, "made-from\ntrixie\n")

    def test_an_incomplete_folder_is_removed(self):
        self.bash("mkdir kept; touch kept/half")
        self.assertEqual(self.bash("is_made_from kept any || ls").stdout, "bin\n")


class Formatter(Fakes):
    def test_format_fails_if_clang_format_fails(self):
        self.fake("clang-format-19", "echo 'cannot run' >&2; exit 126\n")
        run = subprocess.run([ROOT / "scripts" / "format.sh", "--check"], capture_output=True, text=True, check=False,
                             env=os.environ | {"PATH": f"{self.programs}:{os.environ['PATH']}"})
        self.assertEqual(run.returncode, 1)
        self.assertIn("cannot run", run.stderr)


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    unittest.main()
