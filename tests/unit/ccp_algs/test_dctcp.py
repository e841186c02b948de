from pathlib import Path

import pytest

from ccp_algs.dctcp import Dctcp, DctcpFold
from ccp_algs.reduction import ECHO
from ccp_algs.simulated_flow import FakeInfo, RecordingFlow
from experiments.run import run
from experiments.scenario import Scenario
from tests.unit.ccp_algs.folded import CWR, INFINITY, MSS, Folded


def window(flow: Folded, marked: float, pkts: int = 100) -> None:
    """Fold a window of `pkts` segments with a part of it marked."""
    for i in range(pkts):
        ecn_bytes = MSS if i < marked * pkts else 0
        flow.ack(1, after_us=10, ecn_bytes=ecn_bytes, bytes_in_flight=pkts * MSS, cwnd_limited=0)


def alpha(flow: Folded) -> float:
    """Return alpha; it is in the regular report."""
    report = flow.ack(0, after_us=200_000, cwnd_limited=0, bytes_in_flight=0)
    assert report is not None
    return report["alpha_ppm"] / 1e6


def started() -> Folded:
    flow = Folded(DctcpFold, 100, report_us=100_000)
    flow.ssthresh = 100 * MSS
    return flow


def test_alpha_begins_at_one_and_decays_without_marks() -> None:
    # RFC 8257 section 3.3: alpha = alpha * (1 - 1/16) a window; section 4.2: alpha begins at 1.
    flow = started()
    flow.ack(0, cwnd_limited=0)
    for _ in range(16):
        window(flow, 0.0)
    assert alpha(flow) == pytest.approx((15 / 16) ** 16, rel=0.07)


def test_alpha_tends_to_the_part_that_is_marked() -> None:
    flow = started()
    for _ in range(200):
        window(flow, 0.25)
    assert alpha(flow) == pytest.approx(0.25, abs=0.02)


def test_window_shrinks_in_proportion_once_a_window() -> None:
    # RFC 8257 section 3.3, step 9: cwnd * (1 - alpha / 2).
    flow = started()
    for _ in range(200):
        window(flow, 0.25)
    flow.delivered_bytes += 1000 * MSS
    flow.ack(1, bytes_in_flight=80 * MSS, cwnd_limited=0)  # begins a window of 80 segments
    flow.cwnd = 100 * MSS
    part = 1 - alpha(flow) / 2
    flow.ack(1, ecn_bytes=MSS, bytes_in_flight=80 * MSS)
    reduced = flow.cwnd
    assert reduced / MSS == pytest.approx(100 * part, abs=0.01)
    assert flow["ssthresh_bytes"] == reduced
    for _ in range(80):
        flow.ack(1, ecn_bytes=MSS, bytes_in_flight=80 * MSS)
    assert flow.cwnd == reduced
    flow.ack(1, ecn_bytes=MSS, bytes_in_flight=80 * MSS)
    assert flow.cwnd < reduced


def test_first_mark_ends_slow_start_and_halves() -> None:
    flow = Folded(DctcpFold, 100)
    flow.ack(0, cwnd_limited=0)
    flow.ca_state = CWR
    flow.ack(1, ecn_bytes=MSS)
    assert flow.cwnd == 50 * MSS == flow["ssthresh_bytes"]


def test_window_grows_by_a_segment_a_round_trip_without_marks() -> None:
    flow = started()
    flow.ack(0, cwnd_limited=0)
    for _ in range(10):
        flow.round_trip(pkts_per_ack=1)
    assert flow.cwnd / MSS == pytest.approx(110, abs=1)


def test_sockets_ask_for_ecn_and_parameters_reach_the_fold_program() -> None:
    assert Dctcp.needs_ecn
    algorithm = Dctcp()
    flow = RecordingFlow(FakeInfo(), {"default": DctcpFold.source})
    algorithm.flow = flow
    algorithm.g = 0.25
    algorithm.on_create(FakeInfo())
    assert flow.calls[-1][1] == {
        "prr": ECHO,
        "g_inverse": 4,
        "cut_permille": 500,
        "configured": 1,
        "report_us": INFINITY,
    }
    algorithm.beta, algorithm.report_ms = 0.7, 20.0
    algorithm.on_params(frozenset({"beta", "report_ms"}))
    assert flow.calls[-1][1] == {
        "prr": ECHO,
        "g_inverse": 4,
        "cut_permille": 700,
        "configured": 1,
        "report_us": 20_000,
    }


# Over a queue that marks

RATE_BYTES_PER_S = 6.25e6
BASE_RTT_US = 20_000
THRESHOLD_US = 5_000  # a quarter of the RTT; RFC 8257 section 4 wants more than a seventh
DESCRIPTION = f"""
name: dctcp
datapath: sim
topology:
  kind: point_to_point
  forward:
    rate_bytes_per_s: {RATE_BYTES_PER_S}
    delay_us: {BASE_RTT_US // 2}
    buffer: {{packets: 500}}
    queue: {{kind: drop_tail, ce_threshold_us: {THRESHOLD_US}}}
flows:
  - {{name: flow, sender: sender, receiver: receiver, algorithm: dctcp, ecn: true}}
duration_s: 5
"""


def test_dctcp_fills_a_link_and_keeps_its_queue_at_the_marking_threshold(tmp_path: Path) -> None:
    file = tmp_path / "dctcp.yaml"
    file.write_text(DESCRIPTION)
    result = run(Scenario.load(file))
    samples = result.flow_samples
    steady = samples[samples.t_s > 2]
    assert steady.goodput_bytes_per_s.mean() > 0.9 * RATE_BYTES_PER_S * 1448 / 1500
    assert result.flows.delivered_ce[0] > 100, "marks came back"
    assert result.flows.lost_pkts[0] == 0, "and nothing had to be dropped"
    queueing_us = steady.srtt_us.median() - BASE_RTT_US
    assert 0 < queueing_us < 2 * THRESHOLD_US, "a buffer of 500 packets would hold 120 ms"
