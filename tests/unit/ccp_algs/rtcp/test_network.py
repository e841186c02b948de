"""The detector over simulated paths, limited and not."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest

from ccp_algs.rtcp import new_detector
from ccplane.base._native import RtcpDetector, RtcpTransfer
from tests.unit.ccp_algs.rtcp.network import MBIT, MSS, Bbr, Control, Cubic, Path, Sender

CONTROLS = pytest.mark.parametrize("control", [Cubic, Bbr])
OPERATORS = [(2.07, 733_000, 0.036), (1.3, 385_000, 0.018), (1.04, 223_000, 0.021)]
"""The paper's Table 1: rate [Mbit/s], bucket [bytes], RTT [s]."""


def play(
    path: Path, control: Control, until_s: float, objects: list[tuple[float, float]] | None = None
) -> tuple[RtcpDetector, list[RtcpTransfer]]:
    detector = new_detector()
    for kind, now in Sender(path, control).run(until_s, objects):
        (detector.start if kind == "S" else detector.ack)(now)
    return detector, detector.transfers


@CONTROLS
@pytest.mark.parametrize(("limit", "bucket_bytes", "rtt_s"), OPERATORS)
@pytest.mark.parametrize(("ack_batch_s", "shaped_bytes"), [(0, 0), (0.01, 0), (0, 60_000)])
def test_the_papers_operators_are_found(
    control: Callable[[], Control],
    limit: float,
    bucket_bytes: float,
    rtt_s: float,
    ack_batch_s: float,
    shaped_bytes: float,
) -> None:
    path = Path(
        rtt_s=rtt_s,
        bucket_bytes=bucket_bytes,
        limit=limit * MBIT,
        ack_batch_s=ack_batch_s,
        shaped_bytes=shaped_bytes,
    )
    detector, _ = play(path, control(), 15)
    assert detector.limited
    assert detector.rate_bytes_per_s == pytest.approx(limit * MBIT, rel=0.02)
    # What a shaper queues looks like more bucket.
    assert 0.9 * bucket_bytes < detector.bucket_bytes < 1.1 * bucket_bytes + shaped_bytes


@CONTROLS
@pytest.mark.parametrize("bucket_bytes", [4e3, 16e3, 64e3, 260e3, 1e6, 3e6])
def test_the_papers_grid_is_found_where_the_paper_finds_it(
    control: Callable[[], Control], bucket_bytes: float
) -> None:
    # Figures 19 and 20; a smaller bucket or a higher rate is no abrupt reduction.
    for limit in (0.2, 1, 4, 10):
        path = Path(rtt_s=0.04, link=100 * MBIT, bucket_bytes=bucket_bytes, limit=limit * MBIT)
        detector, _ = play(path, control(), 12)
        assert detector.undetected_at_us is None
        assert detector.limited or bucket_bytes < 260e3 or limit > 4
        if detector.limited:
            # A bucket of less than three packets hardly lets a flow get to its rate.
            error = 0.3 if bucket_bytes < 3 * MSS else 0.05
            assert detector.rate_bytes_per_s == pytest.approx(limit * MBIT, rel=error)


@pytest.mark.parametrize("loss_ratio", [0.002, 0.01, 0.02])
def test_random_loss_beside_the_limit_hides_it_not(loss_ratio: float) -> None:
    for seed in range(5):
        path = Path(bucket_bytes=385_000, limit=1.3 * MBIT, loss_ratio=loss_ratio, seed=seed)
        detector, _ = play(path, Bbr(), 15)
        assert detector.limited
        assert detector.rate_bytes_per_s == pytest.approx(1.3 * MBIT, rel=0.05)


def test_a_half_full_bucket_is_reported_as_what_was_in_it() -> None:
    detector, _ = play(Path(bucket_bytes=733_000, limit=2.07 * MBIT, fill_ratio=0.5), Cubic(), 15)
    assert detector.limited
    assert detector.bucket_bytes == pytest.approx(733_000 / 2, rel=0.1)


@CONTROLS
def test_a_stalled_cumulative_ack_hides_the_limit_not(control: Callable[[], Control]) -> None:
    # After the first object the window is large: hundreds of packets are lost at once.
    path = Path(rtt_s=0.036, link=60 * MBIT, bucket_bytes=733_000, limit=2.07 * MBIT)
    detector, transfers = play(path, control(), 14, [(0, 400e3), (2, 4e6)])
    assert [transfer.detected_at_us is not None for transfer in transfers] == [False, True]
    assert detector.rate_bytes_per_s == pytest.approx(2.07 * MBIT, rel=0.02)


def quiet(seed: int) -> Path:
    """A path without a limit: at its rate or around it, with losses on the way and a small buffer or not."""
    rng = random.Random(seed)
    rtt_s = rng.choice([0.015, 0.036, 0.1])
    mean = rng.choice([1, 3, 10]) * MBIT
    swing = rng.choice([0, 0, 0.1, 0.25])
    period_s = rng.choice([0.5, 2, 7])
    return Path(
        rtt_s=rtt_s,
        link=(lambda t_s: mean * (1 + swing * math.sin(2 * math.pi * t_s / period_s))) if swing else mean,
        buffer_bytes=max(15_000, rng.choice([0.5, 1, 3]) * mean * rtt_s),
        loss_ratio=rng.choice([0, 0.002, 0.01, 0.02]),
        ack_batch_s=rng.choice([0, 0.005]),
        seed=seed,
    )


@CONTROLS
def test_paths_without_a_limit_are_none(control: Callable[[], Control]) -> None:
    wrong = [seed for seed in range(60) if play(quiet(seed), control(), 8)[0].detected_at_us is not None]
    assert wrong == []


@CONTROLS
def test_a_limit_shows_in_transfers_with_idle_times(control: Callable[[], Control]) -> None:
    path = Path(rtt_s=0.036, link=60 * MBIT, bucket_bytes=385_000, limit=1.3 * MBIT)
    objects = [(0, 200e3), (1, 1.5e6), (2, 100e3), (3, 1.5e6), (0.5, 800e3), (4, 1.5e6)]
    detector, transfers = play(path, control(), 60, objects)
    assert len(transfers) == len(objects)
    assert detector.limited
    assert detector.rate_bytes_per_s == pytest.approx(1.3 * MBIT, rel=0.05)
    assert detector.bucket_bytes == pytest.approx(385_000, rel=0.15)


@pytest.mark.parametrize("loss_ratio", [0, 0.02])
def test_a_limit_that_is_lifted_is_noticed(loss_ratio: float) -> None:
    # The paper's Appendix H. The flow itself needs some seconds to find the room: it is no limit, at the
    # latest, two seconds after it sends faster than any limit that would have been an abrupt reduction.
    path = Path(
        link=40 * MBIT,
        bucket_bytes=250_000,
        limit=2 * MBIT,
        limited_until_s=20,
        loss_ratio=loss_ratio,
        seed=3,
    )
    detector, faster_us, before = new_detector(), None, None
    for kind, now in Sender(path, Bbr()).run(35):
        (detector.start if kind == "S" else detector.ack)(now)
        if now.time_us < 20_000_000:
            assert detector.undetected_at_us is None
            continue
        if before is None or now.time_us > before.time_us + 200_000:
            if before is not None and faster_us is None:
                rate = (now.delivered_pkts - before.delivered_pkts) * 1448e6 / (now.time_us - before.time_us)
                assert detector.transfer is not None
                if rate > 0.6 * detector.transfer.before_bytes_per_s:
                    faster_us = before.time_us
            before = now
    assert detector.detected_at_us is not None
    assert faster_us is not None
    assert detector.undetected_at_us is not None
    assert detector.undetected_at_us < faster_us + 2_000_000


def test_a_lower_rate_is_followed_while_the_limit_stays() -> None:
    path = Path(bucket_bytes=400_000, limit=lambda t_s: (2 if t_s < 10 else 3) * MBIT)
    detector, _ = play(path, Cubic(), 40)
    assert detector.limited
    assert 2.2 * MBIT < detector.rate_bytes_per_s < 3.1 * MBIT
