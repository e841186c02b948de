from __future__ import annotations

from collections.abc import Sequence

import pytest

from telemetry.regime import SHARED, SINGLE_OWNER, Detector, Observation
from telemetry.regime.modes import MODES
from telemetry.regime.own import OwnLoad
from telemetry.regime.watch import Watch
from telemetry.schema import ReceiverSignal

EMPTY_MS, QUEUE_MS = 1.0, 6.0
CAPACITY = 8000.0
"""Capacity of the path [packets/s]."""


def decided(
    rates: Sequence[float], queue_ms: float = QUEUE_MS, mode: str = "own", **seen: float
) -> list[str]:
    detector = Detector(MODES[mode].options)
    for tenth in range(10):
        detector.observe(
            Observation(t_s=tenth / 10, rtt_min_ms=EMPTY_MS, rtt_p50_ms=EMPTY_MS, rtt_tail_ms=EMPTY_MS)
        )
    found = []
    for tenth, rate in enumerate(rates, 10):
        rtt_ms = EMPTY_MS + queue_ms
        observation = Observation(
            t_s=tenth / 10,
            rtt_min_ms=rtt_ms - 0.5,
            rtt_p50_ms=rtt_ms - 0.2,
            rtt_tail_ms=rtt_ms,
            arrival_pkts_per_s=rate,
            **seen,
        )
        found.append(detector.observe(observation).regime)
    return found


def test_a_path_filled_by_oneself_is_not_shared() -> None:
    """E9: a single sender fills the queue."""
    seen = {"retransmits": 3.0}
    assert decided([CAPACITY] * 60, mode="fast", **seen)[-1] == SHARED
    assert decided([CAPACITY] * 60, **seen)[-1] == SINGLE_OWNER


def test_it_returns_when_the_others_leave() -> None:
    rates = [CAPACITY] * 20 + [0.5 * CAPACITY, 0.6 * CAPACITY] * 20 + [CAPACITY] * 20
    found = decided(rates)
    assert (found[19], found[59], found[-1]) == (SINGLE_OWNER, SHARED, SINGLE_OWNER)
    assert decided(rates, mode="fast")[-1] == SHARED


def test_others_who_were_there_before_us_show_by_what_they_leave() -> None:
    uneven = [0.5, 0.62, 0.45, 0.55, 0.4, 0.58] * 20
    assert set(decided([share * CAPACITY for share in uneven])[10:]) == {SHARED}


def test_a_queue_at_a_rate_that_had_none_is_not_own() -> None:
    rate = 0.2 * CAPACITY
    before = decided([rate] * 20, queue_ms=0.05)
    assert before[-1] == SINGLE_OWNER
    detector = Detector(MODES["own"].options)
    for tenth in range(60):
        queue_ms = 0.05 if tenth < 30 else 28.0
        regime = detector.observe(
            Observation(
                t_s=tenth / 10,
                rtt_min_ms=EMPTY_MS + queue_ms * 0.8,
                rtt_p50_ms=EMPTY_MS + queue_ms * 0.9,
                rtt_tail_ms=EMPTY_MS + queue_ms,
                arrival_pkts_per_s=rate * (1 + 0.01 * (tenth % 3)),
            )
        ).regime
    assert regime == SHARED


def test_a_tenth_of_a_long_rtt_is_no_empty_queue() -> None:
    load = OwnLoad(delta_ms=5.0)
    for _ in range(20):  # the window grows again after a loss: 3 of 40 ms are queueing, and the link is busy
        load.fills(0.97 * CAPACITY, None, 43.0, 40.0, 0.1)
    assert [load.fills(CAPACITY, None, 52.0, 40.0, 0.1) for _ in range(10)][-1]


def test_marks_where_we_fill_the_path_are_own_and_others_are_not() -> None:
    assert decided([CAPACITY] * 40, queue_ms=1.0, ce_marks=400.0)[-1] == SINGLE_OWNER
    assert decided([CAPACITY] * 40, queue_ms=1.0, mode="fast", ce_marks=400.0)[-1] == SHARED
    rates = [CAPACITY] * 20 + [0.7 * CAPACITY] * 20
    assert decided(rates, queue_ms=1.0, ce_marks=400.0)[-1] == SHARED


UNEVEN = (0.62, 0.45, 0.7, 0.55)
"""Share of packets that are counted if a network card merges several into one."""


def test_packets_that_come_several_as_one_do_not_hide_that_the_path_is_full() -> None:
    load = OwnLoad(delta_ms=5.0)
    found = [load.fills(share * CAPACITY, 1448 * CAPACITY, 7.0, 1.0, 0.1) for share in UNEVEN * 10]
    assert found == [False] * 13 + [True] * 27


def test_a_loss_that_holds_bytes_back_does_not_hide_it_either() -> None:
    load = OwnLoad(delta_ms=5.0)
    held = [1.0] * 8 + [0.4, 1.6]
    found = [load.fills(CAPACITY, share * 1448 * CAPACITY, 7.0, 1.0, 0.1) for share in held * 4]
    assert all(found[4:])


def test_others_show_by_both_counts() -> None:
    load = OwnLoad(delta_ms=5.0)
    for _ in range(20):
        load.fills(CAPACITY, 1448 * CAPACITY, 7.0, 1.0, 0.1)
    found = [load.fills(share * CAPACITY, share * 1448 * CAPACITY, 7.0, 1.0, 0.1) for share in UNEVEN * 10]
    assert not any(found[2:])


def test_where_none_counts_what_arrives_the_papers_rules_hold() -> None:
    load = OwnLoad(delta_ms=5.0)
    assert not any(load.fills(None, None, 7.0, 1.0, 0.1) for _ in range(20))
    assert not any(load.fills(0.0, 0.0, 7.0, 1.0, 0.1) for _ in range(20))


def test_a_path_that_can_carry_less_than_before_is_own_again_after_the_horizon() -> None:
    load = OwnLoad(delta_ms=5.0)
    for _ in range(10):
        load.fills(CAPACITY, None, 7.0, 1.0, 10.0)
    found = [load.fills(0.5 * CAPACITY, None, 7.0, 1.0, 10.0) for _ in range(70)]
    assert found.index(True) == pytest.approx(60, abs=1)


def test_a_decision_says_that_the_queue_is_the_senders_own() -> None:
    watch = Watch(MODES["own"].options, intervals=1)
    for tenth in range(20):
        signal = ReceiverSignal(
            peer="10.0.0.1",
            rtt_min_us=1000 if tenth < 5 else 6500,
            rtt_p50_us=6800,
            rtt_p99_us=7000,
            arrival_pkts_per_s=8000,
        )
        (one,) = watch.take([signal], tenth * 100_000, 0)
    assert one.decision.regime == SINGLE_OWNER
    assert one.decision.reason.endswith("the sender fills the path by itself")
