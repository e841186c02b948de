"""CUBIC: formulas by hand, the curve against RFC 9438 in floating point, and what Python decides."""

import math
from typing import Any

import pytest

from ccp_algs import ParamError
from ccp_algs.cubic import Cubic, CubicFold
from ccp_algs.cubic_core import K_UNKNOWN, alpha_permille, cubic_scale, k_us, w_max_bytes
from ccp_algs.episodes import CUT, STARTED, TIMEOUT, UNDO
from ccp_algs.simulated_flow import FakeInfo, FakeReport, RecordingFlow
from tests.unit.ccp_algs.folded import LOSS, MSS, OPEN, RECOVERY, Folded, operators_on_a_quiet_ack, timeout


def test_k_is_the_cube_root_of_the_deficit() -> None:
    # Section 4.2: W_max 100, window 70 segments: cbrt(30 / 0.4) = 4.217163 s.
    assert k_us(100 * MSS, 70 * MSS, MSS) == 4_217_163
    assert k_us(100 * MSS, 100 * MSS, MSS) == 0
    assert k_us(50 * MSS, 70 * MSS, MSS) == 0
    assert k_us(100 * MSS, 92 * MSS, MSS, c_per_s3=1.0) == 2_000_000


def test_fast_convergence_aims_lower_when_the_last_peak_was_not_reached() -> None:
    # Section 4.7: 80 * (1 + 0.7) / 2 = 68.
    assert w_max_bytes(80_000, 100_000) == 68_000
    assert w_max_bytes(80_000, 80_000) == 80_000
    assert w_max_bytes(80_000, 100_000, fast_convergence=False) == 80_000
    assert w_max_bytes(80_000, 100_000, beta=0.5) == 60_000


def test_alpha_is_fair_to_reno() -> None:
    # Section 4.3: 3 * 0.3 / 1.7 = 0.529; with beta 0.5 it is Reno's 1.
    assert alpha_permille(0.7) == 529
    assert alpha_permille(0.5) == 1000


@pytest.mark.parametrize(("mss", "seconds"), [(536, 1.0), (1448, 4.0), (8948, 30.0), (65483, 100.0)])
def test_scale_turns_cubed_time_into_bytes(mss: int, seconds: float) -> None:
    units = int(seconds * 1e6) // 1024
    assert units**3 // cubic_scale(mss) == pytest.approx(0.4 * seconds**3 * mss, rel=4e-3)


@pytest.mark.parametrize("call", [lambda: k_us(1, 1, 0), lambda: cubic_scale(1448, 0.0)])
def test_error_when_a_divisor_is_not_positive(call: Any) -> None:
    with pytest.raises(ParamError) as caught:
        call()
    assert caught.value.slug == "param.out_of_range"


class Reference:
    """Congestion avoidance of RFC 9438 sections 4.2 to 4.5, in segments and seconds, ACK by ACK."""

    def __init__(
        self, cwnd: float, w_max: float, k_s: float, prior: float, rtt_s: float, alpha: float = 0.9 / 1.7
    ):
        self.cwnd, self.w_max, self.k_s, self.rtt_s, self.prior = cwnd, w_max, k_s, rtt_s, prior
        self.w_est, self.alpha, self.t_s = cwnd, alpha, 0.0

    def ack(self, pkts: float, after_s: float) -> None:
        self.t_s += after_s
        if self.w_est >= self.prior:
            self.alpha = 1.0
        self.w_est += self.alpha * pkts / self.cwnd
        if self.w_cubic(self.t_s) < self.w_est:
            self.cwnd = max(self.cwnd, self.w_est)
        else:
            target = min(max(self.w_cubic(self.t_s + self.rtt_s), self.cwnd), 1.5 * self.cwnd)
            self.cwnd += pkts * (target - self.cwnd) / self.cwnd

    def w_cubic(self, t_s: float) -> float:
        return 0.4 * (t_s - self.k_s) ** 3 + self.w_max


def after_loss(cwnd_pkts: int, rtt_us: int, answer: bool = True) -> Folded:
    """Return a flow that has just repaired a loss at `cwnd_pkts`, with Python's answer applied or not."""
    flow = Folded(CubicFold, cwnd_pkts)
    flow.srtt_us = rtt_us
    flow.ssthresh = cwnd_pkts * MSS
    flow.ack(0, cwnd_limited=0)
    flow.ca_state = RECOVERY
    report = flow.ack(0, lost_pkts_sample=1)
    assert report is not None
    if answer:
        flow.set(**Cubic().curve(FakeReport({}, report, "Cubic")))
    flow.ca_state = OPEN
    flow.ack(0, cwnd_limited=0)
    return flow


@pytest.mark.parametrize(
    ("cwnd_pkts", "rtt_us", "seconds"),
    [
        (100, 100_000, 12),  # concave, plateau at 4.2 s, convex
        (1000, 50_000, 20),  # K = 9.1 s
        (10_000, 200_000, 25),  # long and fat: K = 19.6 s
        (40, 20_000, 8),  # Reno-friendly: W_est is ahead of the curve
        (700_000, 100_000, 100),  # 1 GB: K = 80.7 s
    ],
)
def test_window_follows_the_curve_of_the_rfc(cwnd_pkts: int, rtt_us: int, seconds: int) -> None:
    flow = after_loss(cwnd_pkts, rtt_us)
    k_s = math.cbrt(0.3 * cwnd_pkts / 0.4)
    reference = Reference(0.7 * cwnd_pkts, cwnd_pkts, k_s, cwnd_pkts, rtt_us / 1e6)
    acks_per_round = 20
    for _ in range(seconds * 1_000_000 // rtt_us):
        for _ in range(acks_per_round):
            pkts = reference.cwnd / acks_per_round
            flow.ack(flow.cwnd / MSS / acks_per_round, after_us=rtt_us // acks_per_round)
            reference.ack(pkts, rtt_us / 1e6 / acks_per_round)
        assert flow.cwnd / MSS == pytest.approx(reference.cwnd, rel=0.01, abs=1)


def test_only_the_reno_window_grows_until_python_has_answered() -> None:
    # Section 4.3: alpha 0.529 a round trip; 20 round trips at 70 segments: 10.6 segments.
    flow = after_loss(100, 100_000, answer=False)
    assert flow["k_us"] == K_UNKNOWN
    for _ in range(20):
        flow.round_trip()
    assert flow.cwnd / MSS == pytest.approx(70 + 20 * 0.529, abs=1)


def test_target_is_at_most_half_a_window_more() -> None:
    # Section 4.2: far behind K the curve is steep; in one round trip the window grows by half at most.
    flow = after_loss(100, 100_000)
    flow.round_trip()
    flow.set(t_us=100_000_000)
    before = flow.cwnd
    flow.round_trip(pkts_per_ack=1)
    assert 1.4 * before < flow.cwnd <= 1.5 * 1.5 * before
    flow.set(t_us=4 * 3600 * 1_000_000)  # hours: nothing overflows
    flow.round_trip()
    flow.set(t_us=(1 << 63) - 1)
    flow.round_trip()


def test_time_in_which_the_window_is_not_used_up_does_not_count() -> None:
    # Section 5.8.
    flow = after_loss(100, 100_000)
    flow.round_trip()
    t_us, cwnd = flow["t_us"], flow.cwnd
    for _ in range(100):
        flow.ack(1, after_us=100_000, cwnd_limited=0)
    assert (flow["t_us"], flow.cwnd) == (t_us, cwnd)
    flow.round_trip()
    assert t_us < flow["t_us"] <= t_us + 2 * 100_000


def test_silence_counts_as_a_round_trip_at_most() -> None:
    flow = after_loss(100, 100_000)
    flow.round_trip()
    t_us = flow["t_us"]
    flow.ack(10, after_us=60_000_000)
    assert flow["t_us"] == t_us + 100_000


def test_curve_begins_at_the_window_when_slow_start_ends_without_loss() -> None:
    # Section 4.10: K = 0, W_max = the window at the beginning of congestion avoidance.
    flow = Folded(CubicFold, 200)
    flow.ssthresh = 200 * MSS
    flow.round_trip()
    assert (flow["k_us"], flow["w_max_bytes"]) == (0, 200 * MSS)


def test_window_grows_by_a_twentieth_a_round_trip_when_there_was_no_loss_yet() -> None:
    # Linux: cnt is at most 20 until there is a W_max. The curve alone: 0.4 * 1 s^3, not a segment.
    flow = Folded(CubicFold, 1000)
    flow.ssthresh = 1000 * MSS
    for _ in range(10):
        flow.round_trip()
    assert flow.cwnd / MSS == pytest.approx(1000 * 1.05**10, rel=0.02)


def test_curve_begins_at_the_window_after_a_timeout() -> None:
    # Section 4.8.
    flow = after_loss(100, 100_000)
    flow.round_trip()
    prior = flow.cwnd
    flow.ca_state = LOSS
    flow.cwnd = MSS
    report = flow.ack(0, was_timeout=1, lost_pkts_sample=70, bytes_in_flight=0)
    assert report is not None
    assert (report["event"], report["prior_bytes"]) == (TIMEOUT, prior)
    flow.ca_state = OPEN
    while flow.cwnd < flow["ssthresh_bytes"]:
        flow.round_trip(pkts_per_ack=1)
    flow.round_trip(pkts_per_ack=1)
    assert flow["k_us"] == 0
    assert flow["ssthresh_bytes"] <= flow["w_max_bytes"] < flow["ssthresh_bytes"] + MSS


def test_undone_reduction_resumes_the_old_curve() -> None:
    # Section 4.9.
    flow = after_loss(100, 100_000)
    for _ in range(10):
        flow.round_trip()
    before = {name: flow[name] for name in ("w_max_bytes", "k_us", "t_us", "w_est_bytes", "epoch")}
    cwnd = flow.cwnd
    flow.ca_state = RECOVERY
    cut = flow.ack(0, lost_pkts_sample=1)
    assert cut is not None
    flow.set(**Cubic().curve(FakeReport({}, cut, "Cubic")))
    flow.ca_state = OPEN
    flow.cwnd = cwnd
    undone = flow.ack(0, cwnd_limited=0)
    assert undone is not None
    assert undone["event"] == UNDO
    flow.set(**Cubic().restored(FakeReport({}, undone, "Cubic")))
    assert {name: flow[name] for name in before} == before
    assert undone["prior_bytes"] == 100 * MSS


def test_undone_first_reduction_leaves_the_path_unknown() -> None:
    # Section 4.9 restores cwnd_prior: there was none, so the window grows by at least 5 % per round trip.
    flow = Folded(CubicFold, 100)
    flow.ssthresh = 100 * MSS
    flow.ack(0, cwnd_limited=0)
    flow.ca_state = RECOVERY
    flow.ack(0, lost_pkts_sample=1)
    flow.ca_state = OPEN
    flow.cwnd = 100 * MSS
    undone = flow.ack(0, cwnd_limited=0)
    assert undone is not None
    flow.set(**Cubic().restored(FakeReport({}, undone, "Cubic")))
    assert undone["prior_bytes"] == 0
    flow.round_trip()
    flow.round_trip()
    assert flow.cwnd >= 107 * MSS


def test_undone_timeout_in_recovery_resumes_the_curve_before_the_recovery() -> None:
    flow = after_loss(100, 100_000)
    for _ in range(10):
        flow.round_trip()
    before = {name: flow[name] for name in ("w_max_bytes", "k_us", "t_us", "w_est_bytes", "epoch")}
    cwnd = flow.cwnd
    flow.ca_state = RECOVERY
    cut = flow.ack(0, lost_pkts_sample=1)
    assert cut is not None
    flow.set(**Cubic().curve(FakeReport({}, cut, "Cubic")))
    timeout(flow)
    flow.ca_state = OPEN
    flow.cwnd = cwnd  # the kernel restores the window from before the recovery
    undone = flow.ack(0, cwnd_limited=0)
    assert undone is not None
    assert undone["event"] == UNDO
    flow.set(**Cubic().restored(FakeReport({}, undone, "Cubic")))
    assert {name: flow[name] for name in before} == before
    assert undone["prior_bytes"] == 100 * MSS


def report(**fields: int) -> FakeReport:
    program_fields = dict.fromkeys(CubicFold.report_fields, 0) | {"mss_bytes": MSS} | fields
    return FakeReport({"now_us": 0, "cwnd_bytes": 70 * MSS}, program_fields, "Cubic")


def cubic() -> tuple[Cubic, RecordingFlow]:
    algorithm = Cubic()
    flow = RecordingFlow(FakeInfo(), {"default": CubicFold.source})
    algorithm.flow = flow
    algorithm.on_create(FakeInfo())
    return algorithm, flow


def test_reduction_is_answered_with_a_new_curve() -> None:
    algorithm, flow = cubic()
    algorithm.on_report(report(event=CUT, prior_bytes=80 * MSS, old_w_max_bytes=100 * MSS))
    # Section 4.7: W_max = 68; section 4.2: K = cbrt((68 - 56) / 0.4) = 3.107 s.
    assert flow.calls[-1][1]["w_max_bytes"] == 68 * MSS
    assert flow.calls[-1][1]["k_us"] == pytest.approx(3_107_233, abs=10)


def test_ordinary_report_needs_no_answer() -> None:
    algorithm, flow = cubic()
    calls = len(flow.calls)
    algorithm.on_report(report(acked=MSS))
    assert len(flow.calls) == calls


def test_changed_parameter_reaches_the_fold_program() -> None:
    algorithm, flow = cubic()
    algorithm.beta, algorithm.report_ms = 0.8, 5.0
    algorithm.on_params(frozenset({"beta", "report_ms"}))
    assert flow.calls[-1][1]["report_us"] == 5000
    assert flow.calls[-1][1]["cut_permille"] == 800
    assert flow.calls[-1][1]["alpha_permille"] == 333


def test_parameters_are_handed_over_again_when_the_program_started_again() -> None:
    algorithm, flow = cubic()
    calls = len(flow.calls)
    algorithm.on_report(report(event=STARTED))
    assert len(flow.calls) == calls + 1
    assert flow.calls[-1][1]["cut_permille"] == 700


def test_common_path_is_short() -> None:
    assert operators_on_a_quiet_ack(CubicFold) <= 40
