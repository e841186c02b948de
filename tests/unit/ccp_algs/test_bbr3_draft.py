"""The 22 test cases of draft-ietf-ccwg-bbr-06, appendix A, in the simulator: its order, its titles."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ccp_algs.bbr3 import (
    CRUISE,
    DOWN,
    DRAIN,
    PACING_PERMILLE,
    PROBE_BW,
    PROBE_RTT,
    PROBE_RTT_DURATION_US,
    REFILL,
    STARTUP,
    UP,
    Bbr3,
)
from ccp_algs.bbr_bounds import ShortBounds, Undo
from tests.unit.ccp_algs.bbr_flow import Reported, filled
from tests.unit.ccp_algs.folded import DISORDER, INFINITY, MSS, RECOVERY
from tests.unit.ccp_algs.simulated import PAYLOAD_SHARE, Bottleneck

RATE = 1.25e6
RTT_US = 40_000
GOODPUT = RATE * PAYLOAD_SHARE
BDP_BYTES = GOODPUT * RTT_US / 1e6
NO_PROBE_RTT = {"probe_rtt_interval_s": 600}
LOSSY = {"loss": {"kind": "bernoulli", "ratio": 0.1}}
LIMITED = {"kind": "bulk", "rate_bytes_per_s": RATE}
"""An application that fills the usual path, and never one of twice its rate."""
BURSTY = {"trace_ms": [20 * burst for burst in range(1, 51) for _ in range(17)]}
"""The usual rate, in bursts of 17 packets every 20 ms."""


def alone(buffer_pkts: int = 10_000, rate: float = RATE, rtt_us: int = RTT_US, **more: Any) -> Bottleneck:
    return Bottleneck(Bbr3, rate, rtt_us, buffer_pkts, **more)


def run_until(net: Bottleneck, reached: Callable[[Bbr3], object], seconds: float = 30) -> np.ndarray:
    """Run until something holds for the algorithm; return the sockets' samples since then."""
    rows = net.run(seconds, until=lambda: net.flows and net.flows[0].reports and reached(algorithm(net)))
    assert reached(algorithm(net))
    return rows


def to(net: Bottleneck, *states: str) -> np.ndarray:
    return run_until(net, lambda bbr: bbr.state in states)


def leave(net: Bottleneck) -> str:
    """Run until the state changes; return the next one."""
    before = algorithm(net).state
    run_until(net, lambda bbr: bbr.state != before)
    return algorithm(net).state


def algorithm(net: Bottleneck) -> Bbr3:
    return net.flows[0].instance


def last(net: Bottleneck) -> dict[str, int]:
    return net.flows[0].last


def sent(net: Bottleneck, register: str) -> int:
    """Return the value that the fold program got last."""
    return algorithm(net)._sent[register]


def limited_past_startup() -> Bottleneck:
    """Return a flow whose STARTUP losses ended, and whose application limits it.

    Its bursts are shorter than the RTT, so that every sample is limited.
    """
    net = alone(rate=2 * RATE, rtt_us=400_000, apps=((LIMITED, 0),), **NO_PROBE_RTT)
    net.run(4)
    net.change(loss={"kind": "bernoulli", "ratio": 0.3})
    leave(net)
    net.change(loss=None)
    return net


def names(net: Bottleneck) -> list[str]:
    return [state for _, state in net.flows[0].states]


def test_1_exiting_startup_on_bandwidth_plateau() -> None:
    net = alone()
    to(net, DRAIN)
    assert last(net)["max_bw_bytes_per_s"] == pytest.approx(GOODPUT, rel=0.02)
    assert algorithm(net).pipe.rounds == 3
    assert algorithm(net).pipe.is_full
    assert algorithm(net).pipe.now
    assert names(net) == [STARTUP, DRAIN]


def test_2_exiting_startup_on_loss_when_application_limited() -> None:
    net = alone(rate=2 * RATE, apps=((LIMITED, 0),), **NO_PROBE_RTT)
    net.run(2)
    assert names(net) == [STARTUP]
    assert last(net)["is_limited"]
    net.change(loss={"kind": "bernoulli", "ratio": 0.3})
    leave(net)  # through DRAIN: an application that limits the flow leaves no queue
    assert last(net)["lost_since_pkts"] > 0.02 * last(net)["tx_in_flight_pkts"]
    assert algorithm(net).undo.state == STARTUP
    assert algorithm(net).pipe.rounds < 3
    assert algorithm(net).pipe.now
    assert algorithm(net).pipe.is_full
    assert algorithm(net).inflight_long_bytes < INFINITY


def test_3_exiting_drain_based_on_inflight() -> None:
    net = alone()
    to(net, DRAIN)
    assert sent(net, "pacing_permille") == PACING_PERMILLE[DRAIN] == round(0.99 * 500)
    rounds = algorithm(net).round_count
    assert leave(net) in PROBE_BW
    report = last(net)
    assert report["in_flight_bytes"] <= max(report["bdp_bytes"], report["budget_bytes"])
    assert algorithm(net).round_count <= rounds + 3


def test_4_exiting_drain_based_on_time() -> None:
    net = alone()
    to(net, DRAIN)
    net.set_rate(RATE / 2)  # with a tenth less, 3 rounds suffice
    start_round = algorithm(net).drain_start_round
    assert leave(net) in PROBE_BW
    report = last(net)
    assert report["in_flight_bytes"] > max(report["bdp_bytes"], report["budget_bytes"])
    assert algorithm(net).round_count == start_round + 4


def test_5_exiting_probe_up_on_bandwidth_plateau() -> None:
    net = alone(**NO_PROBE_RTT)
    to(net, UP)
    assert leave(net) == DOWN
    assert algorithm(net).pipe.now
    assert algorithm(net).pipe.rounds == 3
    assert net.dropped_pkts == 0


def test_6_exiting_probe_up_on_loss_when_application_limited() -> None:
    net = alone(apps=((LIMITED, 0),), **NO_PROBE_RTT)
    to(net, REFILL)
    net.set_rate(2 * RATE)
    to(net, UP)
    net.run(0.3)
    assert algorithm(net).state == UP
    net.change(**LOSSY)
    assert leave(net) == DOWN
    assert last(net)["is_limited"]
    assert last(net)["too_high"]
    assert algorithm(net).was_too_high
    assert algorithm(net).inflight_long_bytes == INFINITY, "such a loss tells nothing of the path's room"


@pytest.mark.parametrize("state", [STARTUP, UP])
def test_7_never_exiting_probe_up_or_startup_when_application_limited_with_no_loss(state: str) -> None:
    net = (
        limited_past_startup() if state == UP else alone(rate=2 * RATE, apps=((LIMITED, 0),), **NO_PROBE_RTT)
    )
    run_until(net, lambda bbr: bbr.state == state and not bbr.was_too_high)
    net.run(10)
    assert names(net)[-1] == state
    assert algorithm(net).state == state


def test_8_exiting_probe_down_on_inflight() -> None:
    net = alone(15, **NO_PROBE_RTT)
    run_until(net, lambda bbr: bbr.inflight_long_bytes < INFINITY and bbr.state == UP)
    to(net, DOWN)
    assert sent(net, "pacing_permille") == PACING_PERMILLE[DOWN] == round(0.99 * 900)
    assert leave(net) == CRUISE
    report = last(net)
    assert report["in_flight_bytes"] <= max(report["bdp_bytes"], report["budget_bytes"])
    assert report["in_flight_bytes"] <= 0.85 * report["long_bytes"]


def test_9_exiting_probe_down_after_max_time() -> None:
    net = alone(rtt_us=200_000, **NO_PROBE_RTT)  # so that Reno would need more than 3 s
    to(net, UP)
    to(net, DOWN)
    net.set_rate(RATE / 2)
    began_us = net.now_us
    assert leave(net) == REFILL, "not through CRUISE"
    assert net.now_us - began_us == pytest.approx(algorithm(net).probe_wait_us, abs=0.5e6)


def test_10_entering_and_exiting_probe_rtt() -> None:
    net = alone()
    to(net, *PROBE_BW)
    to(net, PROBE_RTT)
    assert net.now_us - 1e6 == pytest.approx(5e6, abs=0.1e6)
    assert sent(net, "cwnd_permille") == 500
    began_us = net.now_us
    assert leave(net) in PROBE_BW
    assert PROBE_RTT_DURATION_US <= net.now_us - began_us <= PROBE_RTT_DURATION_US + 3 * RTT_US
    assert net.share(1) > 0.9


def test_11_skipping_probe_rtt_due_to_application_limited_sending() -> None:
    app = {"kind": "on_off", "phases_us": [(3_000_000, 6_000_000), (3_000_000, 0)]}
    net = alone(apps=((app, 0),))
    net.run(11)
    assert algorithm(net).state in PROBE_BW
    assert PROBE_RTT not in names(net)


def test_12_achieving_expected_startup_bandwidth_on_a_link_with_aggregation() -> None:
    net = alone(direction=BURSTY)
    before = to(net, DRAIN)
    report = last(net)
    assert GOODPUT <= report["max_bw_bytes_per_s"] < 1.5 * GOODPUT, "a sample of whole bursts is larger"
    assert report["extra_acked_bytes"] > 8 * MSS
    assert before["cwnd_bytes"][-1] > 2 * report["bdp_bytes"]


def test_13_achieving_expected_cruise_bandwidth_on_a_link_with_aggregation() -> None:
    net = alone(direction=BURSTY, **NO_PROBE_RTT)
    to(net, CRUISE)
    net.run(1)
    report = last(net)
    window_bytes = net.run(0.1)["cwnd_bytes"][-1]
    assert 8 * MSS < report["extra_acked_bytes"] < 40 * MSS
    assert window_bytes == pytest.approx(2 * report["bdp_bytes"] + report["extra_acked_bytes"], rel=0.1)
    assert net.share(3) > 0.95


@pytest.mark.parametrize(("rate", "rtt_us", "too_much"), [(12_500, 10_000, 0.7), (125_000, 8_000, 0.1)])
def test_14_correctly_managing_sub_packet_bdps(rate: int, rtt_us: int, too_much: float) -> None:
    """A packet takes 120 or 12 ms. The ACKs of the first are delayed by 40 ms, which shortens the sample."""
    net = alone(rate=rate, rtt_us=rtt_us, **NO_PROBE_RTT)
    to(net, *PROBE_BW)
    assert net.run(10)["cwnd_bytes"][-200:].min() >= 4 * MSS
    assert net.share(10) > 0.97
    assert 0.9 < last(net)["max_bw_bytes_per_s"] / (rate * PAYLOAD_SHARE) < 1 + too_much


def test_15_increasing_bandwidth_10x_and_ensuring_full_bandwidth_is_reached() -> None:
    net = alone(15, **NO_PROBE_RTT)
    run_until(net, lambda bbr: bbr.inflight_long_bytes < INFINITY and bbr.state in PROBE_BW)
    net.set_rate(10 * RATE)
    net.change(buffer={"packets": 150})
    net.run(12)
    assert net.share(2) > 0.9
    bounds = [report["long_bytes"] for _, state, report in net.flows[0].reports if state == UP]
    steps = [after - before for before, after in itertools.pairwise(bounds) if after > before]
    assert max(steps) > 8 * MSS > min(steps), "the step grows"


def test_16_decreasing_bandwidth_10x_and_ensuring_max_bandwidth_adapts_down() -> None:
    net = alone(30, **NO_PROBE_RTT)
    to(net, CRUISE)
    net.set_rate(RATE / 10)
    run_until(net, lambda bbr: bbr.short.bw_bytes_per_s < 0.5 * GOODPUT, seconds=3)
    cycle = algorithm(net).cycle
    run_until(net, lambda bbr: bbr.cycle >= cycle + 2)
    net.run(2)
    assert last(net)["max_bw_bytes_per_s"] == pytest.approx(GOODPUT / 10, rel=0.1)


def test_17_handling_token_bucket_policers() -> None:
    bucket = {"rate_bytes_per_s": RATE, "bucket_bytes": 60_000}
    net = alone(rate=10 * RATE, direction={"token_bucket": bucket}, **NO_PROBE_RTT)
    run_until(net, lambda bbr: bbr.pipe.is_full and bbr.state in PROBE_BW)
    run_until(net, lambda bbr: bbr.short.bw_bytes_per_s < INFINITY)
    assert algorithm(net).short.inflight_bytes < INFINITY
    net.run(10)
    before, lost = net.acked_bytes()[0], net.lost_pkts
    net.run(10)
    assert (net.acked_bytes()[0] - before) / 10 == pytest.approx(GOODPUT, rel=0.1)
    assert (net.lost_pkts - lost) * MSS / (10 * RATE) < 0.05


def test_18_handling_spurious_fast_recovery() -> None:
    """The emulator never reorders packets: here the kernel's undo is played to each half."""
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


def test_19_handling_spurious_rto_recovery() -> None:
    net = alone(**NO_PROBE_RTT)
    to(net, UP)
    began = len(net.flows[0].reports)
    net.change(delay_us=600_000)
    net.run(0.1)
    net.change(delay_us=RTT_US // 2)
    net.run(1)
    reports = net.flows[0].reports[began:]
    states = [state for _, state, report in reports if report["too_high"] or report["undone"]]
    assert states == [DOWN, REFILL], "the timeout, and its undo"
    assert algorithm(net).short.bw_bytes_per_s == INFINITY == algorithm(net).inflight_long_bytes


def test_20_entering_and_exiting_probe_rtt_during_startup() -> None:
    net = alone(rate=2 * RATE, apps=((LIMITED, 0),), probe_rtt_interval_s=1)
    to(net, PROBE_RTT)
    assert not algorithm(net).pipe.is_full
    assert leave(net) == STARTUP


def test_21_handling_loss_during_probe_up_after_inflight_longterm_is_set() -> None:
    net = alone(15, **NO_PROBE_RTT)
    run_until(net, lambda bbr: bbr.inflight_long_bytes < INFINITY and bbr.state == REFILL)
    to(net, UP)
    bound_bytes = algorithm(net).inflight_long_bytes
    net.change(loss={"kind": "bernoulli", "ratio": 0.2})
    assert leave(net) == DOWN
    assert algorithm(net).was_too_high
    assert 0.6 * bound_bytes < algorithm(net).inflight_long_bytes < bound_bytes


def test_22_handling_application_limited_sending_during_probe_refill() -> None:
    net = limited_past_startup()
    to(net, REFILL)
    rate = last(net)["max_bw_bytes_per_s"]
    assert leave(net) == UP
    assert last(net)["is_limited"]
    assert last(net)["round_bw_bytes_per_s"] < rate
    assert last(net)["max_bw_bytes_per_s"] == rate
