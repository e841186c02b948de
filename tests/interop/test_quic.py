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


def downloaded(server: Server, n_bytes: int) -> None:
    with server.get(n_bytes) as client:
        said, _ = client.communicate(timeout=120)
    assert said.startswith(f"{n_bytes} octets")


@pytest.mark.timeout(300)
def test_cubic_has_connections_and_a_second_agent_takes_them_over(server: Server, tmp_path: Path) -> None:
    endless = server.get(1 << 50)
    try:
        for _ in range(2):
            with agent(tmp_path / "agent", CCPLANE, "cubic") as plane:
                wait_until(lambda plane=plane: plane.counters.reports > 10)  # type: ignore[misc]
                assert plane.counters.flows_created == 1
                downloaded(server, 20_000_000)
            assert endless.poll() is None
            downloaded(server, 20_000_000)
    finally:
        endless.kill()
        endless.communicate()
