"""The detector step by step: exact figures, and what holds for whatever it hears."""

from __future__ import annotations

import math
import re
from pathlib import Path as File

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccp_algs.rtcp import Options, Progress, new_detector
from ccp_algs.rtcp.options import Exact
from ccplane.agent.features.rtcp.ack_trace import read_ack_trace
from ccplane.base._native import RtcpDetector, rtcp_replay
from ccplane.base.errors import ParamError
from tests.unit.ccp_algs.rtcp.network import MSS, Event

RTT_US = 10_000


def at(time_ms: float, delivered_pkts: int, lost_pkts: int = 0) -> Progress:
    return Progress(round(time_ms * 1000), delivered_pkts, lost_pkts, RTT_US)


def received(*progress: Progress) -> RtcpDetector:
    """A detector that heard a transfer: its start, and ACKs."""
    detector = new_detector()
    detector.start(progress[0])
    for one in progress[1:]:
        detector.ack(one)
    return detector


def limited() -> tuple[RtcpDetector, Progress]:
    """Full speed up to 500 packets in 100 ms, then one of two packets in 10 ms, until it is detected.

    Returns:
        The detector, and the last that it heard.
    """
    detector = received(at(0, 0), *(at(i, 5 * i) for i in range(1, 101)))
    for i in range(1, 400):
        now = at(100 + 10 * i, 500 + i, 100 + i)
        detector.ack(now)
        if detector.limited:
            return detector, now
    raise AssertionError


# --- the trigger (section 4.1) ---


@pytest.mark.parametrize(("lost_pkts", "triggers"), [(20, False), (21, True)])
def test_more_than_beta_must_be_lost(lost_pkts: int, triggers: bool) -> None:
    # 80 delivered: 20 / 100 is beta itself.
    detector = received(at(0, 0), at(50, 100), at(60, 101, 1), at(131, 180, lost_pkts))
    assert detector.transfer is not None
    assert detector.transfer.triggered_at_us == (131_000 if triggers else None)


def test_the_window_is_longer_than_alpha_min_rtts() -> None:
    detector = received(at(0, 0), at(50, 100), at(60, 101, 1), at(130, 120, 90), at(130.001, 121, 90))
    assert detector.transfer is not None
    assert detector.transfer.triggered_at_us == 130_001


def test_losses_of_a_window_before_do_not_count() -> None:
    detector = received(
        at(0, 0), at(50, 1000), at(60, 1001, 100), at(131, 1500, 120), at(140, 1501, 121), at(220, 1600, 122)
    )
    assert detector.transfer is not None
    assert detector.transfer.triggered_at_us is None


def test_the_rate_before_is_that_of_the_last_ack_without_heavy_loss() -> None:
    detector = received(at(0, 0), at(50, 100), at(60, 101, 50), at(131, 120, 90))
    assert detector.transfer is not None
    assert detector.transfer.before_bytes_per_s == pytest.approx(100 * MSS / 0.05)


def test_a_stray_loss_before_the_bucket_is_empty_does_not_make_it_small() -> None:
    detector = received(
        at(0, 0), at(20, 40), at(30, 60, 1), at(60, 400, 1), at(70, 401, 150), at(101, 410, 300)
    )
    assert detector.transfer is not None
    assert detector.transfer.triggered_at_us == 101_000
    assert detector.transfer.before_bytes_per_s == pytest.approx(400 * MSS / 0.06)


def test_heavy_loss_from_the_first_packet_on_is_no_trigger() -> None:
    detector = received(at(0, 0), at(10, 1, 5), at(81, 2, 90), at(90, 3, 91), at(180, 4, 150))
    assert detector.transfer is not None
    # The first window has no ACK before it. The second one has.
    assert detector.transfer.triggered_at_us == 180_000


# --- classification (section 4.3) ---


def test_without_losses_the_limit_is_not_reached() -> None:
    detector = received(at(0, 0), *(at(i, 5 * i) for i in range(1, 101)))
    for i in range(1, 400):
        detector.ack(at(100 + 10 * i, 500 + i, 100 + min(i, 10)))
    assert detector.transfer is not None
    assert detector.transfer.triggered_at_us is not None
    assert not detector.limited


def test_a_fall_to_a_steady_rate_is_a_limit() -> None:
    detector, _ = limited()
    assert detector.transfer is not None
    assert detector.transfer.triggered_at_us == 190_000  # first loss on the ACK at 110 ms, 7 min-RTTs: 180 ms
    assert detector.rate_bytes_per_s == pytest.approx(MSS / 0.01, rel=0.1)
    assert detector.bucket_bytes == pytest.approx(490 * MSS, rel=0.08)  # 490: 100 ms of refill are not in it


def test_a_small_fall_is_no_limit() -> None:
    detector = received(at(0, 0), *(at(i, 5 * i) for i in range(1, 101)))
    for i in range(1, 500):
        detector.ack(at(100 + i, 500 + 4 * i, 500))
    assert detector.transfer is not None
    assert detector.transfer.triggered_at_us is not None
    assert not detector.limited


def test_a_standstill_is_no_limit() -> None:
    detector = received(at(0, 0), *(at(i, 5 * i) for i in range(1, 101)))
    for i in range(1, 500):
        detector.ack(at(100 + i, 501, 100))
    assert detector.transfer is not None
    assert detector.transfer.triggered_at_us is not None
    assert not detector.limited


def test_falling_ever_further_after_is_no_limit() -> None:
    detector = received(at(0, 0), *(at(i, 5 * i) for i in range(1, 101)))
    delivered = 500.0
    for i in range(1, 300):
        delivered += 2.0 * 0.98**i
        detector.ack(at(100 + i, int(delivered), 500))
    assert not detector.limited


# --- what becomes of a limit ---


def slower(lost_pkts: int) -> float:
    """Rate by the estimate, after 20 s in which half of it was delivered [parts of what it was]."""
    detector, last = limited()
    before_bytes_per_s = detector.rate_bytes_per_s
    for i in range(1, 1001):
        time_us, lost = last.time_us + 20_000 * i, last.lost_pkts + lost_pkts * i
        detector.ack(Progress(time_us, last.delivered_pkts + i, lost, RTT_US))
    assert detector.limited
    return detector.rate_bytes_per_s / before_bytes_per_s


def test_a_flow_that_sends_less_than_the_limit_shows_no_lower_one() -> None:
    assert slower(lost_pkts=0) == 1


def test_losses_at_the_limit_show_a_lower_one() -> None:
    assert slower(lost_pkts=1) < 0.7


def test_tokens_follow_the_estimate() -> None:
    detector, now = limited()
    level = detector.tokens_bytes(now.time_us)
    assert 0 <= level < 0.1 * detector.bucket_bytes
    later = detector.tokens_bytes(now.time_us + 1_000_000)
    assert later == pytest.approx(level + detector.rate_bytes_per_s)
    assert detector.tokens_bytes(now.time_us + 10**9) == detector.bucket_bytes


@pytest.mark.parametrize(("step_s", "step_pkts"), [(2.0, 200), (0.001, 3_000)])
def test_a_transfer_that_is_too_long_is_cut_in_two(step_s: float, step_pkts: int) -> None:
    last = at(1, 10)
    detector = received(at(0, 0), last)
    steps = 0
    while len(detector.transfers) == 1:
        steps += 1
        last = last._replace(
            time_us=last.time_us + round(step_s * 1e6), delivered_pkts=last.delivered_pkts + step_pkts
        )
        detector.ack(last)
    assert detector.transfer is not None
    assert detector.transfer.started_at_us == last.time_us
    assert steps == min(math.ceil(2**31 / 1e6 / step_s), math.ceil(2**31 / MSS / step_pkts))


def test_a_limit_outlasts_the_transfer_that_it_was_found_in() -> None:
    detector, last = limited()
    rate_bytes_per_s = detector.rate_bytes_per_s
    for _ in range(2_200):
        last = last._replace(
            time_us=last.time_us + 1_000_000,
            delivered_pkts=last.delivered_pkts + 100,
            lost_pkts=last.lost_pkts + 1,
        )
        detector.ack(last)
    assert len(detector.transfers) > 1
    assert detector.limited
    assert detector.rate_bytes_per_s == pytest.approx(rate_bytes_per_s, rel=0.02)


def test_a_later_transfer_starts_again_and_keeps_what_is_known() -> None:
    detector, last = limited()
    known = (detector.bucket_bytes, detector.rate_bytes_per_s)
    detector.start(last._replace(time_us=last.time_us + 5_000_000))
    assert detector.transfer is not None
    assert detector.transfer.triggered_at_us is None
    # Four times the bucket at twice the speed of the first burst ends nothing: that had perhaps a part of it.
    # 10 packets a ms against 3 (theta R_h): five times the bucket of 500 are gone after some 357 ms.
    for i in range(1, 400):
        now = last._replace(time_us=last.time_us + 5_000_000 + 1000 * i)
        detector.ack(now._replace(delivered_pkts=last.delivered_pkts + 10 * i))
        if i == 200:
            assert detector.limited
            assert (detector.bucket_bytes, detector.rate_bytes_per_s) == known
    assert detector.undetected_at_us == pytest.approx(last.time_us + 5_357_000, abs=20_000)


def test_a_retransmission_with_nothing_in_flight_is_the_same_transfer() -> None:
    detector, last = limited()
    detector.start(last._replace(time_us=last.time_us + 300_000, lost_pkts=last.lost_pkts + 3))
    assert len(detector.transfers) == 1
    detector.start(last._replace(time_us=last.time_us + 300_000))
    assert len(detector.transfers) == 2


def test_a_limit_that_is_gone_ends_for_good() -> None:
    detector, last = limited()
    for i in range(1, 2000):
        now = last._replace(time_us=last.time_us + 1000 * i, delivered_pkts=last.delivered_pkts + 5 * i)
        detector.ack(now)
        if not detector.limited:
            break
    # The line from (100 ms, 500 packets) to the latest ACK reaches 3 a ms, theta R_h, after some 320 ms.
    assert detector.undetected_at_us == pytest.approx(last.time_us + 320_000, abs=10_000)
    assert detector.transfer is not None
    assert detector.transfer.undetected_at_us == detector.undetected_at_us
    assert detector.tokens_bytes(now.time_us) == 0
    detector.start(now)
    for i in range(1, 101):
        detector.ack(now._replace(time_us=now.time_us + 1000 * i, lost_pkts=now.lost_pkts + 50 * i))
    assert detector.transfer.triggered_at_us is None


def test_an_ack_before_any_start_begins_a_transfer() -> None:
    detector = new_detector()
    detector.ack(at(5, 10))
    assert detector.transfer is not None
    assert detector.transfer.started_at_us == 5000


# --- whatever it hears ---

steps = st.lists(
    st.tuples(
        st.sampled_from("AAAAAAAS"),
        st.integers(0, 30_000),
        st.integers(0, 60),
        st.sampled_from([0, 0, 1, 40]),
    ),
    max_size=80,
)


def play(steps: list[tuple[str, int, int, int]], origin: Progress, limit_after: int) -> list[object]:
    """Verdicts, with times from the origin. From `limit_after` on ACKs deliver one packet."""
    detector = new_detector(Options(loss_window_min_rtts=2, convergence_min_rtts=2))
    now, verdicts = origin, []
    for n, (kind, gap_us, delivered, lost) in enumerate(steps):
        now = Progress(
            now.time_us + gap_us,
            now.delivered_pkts + (delivered if n < limit_after else 1),
            now.lost_pkts + lost,
            RTT_US,
        )
        (detector.start if kind == "S" else detector.ack)(now)
        transfer = detector.transfer
        assert 0 <= detector.tokens_bytes(now.time_us) <= detector.bucket_bytes
        if detector.undetected_at_us is not None:
            assert detector.detected_at_us is not None
            assert detector.undetected_at_us > detector.detected_at_us
        if transfer is not None and transfer.detected_at_us is not None:
            assert transfer.triggered_at_us is not None
            assert detector.detected_at_us is not None
            assert detector.detected_at_us <= transfer.detected_at_us
        ends = [detector.detected_at_us, detector.undetected_at_us]
        verdicts.append(
            [None if end is None else end - origin.time_us for end in ends]
            + [detector.bucket_bytes, detector.rate_bytes_per_s]
        )
    return verdicts


@given(
    steps=steps,
    limit_after=st.integers(0, 40),
    base=st.sampled_from([0, 2**31 - 100_000, 2**32 - 100_000, 2**40]),
)
def test_the_origin_of_clock_and_counters_does_not_matter(
    steps: list[tuple[str, int, int, int]], limit_after: int, base: int
) -> None:
    assert play(steps, Progress(base, base, base, RTT_US), limit_after) == play(
        steps, Progress(0, 0, 0, RTT_US), limit_after
    )


# --- recorded transfers ---

SHARE = MSS / 1500
"""Of packets, that is payload."""
HEADER = File(__file__).parents[4] / "native/ccp-rtcp/src/core/types.h"

RECORDED = [
    ("op1-cubic", 734_456 * SHARE, 258_726 * SHARE),
    ("op2-bbr", 271_746 * SHARE, 159_718 * SHARE),
    ("op3-bbr", 217_650 * SHARE, 130_001 * SHARE),
]
"""Transfers of 15 s, recorded by `ccp rtcp attach --observe --record`, and what limited them."""


def recorded(name: str) -> list[Event]:
    """ACKs of a recorded transfer."""
    return [Event(*row) for row in read_ack_trace(File(__file__).with_name("data") / f"{name}.csv.gz")]


@pytest.mark.parametrize(("name", "bucket_bytes", "rate_bytes_per_s"), RECORDED)
def test_the_limits_of_recorded_transfers_are_found(
    name: str, bucket_bytes: float, rate_bytes_per_s: float
) -> None:
    detector = new_detector()
    for kind, now in recorded(name):
        (detector.start if kind == "S" else detector.ack)(now)
    assert detector.limited
    assert detector.rate_bytes_per_s == pytest.approx(rate_bytes_per_s, rel=0.005)
    assert detector.bucket_bytes == pytest.approx(bucket_bytes, rel=0.03)


# --- parameters ---


def test_the_parameters_are_those_of_the_header() -> None:
    body = re.search(r"struct rtcp_options \{(.*?)\};", HEADER.read_text(), re.DOTALL)
    assert body
    assert re.findall(r"__u(?:32|64) (\w+);", body[1]) == list(Exact._fields)
    assert len(Options().to_bytes()) == 20 * 4 + 2 * 8


def test_fractions_are_millionths() -> None:
    exact = Options(loss_ratio=0.25, excess_rates=3, kept_s=0.5).exact
    assert (exact.loss_ratio_ppm, exact.excess_rates_ppm, exact.kept_us) == (250_000, 3_000_000, 500_000)


@pytest.mark.parametrize("options", [b"", bytes(88), Options().to_bytes() + b"\0"])
def test_what_are_no_options_is_refused(options: bytes) -> None:
    with pytest.raises(ValueError, match="invalid options of the detector"):
        rtcp_replay(options, MSS, [])


@pytest.mark.parametrize(
    "wrong",
    [
        {"n_candidates": 2},
        {"n_candidates": 18},
        {"excess_rates": 1e6},
        {"loss_ratio": 1.5},
        {"reduction_ratio": math.nan},
        {"tolerance_ratio": -0.1},
        {"loss_window_min_rtts": math.inf},
    ],
)
def test_parameters_that_cannot_be_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ParamError) as caught:
        Options(**wrong)  # type: ignore[arg-type]
    assert caught.value.slug == "param.out_of_range"
    assert caught.value.where == next(iter(wrong))
