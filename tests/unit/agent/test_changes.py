from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from ccplane.agent.changes import Which
from ccplane.base.errors import CcpError, ParamError
from tests.unit.agent.fakes import FakeCreated, FakeInfo, FakeReport, fake_datapath
from tests.unit.agent.live import edited, text
from tests.unit.agent.test_agent_loop import loop_with, recorder
from tests.unit.agent.test_telemetry_dispatch import VECTOR

PLAIN = text(
    """
    beta = Param(0.5)

    def on_report(self, report):
        self.flow.set(cwnd_bytes=20_000)

    def on_close(self, stats):
        closed.append(stats.flow_id)
""",
    head="closed = []",
)

PICKY = PLAIN.replace(
    "    def on_report",
    """    def on_create(self, info):
        if info.flow_id == 2:
            raise ValueError("not this one")

    def on_report""",
    1,
)


def test_what_another_thread_asks_for_is_done_between_batches_and_ends_the_waiting() -> None:
    cls, datapath = recorder(), fake_datapath()
    woken: list[bool] = []
    datapath.wake = lambda: woken.append(True)  # type: ignore[method-assign]
    agent_loop = loop_with(datapath, cls)
    datapath.feed(FakeCreated(FakeInfo(1)), FakeReport(1, acked=1))
    threading.Thread(target=agent_loop.call, args=(lambda: cls.calls.append(("call",)),)).run()
    assert woken == [True]
    assert cls.calls == []
    agent_loop.turn(0)
    assert cls.calls == [("create", 1), ("report", 1, 1), ("call",)]


def test_flows_go_to_a_vectorised_algorithm_and_back(tmp_path: Path) -> None:
    with edited(tmp_path / "mine.py", PLAIN, 1, 2) as live:
        live.load(VECTOR, "vec")
        assert live.agent_loop.changes.switch("vec", Which()) == 2
        host: Any = live.agent_loop.hosts["vec"]
        (installed,) = host.programs.all()
        assert installed.users == 2
        assert live.agent_loop.hosts["mine"].programs.all()[0].users == 0
        live.feed(FakeReport(1, installed.handle, acked=1))
        assert live.agent_loop.counters.reports == 1
        assert live.agent_loop.changes.switch("mine", Which(flow_id=1)) == 1
        assert (installed.users, live.agent_loop.default) == (1, "vec")
        live.report(1, acked=1)
        assert live.datapath.written[-1].cwnd_bytes == 20_000


def test_former_algorithm_is_reported_that_the_flow_is_gone(tmp_path: Path) -> None:
    with edited(tmp_path / "mine.py", PLAIN, 1, 2) as live:
        live.load(PLAIN, "other")
        on_close = type(live.instance(1)).on_close
        live.agent_loop.changes.switch("other", Which(flow_id=2))
        assert on_close.__globals__["closed"] == [2]


def test_exception_for_one_flow_switches_none(tmp_path: Path) -> None:
    with edited(tmp_path / "mine.py", PLAIN, 1, 2) as live:
        live.load(PICKY, "picky")
        instances = [live.instance(i) for i in (1, 2)]
        with pytest.raises(CcpError) as caught:
            live.agent_loop.changes.switch("picky", Which())
        assert caught.value.slug == "reload.cannot_take_over"
        assert [live.instance(i) for i in (1, 2)] == instances
        assert live.agent_loop.flow_ids("mine") == [1, 2]
        assert live.agent_loop.default == "mine"


def test_parameter_of_single_vectorised_flows_is_refused_as_a_whole(tmp_path: Path) -> None:
    vector = VECTOR.replace("    def __init__", "    beta = Param(0.5)\n\n    def __init__", 1)
    with edited(tmp_path / "mine.py", PLAIN, 1) as live:
        live.load(vector, "vec")
        live.feed(FakeCreated(FakeInfo(2, cc_name="ccp.vec")))
        with pytest.raises(ParamError) as caught:
            live.agent_loop.changes.set_params({"beta": 0.7}, Which(rule="sport=40000"))
        assert caught.value.slug == "param.shared"
        assert live.instance(1).beta == 0.5
        assert live.agent_loop.changes.set_params({"beta": 0.7}, Which()) == 2
