"""What an agent made with portus is told and does: its socket in our hands, and a datapath that records."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ccplane.agent import cli
from ccplane.agent.algorithms import Running
from ccplane.agent.plane import Plane
from ccplane.agent.wire.session import Session
from ccplane.datapath import ebpf, wire
from ccplane.datapath.link import LOOK_S, Link
from ccplane.datapath.protocol import LAW_PROGRAM
from ccplane.datapath.wire import ChangeProgram, Create, Field, Install, Measure, Message, Ready, Update
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
from tests.unit.datapath.test_link import agent_at

TEXT = """
(def (Report (volatile acked 0)) (cap 0))
(when true (:= Report.acked (+ Report.acked Ack.bytes_acked)) (fallthrough))
(when (> Micros cap) (report))
"""
CAP, CWND = (Field(0, 0, 9), Field(2, wire.CWND, 20_000))


class Served:
    """A session on a plane, the agent's socket, and time that only tests move."""

    def __init__(self, path: Path, datapath: FakeDatapath) -> None:
        self.path, self.datapath, self.now_s = path, datapath, 0.0
        self.link = Link(path / "portus", path / "ccplane")
        self.session = Session(self.link, "portus", clock=lambda: self.now_s)
        running = Running(self.session.algorithm(), "portus", {}, initial=None)
        self.plane = Plane(datapath, [running])
        self.session.attach(self.plane)

    def turn(self, *events: object) -> None:
        """Let events happen, and a look for the agent be due."""
        self.datapath.feed(*events)
        self.now_s += LOOK_S
        self.plane.turn(0)

    def does(self, *messages: Message) -> None:
        """Be told by the agent."""
        for message in messages:
            self.session.heard(message.octets())


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    made = Served(tmp_path, fake_datapath())
    with closing(made.link):
        yield made


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Callable[[], list[Message]]]:
    """An agent; what it was told since it was asked last."""
    with agent_at(tmp_path / "portus") as made:
        made.setblocking(False)

        def told() -> list[Message]:
            messages: list[Message] = []
            while True:
                try:
                    messages.extend(wire.messages(made.recv(1024)))
                except BlockingIOError:
                    return messages

        yield told


def installed() -> Install:
    return Install(1, *ebpf.compile_program(TEXT).to_bytecode())


def test_flows_are_told_with_their_reports_and_their_end(
    served: Served, agent: Callable[[], list[Message]]
) -> None:
    served.turn()
    assert [type(one) for one in agent()] == [Ready]
    served.turn(FakeCreated(FakeInfo(7)))
    (created,) = agent()
    assert isinstance(created, Create)
    assert (created.flow, created.init_cwnd_bytes, created.mss_bytes) == (1, 14_480, 1_448)
    served.does(installed(), ChangeProgram(1, 1))
    report = FakeReport(7, served.plane.flows[7].flow.handle, acked=5)
    report.program = "1"
    served.turn(report, FakeClosed(7, FakeStats(7)))
    assert agent() == [Measure(1, 1, (5,)), Measure(1, 0)]


def test_an_agent_that_comes_later_is_told_of_all_flows(
    tmp_path: Path, served: Served, request: pytest.FixtureRequest
) -> None:
    served.turn(FakeCreated(FakeInfo(7)), FakeCreated(FakeInfo(8)), FakeClosed(7, FakeStats(7)))
    agent = request.getfixturevalue("agent")
    served.turn()
    ready, created = agent()
    assert isinstance(ready, Ready)
    assert isinstance(created, Create)
    assert created.flow == 2


def test_what_it_says_is_done(served: Served, agent: Callable[[], list[Message]]) -> None:
    served.turn(FakeCreated(FakeInfo(7)))
    served.turn()
    flow = next(one.flow for one in agent() if isinstance(one, Create))
    served.datapath.written.clear()
    served.does(installed(), ChangeProgram(flow, 1, [CAP]))
    (handle,) = served.datapath.installed
    assert served.datapath.written.pop() == Written(7, None, None, handle, {"c0": 9})
    served.does(Update(flow, [CAP, CWND]))
    assert served.datapath.written.pop() == Written(7, 20_000, None, None, {"c0": 9})
    served.does(Update(flow + 1, [CWND]))  # of a flow that closed
    assert not served.datapath.written


def test_programs_that_come_before_it_was_told_anything_are_taken(
    served: Served, agent: Callable[[], list[Message]]
) -> None:
    served.does(installed())
    assert len(served.datapath.installed) == 1
    assert [type(one) for one in agent()] == [Ready]


def test_its_programs_never_see_an_ack_without_rtt(
    served: Served, agent: Callable[[], list[Message]]
) -> None:
    text = TEXT.replace("> Micros cap", "> Micros Flow.rtt_sample_us")
    served.turn()
    served.does(Install(1, *ebpf.compile_program(text).to_bytecode()))
    (program,) = served.datapath.installed.values()
    assert "Flow.srtt_us" in program.primitives


@pytest.mark.parametrize(
    "refused", [ChangeProgram(1, 5), Update(1, [Field(5, 0, 1)]), Update(1, [Field(0, 3, 1)])]
)
def test_what_cannot_be_done_is_logged_and_changes_nothing(
    served: Served,
    agent: Callable[[], list[Message]],
    caplog: pytest.LogCaptureFixture,
    refused: Message,
) -> None:
    served.turn(FakeCreated(FakeInfo(7)))
    served.turn()
    served.does(installed(), ChangeProgram(1, 1))
    served.datapath.written.clear()
    with caplog.at_level(logging.ERROR):
        served.does(refused)
        served.session.heard(b"no message")
    assert [one.levelno for one in caplog.records if one.levelno > logging.INFO] == [logging.ERROR] * 2
    assert not served.datapath.written


def test_flows_of_an_agent_that_ended_run_the_fallback_law(tmp_path: Path, served: Served) -> None:
    with agent_at(tmp_path / "portus"):
        served.turn(FakeCreated(FakeInfo(7)))
        served.turn()
        served.does(installed(), ChangeProgram(1, 1))
        served.datapath.written.clear()
    served.turn()
    assert served.datapath.written == [Written(7, None, None, LAW_PROGRAM, None)]
    served.does(Update(1, [CWND]))  # of what it had sent, something comes late
    assert len(served.datapath.written) == 1


def test_only_unix_sockets_are_spoken_over() -> None:
    refused = CliRunner().invoke(cli.app, ["serve-ccp", "--ipc", "netlink"])
    assert refused.exit_code != 0
    assert "wire.ipc" in refused.output
