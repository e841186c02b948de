"""R-Hybrid at the sender: which decision changes what, what is handed over, and what if nobody decides."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccp_algs.cubic import CubicFold
from ccp_algs.dctcp import DctcpFold
from ccp_algs.episodes import CUT, STARTED
from ccp_algs.r_hybrid import CubicProgram, DctcpProgram, MarksProgram
from ccp_algs.simulated_flow import FakeInfo
from ccplane.base.flows import EcnMode
from tests.unit.ccp_algs.folded import CWR, INFINITY, LOSS, MSS, OPEN, RECOVERY, Folded, acks
from tests.unit.ccp_algs.steered import MIN_RTT_US, Hybrid

PEER = FakeInfo().dst_addr


# Which decision changes what


def test_flow_begins_shared_and_follows_the_decisions_on_its_path() -> None:
    flow = Hybrid()
    assert (flow.program, flow.reported) == ("cubic", [])
    flow.receive("SINGLE_OWNER", reason="density 0.2")
    assert flow.program == "dctcp"
    flow.receive("SINGLE_OWNER")
    flow.receive("SHARED")
    assert flow.program == "cubic"
    assert flow.reported == [
        (
            "regime:switched",
            {"before": "cubic", "after": "dctcp", "regime": "SINGLE_OWNER", "reason": "density 0.2"},
        ),
        (
            "regime:switched",
            {"before": "dctcp", "after": "cubic", "regime": "SHARED", "reason": "decision of receiver"},
        ),
    ]


@pytest.mark.parametrize(
    ("said", "program"),
    [
        ({}, "dctcp"),
        ({"peer": "2001:db8:0::1"}, "dctcp"),
        ({"peer": None}, "dctcp"),
        ({"peer": PEER}, "cubic"),  # of data that comes to us
        ({"kind": "receiver_signal"}, "cubic"),
    ],
)
def test_decision_of_another_direction_or_kind_is_none(said: dict[str, Any], program: str) -> None:
    flow = Hybrid()
    flow.receive(**said)
    assert flow.program == program


def test_ipv4_in_ipv6_is_ipv4() -> None:
    flow = Hybrid()
    flow.info = FakeInfo(src_addr="10.0.0.1")
    flow.receive(peer="::ffff:10.0.0.1")
    assert flow.program == "dctcp"


def test_flow_with_accecn_becomes_dctcp() -> None:
    flow = Hybrid(ecn_mode="accecn")
    flow.receive("SINGLE_OWNER")
    assert flow.program == "dctcp"
    assert "regime:refused" not in flow.kinds


def test_flow_without_ecn_stays_with_cubic_and_says_so_once() -> None:
    flow = Hybrid(ecn_mode="none")
    for _ in range(2):
        flow.receive("SINGLE_OWNER")
        flow.receive("SHARED")
    assert flow.program == "cubic"
    ((kind, detail),) = flow.reported
    assert (kind, detail["wanted"]) == ("regime:refused", "dctcp")
    assert "ECN" in detail["why"]


# What is handed over


@pytest.mark.parametrize("handover", ["carry", "reset"])
@pytest.mark.parametrize("regime", ["SINGLE_OWNER", "SHARED"])
def test_window_stays_and_the_threshold_is_handed_over_or_forgotten(handover: str, regime: str) -> None:
    flow = Hybrid(cwnd_pkts=80, handover=handover, start="single_owner" if regime == "SHARED" else "shared")
    flow.set(ssthresh_bytes=60 * MSS)  # not the kernel's, as behind HyStart
    flow.later(200)  # it is reported
    flow.receive(regime)
    assert flow.cwnd_pkts == 80
    assert flow["ssthresh_bytes"] == (60 * MSS if handover == "carry" else INFINITY)
    flow.ack(1)
    assert flow.cwnd_pkts == (80 if handover == "carry" else 81), "slow start adds what is acknowledged"


def test_slow_start_that_is_not_over_goes_on_after_a_switch() -> None:
    flow = Hybrid(cwnd_pkts=20, ssthresh_pkts=None)
    flow.receive("SINGLE_OWNER")
    assert flow["ssthresh_bytes"] == INFINITY


def test_first_switch_before_any_report_takes_the_kernels_threshold() -> None:
    flow = Hybrid(ssthresh_pkts=90)
    flow.algorithm.on_create(flow.info)
    flow.receive("SINGLE_OWNER")
    assert flow.ssthresh_pkts == 90


def test_curve_and_alpha_begin_again() -> None:
    flow = Hybrid()
    flow.set(w_max_bytes=120 * MSS, epoch=1)
    flow.receive("SINGLE_OWNER")
    assert flow.reports[-1]["alpha_ppm"] == 1_000_000
    flow.receive("SHARED")
    assert (flow["w_max_bytes"], flow["epoch"]) == (0, 0)


def test_reports_of_a_former_run_of_the_program_are_passed_over() -> None:
    flow = Hybrid()
    flow.lose()
    old = next(report for report in flow.reports if report["event"] == CUT)
    flow.receive("SINGLE_OWNER", ack=False)
    flow.receive("SHARED", ack=False)
    fresh = dict(flow.interpreter.controls)
    flow.take(old)
    assert flow.interpreter.controls == fresh
    flow.ack(0, cwnd_limited=0)
    assert flow.reports[-1]["event"] == STARTED
    flow.take(old)
    assert flow["k_us"] == 4_217_163, "from then on reports count: K is the cube root of 30 / 0.4 s^3"


def test_first_report_counts_if_that_of_the_start_found_no_room() -> None:
    flow = Hybrid()
    flow.lose()
    cut = flow.reports[-1]
    flow.receive("SINGLE_OWNER", ack=False)
    flow.receive("SHARED", ack=False)
    flow.take(cut, missed=1)
    assert flow["k_us"] > 0


def test_program_that_starts_again_gets_its_parameters_again() -> None:
    flow = Hybrid(shared_pacing_ratio=1.5, shared_ecn="queue", rtt_multiplier=3.0)
    flow.receive("SINGLE_OWNER")
    flow.receive("SHARED")
    flow.set(
        pace_permille=0, ecn_counts=0, k_permille=2000, cut_permille=1, episode=3
    )  # the fallback had the flow
    flow.ack(0, cwnd_limited=0)
    wanted = {"pace_permille": 1500, "ecn_counts": 1, "k_permille": 3000, "cut_permille": 700}
    assert {name: flow[name] for name in wanted} == wanted


# BBR


def test_bbr_may_take_the_place_of_cubic() -> None:
    flow = Hybrid(shared="bbr3", single_rate_bytes_per_s=125_000_000)
    assert flow.program == "bbr3"
    flow.receive("SINGLE_OWNER")
    assert (flow.program, flow.rate_bytes_per_s) == ("dctcp", 125_000_000)
    flow.set(ssthresh_bytes=60 * MSS)
    flow.later(200)
    flow.receive("SHARED")
    assert (flow.program, flow["is_full"]) == ("bbr3", 0)
    assert 0 < flow.rate_bytes_per_s < 125_000_000, "its own"
    flow.receive("SINGLE_OWNER")
    assert flow.ssthresh_pkts == 60, "that before BBR, which has none"


def test_control_of_the_shared_regime_changes_while_the_flow_runs() -> None:
    flow = Hybrid()
    flow.param(shared="bbr3")
    flow.later(200)
    assert flow.reported[-1][1]["after"] == "bbr3"
    flow.param(shared="cubic", shared_ecn="ignore")
    flow.ack(0, cwnd_limited=0)
    assert (flow.program, flow.rate_bytes_per_s) == ("cubic_marks", 0)


# Nobody decides any more


def test_flow_is_shared_some_time_after_its_decisions_were_lost() -> None:
    flow = Hybrid(stale_ms=500)
    flow.receive("SINGLE_OWNER")
    flow.later(200)
    flow.lose_telemetry()
    flow.later(499)
    assert flow.program == "dctcp"
    flow.later(101)
    assert flow.program == "cubic"
    assert flow.kinds == ["regime:switched", "regime:fail_safe", "regime:switched"]
    why = flow.reported[1][1]["why"]
    assert "receiver" in why
    assert "500 ms" in why
    assert flow.reported[2][1] == {"before": "dctcp", "after": "cubic", "regime": "SHARED", "reason": why}
    flow.later(10_000)
    assert len(flow.reported) == 3


def test_idle_flow_is_shared_with_its_first_report() -> None:
    flow = Hybrid(stale_ms=500)
    flow.receive("SINGLE_OWNER")
    flow.now_us += 10_000_000
    flow.lose_telemetry()
    flow.later(0.001)
    assert flow.program == "cubic"


def test_decision_that_comes_in_time_keeps_the_regime() -> None:
    flow = Hybrid(stale_ms=500)
    flow.receive("SINGLE_OWNER")
    flow.lose_telemetry()
    flow.later(400)
    flow.receive("SINGLE_OWNER")
    flow.later(10_000)
    assert (flow.program, flow.kinds) == ("dctcp", ["regime:switched"])


def test_loss_of_what_did_not_decide_last_changes_nothing() -> None:
    flow = Hybrid(stale_ms=0)
    flow.receive("SINGLE_OWNER", sender="before")
    flow.receive("SINGLE_OWNER", sender="receiver")
    flow.lose_telemetry("before")
    flow.algorithm.on_telemetry_lost("receiver_signal", "receiver")
    assert flow.program == "dctcp"


def test_lost_decision_of_shared_is_no_event() -> None:
    flow = Hybrid(stale_ms=0)
    flow.receive("SHARED")
    flow.lose_telemetry()
    flow.later(1_000)
    assert (flow.program, flow.reported) == ("cubic", [])


def test_start_in_single_owner_needs_a_decision_soon() -> None:
    flow = Hybrid(start="single_owner", stale_ms=500)
    assert flow.program == "dctcp"
    flow.later(499)
    assert flow.program == "dctcp"
    flow.later(200)
    assert flow.program == "cubic"
    assert flow.kinds == ["regime:fail_safe", "regime:switched"]
    decided = Hybrid(start="single_owner", stale_ms=500)
    decided.receive("SINGLE_OWNER")
    decided.later(10_000)
    assert decided.program == "dctcp"


# ECN echoes in SHARED


def mark(flow: Hybrid, rtt_us: int) -> None:
    """Fold an ACK with an ECN echo and an RTT."""
    flow.ca_state = CWR
    flow.ack(1, ecn_bytes=MSS, cwnd_limited=0, rtt_us=rtt_us)


@pytest.mark.parametrize(
    ("shared_ecn", "rtt_us", "cwnd_pkts"),
    [
        ("abe", MIN_RTT_US, 85),
        ("abe", MIN_RTT_US + 1000, 85),
        ("abe", 9 * MIN_RTT_US, 85),
        ("abe", 0, 85),
        ("loss", MIN_RTT_US, 70),
        ("loss", 2 * MIN_RTT_US, 70),
        ("queue", 2 * MIN_RTT_US - 1, 100),
        ("queue", 2 * MIN_RTT_US, 70),
        ("ignore", MIN_RTT_US, 100),
        ("ignore", 9 * MIN_RTT_US, 100),
    ],
)
def test_mark_costs_less_than_a_loss_or_as_much_or_needs_a_queue_or_is_ignored(
    shared_ecn: str, rtt_us: int, cwnd_pkts: int
) -> None:
    flow = Hybrid(shared_ecn=shared_ecn, prr="never")
    mark(flow, rtt_us)
    assert flow.cwnd_pkts == pytest.approx(cwnd_pkts, abs=0.01)


@pytest.mark.parametrize(
    ("early_ecn_beta", "rtt_us", "cwnd_pkts"),
    [
        (0.95, MIN_RTT_US, 95),
        (0.95, MIN_RTT_US + 999, 95),
        (0.95, MIN_RTT_US + 1000, 85),
        (0.7, MIN_RTT_US, 85),
    ],
)
def test_early_mark_may_cost_even_less(early_ecn_beta: float, rtt_us: int, cwnd_pkts: int) -> None:
    flow = Hybrid(early_ecn_beta=early_ecn_beta, prr="never")
    mark(flow, rtt_us)
    assert flow.cwnd_pkts == pytest.approx(cwnd_pkts, abs=0.01)


def test_reduction_after_a_mark_takes_a_round_trip() -> None:
    flow = Hybrid()
    flow.ca_state = CWR
    for acked in range(1, 101):
        flow.ack(1, ecn_bytes=MSS, cwnd_limited=0, bytes_in_flight=round((100 - 0.15 * acked) * MSS))
        assert flow.cwnd_pkts == pytest.approx(100 - 0.15 * acked, abs=1.5)
    assert flow.cwnd_pkts == pytest.approx(85, abs=0.01)


@pytest.mark.parametrize("shared_ecn", ["abe", "loss", "queue", "ignore"])
@pytest.mark.parametrize("ca_state", [OPEN, RECOVERY])
def test_loss_is_congestion_whatever_marks_are(shared_ecn: str, ca_state: int) -> None:
    flow = Hybrid(shared_ecn=shared_ecn, prr="never")
    if shared_ecn in ("queue", "ignore"):
        mark(flow, MIN_RTT_US)
    flow.lose(ca_state, rtt_us=MIN_RTT_US)
    assert flow.cwnd_pkts == pytest.approx(70, abs=0.01)


@pytest.mark.parametrize("shared_ecn", ["abe", "ignore"])
def test_full_queue_of_this_host_is_congestion_whatever_marks_are(shared_ecn: str) -> None:
    flow = Hybrid(shared_ecn=shared_ecn, prr="never")
    flow.ca_state = CWR
    flow.ack(0, cwnd_limited=0, local_congestion=1)
    assert flow.cwnd_pkts == pytest.approx(70, abs=0.01)


def test_the_curve_begins_where_a_mark_left_the_window() -> None:
    """K = cbrt((W_max - cwnd_epoch) / C), RFC 9438 section 4.2: (15 / 0.4) ^ (1/3) s of 100 segments."""
    kept = {}
    for beta in (0.85, 0.7):
        flow = Hybrid(ecn_beta=beta)
        mark(flow, 2 * MIN_RTT_US)
        kept[beta] = flow["k_us"]
    assert kept == {0.85: pytest.approx(3.347e6, rel=0.01), 0.7: pytest.approx(4.217e6, rel=0.01)}


def test_treatment_of_marks_changes_while_the_flow_runs() -> None:
    flow = Hybrid()
    flow.param(shared_ecn="ignore")
    flow.later(200)
    assert flow.program == "cubic_marks"
    assert flow.reported[-1][1]["reason"] == "parameter changed"
    flow.ack(0, cwnd_limited=0)
    mark(flow, 9 * MIN_RTT_US)
    assert flow.cwnd_pkts == 100
    flow.param(shared_ecn="queue")
    flow.later(200)
    assert (flow.program, flow["ecn_counts"]) == ("cubic_marks", 1)


# Pacing


def test_each_regime_has_its_pacing() -> None:
    flow = Hybrid(single_rate_bytes_per_s=125_000_000, shared_pacing_ratio=1.2)
    window_a_round = 100 * MSS * 10  # at a smoothed RTT of 100 ms
    assert flow.rate_bytes_per_s == pytest.approx(1.2 * window_a_round, rel=0.001)
    flow.receive("SINGLE_OWNER")
    assert flow.rate_bytes_per_s == 125_000_000
    flow.receive("SHARED")
    assert flow.rate_bytes_per_s == pytest.approx(1.2 * window_a_round, rel=0.001)
    flow.param(shared_pacing_ratio=0)
    flow.later(200)
    flow.ack(0, cwnd_limited=0)
    assert flow.rate_bytes_per_s == 0


# Properties

ACKS = acks(ecn_bytes=st.sampled_from([0, 0, 0, MSS]), lost_pkts_sample=st.sampled_from([0, 0, 0, 0, 1]))
STATES = st.lists(st.sampled_from([OPEN, OPEN, OPEN, CWR, RECOVERY]), min_size=100, max_size=100)


@given(acks=ACKS, states=STATES, dctcp=st.booleans())
def test_programs_are_those_of_cubic_and_dctcp(
    acks: list[dict[str, Any]], states: list[int], dctcp: bool
) -> None:
    own, other = (
        Folded(program, 100)
        for program in ((DctcpProgram, DctcpFold) if dctcp else (CubicProgram, CubicFold))
    )
    for ack, state in zip(acks, states, strict=False):
        for flow in (own, other):
            flow.ca_state = state
            flow.ack(**ack)
        assert own.cwnd == other.cwnd
    assert own["ssthresh_bytes"] == other["ssthresh_bytes"]


@given(acks=ACKS, marks=st.sets(st.integers(0, 99)))
def test_marks_that_are_ignored_change_nothing(acks: list[dict[str, Any]], marks: set[int]) -> None:
    marked, calm = Folded(MarksProgram, 100), Folded(MarksProgram, 100)
    for flow in (marked, calm):
        flow.ack(0)  # a program that starts in CWR finds a reduction under way
    for i, ack in enumerate(acks):
        for flow, has_mark in ((marked, i in marks), (calm, False)):
            flow.ca_state = RECOVERY if ack["lost_pkts_sample"] else CWR if has_mark else OPEN
            flow.ack(**ack | {"ecn_bytes": MSS * int(has_mark)})
        if not any(one["lost_pkts_sample"] for one in acks[: i + 1]):
            assert marked.cwnd == calm.cwnd
    assert (marked["ssthresh_bytes"] == INFINITY) == (calm["ssthresh_bytes"] == INFINITY)


@given(
    acks=ACKS,
    states=STATES,
    received=st.dictionaries(st.integers(0, 99), st.sampled_from(["SINGLE_OWNER", "SHARED", "lost"])),
    timeouts=st.sets(st.integers(0, 99), max_size=3),
    handover=st.sampled_from(["carry", "reset"]),
    shared_ecn=st.sampled_from(["abe", "loss", "queue", "ignore"]),
    ecn_mode=st.sampled_from(["none", "rfc3168", "accecn"]),
    shared=st.sampled_from(["cubic", "bbr3"]),
)
def test_whatever_is_decided_the_window_stays_sane_and_the_program_is_that_of_the_regime(
    acks: list[dict[str, Any]],
    states: list[int],
    received: dict[int, str],
    timeouts: set[int],
    handover: str,
    shared_ecn: str,
    ecn_mode: EcnMode,
    shared: str,
) -> None:
    params = {"handover": handover, "shared_ecn": shared_ecn, "shared": shared, "stale_ms": 0}
    flow = Hybrid(ssthresh_pkts=None, ecn_mode=ecn_mode, **params)
    regime = "SHARED"
    for i, (ack, state) in enumerate(zip(acks, states, strict=False)):
        if received.get(i) == "lost":
            flow.lose_telemetry()
            regime = "SHARED"
        elif i in received:
            before = flow.cwnd
            flow.receive(received[i], ack=False)
            assert flow.cwnd == before
            regime = received[i]
        flow.ca_state = LOSS if i in timeouts else state
        if i in timeouts:
            flow.cwnd = MSS
        flow.ack(**ack, was_timeout=int(i in timeouts))
        assert 2 * MSS <= flow.cwnd <= 100_000 * MSS
        if flow.program != "bbr3":
            assert flow["ssthresh_bytes"] == INFINITY or flow["ssthresh_bytes"] <= 100_000 * MSS
        assert (flow.program == "dctcp") == (regime == "SINGLE_OWNER" and ecn_mode != "none")
    assert flow.kinds.count("regime:refused") <= 1
