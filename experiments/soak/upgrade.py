"""`python -m experiments.soak.upgrade REVISION`: upgrades from another revision under load, and back.

An agent of the other revision controls connections that send all the time, some of them in a network
namespace of their own whose default is `ccp`. This build's agent takes over, and then the other revision's
agent again. Exit code 1: a connection broke, or a flow stayed in the fallback.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Final

import typer

from ccplane.base import clock, options
from ccplane.base.errors import CcpError
from ccplane.datapath import ebpf
from experiments.agent_process import PIN_DIR, START_TIMEOUT_S, AgentProcess
from experiments.bench.builds import Build, build_of, this_build
from experiments.netlab import Host, Lab
from experiments.soak.plant import wait_for

CONNECTIONS: Final = 1000
TURN_BYTES: Final = 1 << 14
"""Bytes that a server's end sends in each turn."""
TIMEOUT_S: Final = 60.0
"""A connection is broken if a turn takes longer [s]."""
LOOK: Final = """
import json, sys
from ccplane.datapath import ebpf
view = ebpf.observe(sys.argv[1])
print(json.dumps([(s.fallback, s.fallback_entered_us, s.fallback_left_us) for s in view.all_stats()]))
"""

app = typer.Typer(add_completion=False)


@dataclass(frozen=True, slots=True)
class Upgrade:
    """Result of one upgrade.

    Attributes:
        old: Revision of the agent that ended.
        new: Revision of the agent that took over.
        connections: Connections that sent meanwhile.
        broken: Connections that broke.
        in_fallback: Flows that the fallback controlled for some time.
        longest_fallback_ms: Longest time that the fallback controlled a flow [ms].
        ready_ms: From the new agent's start until all flows had their algorithm again [ms].
    """

    old: str
    new: str
    connections: int
    broken: int
    in_fallback: int
    longest_fallback_ms: float
    ready_ms: float


@app.command()
def main(
    revision: Annotated[str, typer.Argument(help="Branch, tag or commit of the other build.")],
    connections: Annotated[int, typer.Option(min=2, help="Connections.")] = CONNECTIONS,
    algorithm: Annotated[str, options.algorithm("Algorithm that the agents run")] = "cubic",
    out: Annotated[Path, options.out("File for the result, JSON.", metavar="FILE")] = Path(
        "out/upgrade.json"
    ),
) -> None:
    """Upgrade from another revision under load, and back."""
    try:
        results = upgrades(build_of(revision, lambda _: None), connections, algorithm)
    except CcpError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from None
    found = {"kernel": os.uname().release, "upgrades": [asdict(one) for one in results]}
    text = json.dumps(found, indent=1)
    print(text)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(text + "\n")
    raise typer.Exit(int(any(one.broken for one in results)))


def upgrades(other: Build, connections: int, algorithm: str) -> list[Upgrade]:
    """Upgrade from the other build to this one, and back.

    Raises:
        CcpError: If an agent does not start, or does not hand its flows over.
        TimeoutError: If flows stay in the fallback.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with _agents(other, algorithm) as agents, Lab() as lab:
        server, client = lab.add_host("server"), lab.add_host("client")
        lab.connect(server, client)
        server.set_sysctl("net.ipv4.tcp_congestion_control", "ccp")
        with Connections(server, client, connections) as talk:
            wait_for("the first agent controls all flows", lambda: _controlled(other, connections))
            return [agents.upgrade(build, talk) for build in (this_build(), other)]


class Connections:
    """Connections whose servers' ends send in turns, in a thread; for a `with` block.

    Attributes:
        number: Number of connections.
        broken: Number of connections that broke so far.
    """

    def __init__(self, server: Host, client: Host, number: int) -> None:
        """Connect."""
        self.number, self.broken = number, 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._talk)
        with server.call(lambda: socket.create_server(("", 0), backlog=number)) as listener:
            self._ends = [self._pair(client, server, listener) for _ in range(number)]

    @staticmethod
    def _pair(client: Host, server: Host, listener: socket.socket) -> tuple[socket.socket, socket.socket]:
        near = client.call(socket.socket)
        near.settimeout(TIMEOUT_S)
        near.connect((server.ipv4, listener.getsockname()[1]))
        far, _ = listener.accept()
        far.settimeout(TIMEOUT_S)
        return far, near

    def __enter__(self) -> Connections:
        """Start to send."""
        self._thread.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        """Close the connections."""
        self._done.set()
        self._thread.join()
        for ends in self._ends:
            for end in ends:
                end.close()

    def _talk(self) -> None:
        live = self._ends
        while not self._done.is_set():
            kept = [ends for ends in live if self._turn(*ends)]
            self.broken += len(live) - len(kept)
            live = kept

    @staticmethod
    def _turn(far: socket.socket, near: socket.socket) -> bool:
        try:
            far.sendall(bytes(TURN_BYTES))
            left = TURN_BYTES
            while left and (received := near.recv(left)):
                left -= len(received)
            return not left
        except OSError:
            return False


class _Agents:
    def __init__(self, build: Build, algorithm: str) -> None:
        self._arguments = [algorithm, "--max-flows", "4096"]
        self._build, self._agent = build, AgentProcess(self._arguments, packages=build.packages)

    def upgrade(self, build: Build, talk: Connections) -> Upgrade:
        begin_us = clock.now_us()
        following = AgentProcess([*self._arguments, "--take-over"], packages=build.packages)
        old, self._agent = self._agent, following
        wait_for("the old agent's exit", lambda: not old.running)
        old.stop()
        wait_for("all flows have their algorithm", lambda: _controlled(build, talk.number))
        ready_ms = (clock.now_us() - begin_us) / 1e3
        spans_us = [left - entered for _, entered, left in _look(build) if left > begin_us]
        old_build, self._build = self._build, build
        return Upgrade(
            old_build.name,
            build.name,
            talk.number,
            talk.broken,
            len(spans_us),
            max(spans_us, default=0) / 1e3,
            round(ready_ms, 1),
        )

    def close(self) -> None:
        self._agent.stop()


@contextlib.contextmanager
def _agents(build: Build, algorithm: str) -> Iterator[_Agents]:
    agents = _Agents(build, algorithm)
    try:
        yield agents
    finally:
        agents.close()
        ebpf.unload(PIN_DIR)


def _look(build: Build) -> list[tuple[bool, int, int]]:
    """Return of each flow, as the build reads it: in the fallback?, entered [us], left [us]."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", LOOK, PIN_DIR],
        env={**os.environ, "PYTHONPATH": str(build.packages)},
        capture_output=True,
        text=True,
        timeout=START_TIMEOUT_S,
        check=False,
    )
    return json.loads(done.stdout) if done.returncode == 0 else []


def _controlled(build: Build, number: int) -> bool:
    return sum(not in_fallback for in_fallback, _, _ in _look(build)) >= number


if __name__ == "__main__":
    app()
