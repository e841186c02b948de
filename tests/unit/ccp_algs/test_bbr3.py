"""BBR with both halves over a bottleneck, and its class alone; test_bbr3_draft.py has the draft's cases."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from ccp_algs.bbr3 import CRUISE, DOWN, DRAIN, PROBE_BW, PROBE_RTT, REFILL, STARTUP, UP, Bbr3
from ccp_algs.episodes import STARTED
from ccp_algs.simulated_flow import FakeInfo
from experiments.events import SetLink
from experiments.metrics import jain_index
from experiments.netlab.spec import Buffer, Direction
from experiments.run import run
from experiments.runs.shapes import PointToPoint
from experiments.scenario import FlowSpec, Scenario
from tests.unit.ccp_algs.bbr_flow import Reported
from tests.unit.ccp_algs.folded import INFINITY, MSS
from tests.unit.ccp_algs.simulated import BULK, PAYLOAD_SHARE, Bottleneck

RATE = 1.25e6
RTT_US = 40_000
BDP_PKTS = RATE * RTT_US / 1e6 / 1500
NO_PROBE_RTT = {"probe_rtt_interval_s": 600}


def alone(buffer_pkts: int = 10_000, rate: float = RATE, rtt_us: int = RTT_US, **more: Any) -> Bottleneck:
    return Bottleneck(Bbr3, rate, rtt_us, buffer_pkts, **more)


def run_until(net: Bottleneck, *states: str) -> np.ndarray:
    """Run until the flow is in one of these states; return the sockets' samples since then."""
    rows = net.run(30, until=lambda: net.flows and net.flows[0].state in states)
    assert net.flows[0].state in states
    return rows


def names(net: Bottleneck) -> list[str]:
    return [state for _, state in net.flows[0].states]


def test_startup_ends_when_the_rate_grows_no_more_and_the_queue_is_drained() -> None:
    net = alone()
    run_until(net, DRAIN)
    flow = net.flows[0]
    assert flow.last["max_bw_bytes_per_s"] == pytest.approx(RATE * PAYLOAD_SHARE, rel=0.02)
    assert flow.instance.pipe.rounds == 3
    assert net.now_us - 1e6 < 15 * RTT_US, "the rate doubles each round trip"
    run_until(net, DOWN, CRUISE)
    rtts_us = net.run(0.05)["rtt_us"]
    assert rtts_us.max() > 1.5 * RTT_US
    assert rtts_us[-1] < 1.1 * RTT_US


def test_link_is_full_and_the_queue_is_short_max_of_the_time() -> None:
    net = alone()
    net.run(1)
    assert net.share(3.9) > 0.97  # up to the first ProbeRTT
    rtts_us = net.run(0)["rtt_us"]
    rtts_us = rtts_us[len(rtts_us) // 4 :]
    assert np.median(rtts_us) < 1.1 * RTT_US
    assert rtts_us.max() < 2.3 * RTT_US, "the window is 2.25 BDP at most, and what aggregation asks for"
    assert net.dropped_pkts == 0


def test_cycle_goes_down_cruise_refill_up() -> None:
    net = alone(**NO_PROBE_RTT)
    net.run(10)
    cycle = names(net)[names(net).index(REFILL) :]
    follows = {UP: DOWN, DOWN: CRUISE, CRUISE: REFILL, REFILL: UP}
    assert all(after == follows[before] for before, after in itertools.pairwise(cycle))
    assert cycle.count(UP) >= 4, "the BDP is 33 packets: each 33 round trips, as Reno"
    ups = [t for t, state in net.flows[0].states if state == UP]
    rounds = [(after - before) / RTT_US for before, after in itertools.pairwise(ups)]
    assert all(33 <= one <= 46 for one in rounds)


def test_time_to_the_next_probe_is_two_to_three_seconds_on_large_paths() -> None:
    net = alone(rate=2 * RATE, rtt_us=100_000, **NO_PROBE_RTT)
    net.run(15)
    states = net.flows[0].states
    waits_s = [
        (after - before) / 1e6
        for (before, state), (after, _) in zip(states, states[2:], strict=False)
        if state == DOWN
    ]
    assert len(waits_s) >= 3
    assert all(2 <= one <= 3.2 for one in waits_s)
    assert len({round(one, 2) for one in waits_s}) > 1, "random"


def test_shallow_buffer_bounds_what_is_in_flight_and_a_probe_that_went_too_high_is_repeated_at_once() -> None:
    net = alone(10, **NO_PROBE_RTT)
    net.run(3)
    assert net.flows[0].instance.pipe.is_full
    assert net.flows[0].last["long_bytes"] < (BDP_PKTS + 16) * MSS
    dropped = net.dropped_pkts
    assert net.share(10) > 0.93
    assert (net.dropped_pkts - dropped) * 1500 / (10 * RATE) < 0.01
    runs = names(net)
    assert (UP, DOWN, REFILL) in zip(runs, runs[1:], runs[2:], strict=False), "no cruise in between"


def test_startup_ends_because_of_losses() -> None:
    net = alone(10)
    net.run(1, until=lambda: net.flows)
    net.flows[0].instance.pipe.rounds = -100  # leaves only the losses
    run_until(net, DRAIN)
    assert net.now_us < 2e6
    assert net.flows[0].instance.pipe.rounds < 3
    assert net.flows[0].instance.undo.state == STARTUP
    net.run(0.1)
    assert net.flows[0].last["long_bytes"] < INFINITY


def test_probe_rtt_empties_the_queue_and_gives_the_window_back() -> None:
    net = alone()
    before_bytes = run_until(net, PROBE_RTT)["cwnd_bytes"][-20]
    assert net.now_us - 1e6 == pytest.approx(5e6, abs=0.1e6)
    began_us = net.now_us
    during = net.run(0.1)
    assert during["cwnd_bytes"][-1] / MSS == pytest.approx(BDP_PKTS / 2, abs=1)
    assert during["rtt_us"][-1] < RTT_US + 3e6 * 1500 / RATE
    run_until(net, *PROBE_BW)
    assert 200_000 <= net.now_us - began_us <= 200_000 + 3 * RTT_US
    assert net.flows[0].state == CRUISE
    assert net.run(0.01)["cwnd_bytes"][-1] == before_bytes
    net.run(4.9)
    assert names(net).count(PROBE_RTT) == 1
    net.run(0.3)
    assert names(net).count(PROBE_RTT) == 2


def test_probe_rtt_is_not_needed_after_a_silence() -> None:
    phases_us = [(4_000_000, 2_000_000), (4_000_000, 1_000_000)]
    net = alone(apps=(({"kind": "on_off", "phases_us": phases_us}, 0),))
    net.run(10)
    assert PROBE_RTT not in names(net)


@pytest.mark.parametrize(
    ("rate", "rtt_us", "max_pkts"), [(12_500, 10_000, 10), (125_000, 8_000, 16), (1_250_000, 800, 16)]
)
def test_window_stays_small_where_less_than_a_packet_fills_the_path(
    rate: int, rtt_us: int, max_pkts: int
) -> None:
    """The link never idles, so that the span over which aggregation is measured has no end."""
    net = alone(rate=rate, rtt_us=rtt_us, **NO_PROBE_RTT)
    net.run(30)
    assert net.flows[0].state in PROBE_BW
    assert 4 * MSS <= net.run(0.1)["cwnd_bytes"][-1] <= max_pkts * MSS
    assert net.share(10) > 0.97


@pytest.mark.parametrize("loss_ratio", [0.001, 0.01])
def test_random_losses_cost_little(loss_ratio: float) -> None:
    net = alone(rate=2 * RATE, direction={"loss": {"kind": "bernoulli", "ratio": loss_ratio}})
    net.run(2)
    # Where half of all round trips lose: section 5.3.3.8.3 has a model, which halves the rate in a cycle.
    assert net.share(10) > (0.9 if loss_ratio < 0.01 else 0.7)


@pytest.mark.parametrize("buffer_pkts", [35, 70, 1000])
def test_two_flows_come_to_share_evenly(buffer_pkts: int) -> None:
    net = alone(buffer_pkts, 2 * RATE, apps=((BULK, 0), (BULK, 2)))
    net.run(20)
    before, share = net.acked_bytes(), net.share(10)
    got = [after - one for after, one in zip(net.acked_bytes(), before, strict=True)]
    assert share > 0.95
    assert jain_index(got) > 0.97


def test_waits_depend_on_seed_and_on_nothing_else() -> None:
    def states(seed: int) -> list[tuple[int, str]]:
        net = alone(seed=seed)
        net.run(8)
        return net.flows[0].states

    assert states(1) == states(1) != states(2)


# The class alone.


def test_probe_that_loses_too_much_bounds_what_is_in_flight() -> None:
    reported = Reported()
    reported.to(UP)
    # The third of a burst of 10 crosses 2 % of the 140 packets that were in flight.
    lost = {"tx_in_flight_pkts": 140, "lost_since_pkts": 10, "lost_now_pkts": 10, "too_high": 1}
    said = reported.emit(**lost)
    assert said["inflight_long_bytes"] == int((130 + 0.02 * 130 / 0.98) * MSS)
    assert said["is_probe_sample"] == 0
    assert reported.algorithm.state == DOWN
    assert "inflight_long_bytes" not in reported.emit(**lost), "once a probe"


def test_bound_is_no_less_than_beta_of_the_target() -> None:
    reported = Reported()
    reported.to(UP)
    assert reported.emit(too_high=1, tx_in_flight_pkts=10)["inflight_long_bytes"] == 70 * MSS


def test_losses_before_the_burst_leave_less_of_it_below_the_threshold() -> None:
    reported = Reported()
    reported.to(UP)
    lost = {"tx_in_flight_pkts": 140, "lost_since_pkts": 14, "lost_now_pkts": 10}
    assert reported.emit(too_high=1, **lost)["inflight_long_bytes"] == 130 * MSS


def test_losses_lower_the_short_term_bounds_to_what_was_delivered_but_not_below_beta() -> None:
    reported = Reported()
    reported.to(CRUISE)
    said = reported.emit(loss_rounds=1, bw_latest_bytes_per_s=1_400_000, inflight_latest_bytes=90 * MSS)
    assert said["bw_short_bytes_per_s"] == 1_400_000
    assert said["inflight_short_bytes"] == 140 * MSS, "0.7 of the window"
    said = reported.emit(loss_rounds=1, bw_latest_bytes_per_s=0, inflight_latest_bytes=0)
    assert said["bw_short_bytes_per_s"] == pytest.approx(980_000, abs=1)
    assert said["inflight_short_bytes"] == pytest.approx(98 * MSS, abs=1)
    assert reported.to(REFILL)["bw_short_bytes_per_s"] == INFINITY


def test_spurious_recovery_gives_back_bounds_and_state() -> None:
    reported = Reported()
    reported.to(UP)
    reported.emit(too_high=1, recoveries=1, tx_in_flight_pkts=120)
    reported.emit(loss_rounds=1, recoveries=1)
    assert reported.algorithm.state in (DOWN, CRUISE)
    said = reported.emit(undone=1, rounds=1, recoveries=1)
    assert reported.algorithm.state == REFILL, "for a round that begins now"
    assert said["inflight_long_bytes"] == INFINITY == said["bw_short_bytes_per_s"]


def test_losses_of_a_spurious_recovery_lower_no_bound() -> None:
    reported = Reported()
    reported.to(CRUISE)
    reported.emit(loss_rounds=1, bw_latest_bytes_per_s=1_000_000, recoveries=1)
    # The kernel takes it back on the ACK that ends another round with losses, and in one that is under way.
    said = reported.emit(undone=1, loss_rounds=1, recoveries=1)
    assert (said["bw_short_bytes_per_s"], said["inflight_short_bytes"]) == (INFINITY, INFINITY)
    assert said["is_lossy"] == 0


def test_window_survives_a_spurious_timeout_while_cruising() -> None:
    """For 0.1 s the path is 400 ms longer; nothing is lost, and the kernel takes its timeout back."""
    link = Direction(25e6, delay_us=10_000, buffer=Buffer(bdp=20))
    longer, as_before = (
        SetLink(at, "link>", {"delay_us": delay}) for at, delay in ((3.5, 410_000), (3.6, 10_000))
    )
    flow = FlowSpec("flow", "sender", "receiver", "bbr3", params={"probe_rtt_interval_s": 600})
    samples = run(
        Scenario(
            name="spurious",
            duration_s=5,
            datapath="sim",
            sample_interval_us=100_000,
            topology=PointToPoint(link),
            flows=(flow,),
            events=(longer, as_before),
        )
    ).connection_samples
    assert samples["lost_pkts"].max() > 0 == samples["lost_pkts"][samples["t_s"] < 3.5].max()
    before = samples["cwnd_bytes"][samples["t_s"] < 3.5].iloc[-1]
    assert samples["cwnd_bytes"][samples["t_s"] > 4.4].min() >= before


def test_spurious_recovery_leads_back_to_startup() -> None:
    reported = Reported()
    reported.emit(
        rounds=1, loss_rounds=1, round_in_trouble=1, round_loss_events=6, lost_since_pkts=5,
        tx_in_flight_pkts=100, inflight_latest_bytes=80 * MSS, recoveries=1,
    )  # fmt: skip
    assert reported.algorithm.state != STARTUP
    said = reported.emit(undone=1, recoveries=1)
    assert reported.algorithm.state == STARTUP
    assert said["is_full"] == 0
    assert said["inflight_long_bytes"] == INFINITY


@pytest.mark.parametrize(
    "but", [{"round_loss_events": 5}, {"lost_since_pkts": 2}, {"round_in_trouble": 0}, {"loss_rounds": 0}]
)
def test_startup_bears_what_is_not_sustained_loss(but: dict[str, int]) -> None:
    reported = Reported()
    losses = {"loss_rounds": 1, "round_in_trouble": 1, "round_loss_events": 6, "lost_since_pkts": 5}
    reported.emit(rounds=1, tx_in_flight_pkts=100, **(losses | but))
    assert reported.algorithm.state == STARTUP


def test_drain_ends_after_three_rounds_at_the_latest() -> None:
    reported = Reported()
    reported.fields["in_flight_bytes"] = 150 * MSS
    reported.to(DRAIN)
    for _ in range(3):
        reported.emit(rounds=1)
        assert reported.algorithm.state == DRAIN
    reported.emit(rounds=1)
    assert reported.algorithm.state == DOWN


def test_down_goes_on_until_there_is_headroom_or_time_is_up() -> None:
    reported = Reported()
    reported.fields |= {"long_bytes": 100 * MSS, "in_flight_bytes": 90 * MSS}
    assert reported.to(DOWN)["drain_bytes"] == 85 * MSS + 1
    reported.emit(rounds=1)
    assert reported.algorithm.state == DOWN
    reported.emit(after_us=3_000_000)
    assert reported.algorithm.state == REFILL


def test_program_that_starts_again_begins_in_startup_and_gets_all_registers() -> None:
    reported = Reported()
    reported.to(CRUISE)
    said = reported.emit(event=STARTED)
    assert reported.algorithm.state == STARTUP
    assert said["is_full"] == 0
    assert {"loss_permille", "probe_rtt_interval_us", "wanted_rounds"} <= set(said)


def test_edited_version_goes_on_where_the_one_before_was() -> None:
    reported = Reported()
    before = reported.to(CRUISE)
    new = Bbr3()
    new.flow = reported.flow
    new.on_create(FakeInfo())
    new.on_reload(reported.algorithm)
    assert new.state == CRUISE
    assert reported.flow.calls[-1][1].items() <= before.items()
    assert reported.flow.calls[-1][1]["is_full"] == 1


def test_parameters_reach_the_fold_program() -> None:
    reported = Reported()
    reported.algorithm.loss_thresh = 0.05
    reported.algorithm.headroom = 0.25
    reported.algorithm.probe_rtt_interval_s = 2.5
    said = reported.to(CRUISE)
    assert said["loss_permille"] == 50
    assert said["headroom_permille"] == 250
    assert said["probe_rtt_interval_us"] == 2_500_000
