"""Hyvar on real sockets: its interval is a register that is set while flows run, and queues stay short."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
import pytest

from ccp_algs.hyvar.algorithms import HybridMtp, Hyvar
from ccplane.base import _native
from ccplane.base.errors import RegisterError
from experiments.netlab.spec import Bernoulli, Buffer, Direction, TokenBucket
from experiments.results import Result
from tests.kernel.driving import CONST, Driver, Start, loaded
from tests.kernel.star import Measured, Star

RATE_BYTES_PER_S: Final = 2.5e6
RTT_US: Final = 30_000
SHARE: Final = 1448 / 1500


def test_registers_of_many_flows_are_set_at_once(path_100mbit: Path, start_transfer: Start) -> None:
    with loaded() as datapath:
        handle = datapath.install(_native.compile(CONST))
        driver = Driver(datapath, handle)
        transfer = start_transfer(path_100mbit.sender, path_100mbit.receiver, congestion="ccp", duration_s=2)
        driver.until(lambda: len(driver.seen.reports) > 20)
        ids = np.array([info.flow_id for info in driver.seen.created] + [1 << 40], np.uint64)
        nothing = np.zeros_like(ids)
        targets = np.full_like(ids, 20 * 1448)
        assert datapath.update_many(ids, nothing, nothing, {"target": targets}) == len(ids) - 1
        before = len(driver.seen.reports)
        driver.until(lambda: len(driver.seen.reports) > before + 20)
        assert driver.seen.of(driver.seen.busiest())[-1].window == 20 * 1448
        with pytest.raises(RegisterError) as caught:
            datapath.update_many(ids, nothing, nothing, {"tarjet": targets})
        assert caught.value.slug == "register.unknown"
        with pytest.raises(ValueError, match="target"):
            datapath.update_many(ids, nothing, nothing, {"target": targets[:1]})
        driver.until(lambda: not transfer.running)


def test_interval_follows_the_register_while_the_flow_runs(path_100mbit: Path, start_transfer: Start) -> None:
    with loaded() as datapath:
        handle = datapath.install(_native.compile(Hyvar.program.source))
        driver = Driver(datapath, handle)
        transfer = start_transfer(path_100mbit.sender, path_100mbit.receiver, congestion="ccp", duration_s=3)
        for mtp_us in (10_000, 200_000, 20_000):
            driver.until(lambda: driver.seen.reports)
            ids = np.array([info.flow_id for info in driver.seen.created], np.uint64)
            nothing = np.zeros_like(ids)
            datapath.update_many(ids, nothing, nothing, {"mtp_us": np.full_like(ids, mtp_us)})
            driver.seen.reports.clear()
            driver.until(lambda: sum(report.due for report in driver.seen.reports) >= 6)
            times_us = [one.now_us for one in driver.seen.of(driver.seen.busiest()) if one.due][1:]
            assert min(np.diff(times_us)) >= mtp_us
            # The interval ends with an ACK: there is one in each millisecond.
            assert np.median(np.diff(times_us)) < mtp_us + 5_000
        driver.until(lambda: not transfer.running)


def path(**more: object) -> Direction:
    fields = {"delay_us": RTT_US // 2, "buffer": Buffer(bdp=1.0), **more}
    return Direction(RATE_BYTES_PER_S, **fields)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def result() -> Result:
    star = Star()
    for algorithm in ("kernel/cubic", "hyvar", "hybrid_mtp", "policy"):
        star.bottleneck(algorithm.rpartition("/")[2].partition("_")[0], path(), algorithm)
    star.bottleneck("lossy-cubic", path(loss=Bernoulli(0.01)), "kernel/cubic")
    star.bottleneck("lossy-hyvar", path(loss=Bernoulli(0.01)), "hyvar")
    limiter = TokenBucket(RATE_BYTES_PER_S / 5, 150_000)
    star.bottleneck("limited", path(token_bucket=limiter), "r_tcp_hyvar")
    return star.run("Hyvar", 10.0)


@pytest.fixture(scope="module")
def measured(result: Result) -> Measured:
    return Measured(result, 3.0)


@pytest.mark.alone  # many flows at once
@pytest.mark.parametrize("name", ["hyvar", "hybrid", "policy"])
def test_link_is_full_and_the_queue_shorter_than_cubics(measured: Measured, name: str) -> None:
    assert measured.goodput_bytes_per_s[f"{name}-0"] > 0.85 * RATE_BYTES_PER_S * SHARE
    queue_s, cubics_s = (measured.rtt_s[f"{one}-0"] - RTT_US / 1e6 for one in (name, "cubic"))
    assert queue_s < 0.6 * cubics_s


@pytest.mark.alone
def test_losses_without_a_queue_cost_hyvar_less_than_cubic(measured: Measured) -> None:
    goodput = measured.goodput_bytes_per_s
    assert goodput["lossy-hyvar-0"] > 1.5 * goodput["lossy-cubic-0"]


@pytest.mark.alone
def test_agent_receives_less_of_hyvar_than_of_a_fixed_interval(result: Result) -> None:
    agent = result.metadata["agent"]
    assert agent["flows_failed"] == agent["algorithm_errors"] == 0
    fixed = 2 * 10.0 / (HybridMtp.mtp_ms / 1e3)  # hybrid and policy
    assert agent["reports"] < 1.6 * fixed, "three more flows, with intervals of their own"


@pytest.mark.alone
def test_limit_is_found_under_the_learned_policy(result: Result) -> None:
    reported = result.table("rate_limits")[result.table("rate_limits")["receiver"] == "r0-limited"]
    assert reported.iloc[-1]["rate_bytes_per_s"] == pytest.approx(RATE_BYTES_PER_S / 5 * SHARE, rel=0.08)
