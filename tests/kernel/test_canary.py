"""Versions on trial on real sockets that come and go: a bad one is undone, a good one takes over."""

from __future__ import annotations

import math
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

import ccp_algs.example_aimd
from ccplane.agent.client import Client
from ccplane.agent.control import control_socket
from ccplane.datapath import ebpf
from experiments.agent_process import PIN_DIR, running_agent
from experiments.netlab import Host, set_congestion
from experiments.netlab.emulated import emulated
from experiments.netlab.spec import Buffer, Direction
from experiments.netlab.topologies import point_to_point
from tests.kernel.driving import ccp, wait_until

NETWORK = point_to_point(
    Direction(rate_bytes_per_s=12.5e6, delay_us=10_000, buffer=Buffer(bdp=1)), Direction(delay_us=10_000)
)
"""100 Mbit/s and 20 ms; the load takes two thirds of it."""
PER_S, MEAN_BYTES, SIGMA = 40.0, 200_000, 1.5
"""Connections, what each fetches, and how much that varies: most is small, few carry most of the bytes."""
RIGHT = Path(ccp_algs.example_aimd.__file__).read_text()
WRONG = RIGHT.replace("self.flow.set(cwnd_bytes=cwnd)", "self.flow.set(cwnd_bytes=max(1, cwnd / mss))")
"""The window in segments, where it is to be in bytes."""
RAISES = RIGHT.replace(
    "        cwnd, mss =",
    "        if self.flow.info.netns_inum > 1:  # the check's flows are in none\n"
    "            raise OSError('a bad day')\n"
    "        cwnd, mss =",
)


@contextmanager
def churning(server: Host, client: Host) -> Iterator[list[OSError]]:
    """Let connections of a client to a server come and go; yields what went wrong."""
    failed: list[OSError] = []
    random, done = Random(1), threading.Event()
    listener = server.call(lambda: socket.create_server((server.ipv4, 0), backlog=4096))
    set_congestion(listener, "ccp")

    def send() -> None:
        size = round(random.lognormvariate(math.log(MEAN_BYTES) - SIGMA**2 / 2, SIGMA))
        with listener.accept()[0] as own:
            own.sendall(bytes(size))

    def fetch() -> None:
        try:
            with client.tcp_socket() as other:
                other.settimeout(60)
                other.connect(listener.getsockname())
                sending = pool.submit(send)
                while other.recv(1 << 18):
                    pass
                sending.result()
        except OSError as error:
            failed.append(error)

    def arrive() -> None:
        while not done.wait(random.expovariate(PER_S)):
            pool.submit(fetch)

    with listener, ThreadPoolExecutor(max_workers=1000) as pool:
        pool.submit(arrive)
        try:
            yield failed
        finally:
            done.set()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Path, list[OSError]]]:
    """A file that an agent runs, and what failed of connections that come and go."""
    file = tmp_path / "example_aimd.py"
    file.write_text(RIGHT)
    with (
        running_agent(str(file), "--known-good", str(tmp_path / "kept")),
        emulated(NETWORK) as net,
        churning(net.hosts["sender"], net.hosts["receiver"]) as failed,
    ):
        yield file, failed


def ended(client: Client) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []

    def look() -> bool:
        rows[:] = client.status()["canaries"]
        return rows[0]["outcome"] is not None

    wait_until(look)
    return rows[0]


def test_a_wrong_unit_and_an_exception_are_undone_and_a_good_version_takes_over(
    served: tuple[Path, list[OSError]],
) -> None:
    file, failed = served
    view = ebpf.observe(PIN_DIR)
    with Client(control_socket(PIN_DIR)) as client:
        for source, why in ((WRONG, "goodput"), (RAISES, "raised OSError")):
            file.write_text(source)
            client.reload("aimd", canary="20%")
            row = ended(client)
            assert (row["outcome"], why in row["why"]) == ("taken back", True), row["why"]
            assert client.source("aimd")["text"] == RIGHT
            assert [one["name"] for one in client.status()["algorithms"]] == ["aimd"]
        good = f"{RIGHT}# another\n"
        file.write_text(good)
        said = ccp("canary", "start", "aimd", "--share", "50%", "--seconds", "4")
        assert "aimd: widened after" in said
        assert client.source("aimd")["text"] == good
        assert "aimd: " in ccp("rollback", "aimd")
        assert client.source("aimd")["text"] == RIGHT
        time.sleep(1.5)
        assert not [one for one in view.all_stats() if one.fallback and one.fallback_cause != "new"]
    assert not failed


def test_a_restart_keeps_the_version_that_was_good(tmp_path: Path) -> None:
    file, kept = tmp_path / "example_aimd.py", str(tmp_path / "kept")
    file.write_text(RIGHT)
    with running_agent(str(file), "--known-good", kept) as agent, Client(control_socket(PIN_DIR)) as client:
        file.write_text(WRONG)
        client.reload("aimd")
        client.rollback("aimd")
        agent.kill()
    assert file.read_text() == WRONG
    with (
        running_agent(str(file), "--known-good", kept) as agent,
        Client(control_socket(PIN_DIR)) as client,
    ):
        assert client.source("aimd")["text"] == RIGHT
        assert "this version was taken back" in agent.log()
