"""The session with a portus agent, simulated by a socket of the test, and a recording datapath."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ccplane.agent.agent_loop import AgentLoop
from ccplane.agent.algorithms import Running
from ccplane.agent.features.interop.session import Session
from ccplane.datapath import ebpf, wire
from ccplane.datapath.protocol import FALLBACK_PROGRAM
from ccplane.datapath.wire import ChangeProgram, Create, Field, Install, Measure, Message, Ready, Update
from tests.interop.agent_end import agent_at
from tests.unit.agent.fakes import (
    FakeClosed,
    FakeCreated,
    FakeDatapath,
    FakeInfo,
    FakeReport,
    FakeStats,
    Written,
    fake_datapath,
)
from tests.unit.agent.test_cli import ccp
from tests.unit.agent.test_cli import kernel as kernel
from tests.waiting import wait_until

TEXT = """
(def (Report (volatile acked 0)) (cap 0))
(when true (:= Report.acked (+ Report.acked Ack.bytes_acked)) (fallthrough))
(when (> Micros cap) (report))
"""
CAP, CWND = (Field(0, 0, 9), Field(2, wire.CWND, 20_000))


class Served:
    """A session in an agent loop, and the portus agent's socket."""

    def __init__(self, path: Path, datapath: FakeDatapath) -> None:
        self.path, self.datapath = path, datapath
        self.session = Session(path / "portus", path / "ccplane", "portus")
        running = Running(self.session.algorithm(), "portus", {}, initial=None)
        self.agent_loop = AgentLoop(datapath, [running])

    def begin(self, *events: object) -> None:
        """Let events happen, and look for the agent from then on."""
        self.turn(*events)
        self.session.attach(self.agent_loop)

    def turn(self, *events: object) -> None:
        self.datapath.feed(*events)
        self.agent_loop.turn(0)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    made = Served(tmp_path, fake_datapath())
    with closing(made.session):
        yield made


class Agent:
    def __init__(self, made: socket.socket) -> None:
        self._socket, self._peer = made, ""
        made.settimeout(30)

    def reported(self) -> Message:
        """The next message received."""
        datagram, self._peer = self._socket.recvfrom(1024)
        (message,) = wire.messages(datagram)
        return message

    def says(self, served: Served, *messages: Message) -> None:
        """Execute messages, followed by one for an unknown flow, which has no effect."""
        done: list[None] = []
        for message in (*messages, Update(99, [])):
            self._socket.sendto(message.to_bytes(), self._peer)
        received = served.session.received
        served.session.received = lambda datagram: (received(datagram), done.append(None))[0]  # type: ignore[method-assign]
        wait_until(lambda: (served.turn(), len(done) > len(messages))[1])
        served.session.received = received  # type: ignore[method-assign]


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    with agent_at(tmp_path / "portus") as made:
        yield Agent(made)


def installed() -> Install:
    return Install(1, *wire.to_bytecode(ebpf.compile_program(TEXT)))


def test_flows_are_reported_with_their_reports_and_their_end(served: Served, agent: Agent) -> None:
    served.begin()
    assert isinstance(agent.reported(), Ready)
    served.turn(FakeCreated(FakeInfo(7)))
    created = agent.reported()
    assert isinstance(created, Create)
    assert (created.flow, created.init_cwnd_bytes, created.mss_bytes) == (1, 14_480, 1_448)
    agent.says(served, installed(), ChangeProgram(1, 1, []))
    report = FakeReport(7, served.agent_loop.flows[7].flow.handle, acked=5)
    report.program = "1"
    served.turn(report, FakeClosed(7, FakeStats(7)))
    assert [agent.reported(), agent.reported()] == [Measure(1, 1, [5]), Measure(1, 0, [])]


def test_what_it_says_is_done(served: Served, agent: Agent) -> None:
    served.begin(FakeCreated(FakeInfo(7)), FakeCreated(FakeInfo(8)), FakeClosed(7, FakeStats(7)))
    ready, created = agent.reported(), agent.reported()
    assert isinstance(ready, Ready)
    assert isinstance(created, Create)
    served.datapath.written.clear()
    agent.says(served, installed(), ChangeProgram(created.flow, 1, [CAP]))
    (handle,) = served.datapath.installed
    assert served.datapath.written.pop() == Written(8, None, None, handle, {"c0": 9})
    agent.says(served, Update(created.flow, [CAP, CWND]))
    assert served.datapath.written.pop() == Written(8, 20_000, None, None, {"c0": 9})
    agent.says(served, Update(created.flow + 1, [CWND]))  # of a flow that closed
    assert not served.datapath.written


def test_programs_that_come_before_it_was_reported_anything_are_taken(tmp_path: Path, served: Served) -> None:
    served.begin()
    with agent_at(tmp_path / "portus") as made:
        made.sendto(installed().to_bytes(), str(tmp_path / "ccplane"))
        wait_until(lambda: (served.turn(), len(served.datapath.installed))[1])
        assert isinstance(Agent(made).reported(), Ready)


def test_its_programs_never_see_an_ack_without_rtt(served: Served, agent: Agent) -> None:
    text = TEXT.replace("> Micros cap", "> Micros Flow.rtt_sample_us")
    served.begin()
    agent.reported()
    agent.says(served, Install(1, *wire.to_bytecode(ebpf.compile_program(text))))
    (program,) = served.datapath.installed.values()
    assert "Flow.srtt_us" in program.primitives


@pytest.mark.parametrize(
    "refused", [ChangeProgram(1, 5, []), Update(1, [Field(5, 0, 1)]), Update(1, [Field(0, 3, 1)])]
)
def test_what_cannot_be_done_is_logged_and_changes_nothing(
    served: Served, agent: Agent, caplog: pytest.LogCaptureFixture, refused: Message
) -> None:
    served.begin(FakeCreated(FakeInfo(7)))
    agent.reported()
    agent.says(served, installed(), ChangeProgram(1, 1, []))
    served.datapath.written.clear()
    with caplog.at_level(logging.ERROR):
        agent.says(served, refused)
        served.session.received(b"no message")
    assert [one.levelno for one in caplog.records if one.levelno > logging.INFO] == [logging.ERROR] * 2
    assert not served.datapath.written


def test_flows_of_an_agent_that_ended_run_the_fallback(tmp_path: Path, served: Served) -> None:
    with agent_at(tmp_path / "portus") as made:
        agent = Agent(made)
        served.begin(FakeCreated(FakeInfo(7)))
        agent.reported()
        agent.says(served, installed(), ChangeProgram(1, 1, []))
        served.datapath.written.clear()
    wait_until(lambda: (served.turn(), served.datapath.written)[1])
    assert served.datapath.written == [Written(7, None, None, FALLBACK_PROGRAM, None)]
    served.session.received(Update(1, [CWND]).to_bytes())  # of what it had sent, something comes late
    assert len(served.datapath.written) == 1


def test_an_agent_of_portus_is_waited_for_as_algorithms_are_run(kernel: Any, tmp_path: Path) -> None:
    sockets = ["--agent", tmp_path / "theirs", "--bind", tmp_path / "ours", "--control=none"]
    # Its default: a parameter stays set in this process.
    result = ccp("serve-ccp", "reno", *sockets, "--seconds=0", "-p", "beta=0.5", "--default=reno", "-v")
    assert result.exit_code == 0, result.output
    assert f"ccp: waiting for the agent at {tmp_path / 'theirs'}, 1 flow adopted; use: " in result.output
    assert "; flows run the fallback; " in result.output


def test_only_unix_sockets_are_spoken_over() -> None:
    refused = ccp("serve-ccp", "--ipc", "netlink")
    assert refused.exit_code != 0
    assert "wire.ipc" in refused.output
