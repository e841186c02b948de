"""Flows whose reports the agent does not handle, although its heartbeat comes."""

from __future__ import annotations

import time
from pathlib import Path as FilePath

from ccplane.base import _native
from ccplane.datapath import ebpf
from experiments.agent_process import PIN_DIR, running_agent
from experiments.netlab import Path
from tests.kernel.driving import CONST, EVERY_ACK, PATIENT, Driver, Start, loaded, wait_until

TIMEOUT_MS = 300
IMPATIENT = {**PATIENT, "report_timeout_ms": TIMEOUT_MS}
NO_REPORT = "(def (Report (acked 0))) (when true (:= Cwnd 28960))"
"""A fixed window, and no report."""


def totals(datapath: _native.EbpfDatapath, flow_id: int) -> _native.FlowStats:
    """Return the totals of a flow that exists."""
    found = datapath.stats(flow_id)
    assert found is not None
    return found


def causes(datapath: _native.EbpfDatapath) -> dict[str, int]:
    """Return the entries into the fallback by cause."""
    prefix = "fallback_entries_"
    return {
        name.removeprefix(prefix): number
        for name, number in datapath.counters().items()
        if name.startswith(prefix) and number
    }


def test_a_heartbeat_without_answers_loses_the_flows_and_answers_get_them_back(
    path_100mbit: Path, start_transfer: Start
) -> None:
    with loaded(**IMPATIENT) as datapath:
        driver = Driver(datapath, datapath.install(_native.compile(CONST.replace("144800", "2896"))))
        start_transfer(path_100mbit.sender, path_100mbit.receiver, congestion="ccp", duration_s=20)
        driver.until(lambda: len(driver.seen.reports) > 20)
        flow_id = driver.seen.busiest()

        def is_lost() -> bool:
            datapath.heartbeat()
            return totals(datapath, flow_id).fallback

        assert not is_lost()
        wait_until(is_lost)
        during = totals(datapath, flow_id)
        assert (during.fallback_cause, causes(datapath)) == ("unanswered", {"unanswered": 1})
        wait_until(lambda: totals(datapath, flow_id).cwnd_bytes > 10 * 1448)
        driver.until(lambda: not totals(datapath, flow_id).fallback)
        after_us = totals(datapath, flow_id).fallback_left_us
        driver.until(lambda: driver.seen.of(flow_id)[-1].now_us > after_us)
        after = totals(datapath, flow_id)
        assert (after.fallback, after.fallback_cause) == (False, "unanswered")
        driver.until(lambda: totals(datapath, flow_id).cwnd_bytes == 2896)
        assert after.fallback_left_us > after.fallback_entered_us == during.fallback_entered_us


def test_only_the_flow_whose_reports_are_not_handled_is_lost(
    path_100mbit: Path, start_transfer: Start
) -> None:
    with loaded(**IMPATIENT) as datapath:
        program = datapath.install(_native.compile(CONST))
        driver = Driver(datapath, program)
        start_transfer(
            path_100mbit.sender, path_100mbit.receiver, congestion="ccp", duration_s=30, parallel=2
        )

        def senders() -> list[int]:
            sending = [one.flow_id for one in datapath.all_stats() if one.bytes_acked > 1_000_000]
            return sorted(sending)

        driver.until(lambda: len(senders()) == 2)
        left_out, other = senders()
        driver.answers = lambda event: event.flow_id != left_out
        driver.until(lambda: totals(datapath, left_out).fallback)
        assert totals(datapath, left_out).fallback_cause == "unanswered"
        # It stays there, although its update arrives and its announcements are taken.
        entered_us = totals(datapath, left_out).fallback_entered_us
        datapath.update(left_out, cwnd_bytes=28_960)
        driver.until(lambda: totals(datapath, left_out).now_us > entered_us + 4_000 * TIMEOUT_MS)
        assert totals(datapath, left_out).fallback
        assert not totals(datapath, other).fallback
        assert causes(datapath) == {"unanswered": 1}
        # Its lost reports never come again, but the next announcement does.
        driver.answers = lambda event: True
        driver.until(lambda: not totals(datapath, left_out).fallback)
        driver.answers = lambda event: event.flow_id != left_out
        driver.until(lambda: totals(datapath, left_out).fallback)
        # A program is also an answer.
        datapath.update(left_out, program=program, registers={"target": 28_960})
        driver.until(lambda: not totals(datapath, left_out).fallback)
        driver.until(lambda: driver.seen.of(left_out)[-1].window == 28_960)
        assert causes(datapath) == {"unanswered": 2}


def test_flows_that_do_not_report_or_are_idle_keep_their_algorithm(
    path_100mbit: Path, start_transfer: Start
) -> None:
    with loaded(**IMPATIENT) as datapath:
        driver = Driver(datapath, datapath.install(_native.compile(NO_REPORT)))
        start_transfer(path_100mbit.sender, path_100mbit.receiver, congestion="ccp", duration_s=20)
        driver.until(lambda: any(one.bytes_acked > 1_000_000 for one in datapath.all_stats()))
        end_us = time.monotonic_ns() // 1000 + 4_000 * TIMEOUT_MS

        def sends_on() -> bool:
            datapath.heartbeat()
            return any(one.now_us > end_us for one in datapath.all_stats())

        wait_until(sends_on)
        assert causes(datapath) == {}


def test_a_full_ring_is_no_answer(path_100mbit: Path, start_transfer: Start) -> None:
    with loaded(**IMPATIENT, ring_bytes=4096) as datapath:
        driver = Driver(datapath, datapath.install(_native.compile(EVERY_ACK)))
        start_transfer(path_100mbit.sender, path_100mbit.receiver, congestion="ccp", duration_s=20)

        def has_missed() -> bool:
            time.sleep(0.02)
            return datapath.counters()["reports_missed"] > 100

        # While the agent handles what finds room, the flow misses reports and keeps its algorithm.
        driver.until(has_missed)
        flow_id = driver.seen.busiest()
        assert causes(datapath) == {}

        def is_lost() -> bool:
            datapath.heartbeat()
            return totals(datapath, flow_id).fallback

        wait_until(is_lost)
        assert totals(datapath, flow_id).fallback_cause == "unanswered"
        # Its announcement found no room, and is repeated once there is some.
        driver.until(lambda: not totals(datapath, flow_id).fallback)


VECTOR = (
    """
import numpy as np
from ccp_algs import VectorAlgorithm

class Many(VectorAlgorithm):
    name = "many"
    program = """
    + repr(CONST)
    + """

    def on_reports(self, reports, program):
        return None
"""
)


def test_an_agent_answers_reports_whether_or_not_its_algorithms_set_something(
    path_100mbit: Path, start_transfer: Start, tmp_path: FilePath
) -> None:
    (tmp_path / "many.py").write_text(VECTOR)
    arguments = ("const", str(tmp_path / "many.py"), "--report-timeout", f"{TIMEOUT_MS}ms")
    with running_agent(*arguments, "--heartbeat-timeout", "5s"):
        view = ebpf.observe(PIN_DIR)
        for name in ("ccp.const", "ccp.many"):
            start_transfer(path_100mbit.sender, path_100mbit.receiver, congestion=name, duration_s=20)

        def senders() -> list[_native.FlowStats]:
            return [one for one in view.all_stats() if one.bytes_acked > 1_000_000 and not one.fallback]

        wait_until(lambda: len(senders()) == 2)
        end_us = time.monotonic_ns() // 1000 + 6_000 * TIMEOUT_MS
        wait_until(lambda: sum(one.now_us > end_us for one in senders()) == 2)
        assert all(one.reports > 20 for one in senders())
        assert view.counters()["fallback_entries_unanswered"] == 0
