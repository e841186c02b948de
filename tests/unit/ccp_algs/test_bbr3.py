"""BBR with both halves over a bottleneck; many cases are those of draft-ietf-ccwg-bbr-06, appendix A."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

from ccp_algs.bbr3 import CRUISE, DOWN, DRAIN, PROBE_BW, PROBE_RTT, REFILL, STARTUP, UP, Bbr3
from ccp_algs.bbr_model import Bbr3Fold
from ccp_algs.check import FakeInfo, FakeReport, RecordingFlow
from ccp_algs.episodes import STARTED
from experiments.events import SetLink
from experiments.netlab.spec import Buffer, Direction
from experiments.run import run
from experiments.runs.shapes import PointToPoint
from experiments.scenario import Flow, Scenario
from tests.unit.ccp_algs.bottleneck import Link, Sender
from tests.unit.ccp_algs.folded import INFINITY, MSS

RATE = 1.25e6
RTT_US = 40_000
BDP_PKTS = RATE * RTT_US / 1e6 / MSS  # 34.5


def alone(buffer_pkts: float = 1e9, **params: Any) -> tuple[Link, Sender]:
    link = Link(RATE, RTT_US, buffer_pkts)
    return link, Sender(link, Bbr3, **params)


def run_until(link: Link, flow: Sender, *states: str, limit_s: float = 30) -> None:
    """Run until the flow is in one of these states."""
    end_us = link.now_us + 1e6 * limit_s
    while flow.state not in states:
        assert link.now_us < end_us, f"still in {flow.state}"
        link.run(0.001)


def share(link: Link, flow: Sender, seconds: float) -> float:
    """Run, and return the part of the link that the flow got."""
    before = flow.delivered
    link.run(seconds)
    return (flow.delivered - before) * MSS / seconds / link.bytes_per_s


def names(flow: Sender) -> list[str]:
    return [state for _, state in flow.states]


def test_startup_ends_when_the_rate_grows_no_more_and_the_queue_is_drained() -> None:
    link, flow = alone()
    run_until(link, flow, DRAIN)
    assert flow.last["max_bw_bytes_per_s"] == pytest.approx(RATE, rel=0.02)
    assert flow.algorithm.pipe.rounds == 3
    assert flow["pacing_permille"] == 495
    assert link.now_us - 1e6 < 15 * RTT_US, "the rate doubles each round trip"
    filled_us = link.queue_us
    assert filled_us > RTT_US / 2
    run_until(link, flow, DOWN, CRUISE)
    assert link.queue_us < 0.1 * filled_us


def test_link_is_full_and_the_queue_is_short_most_of_the_time() -> None:
    link, flow = alone()
    link.run(1)
    queues_us = []
    before = flow.delivered
    for _ in range(3900):  # up to the first ProbeRTT
        link.run(0.001)
        queues_us.append(link.queue_us)
    assert (flow.delivered - before) * MSS / 3.9 > 0.97 * RATE
    assert sorted(queues_us)[len(queues_us) // 2] < 0.1 * RTT_US
    assert max(queues_us) < 1.3 * RTT_US, "the window is 2.25 BDP at most, and what aggregation asks for"
    assert flow.lost == 0


def test_cycle_goes_down_cruise_refill_up() -> None:
    link, flow = alone(probe_rtt_interval_s=600)
    link.run(10)
    cycle = names(flow)[names(flow).index(REFILL) :]
    follows = {UP: DOWN, DOWN: CRUISE, CRUISE: REFILL, REFILL: UP}
    assert all(after == follows[before] for before, after in itertools.pairwise(cycle))
    assert cycle.count(UP) >= 4, "the BDP is 34 packets: each 34 round trips, as Reno"
    ups = [t for t, state in flow.states if state == UP]
    rounds = [(after - before) / RTT_US for before, after in itertools.pairwise(ups)]
    assert all(34 <= one <= 45 for one in rounds)


def test_time_to_the_next_probe_is_two_to_three_seconds_on_large_paths() -> None:
    link = Link(2 * RATE, 100_000)
    flow = Sender(link, Bbr3, probe_rtt_interval_s=600)
    link.run(15)
    waits_s = [
        (after - before) / 1e6
        for (before, state), (after, _) in zip(flow.states, flow.states[2:], strict=False)
        if state == DOWN
    ]
    assert len(waits_s) >= 3
    assert all(2 <= one <= 3.2 for one in waits_s)
    assert len({round(one, 2) for one in waits_s}) > 1, "random"


def test_shallow_buffer_bounds_what_is_in_flight_and_losses_stay_few() -> None:
    link, flow = alone(buffer_pkts=10)
    link.run(3)
    assert flow.algorithm.pipe.is_full
    assert flow["inflight_long_bytes"] < (BDP_PKTS + 16) * MSS
    dropped, sent = link.dropped, flow.delivered
    assert share(link, flow, 10) > 0.93
    assert (link.dropped - dropped) / (flow.delivered - sent) < 0.01


def test_startup_ends_because_of_losses() -> None:
    link, flow = alone(buffer_pkts=10)
    flow.algorithm.pipe.rounds = -100  # leaves only the losses
    run_until(link, flow, DRAIN, limit_s=1)
    assert flow.algorithm.pipe.rounds < 3
    assert flow.algorithm.undo.state == STARTUP
    assert flow["inflight_long_bytes"] < INFINITY


def test_probe_after_one_that_went_too_high_stops_at_the_bound_and_is_repeated_at_once() -> None:
    link, flow = alone(buffer_pkts=10, probe_rtt_interval_s=600)
    link.run(12)
    runs = names(flow)
    assert (UP, DOWN, REFILL) in zip(runs, runs[1:], runs[2:], strict=False), "no cruise in between"


def test_startup_goes_on_while_the_application_limits_it() -> None:
    link, flow = alone(probe_rtt_interval_s=600)
    flow.app_bytes_per_s = RATE / 4
    link.run(5)
    assert flow.state == STARTUP
    flow.app_bytes_per_s = float("inf")
    link.run(1)
    assert flow.state in PROBE_BW
    assert flow.last["max_bw_bytes_per_s"] == pytest.approx(RATE, rel=0.02)


def test_samples_that_the_application_limits_do_not_lower_the_estimate() -> None:
    link, flow = alone(probe_rtt_interval_s=600)
    link.run(2)
    flow.app_bytes_per_s = RATE / 4
    link.run(8)
    flow.app_bytes_per_s = float("inf")
    assert share(link, flow, 1) > 0.95


def test_probe_rtt_empties_the_queue_and_gives_the_window_back() -> None:
    link, flow = alone()
    run_until(link, flow, PROBE_RTT)
    assert link.now_us - 1e6 == pytest.approx(5e6, abs=0.1e6)
    before_pkts = flow.cwnd_pkts
    began_us = link.now_us
    link.run(0.1)
    assert flow.cwnd_pkts == pytest.approx(BDP_PKTS / 2, abs=1)
    assert link.queue_us < 2e6 * MSS / RATE
    run_until(link, flow, *PROBE_BW)
    assert 200_000 <= link.now_us - began_us <= 200_000 + 3 * RTT_US
    assert flow.state == CRUISE
    link.run(0.01)
    assert flow.cwnd_pkts == before_pkts
    link.run(4.9)
    assert names(flow).count(PROBE_RTT) == 1
    link.run(0.3)
    assert names(flow).count(PROBE_RTT) == 2


def test_probe_rtt_is_not_needed_behind_a_silence() -> None:
    link, flow = alone()
    link.run(4)
    flow.pause(2)
    link.run(4)
    assert PROBE_RTT not in names(flow)


def test_probe_rtt_during_startup_leads_back_to_startup() -> None:
    link, flow = alone(probe_rtt_interval_s=1)
    flow.app_bytes_per_s = RATE / 2
    link.run(3)
    assert names(flow)[:3] == [STARTUP, PROBE_RTT, STARTUP]


def test_ten_times_the_rate_is_found_in_a_probe_or_two() -> None:
    link = Link(RATE / 5, RTT_US)
    flow = Sender(link, Bbr3, probe_rtt_interval_s=600)
    link.run(2)
    link.bytes_per_s = 2 * RATE
    link.run(6)
    assert share(link, flow, 2) > 0.9


def test_tenth_of_the_rate_is_believed_after_two_cycles() -> None:
    link, flow = alone(buffer_pkts=30, probe_rtt_interval_s=600)
    link.run(2)
    link.bytes_per_s = RATE / 10
    bounds = []
    for _ in range(100):
        link.run(0.01)
        bounds.append(flow["bw_short_bytes_per_s"])
    assert min(bounds) < 0.75 * RATE, "losses lower the bound at once"
    link.run(15)
    assert flow.last["max_bw_bytes_per_s"] == pytest.approx(RATE / 10, rel=0.1)
    assert share(link, flow, 3) > 0.9


def test_path_shorter_than_a_packet_keeps_four_in_flight() -> None:
    link = Link(12_500, 10_000)
    flow = Sender(link, Bbr3, probe_rtt_interval_s=600)
    link.run(20)
    assert flow.state in PROBE_BW
    assert 4 <= flow.cwnd_pkts <= 10
    assert share(link, flow, 10) > 0.97


@pytest.mark.parametrize(("bytes_per_s", "rtt_us"), [(125_000, 8_000), (1_250_000, 800)])
def test_window_stays_small_where_less_than_a_packet_fills_the_path(bytes_per_s: int, rtt_us: int) -> None:
    """The link never idles, so that the span over which aggregation is measured has no end."""
    link = Link(bytes_per_s, rtt_us)
    flow = Sender(link, Bbr3)
    link.run(30)
    assert 4 <= flow.cwnd_pkts <= 16


@pytest.mark.parametrize("loss_ratio", [0.001, 0.01])
def test_random_losses_cost_little(loss_ratio: float) -> None:
    chance = random.Random(1)
    link = Link(2 * RATE, RTT_US, is_lost=lambda: chance.random() < loss_ratio)
    flow = Sender(link, Bbr3)
    link.run(2)
    # Where half of all round trips lose: section 5.3.3.8.3 has a model, which halves the rate in a cycle.
    assert share(link, flow, 10) > (0.9 if loss_ratio < 0.01 else 0.7)


def test_marks_count_as_losses() -> None:
    link, flow = alone(probe_rtt_interval_s=600)
    run_until(link, flow, CRUISE)
    flow.prims = {"Ack.ecn_packets": 1}
    link.run(0.2)
    assert flow["bw_short_bytes_per_s"] < INFINITY
    flow.prims = {}
    run_until(link, flow, UP)
    assert flow["bw_short_bytes_per_s"] == INFINITY, "short-term bounds end with a probe"
    flow.prims = {"Ack.ecn_packets": 1}
    run_until(link, flow, DOWN, limit_s=2 * RTT_US / 1e6)
    assert flow["inflight_long_bytes"] < INFINITY


@pytest.mark.parametrize("buffer_pkts", [35, 70, 1000])
def test_two_flows_come_to_share_evenly(buffer_pkts: float) -> None:
    link = Link(2 * RATE, RTT_US, buffer_pkts)
    first = Sender(link, Bbr3, flow_id=1)
    second = Sender(link, Bbr3, flow_id=2, start_s=2)
    link.run(20)
    before = first.delivered, second.delivered
    link.run(10)
    got = first.delivered - before[0], second.delivered - before[1]
    assert sum(got) * MSS / 10 > 0.95 * link.bytes_per_s
    assert sum(got) ** 2 / (2 * sum(one**2 for one in got)) > 0.97, "Jain's index"


def test_waits_depend_on_seed_and_flow_and_on_nothing_else() -> None:
    def states(seed: int, flow_id: int) -> list[tuple[float, str]]:
        link = Link(RATE, RTT_US)
        flow = Sender(link, Bbr3, flow_id=flow_id, seed=seed)
        link.run(8)
        return flow.states

    assert states(1, 1) == states(1, 1)
    assert states(1, 1) != states(2, 1)
    assert states(1, 1) != states(1, 2)


# The class alone.


class Told:
    """The algorithm, told by hand: fields keep the values that they had."""

    def __init__(self) -> None:
        self.algorithm = Bbr3()
        self.flow = RecordingFlow(FakeInfo(), {"default": Bbr3Fold.source})
        self.algorithm.flow = self.flow
        self.algorithm.on_create(FakeInfo())
        self.now_us = 1_000_000
        self.fields = dict.fromkeys(Bbr3Fold.report_fields, 0) | {
            "max_bw_bytes_per_s": 1_448_000,
            "round_bw_bytes_per_s": 1_448_000,
            "min_rtt_us": 100_000,  # so that the BDP is 100 packets
            "mss_bytes": MSS,
            "long_bytes": INFINITY,
            "budget_bytes": 4 * MSS,
            "in_flight_bytes": 100 * MSS,
        }

    def tell(self, after_us: int = 100_000, cwnd_pkts: int = 200, **events: int) -> dict[str, int]:
        """Tell of something, and return what the fold program was told last."""
        self.now_us += after_us
        head = {"now_us": self.now_us, "cwnd_bytes": cwnd_pkts * MSS}
        self.algorithm.on_report(FakeReport(head, self.fields | events, "Bbr3"))
        told = self.flow.calls[-1][1]
        self.fields["long_bytes"] = told.get("inflight_long_bytes", self.fields["long_bytes"])
        return told

    def to(self, state: str) -> dict[str, int]:
        """Let rounds pass until it is in a state."""
        for _ in range(200):
            told = self.tell(rounds=1)
            if self.algorithm.state == state:
                return told
        raise AssertionError(f"never came to {state}")


def test_probe_that_loses_too_much_bounds_what_is_in_flight() -> None:
    told = Told()
    told.to(UP)
    # Half of the round's ACKs are in: the lost packet was sent when 140 packets were in flight.
    lost = {"inflight_before_pkts": 120, "inflight_start_pkts": 160, "gone_pkts": 80, "too_high": 1}
    said = told.tell(**lost)
    assert said["inflight_long_bytes"] == 140 * MSS
    assert said["is_probe_sample"] == 0
    assert told.algorithm.state == DOWN
    assert "inflight_long_bytes" not in told.tell(**lost), "once a probe"


def test_bound_is_no_less_than_beta_of_the_target() -> None:
    told = Told()
    told.to(UP)
    assert told.tell(too_high=1, inflight_start_pkts=10)["inflight_long_bytes"] == 70 * MSS


def test_losses_lower_the_short_term_bounds_to_what_was_delivered_but_not_below_beta() -> None:
    told = Told()
    told.to(CRUISE)
    said = told.tell(loss_rounds=1, bw_latest_bytes_per_s=1_400_000, inflight_latest_bytes=90 * MSS)
    assert said["bw_short_bytes_per_s"] == 1_400_000
    assert said["inflight_short_bytes"] == 140 * MSS, "0.7 of the window"
    said = told.tell(loss_rounds=1, bw_latest_bytes_per_s=0, inflight_latest_bytes=0)
    assert said["bw_short_bytes_per_s"] == pytest.approx(980_000, abs=1)
    assert said["inflight_short_bytes"] == pytest.approx(98 * MSS, abs=1)
    assert told.to(REFILL)["bw_short_bytes_per_s"] == INFINITY


def test_spurious_recovery_gives_back_bounds_and_state() -> None:
    told = Told()
    told.to(UP)
    told.tell(too_high=1, recoveries=1, inflight_start_pkts=120, inflight_before_pkts=120)
    told.tell(loss_rounds=1, recoveries=1)
    assert told.algorithm.state == DOWN
    said = told.tell(undone=1, recoveries=1)
    assert told.algorithm.state == REFILL
    assert said["inflight_long_bytes"] == INFINITY == said["bw_short_bytes_per_s"]


def test_losses_of_a_spurious_recovery_lower_no_bound() -> None:
    told = Told()
    told.to(CRUISE)
    told.tell(loss_rounds=1, bw_latest_bytes_per_s=1_000_000, recoveries=1)
    # The kernel takes it back on the ACK that ends another round with losses, and in one that is under way.
    said = told.tell(undone=1, loss_rounds=1, recoveries=1)
    assert (said["bw_short_bytes_per_s"], said["inflight_short_bytes"]) == (INFINITY, INFINITY)
    assert said["is_lossy"] == 0


def test_window_survives_a_spurious_timeout_while_cruising() -> None:
    """For 0.1 s the path is 400 ms longer; nothing is lost, and the kernel takes its timeout back."""
    link = Direction(25e6, delay_us=10_000, buffer=Buffer(bdp=20))
    longer, as_before = (
        SetLink(at, "link>", {"delay_us": delay}) for at, delay in ((3.5, 410_000), (3.6, 10_000))
    )
    flow = Flow("flow", "sender", "receiver", "bbr3", params={"probe_rtt_interval_s": 600})
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
    told = Told()
    told.tell(
        rounds=1, loss_rounds=1, round_in_trouble=1, round_loss_events=6, round_lost_pkts=5,
        round_gone_pkts=100, inflight_latest_bytes=80 * MSS, recoveries=1,
    )  # fmt: skip
    assert told.algorithm.state != STARTUP
    said = told.tell(undone=1, recoveries=1)
    assert told.algorithm.state == STARTUP
    assert said["is_full"] == 0
    assert said["inflight_long_bytes"] == INFINITY


@pytest.mark.parametrize(
    "but", [{"round_loss_events": 5}, {"round_lost_pkts": 2}, {"round_in_trouble": 0}, {"loss_rounds": 0}]
)
def test_startup_bears_what_is_not_sustained_loss(but: dict[str, int]) -> None:
    told = Told()
    losses = {"loss_rounds": 1, "round_in_trouble": 1, "round_loss_events": 6, "round_lost_pkts": 5}
    told.tell(rounds=1, round_gone_pkts=100, **(losses | but))
    assert told.algorithm.state == STARTUP


def test_drain_ends_after_three_rounds_at_the_latest() -> None:
    told = Told()
    told.fields["in_flight_bytes"] = 150 * MSS
    told.to(DRAIN)
    for _ in range(3):
        told.tell(rounds=1)
        assert told.algorithm.state == DRAIN
    told.tell(rounds=1)
    assert told.algorithm.state == DOWN


def test_down_goes_on_until_there_is_headroom_or_time_is_up() -> None:
    told = Told()
    told.fields |= {"long_bytes": 100 * MSS, "in_flight_bytes": 90 * MSS}
    assert told.to(DOWN)["drain_bytes"] == 85 * MSS + 1
    told.tell(rounds=1)
    assert told.algorithm.state == DOWN
    told.tell(after_us=3_000_000)
    assert told.algorithm.state == REFILL


def test_program_that_starts_anew_begins_in_startup_and_gets_all_registers() -> None:
    told = Told()
    told.to(CRUISE)
    said = told.tell(event=STARTED)
    assert told.algorithm.state == STARTUP
    assert said["is_full"] == 0
    assert {"loss_permille", "probe_rtt_interval_us", "wanted_rounds"} <= set(said)


def test_edited_version_goes_on_where_the_one_before_was() -> None:
    told = Told()
    before = told.to(CRUISE)
    new = Bbr3()
    new.flow = told.flow
    new.on_create(FakeInfo())
    new.on_reload(told.algorithm)
    assert new.state == CRUISE
    assert told.flow.calls[-1][1].items() <= before.items()
    assert told.flow.calls[-1][1]["is_full"] == 1


def test_parameters_reach_the_fold_program() -> None:
    told = Told()
    told.algorithm.loss_thresh = 0.05
    told.algorithm.headroom = 0.25
    told.algorithm.probe_rtt_interval_s = 2.5
    said = told.to(CRUISE)
    assert said["loss_permille"] == 50
    assert said["headroom_permille"] == 250
    assert said["probe_rtt_interval_us"] == 2_500_000
