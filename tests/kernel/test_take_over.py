"""Take-overs that fail: whatever keeps the new agent from starting, the old one still steers its flows."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path as FilePath

import pytest

from ccplane.agent.client import Client
from ccplane.agent.control import control_socket
from ccplane.agent.runfile import RUN_DIR, running
from ccplane.base.errors import LoadError
from ccplane.datapath import ebpf
from experiments.agent_process import PIN_DIR, AgentProcess, running_agent
from experiments.netlab import two_hosts
from experiments.soak.disk import full, small
from experiments.soak.plant import looks_like_another_build
from tests.kernel.driving import ccp, loaded, wait_until
from tests.kernel.upgrading import Server

FLOWS = 3

STEERING = ["--param", "report_ms=10", "--heartbeat-timeout", "5s"]
"""Regular reports; and a test that has no processor for a while is no silent agent."""

MAIN = "from ccplane.agent.entry import main; main()"

REFUSED_EXTENSION = """
from pathlib import Path

from ccp_algs import Algorithm


class Extended(Algorithm):
    program = "(def (Report (acked 0))) (when true (:= Report.acked Ack.bytes_acked) (report))"
    extensions = (Path(__file__).with_name("refused.bpf.o"),)

    def on_report(self, report):
        pass
"""

KILLED = """
import os, pkgutil, signal

owner, _, name = "{step}".rpartition(".")
owner = pkgutil.resolve_name(owner)
original = getattr(owner, name)

def step(*arguments, **options):
    if "{when}" == "after":
        original(*arguments, **options)
    os.kill(os.getpid(), signal.SIGKILL)

setattr(owner, name, step)
"""
"""Kills the process before or after one of the steps of its start."""

STEPS = [
    ("before", "ccplane.datapath.ebpf.load"),
    ("after", "ccplane.datapath.ebpf.load"),
    ("after", "ccplane.agent.runfile.check_room"),
    ("after", "ccplane.agent.serve.assembled"),
    ("after", "ccplane.agent.control._Doors.__init__"),
    ("before", "ccplane.agent.lifecycle.KernelLifecycle.adopt"),
]
"""From the first step to the last one before the new agent has the flows."""


AFTER = ["ccplane.agent.runfile.RunFile.write", "ccplane.agent.agent_loop.AgentLoop.adopt"]
"""Steps of the new agent that has the flows, before it polls."""


def free_ports(how_many: int) -> list[int]:
    """Return free ports, in a row."""
    while True:
        with socket.create_server(("127.0.0.1", 0)) as first:
            port: int = first.getsockname()[1]
        try:
            for other in range(port, port + how_many):
                socket.create_server(("127.0.0.1", other)).close()
        except OSError:
            continue
        return list(range(port, port + how_many))


@dataclass
class Old:
    """An agent with flows, which others try to take over.

    Attributes:
        agent: The agent.
        listens: Its arguments for listeners.
        ports: Ports of these.
        run_dir: Folder of its run file and sockets, a small file system.
        taken_port: A port that another program listens on; the next one is free.
        folder: For the files of a case.
    """

    agent: AgentProcess
    listens: Sequence[str]
    ports: Sequence[int]
    run_dir: FilePath
    taken_port: int
    folder: FilePath

    def check(self) -> None:
        """Check that the agent has its flows, handles their reports, and listens where it did."""
        assert self.agent.running, self.agent.log()
        agent = running(PIN_DIR)
        assert agent is not None
        assert agent.pid == self.agent.pid
        with Client(control_socket(PIN_DIR)) as client:
            assert client.algorithms() == ["reno"]
            before = client.status()["counters"]["reports"]
            wait_until(lambda: client.status()["counters"]["reports"] > before)
        flows = json.loads(ccp("flows", "--json"))["flows"]
        assert [flow["steered_by"] for flow in flows] == ["reno/default"] * FLOWS
        for port in self.ports:
            socket.create_connection(("127.0.0.1", port), timeout=5).close()
        assert sum(stats.fallback_entries for stats in ebpf.observe(PIN_DIR).all_stats()) == self.fallbacks

    def remember(self) -> None:
        """Remember how often flows used the fallback, when they start."""
        wait_until(
            lambda: (
                [flow["steered_by"] for flow in json.loads(ccp("flows", "--json"))["flows"]]
                == ["reno/default"] * FLOWS
            )
        )
        self.fallbacks = sum(stats.fallback_entries for stats in ebpf.observe(PIN_DIR).all_stats())


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Old]:
    """An agent that all tests of this module share, with flows that send."""
    folder = tmp_path_factory.mktemp("take_over")
    metrics, broker = free_ports(2)
    listens = ["--metrics", str(metrics), "--broker", f"embedded:{broker}"]
    with ExitStack() as around:
        elsewhere = around.enter_context(loaded())
        elsewhere.register("ccp.taken")
        elsewhere.unregister("ccp")
        run_dir = around.enter_context(small(RUN_DIR, 64))
        agent = around.enter_context(running_agent("reno", *STEERING, *listens))
        wire = around.enter_context(two_hosts())
        server = around.enter_context(closing(Server(wire.sender)))
        taken = around.enter_context(socket.create_server(("127.0.0.1", 0)))
        for _ in range(FLOWS):
            server.accept(wire.receiver, server.chose)
        around.enter_context(server.talking())
        made = Old(agent, listens, (metrics, broker), run_dir, taken.getsockname()[1], folder)
        made.remember()
        try:
            yield made
        finally:
            made.agent.stop()


def refused(slug: str, *arguments: str, enter: Sequence[str] = ()) -> None:
    """Start an agent that cannot take over."""
    with pytest.raises(LoadError, match=slug.replace(".", r"\.")):
        AgentProcess([*arguments, "--take-over"], enter=enter)


@pytest.mark.parametrize(
    ("slug", "arguments"),
    [
        ("metrics.cannot_listen", ["cubic", "--metrics", "{taken}"]),
        (
            "control.cannot_listen",
            ["cubic", "--control", "tcp://127.0.0.1:{taken}", "--control-keys", "{folder}/keys"],
        ),
        ("control.cannot_listen", ["cubic", "--control", "ipc://{folder}/none/socket"]),
        ("bus.port_taken", ["cubic", "--broker", "embedded:{taken}"]),
        ("bus.no_password_file", ["cubic", "--broker", "embedded:0?users={folder}/none"]),
        ("audit.cannot_open", ["cubic", "--audit", "{folder}/none/log"]),
        ("load.extension", ["{folder}/extended.py"]),
        ("load.register", ["cubic", "--cc-name", "cubic=ccp.taken"]),
    ],
)
def test_the_old_agent_serves_on_when_a_step_of_the_new_one_fails(
    old: Old, slug: str, arguments: list[str]
) -> None:
    (old.folder / "extended.py").write_text(REFUSED_EXTENSION)
    (old.folder / "refused.bpf.o").write_bytes(b"no object")
    given = [one.format(taken=old.taken_port, folder=old.folder) for one in arguments]
    refused(slug, *given)
    old.check()


def test_the_old_agent_serves_on_when_the_run_directory_is_full(old: Old) -> None:
    with full([old.run_dir]):
        refused("load.no_run_dir", "cubic")
    old.check()


def killed(old: Old, when: str, step: str, *more: str) -> None:
    """Start an agent that is killed while it takes over."""
    words = ["run", "cubic", "--take-over", "--pin-dir", PIN_DIR, *old.listens, *more]
    done = subprocess.run(
        [sys.executable, "-P", "-c", KILLED.format(step=step, when=when) + MAIN, *words],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr


@pytest.mark.parametrize(("when", "step"), STEPS)
@pytest.mark.parametrize("kind", ["same", "programs", "max_flows"])
def test_the_old_agent_serves_on_when_the_new_one_is_killed(
    old: Old, when: str, step: str, kind: str
) -> None:
    more = ["--max-flows", "1000"] if kind == "max_flows" else []
    if kind == "programs":
        looks_like_another_build(PIN_DIR, layout=False)
    killed(old, when, step, *more)
    if kind == "programs":
        looks_like_another_build(PIN_DIR, layout=False)  # it inverts the identification
    old.check()


@pytest.mark.parametrize("kind", ["same", "max_flows"])
@pytest.mark.parametrize("step", AFTER)
def test_the_old_agent_starts_again_when_the_new_one_is_killed_before_it_serves(
    old: Old, step: str, kind: str
) -> None:
    killed(old, "before", step, *(["--max-flows", "1000"] if kind == "max_flows" else []))
    wait_until(lambda: "this agent starts again" in old.agent.log())
    old.remember()
    old.check()


@pytest.mark.parametrize("kind", ["same", "programs", "max_flows"])
def test_the_new_agent_has_the_flows_and_listens_where_the_old_one_did(old: Old, kind: str) -> None:
    more = ["--max-flows", "1000"] if kind == "max_flows" else []
    if kind == "programs":
        looks_like_another_build(PIN_DIR, layout=False)
    new = AgentProcess(["reno", *STEERING, "--take-over", *old.listens, *more])
    before, old.agent = old.agent, new  # which the fixture stops
    assert "another agent took the flows over" in before.stop()
    old.remember()
    old.check()
