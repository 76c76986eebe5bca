"""Loads and requests that take a server's time or memory from other clients."""

import concurrent.futures
import json
import os
import pathlib
import shutil
import socket
import ssl
import subprocess
import time

from reported import Case, Failure, edit_json, reported
from server_process import PATIENCE, Client

PROMPT = {"prompt": "ab", "max_tokens": 4, "temperature": 0}


def resident(process: subprocess.Popen, field: str = "VmHWM") -> int:
    """Returns a value of /proc in bytes; VmHWM is the maximum so far."""
    for line in pathlib.Path(f"/proc/{process.pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    return 0


def settle(client: Client) -> int:
    """Waits until the idle server has measured the machine's memory, resets the peak, and returns the resident
    bytes."""
    end = time.monotonic() + PATIENCE
    while "ballast_generation_limit_tokens_per_second" not in client.metrics() and time.monotonic() < end:
        time.sleep(0.1)
    pathlib.Path(f"/proc/{client.server.process.pid}/clear_refs").write_text("5", encoding="ascii")
    return resident(client.server.process, "VmRSS")


def grows_little(case: Case, process: subprocess.Popen, most: float) -> None:
    """Checks that memory stays below `most`; not with sanitizers, which keep freed memory."""
    case.must("memory stays bounded", os.environ.get("BALLAST_SANITIZED") or resident(process) < most)


def long_model(case: Case, tokens: int = 100_000) -> pathlib.Path:
    """Writes the tiny model with a context for long prompts."""
    model = case.model()
    edit_json(model / "config.json", max_position_embeddings=tokens, rope_scaling=...)
    return model


def is_answered(case: Case, client: Client, when: str) -> None:
    begin = time.monotonic()
    reply = client.post("/v1/completions", PROMPT)
    case.must(f"a short request is answered {when}", reply.status == 200)
    case.says(f"a short request {when}: {time.monotonic() - begin:.1f} s")


# ---------------------------------------------------------------------------------------------------------------------
# Texts that take long to encode


@reported("/tokenize of 7.9 MB without a space: ends at its limit, with the figure")
def tokenize_flood(case: Case) -> None:
    with case.server(case.model()) as client:
        before = settle(client)
        begin = time.monotonic()
        reply = case.ask(client, "/tokenize", {"prompt": "b" * 7_900_000})
        case.must("the request is refused with 400", reply.status == 400)
        case.must("the error has the limit and the flag", b"262144" in reply.body and b"--max-tokenize" in reply.body)
        case.says(f"{time.monotonic() - begin:.1f} s, {(resident(client.server.process) - before) / 1e6:.0f} MB more")
        grows_little(case, client.server.process, before + 200e6)


@reported("three clients post 7.9 MB to /tokenize while a text streams: short requests go on")
def tokenize_flood_beside_others(case: Case) -> None:
    with case.server(case.model()) as client, concurrent.futures.ThreadPoolExecutor(3) as flood:
        bodies = [flood.submit(client.post, "/tokenize", {"prompt": letter * 7_900_000}) for letter in "abc"]
        slowest = 0.0
        while not all(body.done() for body in bodies):
            begin = time.monotonic()
            case.must("short requests are answered", client.post("/v1/completions", PROMPT).status == 200)
            slowest = max(slowest, time.monotonic() - begin)
        case.says(f"slowest short request {slowest:.2f} s; flood {[body.result().status for body in bodies]}")


@reported("--max-tokenize is the limit of /tokenize and /detokenize")
def tokenize_limit(case: Case) -> None:
    with case.server(case.model(), "--max-tokenize", 10) as client:
        case.must("few tokens are accepted", case.ask(client, "/tokenize", {"content": "b" * 5}).status == 200)
        case.must("many tokens are refused", case.ask(client, "/tokenize", {"content": "b" * 30}).status == 400)
        case.must("many tokens with special ones are refused",
                  case.ask(client, "/tokenize", {"prompt": "b" * 30}).status == 400)
        case.must("10 ids are accepted", case.ask(client, "/detokenize", {"tokens": [8] * 10}).status == 200)
        case.must("11 ids are refused", case.ask(client, "/detokenize", {"tokens": [8] * 11}).status == 400)


@reported("prompts and messages far beyond the context: refused without encoding them, for each endpoint")
def prompts_beyond_context(case: Case) -> None:
    text = "b" * 4_000_000
    with case.server(case.model()) as client:
        for path, body in (("/v1/completions", {"prompt": text}), ("/v1/completions", {"prompt": [text, "a"]}),
                           ("/v1/embeddings", {"input": text}),
                           ("/v1/chat/completions", {"messages": [{"role": "user", "content": text}]})):
            reply = case.ask(client, path, body)
            case.must("400", reply.status == 400)
            case.must("the error has the context", b"64" in reply.body)


# ---------------------------------------------------------------------------------------------------------------------
# Short requests that need much memory


@reported("8,000 ids, echo, logprobs 20, n 64 in 30 KB: refused with the figure before work begins")
def large_answer(case: Case) -> None:
    with case.server(long_model(case)) as client:
        body = {"prompt": [7] * 8000, "echo": True, "logprobs": 20, "max_tokens": 0, "n": 64}
        begin = time.monotonic()
        reply = case.ask(client, "/v1/completions", body)
        case.must("400", reply.status == 400)
        case.must("the error has the sizes", b" MB" in reply.body and b"request_too_large" in reply.body)
        case.must("at once", time.monotonic() - begin < 10)
        is_answered(case, client, "after it")


@reported("related large requests: streamed, many prompts, many stops, embeddings of long lists")
def large_answer_siblings(case: Case) -> None:
    stops = ["s" * 1000 + str(i) for i in range(16)]
    with case.server(long_model(case), "--request-memory", "64MB") as client:
        for path, body in (
                ("/v1/completions", {"prompt": [7] * 8000, "echo": True, "logprobs": 20, "max_tokens": 0, "n": 64,
                                     "stream": True}),
                ("/v1/completions", {"prompt": [[7]] * 2048, "max_tokens": 1, "stop": stops}),
                ("/v1/completions", {"prompt": [[7] * 3000] * 16, "max_tokens": 1, "n": 128}),
                ("/v1/completions", {"prompt": "a", "max_tokens": 90_000, "logprobs": 20}),
                ("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}], "max_tokens": 90_000,
                                          "logprobs": True, "top_logprobs": 20}),
                ("/v1/completions", {"prompt": [7] * 1_000_000, "max_tokens": 1}),
                ("/v1/completions", {"prompt": "a", "junk": [[]] * 1_000_000})):
            reply = case.ask(client, path, body)
            case.must(f"{path} is refused with 400", reply.status == 400)
        grows_little(case, client.server.process, 1e9)
        is_answered(case, client, "after them")


def send_part(port: int, size: int) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
    connection.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
                       b"Content-Length: %d\r\n\r\n{\"prompt\": \"" % (size + 100))
    connection.sendall(b"a" * size)
    return connection


@reported("64 bodies of 2 MB that never end: those beyond the shared memory are refused with 429, short requests go on")
def many_large_bodies(case: Case) -> None:
    with case.server(case.model(), "--request-memory", "32MB") as client:
        before = settle(client)
        connections = []
        refused = 0
        for _ in range(64):
            try:
                connections.append(send_part(client.port, 2_000_000))
            except OSError:
                refused += 1  # the server has closed before all was sent
        is_answered(case, client, "beside them")
        end = time.monotonic() + PATIENCE
        while client.metrics()["ballast_request_memory_refusals_total"] <= 32 and time.monotonic() < end:
            time.sleep(0.1)  # the server reads on, a piece of each body at a time
        for connection in connections:
            connection.settimeout(0.1)
            try:
                refused += connection.recv(100).startswith(b"HTTP/1.1 429")
            except OSError:
                pass
        grown = resident(client.server.process) - before
        case.says(f"{refused} of 64 refused, {grown / 1e6:.0f} MB more")
        case.must("more than half are refused", refused > 32)
        grows_little(case, client.server.process, before + 100e6)
        metrics = client.metrics()
        case.must("/metrics counts the refusals", metrics["ballast_request_memory_refusals_total"] >= 32)
        for connection in connections:
            connection.close()


@reported("a cache_salt of 1 MB: refused with its limit, for the prefix cache would keep it")
def long_salt(case: Case) -> None:
    with case.server(case.model()) as client:
        reply = case.ask(client, "/v1/completions", PROMPT | {"cache_salt": "s" * 1_000_000})
        case.must("400", reply.status == 400)
        case.must("the error has the limit", b"1024" in reply.body)


# ---------------------------------------------------------------------------------------------------------------------
# Slow and stalled clients


@reported("standard error is a pipe that is not read: the server goes on, and counts the lines it dropped")
def unread_log(case: Case) -> None:
    command = [*case.program, "serve", str(case.model()), "--port", "0"]
    reading, writing = os.pipe()
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=writing) as process:
        os.close(writing)
        try:
            text = b""
            while b'"listening"' not in text or not text.endswith(b"\n"):
                text += os.read(reading, 4096)
            events = [json.loads(line) for line in text.splitlines()]
            client = Client(next(event["port"] for event in events if event["event"] == "listening"))
            # The log is not read from here on. A pipe holds 64 KB, about 400 lines; further lines wait, or are dropped.
            connection = socket.create_connection(("127.0.0.1", client.port), timeout=20)
            request = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
            answered = 0
            while answered < 12_000:
                connection.sendall(request * 100)
                pending = b""
                while pending.count(b'{"status":"ok"}') < 100:
                    piece = connection.recv(65536)
                    if not piece:
                        raise Failure(f"the server closed after {answered} requests")
                    pending += piece
                answered += 100
            connection.close()
            dropped = client.metrics()["ballast_log_lines_dropped_total"]
            case.says(f"{answered} requests answered, {dropped:.0f} lines dropped")
            case.must("dropped lines are counted", dropped > 0)
            process.terminate()
            case.must("the server ends", process.wait(timeout=20) == 0)
        except TimeoutError:
            raise Failure(f"the server hangs after {answered} requests") from None
        finally:
            process.kill()
            os.close(reading)


@reported("n above --max-running beside a text that runs: both go on, all choices come")
def many_choices(case: Case) -> None:
    with case.server(long_model(case, 4096), "--max-running", 2) as client:
        stream = client.stream("/v1/completions", {"prompt": "a", "max_tokens": 3000, "temperature": 0, "ignore_eos": True})
        first = next(iter(stream))
        case.must("a stream has begun", first["choices"])
        several = PROMPT | {"temperature": 1, "seed": 5, "ignore_eos": True}
        alone = client.post("/v1/completions", several).json()
        reply = case.ask(client, "/v1/completions", several | {"n": 6})
        case.must("200", reply.status == 200)
        answer = reply.json()
        case.must("the six choices are in order", [choice["index"] for choice in answer["choices"]] == list(range(6)))
        case.must("the first choice is the same as with n 1",
                  answer["choices"][0]["text"] == alone["choices"][0]["text"])
        case.must("tokens are counted once", (answer["usage"]["prompt_tokens"], answer["usage"]["completion_tokens"]) ==
                  (alone["usage"]["prompt_tokens"], 6 * PROMPT["max_tokens"]))
        case.must("the stream continues", not stream.done and client.metrics()["ballast_num_requests_running"] >= 1)
        stream.close()
        streamed = client.post("/v1/completions", several | {"n": 6, "stream": True})
        case.must("a stream with n is complete", streamed.status == 200 and streamed.body.endswith(b"data: [DONE]\n\n"))


@reported("TLS handshakes that never go on: others shake hands and are answered, and each ends after its time")
def tls_handshakes(case: Case) -> None:
    if not shutil.which("openssl"):
        raise Failure("the program openssl is needed to make a certificate")
    key, certificate = case.work / "key.pem", case.work / "certificate.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate,
                    "-subj", "/CN=localhost", "-days", "1"], check=True, capture_output=True)
    with case.server(case.model(), "--tls-certificate", certificate, "--tls-key", key) as client:
        silent = [socket.create_connection(("127.0.0.1", client.port), timeout=PATIENCE) for _ in range(60)]
        for connection in silent[:30]:
            connection.sendall(b"\x16\x03\x01")
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        body = json.dumps(PROMPT).encode()
        for _ in range(3):
            with context.wrap_socket(socket.create_connection(("127.0.0.1", client.port), timeout=20)) as connection:
                connection.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
                                   b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
                answer = connection.recv(65536)
                case.must("other clients are answered over TLS", answer.startswith(b"HTTP/1.1 200"))
        case.says(answer.decode().splitlines()[0])
        for connection in silent:
            connection.close()


# ---------------------------------------------------------------------------------------------------------------------
# Numbers as template arguments


@reported("chat_template_kwargs with numbers near 2^63 for widths, counts and rounding: refused at once, or right")
def template_numbers(case: Case) -> None:
    model = case.model()
    template = case.work / "numbers.jinja"
    most, least = 2**63 - 1, -2**63
    expressions = ["n|round(-1)", "n|round(m)", "1.5|round(n)", "1.5|round(m, 'floor')", "range(m, n)", "'a' * n",
                   "[1] * n", "'a'|center(n)", "'a'|indent(n, true)", "[1]|batch(n, 0)|list", "[1]|slice(n)|list",
                   "'a'.rjust(n)", "'a'.zfill(n)", "'%*d' % (n, 1)", "[1]|tojson(indent=n)", "m|abs", "m // -1", "-m",
                   "2 ** n", "n|float|int", "'ab'|truncate(n)", "'ab'[m:n:n]", "'a' * 100000000", "range(n // 2)|list"]
    begin = time.monotonic()
    template.write_text("{%- for message in messages %}{{ message.content }}{% endfor %}" + "".join(
        "{%% if which == %d %%}{{ %s }}{%% endif %%}" % pair for pair in enumerate(expressions)))
    with case.server(model, "--chat-template", template) as client:
        statuses = {}
        for which, expression in enumerate(expressions):
            reply = client.post("/apply-template", {
                "messages": [{"role": "user", "content": "a"}],
                "chat_template_kwargs": {"which": which, "n": most, "m": least}})
            statuses[expression] = reply.status
            case.must(f"{expression} is answered or refused", reply.status in (200, 400))
            if reply.status == 200:
                case.must(f"{expression} gives a short prompt", len(reply.body) < 1000)
        case.says(statuses)
        grows_little(case, client.server.process, 600e6)
        case.must("at once", time.monotonic() - begin < 60)
        is_answered(case, client, "after them")
