"""Flows without an agent: the fallback, and the way back."""

from __future__ import annotations

import time

from ccplane.base import _native
from ccplane.datapath.protocol import FALLBACK_FAILED, FALLBACK_PROGRAM
from experiments.netlab import Path
from tests.kernel.driving import CONST, PIN_DIR, Driver, Start, loaded, wait_until
from tests.lent import TEST


def test_past_the_limit_flows_run_the_fallback_and_are_counted(
    path_100mbit: Path, start_transfer: Start
) -> None:
    with loaded(max_flows=4) as datapath:
        driver = Driver(datapath, datapath.install(_native.compile(CONST)))
        at_once: list[int] = []
        driver.on_create = lambda _: at_once.append(len(driver.seen.created) - len(driver.seen.closed))
        transfer = start_transfer(
            path_100mbit.sender, path_100mbit.receiver, congestion="ccp", duration_s=2, parallel=8
        )
        driver.until(lambda: datapath.counters()["flows_over_limit"] >= 8)
        driver.until(lambda: not transfer.running)
        assert transfer.wait().goodput_bit_per_s > 80e6 * (1 - TEST.share)
        # How many there were in all depends on which of the 18 sockets end first: a refused one asks again.
        assert max(at_once) == 4


def test_a_silent_agent_loses_its_flows_and_gets_them_back(path_100mbit: Path, start_transfer: Start) -> None:
    with loaded(heartbeat_timeout_ms=100) as datapath:
        driver = Driver(datapath, datapath.install(_native.compile(CONST.replace("144800", "2896"))))
        start_transfer(path_100mbit.sender, path_100mbit.receiver, congestion="ccp", duration_s=4)
        driver.until(lambda: len(driver.seen.reports) > 20)
        flow_id = driver.seen.busiest()
        held = datapath.stats(flow_id)
        assert held is not None
        assert held.cwnd_bytes == 2896
        time.sleep(1.0)  # what a stuck algorithm does
        during = datapath.stats(flow_id)
        assert during is not None
        assert (during.fallback, during.fallback_cause, during.fallback_left_us) == (True, "silent", 0)
        assert during.cwnd_bytes > 10 * 1448
        woken_us = time.monotonic_ns() // 1000
        driver.until(lambda: driver.seen.reports[-1].now_us > woken_us + 50_000)
        after = datapath.stats(flow_id)
        assert after is not None
        assert (after.fallback, after.fallback_cause) == (False, "silent")
        assert (
            0.5e6 < after.fallback_left_us - after.fallback_entered_us < 1.5e6
        )  # a second without the heartbeat's 0.1
        assert during.fallback_entered_us == after.fallback_entered_us < woken_us <= after.fallback_left_us
        assert after.cwnd_bytes == 2896
        assert after.fallback_entries == held.fallback_entries + 1


def test_a_flow_stays_in_the_fallback_until_the_next_agent_gives_it_a_program(
    path_100mbit: Path, start_transfer: Start
) -> None:
    with loaded() as first:
        driver = Driver(first, first.install(_native.compile(CONST)))
        start_transfer(path_100mbit.sender, path_100mbit.receiver, congestion="ccp", duration_s=3)
        driver.until(lambda: len(driver.seen.reports) > 20)
        flow_id = driver.seen.busiest()
        first.close()

        def stats() -> _native.FlowStats:
            found = first.stats(flow_id)
            assert found is not None
            return found

        wait_until(lambda: stats().fallback)
        entries = stats().fallback_entries
        second = _native.EbpfDatapath(pin_dir=PIN_DIR, max_flows=1024)
        acks = stats().acks
        driver = Driver(second, None)
        driver.until(lambda: stats().acks > acks + 100)
        assert (stats().fallback, stats().fallback_entries) == (True, entries)
        second.close()


def test_flows_say_why_the_fallback_has_them(path_100mbit: Path, start_transfer: Start) -> None:
    with loaded() as datapath:
        driver = Driver(datapath, datapath.install(_native.compile(CONST)))
        transfer = start_transfer(path_100mbit.sender, path_100mbit.receiver, congestion="ccp", duration_s=4)
        driver.until(lambda: len(driver.seen.reports) > 20)
        flow_id = driver.seen.busiest()

        def fallback() -> tuple[bool, str]:
            stats = datapath.stats(flow_id)
            assert stats is not None
            return stats.fallback, stats.fallback_cause

        assert fallback() == (False, "new")
        for program, cause in ((FALLBACK_FAILED, "failed"), (FALLBACK_PROGRAM, "no_program")):
            before = datapath.counters()[f"fallback_entries_{cause}"]
            assert datapath.update(flow_id, program=program)
            driver.until(lambda cause=cause: fallback() == (True, cause))  # type: ignore[misc]
            assert datapath.counters()[f"fallback_entries_{cause}"] == before + 1
            assert datapath.update(flow_id, program=driver.program)
            driver.until(lambda cause=cause: fallback() == (False, cause))  # type: ignore[misc]
        assert driver.program is not None
        datapath.uninstall(driver.program)
        driver.until(lambda: fallback() == (True, "uninstalled"))
        driver.until(lambda: not transfer.running)
        assert driver.seen.closed[flow_id].fallback_cause == "uninstalled"


def test_sockets_outlive_the_datapath(path_100mbit: Path, start_transfer: Start) -> None:
    with loaded() as datapath:
        driver = Driver(datapath, datapath.install(_native.compile(CONST)))
        transfer = start_transfer(path_100mbit.sender, path_100mbit.receiver, congestion="ccp", duration_s=3)
        driver.until(lambda: len(driver.seen.reports) > 20)
    # everything is unloaded here, and the flow goes on
    assert transfer.running
    assert transfer.wait().goodput_bit_per_s > 50e6 * (1 - TEST.share)
