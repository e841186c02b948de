"""`ccp receive --regime` tells its decisions to Systems Manager, as far as botocore knows that service."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import botocore.session
from botocore.validate import ParamValidator

from telemetry.receiver.probing import Responder
from tests.interop.brokers import PATIENCE_S, wait_until

INSTANCE = "i-0123456789abcdef0"


class SystemsManager(HTTPServer):
    """The service, as far as it takes commands."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Request)
        service = botocore.session.get_session().get_service_model("ssm")
        self.operation = service.operation_model("SendCommand")
        self.target = f"{service.metadata['targetPrefix']}.SendCommand"
        self.asked: list[dict[str, Any]] = []
        self.wrong: list[str] = []


class _Request(BaseHTTPRequestHandler):
    server: SystemsManager

    def do_POST(self) -> None:
        fields = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        report = ParamValidator().validate(fields, self.server.operation.input_shape)
        if report.has_errors() or self.headers["X-Amz-Target"] != self.server.target:
            self.server.wrong.append(report.generate_report() or self.headers["X-Amz-Target"])
        self.server.asked.append(fields)
        answer = json.dumps({"Command": {"CommandId": "b8eac879-0541-439d-94ec-47a80d554f44"}}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/x-amz-json-1.1")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def systems_manager() -> Iterator[SystemsManager]:
    with SystemsManager() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@contextlib.contextmanager
def responder() -> Iterator[int]:
    """Answer probes; gives the port."""
    answering, end = Responder(0, "127.0.0.1"), threading.Event()

    def answer() -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(answering.sock, selectors.EVENT_READ)
            while not end.is_set():
                selector.select(0.05)
                answering.poll()

    thread = threading.Thread(target=answer)
    thread.start()
    try:
        yield answering.port
    finally:
        end.set()
        thread.join()
        answering.close()


def test_a_decision_is_told_once_while_it_stays() -> None:
    with systems_manager() as service, responder() as port:
        environment = {
            **os.environ,
            "AWS_ENDPOINT_URL_SSM": f"http://127.0.0.1:{service.server_port}",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "id",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_EC2_METADATA_DISABLED": "true",
        }
        command = [sys.executable, "-c", "from agent.entry import main; main()", "receive", "--json"]
        command += ["--peer", "127.0.0.1", "--no-kernel-probe", "--probe", "udp", "--port", str(port)]
        command += ["--regime", "--regime-mode", "fast", "--regime-ssm", INSTANCE]
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            decisions = (json.loads(line) for line in process.stdout if '"regime_decision"' in line)
            first = next(decisions)
            wait_until(lambda: service.asked, "the command")
            for _ in range(3):
                next(decisions)
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0
    assert service.wrong == []
    (fields,) = service.asked
    assert fields["InstanceIds"] == [INSTANCE]
    words = shlex.split(fields["Parameters"]["commands"][0])
    assert words[:4] == ["ccp", "regime", "tell", first["regime"]]
    assert words[words.index("--peer") + 1] == "127.0.0.1"
