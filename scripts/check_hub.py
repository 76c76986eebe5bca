#!/usr/bin/env python3
"""Checks names on the Hub with the real huggingface_hub and a hub on localhost that has one model.

    check_hub.py PROGRAM MODEL_DIR [--python PYTHON]

PYTHON is an interpreter with huggingface_hub (pip install huggingface_hub). Prints what the program said in each case.
"""

import argparse
import hashlib
import http.server
import json
import os
import pathlib
import subprocess
import tempfile
import threading

REPOSITORY = "owner/model"
COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub(http.server.BaseHTTPRequestHandler):
    """The Hub's API, as far as snapshot_download() uses it, for the files of `folder`."""

    protocol_version = "HTTP/1.1"
    folder: pathlib.Path
    cut = False  # whether weights end in the middle
    requests: list[tuple[str, str, str]] = []

    def log_message(self, *_args) -> None:
        pass

    def answer(self, status: int, body: bytes, send_body: bool = True, **headers: str) -> None:
        self.send_response(status)
        length = headers.pop("length", str(len(body)))
        for name, value in (headers | {"Content-Length": length}).items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if send_body:
            self.wfile.write(body)

    def file(self, name: str, send_body: bool) -> None:
        path = self.folder / name
        if not path.is_file():
            self.answer(404, b"", X_Error_Code="EntryNotFound", X_Repo_Commit=COMMIT)
            return
        content = path.read_bytes()
        headers = {"ETag": f'"{hashlib.sha256(content).hexdigest()}"', "X_Repo_Commit": COMMIT,
                   "Accept_Ranges": "bytes"}
        first = int(self.headers.get("Range", "bytes=0-").removeprefix("bytes=").split("-")[0])
        if first:
            headers["Content_Range"] = f"bytes {first}-{len(content) - 1}/{len(content)}"
        cut = send_body and self.cut and name.endswith(".safetensors")  # nothing comes after the middle, however often
        last = max(first, len(content) // 2) if cut else len(content)
        self.answer(206 if first else 200, content[first:last], send_body, length=str(len(content) - first), **headers)
        self.close_connection = self.close_connection or cut

    def handle_request(self, send_body: bool) -> None:
        self.requests.append((self.command, self.path, self.headers.get("Range", "")))
        path = self.path.split("?")[0]
        names = [str(path.relative_to(self.folder)) for path in self.folder.rglob("*") if path.is_file()]
        if path.startswith(f"/api/models/{REPOSITORY}/tree/"):
            entries = [{"type": "file", "path": name, "size": (self.folder / name).stat().st_size, "oid": "0" * 40}
                       for name in names]
            self.answer(200, json.dumps(entries).encode(), send_body, Content_Type="application/json")
        elif path.startswith(f"/api/models/{REPOSITORY}"):
            info = {"id": REPOSITORY, "modelId": REPOSITORY, "sha": COMMIT, "private": False, "tags": [], "downloads": 0,
                    "siblings": [{"rfilename": name} for name in names]}
            self.answer(200, json.dumps(info).encode(), send_body, Content_Type="application/json")
        elif path.startswith(f"/{REPOSITORY}/resolve/"):
            self.file(path.split("/", 5)[5], send_body)
        else:
            self.answer(404, b"{}", send_body, X_Error_Code="RepoNotFound")

    def do_GET(self) -> None:
        self.handle_request(True)

    def do_HEAD(self) -> None:
        self.handle_request(False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--python", default="python3")
    args = parser.parse_args()
    Hub.folder = args.model.resolve()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()

    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {
            "HF_ENDPOINT": f"http://127.0.0.1:{server.server_port}", "HF_HOME": folder, "BALLAST_PYTHON": args.python,
            "HF_HUB_DISABLE_XET": "1"}

        def inspect(title: str, model: str = REPOSITORY, **more: str) -> tuple[int, str]:
            Hub.requests.clear()
            result = subprocess.run([args.program.resolve(), "inspect", model], cwd=folder, env=environment | more,
                                    capture_output=True, text=True, timeout=300)
            said = result.stderr.replace(folder, "HF_HOME").strip().replace("\r", "\n").splitlines()
            fetched = [line for line in Hub.requests if line[0] == "GET" and "/resolve/" in line[1]]
            print(f"== {title}: exit code {result.returncode}, {len(Hub.requests)} requests, {len(fetched)} of files")
            print("\n".join("   " + line for line in said[-3:]))
            return result.returncode, "\n".join(said)

        def check(holds: bool, what: str) -> None:
            if not holds:
                raise SystemExit(f"wrong: {what}")

        code, said = inspect("offline, nothing in the cache", HF_HUB_OFFLINE="1")
        check(code == 1 and "HF_HUB_OFFLINE is set" in said and not Hub.requests, "offline")
        Hub.cut = True
        code, said = inspect("the connection ends in the middle of the weights")
        check(code == 1 and "cannot be fetched" in said, "a broken connection")
        Hub.cut = False
        code, said = inspect("again: only what is missing")
        fetched = [line[1] for line in Hub.requests if line[0] == "GET" and "/resolve/" in line[1]]
        check(code == 0 and fetched != [] and all(path.endswith(".safetensors") for path in fetched), "going on")
        code, said = inspect("from the cache")
        check(code == 0 and not any(line[0] == "GET" and "/resolve/" in line[1] for line in Hub.requests), "the cache")
        code, said = inspect("offline, from the cache", HF_HUB_OFFLINE="1")
        check(code == 0 and not Hub.requests, "the cache offline")
        code, said = inspect("a name that the Hub does not have", "owner/none")
        check(code == 1 and "is no model on the Hub" in said, "an unknown name")
        code, said = inspect("the Hub cannot be reached", "owner/other", HF_ENDPOINT="http://127.0.0.1:9")
        check(code == 1 and "cannot be reached" in said, "no network")
    print("all as expected")


if __name__ == "__main__":
    main()
