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
        start = f"set -euo pipefail\nsource {FUNCTIONS}/made_from.sh\nsource {FUNCTIONS}/older_libraries.sh\n"
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


class Libraries(Fakes):
    """A Debian 12 with Debian 13's C library is always detected, for any length of apt-cache's output."""

    def printed(self, first: str) -> None:
        self.fake("apt-cache", f"echo ' libc6-dev | 2.36 | http://deb.debian.org/debian {first}/main'\n"
                               "i=0; while [ $i -lt 20000 ]; do echo ' libc6-dev | 2.41 | http://host/debian trixie/main'; "
                               "i=$((i + 1)); done\n")

    def test_debian_12_is_always_found(self):
        self.printed("bookworm")
        run = self.bash("for i in 1 2 3 4 5 6 7 8 9 10; do offers_debian_12; done; echo found")
        self.assertEqual((run.returncode, run.stdout), (0, "found\n"), run.stderr)

    def test_debian_12_is_not_found_on_other_releases(self):
        self.printed("trixie")
        self.assertEqual(self.bash("offers_debian_12").returncode, 1)
        self.fake("apt-cache", "exit 100\n")
        self.assertEqual(self.bash("offers_debian_12").returncode, 1)

    def test_newer_and_older_libraries_are_distinguished(self):
        for own, newer in (("2.41", True), ("2.36", False), ("2.9", False)):
            self.fake("getconf", f"echo glibc {own}\n")
            run = self.bash("if has_newer_glibc; then echo newer; fi", platform="manylinux_2_36_x86_64")
            self.assertEqual(run.stdout, "newer\n" if newer else "", (own, run.stderr))

    @unittest.skipUnless(shutil.which("c++") and shutil.which("objdump"), "no compiler")
    def test_a_platform_with_an_older_library_is_refused_before_a_build(self):
        run = self.bash("check_linked_glibc", platform="manylinux_2_1_x86_64")
        self.assertEqual(run.returncode, 1)
        self.assertRegex(run.stderr, r"^wheel: programs built here need glibc 2\.\d+, and manylinux_2_1_x86_64 has 2\.1: ")
        run = self.bash("check_linked_glibc", platform="manylinux_2_999_x86_64")
        self.assertEqual((run.returncode, run.stderr), (0, ""))

    def test_an_invalid_platform_is_refused_before_a_build(self):
        run = subprocess.run([ROOT / "scripts" / "build_wheel.sh"], env=os.environ | {"PLATFORM": "linux"},
                             capture_output=True, text=True, check=False)
        self.assertEqual(run.returncode, 1)
        self.assertIn("PLATFORM=linux: must be like manylinux_2_36_x86_64", run.stderr)


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
