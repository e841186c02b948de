"""Upgrades from build to build under 1,000 live connections, 20 listeners and 5 namespaces with defaults."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any

import pytest

from ccplane.datapath import ebpf
from experiments.agent_process import PIN_DIR, AgentProcess
from experiments.netlab import Path, two_hosts
from tests.kernel import building
from tests.kernel.upgrading import Server, congestion_of

SERVERS = 5
LISTENERS = 4
CONNECTIONS = 50
"""Of each listener."""
FLOWS = 2048
SETTLED_S = 4.0
SAMPLER = FilePath(__file__).with_name("sampling_law.py")

pytestmark = [pytest.mark.long, pytest.mark.alone, pytest.mark.timeout(1800)]


@dataclass
class Load:
    """Servers whose connections talk, in a process of their own."""

    paths: list[Path]
    servers: list[tuple[Server, Path]] = field(default_factory=list)

    def begin(self) -> None:
        """Make servers and connections, as soon as there is `ccp`."""
        for path in self.paths:
            server = Server(path.sender, n_listeners=LISTENERS)
            self.servers.append((server, path))
            for listener in server.listeners:
                for _ in range(CONNECTIONS):
                    server.accept(path.receiver, listener)

    def close(self) -> None:
        """Close them."""
        for server, _ in self.servers:
            server.close()

    @contextmanager
    def talking(self) -> Iterator[None]:
        """Have all connections talk, each twice a second or as often as it can be, and none fail."""
        until, done = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(done)
            os.set_blocking(until, False)
            os._exit(0 if self._talk(until) else 1)
        os.close(until)
        try:
            yield
        finally:
            os.close(done)
            _, status = os.waitpid(child, 0)
        assert status == 0, "a connection was lost"

    def _talk(self, until: int) -> bool:
        try:
            while True:
                for server, _ in self.servers:
                    for theirs, ours in server.live:
                        ours.sendall(bytes(2000))
                        theirs.settimeout(20)
                        left = 2000
                        while left:
                            received = len(theirs.recv(left))
                            if not received:
                                return False
                            left -= received
                try:
                    if os.read(until, 1) == b"":
                        return True
                except BlockingIOError:
                    pass
        except OSError:
            return False

    def begin_more(self) -> int:
        """Make a connection through each listener, and one of each default's; returns how many."""
        made = 0
        for server, path in self.servers:
            for listener in server.listeners:
                server.accept(path.receiver, listener)
            server.connect(path.receiver)
            made += len(server.listeners) + 1
        return made


@pytest.fixture
def load() -> Iterator[Load]:
    """Room for five servers in namespaces of their own."""
    with ExitStack() as stack:
        made = Load([stack.enter_context(two_hosts()) for _ in range(SERVERS)])
        stack.callback(ebpf.unload, PIN_DIR)
        stack.callback(made.close)
        yield made


@contextmanager
def watched(*builds: FilePath) -> Iterator[list[dict[str, Any]]]:
    """Watch how long flows have the law, with the eyes of builds; results are there after the block."""
    results: list[dict[str, Any]] = []
    command = [sys.executable, str(SAMPLER), PIN_DIR]
    watching = [
        subprocess.Popen(
            command,
            env={**os.environ, "PYTHONPATH": str(build)},
            cwd=build,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for build in builds
    ]
    yield results
    for one in watching:
        out, _ = one.communicate("\n", timeout=60)
        results.append(json.loads(out))


def agent(build: FilePath, *more: str) -> AgentProcess:
    """Start an agent of a build that takes over."""
    arguments = ["cubic", "--take-over", *more]
    if "--max-flows" not in more:
        arguments += ["--max-flows", str(FLOWS)]
    return AgentProcess(arguments, packages=build)


def test_nothing_is_lost_from_build_to_build_and_back(load: Load) -> None:
    a = building.ROOT
    b = building.built("programs", building.PROGRAMS)
    c = building.built("layout", building.LAYOUT)
    steps = [("programs", a, b), ("programs, back", b, a), ("layout", a, c), ("layout, back", c, a)]
    now = agent(a)
    flows = SERVERS * LISTENERS * CONNECTIONS
    load.begin()
    told = []
    with ExitStack() as stack:
        stack.callback(lambda: now.stop())
        for name, before, after in [*steps, ("max_flows", a, a)]:
            more = ("--max-flows", str(2 * FLOWS)) if name == "max_flows" else ()
            with load.talking(), watched(before, after) as came:
                time.sleep(1.0)
                began_s = time.monotonic()
                following = agent(after, *more)
                took_s = time.monotonic() - began_s
                old, now = now, following
                assert "another agent has the flows now" in old.stop()
                time.sleep(SETTLED_S)
            told.append({"step": name, "start_s": round(took_s, 1), "connections": flows, **_both(*came)})
            print(json.dumps(told[-1]))
            flows += load.begin_more()
            assert {server.default() for server, _ in load.servers} == {"ccp"}
            assert {congestion_of(ours) for server, _ in load.servers for _, ours in server.live} == {"ccp"}
        with load.talking(), watched(a) as came:
            time.sleep(SETTLED_S)
        assert came[0]["steered"] >= flows, "what began after the last step is steered, too"
    for one in told:
        assert one["steered"] >= one["connections"], one
        assert one["longest_acking_s"] < 0.2, one


def _both(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    longest = {
        key: max(before[key], after[key]) for key in ("longest_s", "longest_acking_s", "longest_gap_s")
    }
    return {**after, **longest}
