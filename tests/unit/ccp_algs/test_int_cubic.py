"""CUBIC with in-band telemetry: which loss is answered how, timeouts, live switching, else plain CUBIC."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccp_algs.cubic import CubicFold
from ccp_algs.episodes import CUT, STARTED, TIMEOUT
from ccp_algs.int_cubic import IntCubicFold
from ccp_algs.simulated_flow import FakeInfo
from telemetry.schema import FlowId, IntHop
from tests.unit.ccp_algs.folded import (
    CWR,
    INFINITY,
    LOSS,
    MSS,
    OPEN,
    RECOVERY,
    Folded,
    acks,
    events,
    operators_on_a_quiet_ack,
    timeout,
)
from tests.unit.ccp_algs.steered import CURVE, FLOW, NO_ROOM, ROOM, SILENT, Steered

# The reaction to a loss: what the last summary said, and the window behind it, of 100 packets, by
# `wireless_loss`. None: no summary came.
DECISIONS = [
    # cause, hops, keep (L1), mild (L2), cubic
    (None, None, 70, 70, 70),
    ("none", ROOM, 100, 95, 70),
    ("wireless", ROOM, 100, 95, 70),
    ("wireless", NO_ROOM, 100, 95, 70),
    ("wireless", (), 100, 95, 70),
    (None, ROOM, 100, 95, 70),
    ("none", NO_ROOM, 70, 70, 70),
    ("overflow", ROOM, 70, 70, 70),
    ("mixed", ROOM, 70, 70, 70),
    ("none", (), 70, 70, 70),
    ("none", SILENT, 70, 70, 70),
    ("none", ROOM + SILENT, 70, 70, 70),
]


@pytest.mark.parametrize(("cause", "hops", "keep", "mild", "cubic"), DECISIONS)
@pytest.mark.parametrize("ca_state", [OPEN, RECOVERY])
def test_loss_is_answered_by_the_table(
    cause: str | None, hops: tuple[IntHop, ...] | None, keep: int, mild: int, cubic: int, ca_state: int
) -> None:
    for mode, expected in (("keep", keep), ("mild", mild), ("cubic", cubic)):
        flow = Steered(wireless_loss=mode)
        if hops is not None:
            flow.receive(cause, hops)
        flow.lose(ca_state)
        assert flow.cwnd_pkts == pytest.approx(expected, abs=0.01), mode
        assert flow.ssthresh_pkts == pytest.approx(expected, abs=0.01), mode


@pytest.mark.parametrize(
    ("stale_ms", "age_us", "silence_us", "cwnd_pkts"),
    [
        (1000, 0, 999_999, 100),
        (1000, 0, 1_000_000, 70),  # borderline: as old as it may not be
        (1000, 400_000, 599_999, 100),  # it was old when it came
        (1000, 400_000, 600_000, 70),
        (50, 0, 49_999, 100),
        (50, 0, 50_000, 70),
    ],
)
def test_stale_telemetry_is_none(stale_ms: float, age_us: int, silence_us: int, cwnd_pkts: int) -> None:
    flow = Steered(stale_ms=stale_ms)
    flow.receive("wireless", age_us=age_us)
    flow.lose(after_us=silence_us)
    assert flow.cwnd_pkts == cwnd_pkts


def test_telemetry_that_is_lost_leaves_plain_cubic() -> None:
    flow = Steered()
    flow.receive("wireless")
    flow.algorithm.on_telemetry_lost("receiver_signal", "somebody")
    flow.lose(after_us=1)
    assert flow.cwnd_pkts == 100
    flow.algorithm.on_telemetry_lost("int_summary", "sink")
    flow.lose(after_us=1)
    assert flow.cwnd_pkts == 70


@pytest.mark.parametrize(
    ("ca_state", "prims"),
    [
        (CWR, {"lost_pkts_sample": 0}),
        (RECOVERY, {"ecn_bytes": MSS}),
        (OPEN, {"lost_pkts_sample": 0, "local_congestion": 1}),
    ],
)
@pytest.mark.parametrize("mode", ["keep", "mild", "cubic"])
def test_explicit_congestion_is_cubics_and_stays(ca_state: int, prims: dict[str, int], mode: str) -> None:
    flow = Steered(wireless_loss=mode)
    flow.receive("wireless")
    flow.lose(ca_state, **prims)
    flow.receive("wireless", after_us=5_000)
    flow.ack(0, cwnd_limited=0)
    assert flow["ssthresh_bytes"] == 70 * MSS


def test_summary_of_the_acks_or_of_another_kind_says_nothing() -> None:
    flow = Steered()
    back = FlowId(src=FLOW.dst, src_port=FLOW.dst_port, dst=FLOW.src, dst_port=FLOW.src_port)
    flow.receive("wireless", flow=back)
    flow.lose()
    assert flow.cwnd_pkts == 70


def test_direction_is_reported_by_addresses_where_both_ports_are_the_same() -> None:
    there = FlowId(src="2001:db8::1", src_port=443, dst="2001:db8::2", dst_port=443)
    back = FlowId(src=there.dst, src_port=443, dst=there.src, dst_port=443)
    for flow_id, cwnd_pkts in ((there, 100), (back, 70)):
        flow = Steered()
        flow.info = FakeInfo(src_addr="2001:db8:0::1", src_port=443)
        flow.receive("wireless", flow=flow_id)
        flow.lose()
        assert flow.cwnd_pkts == cwnd_pkts


# Timeouts


def test_spared_timeout_leaves_threshold_and_curve() -> None:
    flow = Steered()
    flow.set(w_max_bytes=120 * MSS, k_us=3_000_000, epoch=1, t_us=2_000_000, w_est_bytes=80 * MSS)
    curve = {name: flow[name] for name in CURVE}
    flow.receive("wireless")
    timeout(flow)
    assert (flow.cwnd, flow.ssthresh_pkts) == (2 * MSS, 100)
    assert {name: flow[name] for name in CURVE} == curve
    flow.ack(2)
    assert flow.cwnd == 4 * MSS, "slow start"


def test_timeouts_are_judged_by_what_held_when_the_last_ack_came() -> None:
    # While the sender backs off nothing is sent that could carry telemetry: it has to get stale.
    flow = Steered()
    flow.receive("wireless")
    flow.ack(1, cwnd_limited=0)
    for after_us in (300_000, 600_000, 1_200_000):
        timeout(flow, after_us=after_us)
        flow.algorithm.on_telemetry_lost("int_summary", "sink")
    assert events(flow) == [STARTED]
    assert flow.ssthresh_pkts == 100
    flow.ack(1, cwnd_limited=0)
    timeout(flow, after_us=300_000)
    assert events(flow) == [STARTED, TIMEOUT], "this data was sent without telemetry"


def test_last_sign_of_life_counts_when_telemetry_is_lost() -> None:
    flow = Steered()
    flow.ack(1, cwnd_limited=0, after_us=50_000)  # without a report
    flow.receive("wireless")
    flow.algorithm.on_telemetry_lost("int_summary", "sink")
    timeout(flow, after_us=300_000)
    assert (events(flow), flow.ssthresh_pkts) == ([STARTED], 100)


def test_timeout_without_telemetry_is_that_of_cubic() -> None:
    flow = Steered()
    timeout(flow)
    assert events(flow) == [STARTED, TIMEOUT]
    assert (flow.cwnd, flow.ssthresh_pkts) == (2 * MSS, 70)


# Live switching


def test_modes_change_from_loss_to_loss() -> None:
    flow = Steered(wireless_loss="cubic")
    expected = 100.0
    for mode, factor in (("cubic", 0.7), ("keep", 1.0), ("mild", 0.95), ("keep", 1.0), ("cubic", 0.7)):
        flow.param(wireless_loss=mode)
        flow.receive("wireless", after_us=300_000)
        flow.ack(0, cwnd_limited=0, after_us=1)  # the regular report
        flow.lose()
        expected *= factor
        assert flow.cwnd_pkts == pytest.approx(expected, abs=0.02), mode
        flow.repair()


def test_program_that_starts_again_gets_its_parameters_again() -> None:
    flow = Steered(wireless_loss="mild", wireless_beta=0.9, beta=0.8)
    flow.set(mild_permille=1000, cut_permille=700, episode=3)
    flow.ack(0, cwnd_limited=0)
    assert (flow["mild_permille"], flow["cut_permille"]) == (900, 800)


# Properties

ACKS = acks()
CAUSES = st.sampled_from(["none", "wireless", "overflow", "mixed"])
RECEIVED = st.dictionaries(st.integers(0, 99), st.tuples(CAUSES, st.sampled_from([ROOM, NO_ROOM, ()])))


def cubic_alongside(steered: Steered) -> Folded:
    """Return a flow of plain CUBIC that is where this one is."""
    flow = Folded(CubicFold, steered.cwnd_pkts)
    flow.ssthresh = steered.ssthresh
    flow.ack(0, cwnd_limited=0)
    return flow


@given(
    acks=ACKS, received=RECEIVED, in_avoidance=st.booleans(), mode=st.sampled_from(["keep", "mild", "cubic"])
)
def test_window_without_loss_is_that_of_cubic(
    acks: list[dict[str, Any]], received: dict[int, Any], in_avoidance: bool, mode: str
) -> None:
    steered = Steered(ssthresh_pkts=100 if in_avoidance else None, wireless_loss=mode)
    plain = cubic_alongside(steered)
    for i, ack in enumerate(acks):
        if i in received and received[i][0] in ("none", "wireless"):
            steered.receive(*received[i])
        steered.ack(**ack)
        plain.ack(**ack)
        assert steered.cwnd == plain.cwnd
    assert steered["ssthresh_bytes"] == plain["ssthresh_bytes"]


@given(acks=ACKS, received=RECEIVED, losses=st.sets(st.integers(0, 99), max_size=20), deaf=st.booleans())
def test_window_of_plain_mode_or_without_telemetry_is_that_of_cubic(
    acks: list[dict[str, Any]], received: dict[int, Any], losses: set[int], deaf: bool
) -> None:
    steered = Steered(wireless_loss="keep" if deaf else "cubic")
    plain = cubic_alongside(steered)
    for name in ("k_us", "w_max_bytes"):  # which Python sets
        plain.set(**{name: steered[name]})
    for i, ack in enumerate(acks):
        if i in received and not deaf:
            steered.receive(*received[i])
        for flow in (steered, plain):
            flow.ca_state = RECOVERY if i in losses else OPEN
            report = flow.ack(**ack, lost_pkts_sample=int(i in losses))
            if flow is plain and report is not None and report["event"] == CUT:
                plain.set(**{name: steered[name] for name in ("k_us", "w_max_bytes")})
        assert steered.cwnd == plain.cwnd


@given(acks=ACKS, losses=st.sets(st.integers(0, 99), max_size=50))
def test_wireless_losses_change_nothing_in_new_l1(acks: list[dict[str, Any]], losses: set[int]) -> None:
    lossy, calm = Steered(), Steered()
    for i, ack in enumerate(acks):
        for flow in (lossy, calm):
            flow.receive("wireless")
        lossy.ca_state = RECOVERY if i in losses else OPEN
        lossy.ack(**ack, lost_pkts_sample=int(i in losses))
        calm.ack(**ack)
        assert lossy.cwnd == calm.cwnd
        for register in ("ssthresh_bytes", *CURVE):
            assert lossy[register] == calm[register]


@given(
    acks=ACKS,
    received=RECEIVED,
    losses=st.sets(st.integers(0, 99), max_size=50),
    timeouts=st.sets(st.integers(0, 99), max_size=3),
    mode=st.sampled_from(["keep", "mild", "cubic"]),
    increment=st.integers(0, 3),
)
def test_whatever_is_received_losses_are_counted_once_and_the_window_stays_sane(
    acks: list[dict[str, Any]],
    received: dict[int, Any],
    losses: set[int],
    timeouts: set[int],
    mode: str,
    increment: int,
) -> None:
    flow = Steered(ssthresh_pkts=None, wireless_loss=mode, increment=increment)
    flow.reports.clear()
    lost = 0
    for i, ack in enumerate(acks):
        if i in received:
            flow.receive(*received[i])
        flow.ca_state = LOSS if i in timeouts else RECOVERY if i in losses else OPEN
        if i in timeouts:
            flow.cwnd = MSS
        lost += int(i in losses)
        flow.ack(**ack, lost_pkts_sample=int(i in losses), was_timeout=int(i in timeouts))
        assert 2 * MSS <= flow.cwnd <= 100_000 * MSS
        assert flow["ssthresh_bytes"] == INFINITY or flow["ssthresh_bytes"] <= 100_000 * MSS
    flow.ca_state = OPEN
    flow.ack(0, after_us=1_000_000, cwnd_limited=0)
    assert lost == sum(one["lost"] for one in flow.reports)
    assert lost == sum(one["spared_pkts"] + one["congestion_pkts"] for one in flow.reports)


def test_judgement_costs_little_where_nothing_is_lost() -> None:
    assert operators_on_a_quiet_ack(IntCubicFold) <= operators_on_a_quiet_ack(CubicFold) + 20
