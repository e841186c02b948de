"""Flex-Cubic: the decision as a table, what a spared loss leaves alone."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccp_algs.cubic import Cubic, CubicFold
from ccp_algs.cubic_core import k_us
from ccp_algs.episodes import CUT, STARTED, TIMEOUT
from ccp_algs.flex_cubic import FlexCubic, FlexCubicFold, beta_of, c_per_s3_of
from ccp_algs.inflation import INFLATED, NO_LOSS, SPARED_LOSS
from ccp_algs.simulated_flow import FakeInfo, FakeReport, RecordingFlow
from ccp_algs.spared_recovery import GROWS
from tests.unit.ccp_algs.folded import (
    CWR,
    INFINITY,
    LOSS,
    MSS,
    NO_SAMPLE,
    OPEN,
    RECOVERY,
    Folded,
    events,
    operators_on_a_quiet_ack,
    started,
    timeout,
)

MIN_RTT_US = 50_000


def flex(cwnd_pkts: float = 100, ssthresh_pkts: float = 100, **registers: int) -> Folded:
    """Return a flow in congestion avoidance whose path has a smallest RTT of 50 ms."""
    flow = started(FlexCubicFold, cwnd_pkts, ssthresh_pkts, min_rtt_us=MIN_RTT_US)
    flow.set(**registers)
    return flow


def lose(flow: Folded, rtt_us: int, ca_state: int = RECOVERY, **prims: int) -> dict[str, int] | None:
    """Fold an ACK that shows a lost segment."""
    flow.ca_state = ca_state
    return flow.ack(0, rtt_us=rtt_us, lost_pkts_sample=1, **prims)


def report(flow: Folded, **prims: int) -> dict[str, int]:
    """Return the regular report of a later ACK."""
    found = flow.ack(0, after_us=200_000, cwnd_limited=0, **prims)
    assert found is not None
    return found


# How a loss is answered: RTT on its ACK, minRTT, k, and the reaction. The rule is that of section 3.4 of the
# paper: congestion if, and only if, RTT >= k * minRTT.
DECISIONS = [
    # rtt_us, min_rtt_us, k, reaction
    (50_000, 50_000, 2.0, "spared"),  # no queue at all
    (99_999, 50_000, 2.0, "spared"),
    (100_000, 50_000, 2.0, "cut"),  # borderline: k times the minimum is inflated
    (100_001, 50_000, 2.0, "cut"),
    (5_000_000, 50_000, 2.0, "cut"),
    (74_999, 50_000, 1.5, "spared"),
    (75_000, 50_000, 1.5, "cut"),
    (50_050, 50_000, 1.001, "cut"),
    (50_049, 50_000, 1.001, "spared"),
    (50_000, 50_000, 1.0, "cut"),  # k = 1 is CUBIC: no RTT is below the minimum
    (249_999, 50_000, 5.0, "spared"),  # the default of the authors' program
    (250_000, 50_000, 5.0, "cut"),
    (199, 100, 2.0, "spared"),  # a LAN
    (200, 100, 2.0, "cut"),
    (1_199_999, 600_000, 2.0, "spared"),  # a geostationary satellite
    (1_200_000, 600_000, 2.0, "cut"),
    (4_000_000_000, 50_000, 100.0, "cut"),  # nothing overflows
]


@pytest.mark.parametrize(("rtt_us", "min_rtt_us", "k", "reaction"), DECISIONS)
@pytest.mark.parametrize("ca_state", [OPEN, RECOVERY])
def test_loss_is_answered_by_the_rtt_of_its_ack(
    rtt_us: int, min_rtt_us: int, k: float, reaction: str, ca_state: int
) -> None:
    flow = flex(k_permille=round(1000 * k))
    flow.min_rtt_us = min_rtt_us
    lose(flow, rtt_us, ca_state)
    assert flow.cwnd == (70 if reaction == "cut" else 100) * MSS
    assert flow["ssthresh_bytes"] == (70 if reaction == "cut" else 100) * MSS
    assert events(flow) == ([CUT] if reaction == "cut" else [])


@pytest.mark.parametrize(
    ("last_rtt_us", "srtt_us", "cwnd_pkts"),
    [
        (60_000, 500_000, 100),  # the last sample holds, not the smoothed RTT
        (100_000, 50_000, 70),
        (None, 60_000, 100),  # no sample so far: the smoothed RTT
        (None, 100_000, 70),
        (None, 0, 70),  # nothing is known: as CUBIC
    ],
)
def test_loss_without_a_sample_is_judged_by_what_is_known(
    last_rtt_us: int | None, srtt_us: int, cwnd_pkts: int
) -> None:
    flow = Folded(FlexCubicFold, 100)
    flow.min_rtt_us, flow.srtt_us, flow.ssthresh = MIN_RTT_US, srtt_us, 100 * MSS
    flow.ack(0, cwnd_limited=0, rtt_us=NO_SAMPLE if last_rtt_us is None else last_rtt_us)
    lose(flow, NO_SAMPLE)
    assert flow.cwnd == cwnd_pkts * MSS


@pytest.mark.parametrize(
    ("ca_state", "prims"),
    [
        (CWR, {"lost_pkts_sample": 0}),  # the kernel enters CWR for an ECN echo, or a queue of this host
        (CWR, {"lost_pkts_sample": 1}),
        (RECOVERY, {"lost_pkts_sample": 0, "ecn_bytes": MSS}),  # an echo while spared losses are repaired
        (RECOVERY, {"lost_pkts_sample": 1, "ecn_bytes": MSS}),
        (OPEN, {"lost_pkts_sample": 0, "local_congestion": 1}),
    ],
)
def test_explicit_congestion_is_never_spared(ca_state: int, prims: dict[str, int]) -> None:
    flow = flex()
    flow.ca_state = ca_state
    flow.ack(0, rtt_us=MIN_RTT_US, **prims)
    assert events(flow) == [CUT]
    assert flow["ssthresh_bytes"] == 70 * MSS


def test_queue_shown_by_ecn_reduces_once_a_window() -> None:
    flow = flex()
    lose(flow, MIN_RTT_US)
    for _ in range(30):
        flow.ack(1, rtt_us=MIN_RTT_US, ecn_bytes=MSS)
    assert events(flow) == [CUT]


def test_timeout_without_inflation_leaves_threshold_and_curve() -> None:
    flow = flex(w_max_bytes=120 * MSS, k_us=3_000_000, epoch=1, t_us=2_000_000, w_est_bytes=80 * MSS)
    flow.ack(0, rtt_us=60_000, cwnd_limited=0)
    curve = {name: flow[name] for name in ("w_max_bytes", "k_us", "epoch", "t_us", "w_est_bytes")}
    timeout(flow)
    assert events(flow) == []
    assert (flow.cwnd, flow["ssthresh_bytes"]) == (2 * MSS, 100 * MSS), "the kernel collapses the window"
    assert {name: flow[name] for name in curve} == curve
    flow.ack(2, rtt_us=60_000)
    assert flow.cwnd == 4 * MSS, "slow start"
    assert report(flow)["spared_pkts"] == 10


def test_timeout_with_inflation_is_that_of_cubic() -> None:
    flow = flex(w_max_bytes=120 * MSS, k_us=3_000_000, epoch=1)
    flow.ack(0, rtt_us=100_000, cwnd_limited=0)
    reported = timeout(flow)
    assert reported is not None
    assert (reported["event"], reported["prior_bytes"], reported["loss_reason"]) == (
        TIMEOUT,
        100 * MSS,
        INFLATED,
    )
    assert (flow.cwnd, flow["ssthresh_bytes"]) == (2 * MSS, 70 * MSS)
    assert (flow["epoch"], flow["w_max_bytes"]) == (0, 0)


def test_second_timeout_of_the_same_data_is_spared_again() -> None:
    flow = flex()
    flow.ack(0, rtt_us=60_000, cwnd_limited=0)
    timeout(flow)
    flow.cwnd = 2 * MSS
    timeout(flow)
    assert (flow.cwnd, flow["ssthresh_bytes"]) == (2 * MSS, 100 * MSS)


def test_spurious_timeout_that_was_spared_is_no_undo() -> None:
    # The kernel restores the window by itself; there is no reduction whose curve Python could restore.
    flow = flex()
    flow.ack(0, rtt_us=60_000, cwnd_limited=0)
    timeout(flow)
    flow.ca_state, flow.cwnd = OPEN, 100 * MSS
    flow.ack(1, cwnd_limited=0, rtt_us=60_000)
    assert events(flow) == []
    assert (flow.cwnd, flow["ssthresh_bytes"]) == (100 * MSS, 100 * MSS)


def test_later_loss_of_a_spared_recovery_that_shows_a_queue_reduces() -> None:
    flow = flex()
    lose(flow, 60_000)
    lose(flow, 80_000)
    assert events(flow) == []
    lose(flow, 100_000)
    lose(flow, 100_000)
    assert events(flow) == [CUT], "once a window"
    assert flow.cwnd == 70 * MSS


def test_window_is_not_kept_to_what_is_delivered_while_spared_losses_are_repaired() -> None:
    # The conservation of RFC 6937 belongs to a reduction.
    flow = flex(spared_window=GROWS)
    lose(flow, 60_000, bytes_in_flight=20 * MSS)
    flow.ack(1, rtt_us=60_000, bytes_in_flight=20 * MSS, cwnd_limited=0)
    assert flow.cwnd == 100 * MSS


def test_reduction_in_a_recovery_that_goes_on_ends_at_its_window() -> None:
    # 100 + 25 + 3 segments behind the cut all of its data is repaired; what is lost then is spared.
    flow = flex(spared_window=GROWS)
    lose(flow, 100_000)
    for _ in range(63):
        flow.ack(2, rtt_us=60_000, lost_pkts_sample=1, bytes_in_flight=30 * MSS)
    assert flow.cwnd < 40 * MSS, "what is delivered, and no more"
    for _ in range(2):
        flow.ack(2, rtt_us=60_000, lost_pkts_sample=1, bytes_in_flight=30 * MSS, cwnd_limited=0)
    assert flow.cwnd == flow["ssthresh_bytes"] == 70 * MSS
    assert events(flow) == [CUT]


def test_spared_losses_call_for_no_report() -> None:
    flow = flex()
    for _ in range(50):
        lose(flow, 60_000, after_us=1000)
    assert flow.reports == []
    found = report(flow, rtt_us=60_000)
    assert (found["spared_pkts"], found["congestion_pkts"], found["lost"]) == (50, 0, 50)


def test_report_says_what_the_decision_saw() -> None:
    flow = flex()
    lose(flow, 65_000)
    found = report(flow, rtt_us=80_000)
    assert found["loss_reason"] == SPARED_LOSS
    assert found["loss_rtt_us"] == 65_000
    assert (found["rtt_us"], found["min_rtt_us"]) == (80_000, 50_000)
    assert (found["rtt_rise_us"], found["rtt_rise_permille"], found["inflated"]) == (30_000, 600, 0)
    later = report(flow, rtt_us=100_000)
    assert (later["loss_reason"], later["spared_pkts"]) == (NO_LOSS, 0)
    assert (later["rtt_rise_permille"], later["inflated"]) == (1000, 1)


def test_losses_of_data_that_a_reduction_answered_count_as_congestion() -> None:
    flow = flex()
    cut = lose(flow, 100_000)
    assert cut is not None
    assert (cut["loss_reason"], cut["congestion_pkts"]) == (INFLATED, 1)
    lose(flow, 60_000)  # the queue drains, but this segment was lost in the same window
    assert report(flow, rtt_us=60_000)["congestion_pkts"] == 1
    assert events(flow) == [CUT]


ROUNDS = st.lists(
    st.fixed_dictionaries(
        {
            "pkts": st.sampled_from([0, 1, 2, 10, 44]),
            "after_us": st.integers(0, 50_000),
            "rtt_us": st.sampled_from([50_000, 60_000, 99_000, 400_000, NO_SAMPLE]),
            "cwnd_limited": st.sampled_from([0, 1, 1, 1]),
        }
    ),
    max_size=150,
)


@given(acks=ROUNDS, cwnd_pkts=st.sampled_from([10, 300]), in_avoidance=st.booleans())
def test_window_without_loss_is_that_of_cubic(
    acks: list[dict[str, Any]], cwnd_pkts: int, in_avoidance: bool
) -> None:
    flows = [Folded(program, cwnd_pkts) for program in (CubicFold, FlexCubicFold)]
    for flow in flows:
        flow.min_rtt_us = MIN_RTT_US
        flow.ssthresh = cwnd_pkts * MSS if in_avoidance else INFINITY
    for ack in acks:
        for flow in flows:
            flow.ack(**ack)
        assert flows[0].cwnd == flows[1].cwnd
    assert flows[0]["ssthresh_bytes"] == flows[1]["ssthresh_bytes"]


@given(acks=ROUNDS, losses=st.lists(st.integers(0, 149), max_size=20))
def test_window_with_k_of_1_is_that_of_cubic_under_loss(
    acks: list[dict[str, Any]], losses: list[int]
) -> None:
    flows = [started(program, min_rtt_us=MIN_RTT_US) for program in (CubicFold, FlexCubicFold)]
    flows[1].set(k_permille=1000)
    for i, ack in enumerate(acks):
        for flow in flows:
            flow.ca_state = RECOVERY if i in losses else OPEN
            flow.ack(**ack, lost_pkts_sample=int(i in losses))
        assert flows[0].cwnd == flows[1].cwnd


@given(acks=ROUNDS, losses=st.sets(st.integers(0, 149), max_size=100))
def test_losses_that_are_all_spared_change_nothing(acks: list[dict[str, Any]], losses: set[int]) -> None:
    flows = [flex(spared_window=GROWS), flex(spared_window=GROWS)]
    for i, ack in enumerate(acks):
        calm = ack | {"rtt_us": min(ack["rtt_us"], 99_000)}
        flows[0].ack(**calm)
        flows[1].ca_state = RECOVERY if i in losses else OPEN
        flows[1].ack(**calm, lost_pkts_sample=int(i in losses))
        assert flows[0].cwnd == flows[1].cwnd
        for register in ("ssthresh_bytes", "w_max_bytes", "k_us", "epoch", "t_us", "w_est_bytes"):
            assert flows[0][register] == flows[1][register]


@given(
    acks=st.lists(
        st.fixed_dictionaries(
            {
                "pkts": st.sampled_from([0, 1, 40]),
                "after_us": st.integers(0, 300_000),
                "rtt_us": st.sampled_from([50_000, 99_999, 100_000, 300_000, NO_SAMPLE]),
                "ca_state": st.integers(0, 4),
                "lost_pkts_sample": st.sampled_from([0, 0, 1, 30]),
                "was_timeout": st.sampled_from([0, 0, 0, 1]),
                "ecn_bytes": st.sampled_from([0, 0, 0, MSS]),
            }
        ),
        max_size=80,
    )
)
def test_every_lost_packet_is_counted_once(acks: list[dict[str, Any]]) -> None:
    flow = flex()
    flow.reports.clear()
    for ack in acks:
        flow.ack(**ack)
    report(flow, ca_state=OPEN)
    lost = sum(one["lost"] for one in flow.reports)
    assert lost == sum(ack["lost_pkts_sample"] for ack in acks)
    assert lost == sum(one["spared_pkts"] + one["congestion_pkts"] for one in flow.reports)


def algorithm(**params: Any) -> tuple[FlexCubic, RecordingFlow]:
    made = FlexCubic()
    for name, value in params.items():
        setattr(made, name, value)
    flow = RecordingFlow(FakeInfo(), {"default": FlexCubicFold.source})
    made.flow = flow
    made.on_create(FakeInfo())
    return made, flow


def fake_report(**fields: int) -> FakeReport:
    program_fields = dict.fromkeys(FlexCubicFold.report_fields, 0) | {"mss_bytes": MSS} | fields
    return FakeReport({"now_us": 0, "cwnd_bytes": 70 * MSS}, program_fields, "FlexCubic")


def test_parameters_reach_the_fold_program() -> None:
    _, flow = algorithm(
        rtt_multiplier=1.25,
        congestion_memory_ms=200.0,
        min_rtt_window_ms=10_000.0,
        beta=0.8,
        c_per_s3=1.0,
        queue_fraction=0.75,
    )
    set_ = flow.calls[-1][1]
    assert (set_["k_permille"], set_["memory_us"], set_["window_us"]) == (1250, 200_000, 10_000_000)
    assert set_["queue_permille"] == 750
    assert (set_["cut_permille"], set_["alpha_permille"]) == (800, 333)


def test_options_are_off_by_default() -> None:
    _, flow = algorithm()
    set_ = flow.calls[-1][1]
    assert (set_["k_permille"], set_["memory_us"], set_["window_us"]) == (2000, 0, 0)
    assert set_["queue_permille"] == 0


def test_changed_multiplier_reaches_a_running_flow_and_a_restarted_program() -> None:
    made, flow = algorithm()
    made.rtt_multiplier = 3.0
    made.on_params(frozenset({"rtt_multiplier"}))
    assert flow.calls[-1][1]["k_permille"] == 3000
    made.on_report(fake_report(event=STARTED))
    assert flow.calls[-1][1]["k_permille"] == 3000


def test_parameters_are_not_those_of_cubic() -> None:
    before = FlexCubic.beta
    try:
        Cubic.beta = 0.5
        assert FlexCubic.beta == before
    finally:
        Cubic.beta = before


@pytest.mark.parametrize(("unit_1024", "beta"), [(717, 0.7), (307, 0.3), (922, 0.9), (512, 0.5)])
def test_beta_of_the_paper_is_in_1024ths(unit_1024: int, beta: float) -> None:
    assert beta_of(unit_1024) == pytest.approx(beta, abs=5e-4)


def test_scale_of_41_is_the_c_of_the_rfc() -> None:
    assert c_per_s3_of(41) == pytest.approx(0.4, rel=0.002)
    # The paper's program: K^3 = deficit * 2^40 / (41 * 10), in units of 1/1024 s.
    k_s = (30 * (1 << 40) / 410) ** (1 / 3) / 1024
    assert k_us(100 * MSS, 70 * MSS, MSS, c_per_s3_of(41)) / 1e6 == pytest.approx(k_s, rel=1e-5)


def test_inflated_loss_after_a_spared_timeout_reduces() -> None:
    flow = flex()
    flow.ack(0, rtt_us=60_000, cwnd_limited=0)
    timeout(flow)
    for _ in range(4):
        flow.ack(flow.cwnd / MSS, after_us=60_000, rtt_us=60_000)
    assert flow.ca_state == LOSS
    assert flow.cwnd == 32 * MSS
    flow.ack(1, rtt_us=100_000, lost_pkts_sample=1)
    assert events(flow) == [CUT]
    assert flow["ssthresh_bytes"] < 33 * MSS


def test_judgement_costs_little_where_nothing_is_lost() -> None:
    # One is for a clause of its own in which losses are counted.
    assert operators_on_a_quiet_ack(FlexCubicFold) <= operators_on_a_quiet_ack(CubicFold) + 21
