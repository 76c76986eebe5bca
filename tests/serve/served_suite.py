"""The base of tests that ask one server of tiny models over its socket."""

import json
import pathlib

import server_checks
from golden.suite import Suite
from server_process import Client, Server


class ServedSuite(Suite):
    """Serves the models of the work folder, which a test writes before, with a small memory for caches."""

    CACHE_BYTES = 32 << 20

    def __init__(self, program: list[str], work: pathlib.Path):
        super().__init__(program, work, renew=False)

    def serve(self, *models: str) -> None:
        self.server = Server(self.program, *models, "--cache-memory", self.CACHE_BYTES, folder=self.work)
        self.client = Client(self.server.port)

    def answer(self, path: str, **body):
        reply = self.client.post(path, body)
        if reply.status != 200:
            raise RuntimeError(f"{path} {json.dumps(body)[:300]} was answered with {reply}")
        return reply.json()

    def refused(self, path: str, says: str, **body) -> None:
        reply = self.client.post(path, body)
        self.check(f"{path} with {json.dumps(body)[:80]}: 400, '{says}'",
                   reply.status == 400 and says in reply.json()["error"]["message"], reply)


def main(doc: str, suite_class: type[ServedSuite], check: server_checks.Checks) -> int:
    """Runs a test's checks as its command line says. Returns the exit code."""

    def run(program: list[str], work: pathlib.Path, only: str) -> int:
        suite = suite_class(program, work)
        check.run(suite, only)
        suite.same("SIGTERM ends the server with exit code 0", suite.server.stop(), 0)
        return server_checks.outcome(suite)

    return server_checks.main(doc, run, takes_model=False)
