from __future__ import annotations

import json
import os
import resource
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from experiments.bench.flow_load import CHUNK, allow_files

ROOT = Path(__file__).parents[3]
COUNT = 20


def start(*arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "experiments.bench.flow_load", *(str(one) for one in arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def said(process: subprocess.Popen[str]) -> dict[str, float]:
    return json.loads(process.stdout.readline())


@pytest.fixture
def port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@pytest.fixture
def server(port: int) -> Iterator[subprocess.Popen[str]]:
    with start("server", "127.0.0.1", port, "--count", COUNT) as process:
        assert said(process) == {"listening": port}
        yield process
        process.kill()


def client(port: int, *options: object) -> subprocess.Popen[str]:
    return start("client", "127.0.0.1", port, "reno", "--count", COUNT, *options)


def test_all_connections_carry_the_load_at_its_rate(port: int, server: subprocess.Popen[str]) -> None:
    with client(port, "--seconds", 0.5, "--bytes-per-s", 4e6) as sender:
        assert said(sender) == {"connections": COUNT}
        sender.stdin.write("\n")
        sender.stdin.flush()
        done = said(sender)
        assert done["seconds"] == pytest.approx(0.5, rel=0.2)
        assert done["sent_bytes"] <= 4e6 * done["seconds"] + len(CHUNK)
        assert done["sent_bytes"] >= COUNT * len(CHUNK)
        assert sender.poll() is None, "connections stay open until it is told to end"
        sender.stdin.close()
        assert sender.wait(10) == 0
    assert server.wait(10) == 0, "the server ends when all connections have"


def test_a_connection_that_is_refused_is_an_error(port: int) -> None:
    sender = client(port)
    assert sender.wait(10) == 1
    sender.stdin.close()
    sender.stdout.close()


def test_a_sender_that_is_ended_leaves_nothing_in_time_wait(port: int, server: subprocess.Popen[str]) -> None:
    with client(port) as sender:
        said(sender)
        sender.terminate()
    assert server.wait(10) == 0
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    assert not [row for row in rows if row[2].endswith(f":{port:04X}")]


def test_the_limit_of_open_files_is_raised_where_it_is_too_low() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, before[1]))
        for count in (300, 10):
            allow_files(count)
            assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == 400
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
