"""An exception of an algorithm moves its flows to the fallback, and never stops the agent."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from ccp_algs import Algorithm, VectorAlgorithm
from ccplane.agent.agent_loop import AgentLoop
from ccplane.agent.algorithms import Running
from ccplane.agent.blame import Interrupted
from ccplane.base.loglimit import LINES, PERIOD_S
from tests.unit.agent.fakes import (
    FakeClosed,
    FakeCreated,
    FakeDatapath,
    FakeEvent,
    FakeInfo,
    FakeProgram,
    FakeReport,
    FakeStats,
    fake_datapath,
)


class Panic(BaseException):
    """Like `pyo3_runtime.PanicException` of native modules, derived from BaseException."""


class UnprintableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no message")


RAISED = [SystemExit(0), KeyboardInterrupt(), Panic("at native/lib.rs"), UnprintableError()]


@pytest.fixture(autouse=True)
def signals_as_served() -> Iterator[None]:
    """Handle SIGINT as `ccplane.agent.serve` does, so that a KeyboardInterrupt is not Ctrl-C."""
    before = signal.signal(signal.SIGINT, lambda number, frame: None)
    yield
    signal.signal(signal.SIGINT, before)


def raising(where: str, error: BaseException) -> type[Algorithm]:
    """An algorithm that raises in one callback, only for its first flow."""

    class Raising(Algorithm):
        name = "raising"

        def on_create(self, info: Any) -> None:
            self.flow_id = info.flow_id
            self._do("on_create")

        def on_report(self, report: Any) -> None:
            self.flow.set(cwnd_bytes=report.acked)
            self._do("on_report")

        def on_extension(self, extension: str, message: bytes) -> None:
            self._do("on_extension")

        def on_close(self, stats: Any) -> None:
            self._do("on_close")

        def _do(self, callback: str) -> None:
            if callback == where and self.flow_id == 1:
                raise error

    return Raising


def loop_with(datapath: FakeDatapath, *classes: Any) -> AgentLoop:
    compiled = {"default": FakeProgram()}
    return AgentLoop(datapath, [Running(cls, cls.name, compiled, "default", "") for cls in classes])


@pytest.mark.parametrize("error", RAISED, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("callback", ["on_create", "on_report", "on_extension", "on_close"])
def test_only_its_own_flow_loses_the_algorithm(callback: str, error: BaseException) -> None:
    datapath = fake_datapath()
    agent_loop = loop_with(datapath, raising(callback, error))
    datapath.feed(
        FakeCreated(FakeInfo(1)), FakeCreated(FakeInfo(2)), FakeEvent(1, b""), FakeReport(1, acked=1)
    )
    agent_loop.turn(0)
    assert agent_loop.flow_ids() == ([1, 2] if callback == "on_close" else [2])
    datapath.feed(FakeClosed(1, FakeStats(1)), FakeReport(2, acked=2897))
    agent_loop.turn(0)
    assert agent_loop.counters.algorithm_errors == 1
    assert agent_loop.flow_ids() == [2]
    assert datapath.written[-1].cwnd_bytes == 2897


def test_a_vectorised_algorithm_loses_all_its_flows_and_others_none() -> None:
    class Exits(VectorAlgorithm):
        name = "exits"
        program = "x"

        def on_create(self, info: Any) -> None:
            pass

        def on_reports(self, reports: np.ndarray, program: str) -> None:
            sys.exit()

    datapath = fake_datapath()
    agent_loop = loop_with(datapath, Exits)
    datapath.feed(FakeCreated(FakeInfo(1)), FakeCreated(FakeInfo(2)), FakeReport(1, acked=1))
    agent_loop.turn(0)
    assert agent_loop.flow_ids() == []
    datapath.feed(FakeCreated(FakeInfo(3)))
    agent_loop.turn(0)
    assert agent_loop.flow_ids() == [3]


def test_what_ends_the_agent_goes_through_callbacks() -> None:
    datapath = fake_datapath()
    agent_loop = loop_with(datapath, raising("on_report", Interrupted()))
    datapath.feed(FakeCreated(FakeInfo(1)), FakeReport(1, acked=1))
    with pytest.raises(Interrupted):
        agent_loop.turn(0)


def test_ctrl_c_ends_a_run_in_which_python_handles_it() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    datapath = fake_datapath()
    agent_loop = loop_with(datapath, raising("on_report", KeyboardInterrupt()))
    datapath.feed(FakeCreated(FakeInfo(1)), FakeReport(1, acked=1))
    with pytest.raises(KeyboardInterrupt):
        agent_loop.turn(0)


def test_many_failing_flows_make_few_log_lines(caplog: pytest.LogCaptureFixture) -> None:
    datapath, now_s = fake_datapath(), [0.0]

    class Fails(Algorithm):
        name = "fails"

        def on_create(self, info: Any) -> None:
            raise ValueError("no path")

    compiled = {"default": FakeProgram()}
    running = Running(Fails, Fails.name, compiled, "default", "")
    agent_loop = AgentLoop(datapath, [running], clock=lambda: now_s[0])

    def fail(first: int, last: int) -> list[str]:
        caplog.clear()
        datapath.feed(*(FakeCreated(FakeInfo(flow_id)) for flow_id in range(first, last)))
        agent_loop.turn(0)
        return caplog.messages

    first = fail(1, 1001)
    assert len(first) == LINES
    assert [record.exc_info is not None for record in caplog.records] == [True] + [False] * (LINES - 1)
    assert f"{LINES} times so far, more are not logged" in first[-1]
    assert fail(1001, 2001) == []
    now_s[0] += PERIOD_S
    again = fail(2001, 3001)
    assert len(again) == LINES
    assert "2001 times so far" in again[0]
    assert agent_loop.counters.algorithm_errors == 3000
