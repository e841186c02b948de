"""`cubic` on connections of quinn: the example of `native/ccp-quic`, on the loopback."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from datapath.ccp_unix.programs import CCPLANE
from tests.interop.agent_end import agent, example
from tests.kernel.driving import wait_until


@dataclass(frozen=True)
class Server:
    """A server of files whose connections are an agent's."""

    program: Path
    address: str
    certificate: Path

    def get(self, n_bytes: int) -> subprocess.Popen[str]:
        """Start a client of so many octets."""
        command = [self.program, "get", self.address, self.certificate, f"zeros/{n_bytes}", "/dev/null"]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A server that waits for an agent at `tmp_path / "agent"`."""
    program = example("ccp-quic", "files")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    certificate = tmp_path / "certificate"
    command = [program, "serve", address, tmp_path, certificate]
    env = {**os.environ, "CCP_AGENT": str(tmp_path / "agent")}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == f"serves {address}\n"
        yield Server(program, address, certificate)
        process.kill()


@pytest.mark.timeout(300)
def test_cubic_has_a_download_and_a_second_agent_takes_it_over(server: Server, tmp_path: Path) -> None:
    with agent(tmp_path / "agent", CCPLANE, "cubic") as plane:
        with server.get(20_000_000) as client:
            said, _ = client.communicate(timeout=120)
        assert said.startswith("20000000 octets")
        assert plane.counters.flows_created == 1
        assert plane.counters.reports > 0
        endless = server.get(1 << 50)
        wait_until(lambda: plane.counters.flows_created == 2)
    try:
        with agent(tmp_path / "agent", CCPLANE, "cubic") as plane:
            wait_until(lambda: plane.counters.reports > 10)
            assert plane.counters.flows_created == 1
            assert endless.poll() is None
    finally:
        endless.kill()
        endless.communicate()
