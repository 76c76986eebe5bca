"""`ballast serve` as a process, and a client for its socket."""

import collections
import contextlib
import http.client
import json
import pathlib
import signal
import socket
import subprocess
import threading

PATIENCE = 120  # seconds for an answer; only a server that hangs takes so long


class Server:
    """`PROGRAM serve MODEL`, from its start to stop()."""

    def __init__(self, program: list[str], model: pathlib.Path | str, *options, folder: pathlib.Path | None = None):
        self.process = subprocess.Popen([*program, "serve", str(model), *map(str, options), "--port", "0"], cwd=folder,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.lines = []
        self.port = 0
        self._listening = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._listening.wait()
        if not self.port:
            raise RuntimeError("the server did not start:\n" + self.log())

    def _read(self) -> None:
        for line in self.process.stderr:
            self.lines.append(line.decode(errors="replace").rstrip("\n"))
            with contextlib.suppress(ValueError, TypeError, AttributeError):
                event = json.loads(line)
                if event.get("event") == "listening":
                    self.port = event["port"]
                    self._listening.set()
        self._listening.set()

    def log(self) -> str:
        return "\n".join(self.lines)

    def terminate(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def end(self) -> int:
        """Returns the exit code, after all output was read."""
        code = self.process.wait()
        self._reader.join()
        return code

    def stop(self) -> int:
        self.terminate()
        return self.end()


class Reply:
    def __init__(self, response: http.client.HTTPResponse):
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.getheaders()}
        self.body = response.read()

    def json(self):
        return json.loads(self.body)

    def __str__(self) -> str:
        return f"{self.status} {self.headers}\n{self.body.decode(errors='replace')}"


class Stream:
    """Server-sent events in the order of arrival."""

    def __init__(self, connection: http.client.HTTPConnection, response: http.client.HTTPResponse):
        self.connection = connection
        self.response = response
        self.status = response.status
        self.type = response.getheader("content-type", "")
        self.done = False

    def __iter__(self):
        """Yields the chunks up to [DONE], without comments, which keep connections alive."""
        for line in self.response:
            if not line.startswith(b"data: "):
                continue
            data = line[6:].strip()
            if data == b"[DONE]":
                self.done = True
            else:
                yield json.loads(data)

    def close(self) -> None:
        """Disconnects without reading to the end, which the server must notice."""
        self.response.close()
        self.connection.close()


class Client:
    def __init__(self, port: int, key: str | None = None):
        self.port = port
        self.headers = {"Authorization": f"Bearer {key}"} if key is not None else {}

    def send(self, method: str, path: str, body=None, headers=None) -> tuple:
        """Returns the connection and the unread response. `body`: bytes unchanged, anything else as JSON."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        sent = dict(self.headers)
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        if body is not None:
            sent["Content-Type"] = "application/json"
        try:
            connection.request(method, path, body, sent | (headers or {}))
        except (BrokenPipeError, ConnectionResetError):
            pass  # refused before all was sent: the answer says why
        return connection, connection.getresponse()

    def raw_request(self, method: str, path: str, body) -> http.client.HTTPConnection:
        """Sends a request without waiting for the answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        connection.request(method, path, json.dumps(body), self.headers | {"Content-Type": "application/json"})
        return connection

    def request(self, method: str, path: str, body=None, headers=None) -> Reply:
        connection, response = self.send(method, path, body, headers)
        with contextlib.closing(connection):
            return Reply(response)

    def get(self, path: str, **options) -> Reply:
        return self.request("GET", path, **options)

    def post(self, path: str, body=None, **options) -> Reply:
        return self.request("POST", path, body, **options)

    def stream(self, path: str, body: dict) -> Stream:
        return Stream(*self.send("POST", path, body | {"stream": True}))

    def raw(self, data: bytes) -> bytes:
        """Returns the reply to these bytes until the server closes the connection, or is silent for 30 seconds."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as connection:
            answer = b""
            with contextlib.suppress(OSError):
                connection.sendall(data)
                while piece := connection.recv(65536):
                    answer += piece
            return answer

    def metrics(self) -> dict[str, float]:
        """Returns values by name, summed over labels."""
        values = collections.defaultdict(float)
        for line in self.get("/metrics").body.decode().splitlines():
            if line and not line.startswith("#"):
                name, _, value = line.rpartition(" ")
                values[name.split("{")[0]] += float(value)
        return values
