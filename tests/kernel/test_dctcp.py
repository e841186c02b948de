"""DCTCP on real sockets over a queue that marks: what it is for, a full link and a short queue."""

from __future__ import annotations

from pathlib import Path

from experiments.run import run
from experiments.scenario import Scenario
from tests.lent import TEST

# Long against what a busy machine is late by: with 10 ms and twice the rate it cost a tenth of the goodput.
RATE_BYTES_PER_S = 6.25e6
BASE_RTT_US = 20_000
THRESHOLD_US = 5_000  # a quarter of the RTT; RFC 8257 section 4 wants more than a seventh


DESCRIPTION = f"""
name: dctcp
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
    assert steady.goodput_bytes_per_s.mean() > 0.9 * RATE_BYTES_PER_S * 1448 / 1500 * (1 - TEST.share)
    assert result.flows.delivered_ce[0] > 100, "marks came back"
    assert result.flows.lost_pkts[0] == 0, "and nothing had to be dropped"
    queueing_us = steady.srtt_us.median() - BASE_RTT_US
    assert 0 < queueing_us < 2 * THRESHOLD_US, "a buffer of 500 packets would hold 120 ms"
