"""A server program, from its start to its end."""

import contextlib
import pathlib
import socket
import subprocess
import time
import urllib.error
import urllib.request

from .runs import PeerError

START_PATIENCE = 300  # seconds


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


class ServedProgram:
    """A server started by `command`, which includes the port. It is ready when /health succeeds. Output goes to the
    file `log`."""

    def __init__(self, name: str, command: list, port: int, log: pathlib.Path):
        self.name = name
        self.url = f"http://127.0.0.1:{port}"
        with log.open("w") as output:
            self.process = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=output,
                                            stderr=subprocess.STDOUT)
        self._wait(log)

    def _wait(self, log: pathlib.Path) -> None:
        until = time.monotonic() + START_PATIENCE
        while time.monotonic() < until:
            if self.process.poll() is not None:
                raise PeerError(f"{self.name}: ended with code {self.process.returncode}; see {log}")
            with contextlib.suppress(OSError, urllib.error.HTTPError), \
                    urllib.request.urlopen(self.url + "/health", timeout=5):
                return
            time.sleep(0.1)
        self.stop()
        raise PeerError(f"{self.name}: not ready after {START_PATIENCE} s; see {log}")

    def stop(self) -> int:
        """Ends the server and returns the exit code."""
        self.process.terminate()
        return self.process.wait()
