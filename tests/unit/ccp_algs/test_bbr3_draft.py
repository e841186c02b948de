"""`bbr3` passes the 22 test cases of draft-ietf-ccwg-bbr-06, appendix A; the kernel's version 1 does not."""

from __future__ import annotations

import pytest

from ccp_algs.bbr3 import REFILL, UP
from ccp_algs.bbr_bounds import ShortBounds, Undo
from experiments.conform import run_suite
from experiments.conform.running import cases
from tests.unit.ccp_algs.bbr_flow import Reported, filled
from tests.unit.ccp_algs.folded import DISORDER, INFINITY, MSS, RECOVERY

CASES = [one.name for one in cases("bbr")]
VERSION_1_PASSES = {
    "startup-plateau",
    "tiny-bdp",
    "ten-times-faster",
    "spurious-recovery",
    "spurious-rto",
    "probe-rtt-in-startup",
}


def test_there_are_22_cases() -> None:
    assert len(CASES) == 22


@pytest.mark.parametrize("case", CASES)
def test_bbr3_passes(case: str) -> None:
    (result,) = run_suite("bbr", "bbr3", only=[case])
    assert result.outcome == "passes", result.said


def test_bbr3_takes_back_a_spurious_fast_recovery() -> None:
    """Here the kernel's undo is played to each half: fold program and class."""
    flow = filled(is_probe_sample=1)
    flow.ssthresh = 100 * MSS
    flow.on()
    window_bytes = flow.cwnd
    flow.ca_state, flow.ssthresh = RECOVERY, 50 * MSS
    assert flow.on(lost=5)["too_high"] == 1
    flow.ca_state, flow.ssthresh = DISORDER, 150 * MSS
    assert flow.on()["undone"] == 1
    assert flow.cwnd >= window_bytes
    reported = Reported()
    reported.to(UP)
    reported.emit(too_high=1, recoveries=1, tx_in_flight_pkts=120, lost_since_pkts=5, lost_now_pkts=5)
    assert reported.algorithm.undo == Undo(1, ShortBounds(), INFINITY, UP)
    reported.emit(loss_rounds=1, recoveries=1)
    assert reported.algorithm.short != ShortBounds()
    said = reported.emit(undone=1, recoveries=1)
    assert (said["bw_short_bytes_per_s"], said["inflight_short_bytes"]) == (INFINITY, INFINITY)
    assert said["inflight_long_bytes"] == INFINITY
    assert reported.algorithm.state == REFILL


def test_version_1_fails_what_only_version_3_can_pass() -> None:
    passed = {one.case for one in run_suite("bbr", "kernel/bbr") if one.outcome == "passes"}
    assert passed == VERSION_1_PASSES


@pytest.mark.parametrize("algorithm", ["cubic", "kernel/cubic"])
def test_an_algorithm_without_these_states_is_not_judged(algorithm: str) -> None:
    results = run_suite("bbr", algorithm, only=["startup-plateau", "probe-rtt"])
    assert {one.outcome for one in results} == {"undecided"}
