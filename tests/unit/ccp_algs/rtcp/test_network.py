"""The detector over simulated paths, limited and not."""

from __future__ import annotations

import random
from typing import Any

import pytest

from ccp_algs.rtcp import new_detector
from ccplane.base._native import RtcpDetector, RtcpTransfer
from experiments.netlab.spec import Bernoulli
from tests.unit.ccp_algs.rtcp.network import CONTROLS, MBIT, events, path, recorded

BOTH = pytest.mark.parametrize("control", CONTROLS)
OPERATORS = [(2.07, 733_000, 0.036), (1.3, 385_000, 0.018), (1.04, 223_000, 0.021)]
"""The paper's Table 1: rate [Mbit/s], bucket [bytes], RTT [s]."""


def play(*of: Any, **options: Any) -> tuple[RtcpDetector, list[RtcpTransfer]]:
    """Let a detector hear what was recorded; arguments as of `recorded`."""
    detector = new_detector()
    for kind, now in events(recorded(*of, **options)):
        (detector.start if kind == "S" else detector.ack)(now)
    return detector, detector.transfers


@pytest.mark.parametrize(("control", "loss_ratio"), [("cubic", 0), ("bbr", 0), ("bbr", 0.01)])
@pytest.mark.parametrize(("limit", "bucket_bytes", "rtt_s"), OPERATORS)
def test_the_papers_operators_are_found(
    control: str, limit: float, bucket_bytes: float, rtt_s: float, loss_ratio: float
) -> None:
    loss = Bernoulli(loss_ratio) if loss_ratio else None
    detector, _ = play(path(limit * MBIT, bucket_bytes, rtt_s=rtt_s, loss=loss), control, 15)
    assert detector.limited
    assert detector.rate_bytes_per_s == pytest.approx(limit * MBIT, rel=0.05 if loss else 0.02)
    assert detector.bucket_bytes == pytest.approx(bucket_bytes, rel=0.1)


@BOTH
@pytest.mark.parametrize("bucket_bytes", [64e3, 260e3, 1e6])
@pytest.mark.parametrize("limit", [0.2, 4, 10])
def test_the_papers_grid_is_found_where_the_paper_finds_it(
    control: str, bucket_bytes: float, limit: float
) -> None:
    # Figures 19 and 20; a smaller bucket or a higher rate is no abrupt reduction.
    detector, _ = play(path(limit * MBIT, bucket_bytes, link=100 * MBIT), control, 12)
    assert detector.undetected_at_us is None
    assert detector.limited or bucket_bytes < 260e3 or limit > 4
    if detector.limited:
        assert detector.rate_bytes_per_s == pytest.approx(limit * MBIT, rel=0.05)


@BOTH
def test_a_limit_that_queues_packets_is_found(control: str) -> None:
    # Packets without tokens wait in a short queue: the data reach the line once, and follow it from there on.
    limited = path(2.07 * MBIT, 733_000, rtt_s=0.036, buffer_bytes=75_000, shaper=True)
    detector, _ = play(limited, control, 8)
    assert detector.limited
    assert detector.rate_bytes_per_s == pytest.approx(2.07 * MBIT, rel=0.02)
    assert detector.bucket_bytes == pytest.approx(733_000, rel=0.1)


@BOTH
@pytest.mark.parametrize("seed", range(12))
def test_paths_without_a_limit_are_none(control: str, seed: int) -> None:
    rng = random.Random(seed)
    rtt_s, mean = rng.choice([0.015, 0.036, 0.1]), rng.choice([1, 3, 10]) * MBIT
    buffer_bytes = max(15_000, round(rng.choice([0.5, 1, 3]) * mean * rtt_s))
    loss = Bernoulli(rng.choice([0.002, 0.01, 0.02]))
    quiet = path(rtt_s=rtt_s, link=mean, buffer_bytes=buffer_bytes, loss=loss)
    objects = rng.choice([(50e6,), (32e3, 64e3, 256e3) * 6])
    detector, _ = play(quiet, control, 8, objects, 0.3 if len(objects) > 1 else 0.0, seed)
    assert detector.detected_at_us is None


@BOTH
def test_a_limit_shows_in_transfers_with_idle_times(control: str) -> None:
    objects = (200e3, 1.5e6, 100e3, 1.5e6, 800e3, 1.5e6)
    limited = path(1.3 * MBIT, 385_000, rtt_s=0.036, link=60 * MBIT)
    detector, transfers = play(limited, control, 60, objects, 2.0)
    assert len(transfers) == len(objects)
    assert detector.limited
    assert detector.rate_bytes_per_s == pytest.approx(1.3 * MBIT, rel=0.05)
    assert detector.bucket_bytes == pytest.approx(385_000, rel=0.15)
