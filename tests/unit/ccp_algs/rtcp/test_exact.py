"""The detector in Python and the one that runs in the kernel: the same answers, bit by bit."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable
from pathlib import Path as File

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccp_algs.rtcp import Detector, Options, Progress
from ccp_algs.rtcp.options import Exact
from ccplane.agent.ack_trace import read_ack_trace
from ccplane.base._native import rtcp_replay
from tests.unit.ccp_algs.rtcp.network import MBIT, MSS, Bbr, Control, Cubic, Event, Path, Sender

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


def in_python(options: Options, mss_bytes: int, events: Iterable[Event]) -> list[tuple[object, ...]]:
    detector = Detector(options, mss_bytes=mss_bytes)
    found: list[tuple[object, ...]] = []
    for kind, now in events:
        (detector.start if kind == "S" else detector.ack)(now)
        found.append(
            (
                detector.detected_at_us,
                detector.undetected_at_us,
                detector.bucket_bytes,
                detector.rate_bytes_per_s,
                detector.tokens_bytes(now.time_us),
                detector.changes,
            )
        )
    return found


def agree(options: Options, mss_bytes: int, events: list[Event]) -> list[tuple[object, ...]]:
    found = in_python(options, mss_bytes, events)
    assert rtcp_replay(options.to_bytes(), mss_bytes, [(kind == "S", *now) for kind, now in events]) == found
    return found


def test_the_parameters_are_those_of_the_header() -> None:
    body = re.search(r"struct rtcp_options \{(.*?)\};", HEADER.read_text(), re.DOTALL)
    assert body
    assert re.findall(r"__u(?:32|64) (\w+);", body[1]) == list(Exact._fields)
    assert len(Options().to_bytes()) == 20 * 4 + 8


def test_fractions_are_millionths() -> None:
    exact = Options(loss_ratio=0.25, excess_rates=3, kept_s=0.5).exact
    assert (exact.loss_ratio_ppm, exact.excess_rates_ppm, exact.kept_us) == (250_000, 3_000_000, 500_000)


@pytest.mark.parametrize("options", [b"", bytes(88), Options().to_bytes() + b"\0"])
def test_what_are_no_options_is_refused(options: bytes) -> None:
    with pytest.raises(ValueError, match="no options"):
        rtcp_replay(options, MSS, [])


gaps = st.one_of(st.integers(0, 30_000), st.sampled_from([0, 1, 999, 1000, 10**7, 2**31, 2**32 + 5, 2**50]))
counts = st.one_of(st.integers(0, 60), st.sampled_from([0, 1, 5000, 2**16, 2**24]))
steps = st.lists(
    st.tuples(
        st.sampled_from("AAAAAAAS"), gaps, counts, st.one_of(st.sampled_from([0, 0, 0, 1, 40]), counts)
    ),
    max_size=80,
)
any_options = st.builds(
    Options,
    loss_window_min_rtts=st.floats(0, 10),
    loss_ratio=st.floats(0, 1),
    n_candidates=st.integers(3, 17),
    reduction_ratio=st.floats(0, 1),
    convergence_min_rtts=st.floats(0, 4),
    tolerance_ratio=st.floats(0, 0.5),
    excess_buckets=st.floats(1, 10),
    excess_buckets_anew=st.floats(1, 1000),
    excess_rates=st.floats(1, 10),
)


@given(
    options=st.one_of(st.just(Options(loss_window_min_rtts=2, convergence_min_rtts=2)), any_options),
    mss_bytes=st.sampled_from([1, 536, MSS, 65535]),
    base=st.sampled_from([0, 2**31, 2**32 - 100, 2**60]),
    min_rtt_us=st.sampled_from([0, 1, 10_000, 2**32 - 1]),
    limit_after=st.integers(0, 80),
    steps=steps,
)
def test_on_whatever_they_hear(
    options: Options,
    mss_bytes: int,
    base: int,
    min_rtt_us: int,
    limit_after: int,
    steps: list[tuple[str, int, int, int]],
) -> None:
    now, events = Progress(base, base, base, min_rtt_us), []
    for n, (kind, gap_us, delivered, lost) in enumerate(steps):
        delivered = min(delivered, 1) if n >= limit_after else delivered
        now = Progress(
            now.time_us + gap_us, now.delivered_pkts + delivered, now.lost_pkts + lost, now.min_rtt_us
        )
        events.append(Event(kind, now))
    agree(options, mss_bytes, events)


def test_on_what_is_more_than_32_bits_count() -> None:
    # Counters pass 2^32; a limited transfer lasts two hours, the next brings 10 GB; then 2^32 us pass twice.
    now, events = Progress(2**32 - 10**5, 2**32 - 300, 2**32 - 200, 10_000), []

    def add(kind: str, gap_us: int, delivered: int, lost: int) -> None:
        nonlocal now
        now = Progress(
            now.time_us + gap_us, now.delivered_pkts + delivered, now.lost_pkts + lost, now.min_rtt_us
        )
        events.append(Event(kind, now))

    add("S", 0, 0, 0)
    for i in range(100):
        add("A", 1_000, 5, 3 * (i == 99))
    for i in range(400):
        add("A", 10_000, 1, 100 if i == 1 else 1)
    for _ in range(7_200):
        add("A", 1_000_000, 100, 1)
    for _ in range(100):
        add("A", 100_000, 70_000, 0)
    add("S", 2**32, 0, 0)
    add("A", 2**32, 1, 0)
    found = agree(Options(), MSS, events)
    (_, undetected_at_us, _, rate_bytes_per_s, *_), last = found[7_699], found[-1]
    assert undetected_at_us is None
    assert rate_bytes_per_s == pytest.approx(100 * MSS, rel=0.02)
    assert last[1] is not None


@pytest.mark.parametrize("control", [Cubic, Bbr])
@pytest.mark.parametrize(
    "path",
    [
        Path(bucket_bytes=385_000, limit=1.3 * MBIT, rtt_s=0.018),
        Path(bucket_bytes=250_000, limit=2 * MBIT, limited_until_s=6, loss_ratio=0.01, seed=3),
        Path(link=3 * MBIT, buffer_bytes=20_000, loss_ratio=0.02),
    ],
)
def test_on_simulated_transfers(control: type[Control], path: Path) -> None:
    events = list(Sender(dataclasses.replace(path), control()).run(12, [(0, 1.5e6), (0.5, 1e5), (0.5, 1e8)]))
    found = agree(Options(), MSS, events)
    assert (found[-1][0] is not None) == bool(path.bucket_bytes)


@pytest.mark.parametrize(("name", "bucket_bytes", "rate_bytes_per_s"), RECORDED)
def test_on_recorded_transfers(name: str, bucket_bytes: float, rate_bytes_per_s: float) -> None:
    found = agree(Options(), MSS, recorded(name))
    _, undetected_at_us, found_bytes, found_bytes_per_s, _, _ = found[-1]
    assert undetected_at_us is None
    assert found_bytes_per_s == pytest.approx(rate_bytes_per_s, rel=0.005)
    assert found_bytes == pytest.approx(bucket_bytes, rel=0.03)
