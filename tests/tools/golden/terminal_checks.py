"""Checks of the progress bar on a terminal; elsewhere progress is plain lines, as in the other checks."""

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import threading

from golden.suite import Suite

CALIBRATE = ("calibrate", "llama3", "--samples", "16", "--length", "64", "--text", "calibration.txt", "--force", "-o",
             "terminal.stats")
ERASE = "\r\x1b[K"


class Terminal:
    """The program with standard error, and on request standard input, on a terminal."""

    def __init__(self, suite: Suite, words: tuple[str, ...], columns: int, kind: str, typing: bool = False):
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        self.process = subprocess.Popen([*suite.program, *words], cwd=suite.work, stderr=slave, stdout=subprocess.PIPE,
                                        stdin=slave if typing else subprocess.DEVNULL, env={**os.environ, "TERM": kind})
        os.close(slave)
        self.text = ""

    def read(self, until: str = r"(?!)") -> str:
        """Reads until the regular expression `until` matches all that was read, or to the end."""
        while not re.search(until, self.text):
            try:
                data = os.read(self.master, 4096)
            except OSError:  # the other end is closed
                break
            if not data:
                break
            self.text += data.decode(errors="replace")
        return self.text

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    def end(self) -> tuple[int, str]:
        self.read()
        out = self.process.stdout.read().decode(errors="replace")
        os.close(self.master)
        return self.process.wait(), out


def check_bar(suite: Suite) -> None:
    for columns in (100, 40):
        terminal = Terminal(suite, CALIBRATE, columns, "xterm")
        code, out = terminal.end()
        plan, *drawn = terminal.text.split(ERASE)
        # If the remaining time takes the space of the bar, only figures are drawn.
        bars = [re.fullmatch(r"calibrating(  \[[#-]+\])?  \d/2  \d+ %(  .+ left)?", line) for line in drawn[:-1]]
        planned = re.fullmatch(r"ballast: calibration: expecting [^\n]+\n", plan)
        suite.check(f"on a terminal of {columns} columns a bar is drawn in one line, and erased at the end",
                    code == 0 and planned and drawn[-1] == "" and all(bars) and bars[0][1], repr(terminal.text))
        suite.check(f"no line of the bar is as wide as {columns} columns", all(len(bar) < columns for bar in drawn),
                    repr(drawn))
        suite.check("standard output has no part of the bar", "\x1b" not in out and "\r" not in out and
                    out.startswith("measured  "), repr(out))
    quiet = Terminal(suite, (*CALIBRATE, "-q"), 80, "xterm")
    suite.check("with -q nothing is drawn", quiet.end()[0] == 0 and quiet.text == "", repr(quiet.text))


def check_dumb_terminal(suite: Suite) -> None:
    terminal = Terminal(suite, CALIBRATE, 80, "dumb")
    code, _ = terminal.end()
    suite.check("on a dumb terminal progress is plain lines", code == 0 and "\x1b" not in terminal.text and
                re.search(r"calibrating: 0/2\r\n", terminal.text) and "calibrating: 2/2, took" in terminal.text,
                repr(terminal.text))


def check_interrupted_bar(suite: Suite) -> None:
    words = ("calibrate", "llama3", "-o", "stopped-bar", "--samples", "20000", "--length", "16")
    terminal = Terminal(suite, words, 80, "xterm")
    terminal.read(r"writing text")
    terminal.process.send_signal(signal.SIGINT)
    code, out = terminal.end()
    suite.check("an interrupt erases the bar, and is then reported in a separate line", code == 130 and out == "" and
                terminal.text.endswith(ERASE + "ballast: interrupted\r\n"), repr(terminal.text[-200:]))


def check_chat(suite: Suite) -> None:
    words = ("run", "mistral", "--chat", "-n", "100000000", "--window", "16", "--sinks", "2")
    terminal = Terminal(suite, words, 80, "xterm", typing=True)
    terminal.read(r"> \Z")
    suite.check("a chat on a terminal explains how to stop and to quit, then prompts",
                terminal.text == "Ctrl-C stops an answer, /clear starts a new chat, Ctrl-D ends the program.\r\n> ", repr(terminal.text))
    terminal.type("the cat\n")
    answer = terminal.process.stdout
    answered = answer.read(1)
    # Before the signal arrives, more output may come than a pipe holds.
    drain = threading.Thread(target=answer.read)
    drain.start()
    terminal.process.send_signal(signal.SIGINT)
    terminal.read(r"generated: [^\r]*\r\n> \Z")
    terminal.type("\x04")
    terminal.read()
    drain.join()
    suite.check("Ctrl-C stops only the answer, Ctrl-D quits with 0", terminal.end()[0] == 0 and answered and
                "interrupted" not in terminal.text, repr(terminal.text))


def check_chat_that_is_too_long(suite: Suite) -> None:
    terminal = Terminal(suite, ("run", "phi", "--chat", "-n", "4", "--kv", "f32"), 80, "xterm", typing=True)
    terminal.read(r"> \Z")
    terminal.type("the cat " * 30 + "\n")
    terminal.read(r"ballast: [^\r]*\r\n[^>]*> \Z")
    terminal.type("the cat\n")
    terminal.read(r"generated: [^\r]*\r\n> \Z")
    terminal.type("\x04")
    code, out = terminal.end()
    refused = re.search(r"ballast: prompt: [^\r]* leave no room [^\r]*\r\nCtrl-C stops", terminal.text)
    suite.check("a message that does not fit the context is an error, and the next one is answered without it",
                code == 0 and out.strip() and refused and "prompt: 29 tokens" in terminal.text, repr(terminal.text))


GROUPS = (check_bar, check_dumb_terminal, check_interrupted_bar, check_chat, check_chat_that_is_too_long)
