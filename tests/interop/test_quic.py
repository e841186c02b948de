"""`cubic` on connections of quinn: the example of `native/ccp-quic`, on the loopback."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pytest

from ccplane.datapath.ccp_unix.programs import CCPLANE
from tests.interop.agent_end import agent, example
from tests.kernel.driving import wait_until

INTERVAL_US = 10_000
SAMPLED = {"FILES_SAMPLE_US": str(INTERVAL_US)}


@dataclass(frozen=True)
class Server:
    """A server of files whose connections are an agent's."""

    program: Path
    address: str
    certificate: Path

    output: IO[str]
    env: Mapping[str, str]

    def get(self, n_bytes: int) -> subprocess.Popen[str]:
        """Start a client of N bytes."""
        return self.client("get", f"zeros/{n_bytes}", "/dev/null")

    def client(self, command: str, *arguments: str) -> subprocess.Popen[str]:
        """Start a client."""
        words = [self.program, command, self.address, self.certificate, *arguments]
        return subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=self.env)


@contextmanager
def serving(tmp_path: Path, **settings: str) -> Iterator[Server]:
    """A server that waits for an agent at `tmp_path / "agent"`."""
    program = example("ccp-quic", "files")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    certificate = tmp_path / "certificate"
    command = [program, "serve", address, tmp_path, certificate]
    env = {**os.environ, **settings}
    agents = {"CCP_AGENT": str(tmp_path / "agent")}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env | agents) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == f"serves {address}\n"
        yield Server(program, address, certificate, process.stdout, env)
        process.kill()


def downloaded(server: Server, n_bytes: int) -> None:
    with server.get(n_bytes) as client:
        said, _ = client.communicate(timeout=120)
    assert said.startswith(f"{n_bytes} bytes")


@pytest.mark.timeout(300)
def test_cubic_has_connections_and_a_second_agent_takes_them_over(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        endless = server.get(1 << 50)
        try:
            for _ in range(2):
                with agent(tmp_path / "agent", CCPLANE, "cubic") as agent_loop:
                    wait_until(lambda agent_loop=agent_loop: agent_loop.counters.reports > 10)  # type: ignore[misc]
                    assert agent_loop.counters.flows_created == 1
                    downloaded(server, 20_000_000)
                assert endless.poll() is None
                downloaded(server, 20_000_000)
        finally:
            endless.kill()
            endless.communicate()


def rows(said: Iterable[str]) -> list[dict[str, Any]]:
    """The lines of JSON, until the connection is closed."""
    found = []
    for line in said:
        if line.startswith("{"):
            found.append(json.loads(line))
            if not found[-1].get("open", True):
                break
    return found


def test_a_list_is_got_on_one_connection_and_both_ends_say_how_it_goes(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(bytes(range(256)) * 1000)
    (tmp_path / "list").write_text(f"zeros/300000 /dev/null\npause 0.2\na.bin {tmp_path / 'got'}\n")
    with serving(tmp_path, **SAMPLED) as server:
        with server.client("list", str(tmp_path / "list")) as client:
            said, _ = client.communicate(timeout=60)
        client_rows, server_rows = rows(said.splitlines()), rows(server.output)
    assert client.returncode == 0
    assert (tmp_path / "got").read_bytes() == (tmp_path / "a.bin").read_bytes()
    first, second = (row for row in client_rows if "end_us" in row)
    assert (first["size_bytes"], second["size_bytes"]) == (300_000, 256_000)
    assert first["start_us"] < first["first_byte_us"] <= first["end_us"]
    assert second["start_us"] - first["end_us"] == pytest.approx(200_000, abs=50_000)
    assert {row["port"] for row in client_rows} == {row["port"] for row in server_rows}
    assert [row["bytes"] for row in client_rows if "bytes" in row][-1] == 556_000
    assert server_rows[-1]["sent_bytes"] > 556_000
    assert not any(row["steered"] for row in server_rows)  # no agent is there
    lateness_us = sorted(row["t_us"] % INTERVAL_US for row in server_rows)
    assert lateness_us[len(lateness_us) // 2] < INTERVAL_US / 2


def test_a_list_that_cannot_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "list").write_text("nothing\n")
    with serving(tmp_path) as server, server.client("list", str(tmp_path / "list")) as client:
        said, _ = client.communicate(timeout=60)
    assert client.returncode != 0
    assert said == ""
