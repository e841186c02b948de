"""The load generator over the loopback: real sockets, no root."""

from __future__ import annotations

import json
import os
import resource
import select
import socket
import subprocess
import sys
from collections import Counter
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


def test_objects_are_sent_whole_by_some_at_a_time_to_each_address(port: int) -> None:
    object_bytes = 100_000
    with start("server", "0.0.0.0", port, "--count", COUNT) as server:
        said(server)
        objects = ["--active", 3, "--object-bytes", object_bytes, "--seconds", 0.3]
        with client(port, "--clients", 5, *objects) as sender:
            said(sender)
            rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
            accepted = Counter(row[1] for row in rows if row[1].endswith(f":{port:04X}") and row[3] == "01")
            assert accepted == {f"0{number}00007F:{port:04X}": COUNT // 5 for number in range(1, 6)}
            for _ in range(2):  # each line on stdin lets it send again
                sender.stdin.write("\n")
                sender.stdin.flush()
                done = said(sender)
                assert done["acked_bytes"] >= 10 * object_bytes, "whoever is done makes room for the next"
                assert done["sent_bytes"] > 0.9 * done["acked_bytes"]
                assert done["retrans_bytes"] < 0.1 * done["sent_bytes"]
            sender.stdin.close()
            assert sender.wait(10) == 0
        assert server.wait(10) == 0


def test_an_object_is_done_when_all_of_it_was_acknowledged() -> None:
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)  # takes less than an object
        listener.bind(("127.0.0.1", 0))
        listener.listen(COUNT)
        objects = ["--active", 3, "--object-bytes", 40_000, "--seconds", 0.2]
        with client(listener.getsockname()[1], *objects) as sender:
            said(sender)
            receivers = [listener.accept()[0] for _ in range(COUNT)]
            sender.stdin.write("\n")
            sender.stdin.flush()
            assert said(sender)["acked_bytes"] > 0
            assert len(select.select(receivers, [], [], 0)[0]) == 3
            sender.stdin.close()
            for receiver in receivers:
                receiver.close()
            sender.wait(10)


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
        allow_files(300)
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == 400
        allow_files(10)
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == 400
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
