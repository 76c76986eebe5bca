"""A server of a model on this machine, for scripts that measure it."""

import concurrent.futures
import json
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request

PATIENCE = 600  # seconds for an answer


class LocalServer:
    """`PROGRAM serve MODEL FLAGS` on a free port, until stop()."""

    def __init__(self, program, model, flags=()):
        self.process = subprocess.Popen([program, "serve", model, "--port", "0", *flags], stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            event = json.loads(line) if line.startswith("{") else {}
            if event.get("event") == "listening":
                self.url = f"http://127.0.0.1:{event['port']}"
                return
        sys.exit(f"{program} serve {model} did not start: {line}")

    def post(self, path, body):
        """Returns the answer to a JSON body. Ends the script if it is an error."""
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as reply:
                return json.load(reply)
        except urllib.error.HTTPError as error:
            sys.exit(f"{path}: {error.read().decode()}")

    def chat(self, body):
        """Returns the answer's text and its number of tokens."""
        answer = self.post("/v1/chat/completions", body)
        return answer["choices"][0]["message"]["content"], answer["usage"]["completion_tokens"]

    def chats(self, bodies):
        """Sends all bodies at once, after their prompts were read; returns the texts and the tokens per second of all."""
        with concurrent.futures.ThreadPoolExecutor(len(bodies)) as pool:
            list(pool.map(lambda body: self.chat(body | {"max_tokens": 1}), bodies))
            begin = time.monotonic()
            answers = list(pool.map(self.chat, bodies))
        return [text for text, _ in answers], sum(count for _, count in answers) / (time.monotonic() - begin)

    def metric(self, name):
        with urllib.request.urlopen(self.url + "/metrics", timeout=PATIENCE) as reply:
            return float(re.search(rf"^ballast_{name} (\S+)", reply.read().decode(), re.M)[1])

    def stop(self):
        """Ends the server, after it has written what it keeps on disk."""
        self.process.terminate()
        self.process.stderr.read()
        if self.process.wait(PATIENCE) != 0:
            sys.exit("the server failed")
