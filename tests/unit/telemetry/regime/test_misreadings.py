from __future__ import annotations

import pytest

from telemetry.regime import SHARED, SINGLE_OWNER, Detector, DetectorOptions
from telemetry.regime.modes import MODES
from telemetry.regime.watch import Watch, observation_of
from telemetry.schema import ReceiverSignal

PEER, OWN = "10.0.0.1", "10.0.0.2"


def signal(window_ms: int = 5000, **measured: int | None) -> ReceiverSignal:
    return ReceiverSignal(peer=PEER, address=OWN, window_ms=window_ms, **measured)


def regimes(detector: Detector, signals: list[ReceiverSignal]) -> list[str]:
    return [detector.observe(observation_of(one, 5.0 * at)).regime for at, one in enumerate(signals)]


def test_the_baseline_is_the_min_rtt_and_not_the_min_tail() -> None:
    detector = Detector(DetectorOptions())
    seen = regimes(detector, [signal(rtt_min_us=1_000, rtt_p99_us=9_000, ce_marks=0)] * 12)
    assert detector.baseline_ms == 1.0
    assert set(seen) == {SHARED}  # each interval has 8 ms of queue, from the first one on


def test_a_receiver_that_starts_under_load_finds_the_empty_path_later() -> None:
    detector = Detector(DetectorOptions())
    standing = [signal(rtt_min_us=11_000, rtt_p99_us=13_000)] * 8
    drained = [signal(rtt_min_us=1_000, rtt_p99_us=13_000)]
    regimes(detector, standing)
    assert detector.baseline_ms == 11.0
    assert regimes(detector, drained + standing)[-1] == SHARED
    assert detector.baseline_ms == 1.0


def test_a_receiver_that_starts_under_load_does_not_begin_alone() -> None:
    queue_us = [(6_000, 7_000), (6_500, 13_000), (5_000, 12_000), (7_000, 11_500), (6_000, 12_500)]
    detector = Detector(DetectorOptions())
    seen = regimes(detector, [signal(rtt_min_us=low, rtt_p99_us=high) for low, high in queue_us])
    assert set(seen) == {SHARED}


def test_with_the_tail_as_baseline_a_host_that_delays_everything_is_no_queue() -> None:
    noisy = [signal(rtt_min_us=1_000, rtt_p99_us=9_000)] * 12
    assert regimes(Detector(DetectorOptions(baseline_of="tail")), noisy)[-1] == SINGLE_OWNER


def test_noise_of_an_interval_is_by_its_length() -> None:
    paper, fast = MODES["paper"], MODES["fast"]
    assert (paper.options.noise_ce_marks, paper.options.noise_retransmits) == (1, 1)
    assert (fast.options.noise_ce_marks, fast.options.noise_retransmits) == (0.02, 0.02)
    assert fast.options_for(500).noise_retransmits == pytest.approx(0.1)
    assert paper.options_for(20_000).noise_retransmits == pytest.approx(4)


def test_one_loss_in_a_tenth_of_a_second_is_as_much_as_fifty_in_five() -> None:
    detector = Detector(MODES["fast"].options)
    seen = [signal(100, rtt_min_us=1_000, rtt_p99_us=1_100, resent_pkts=1)] * 12
    assert regimes(detector, seen)[-1] == SHARED


def test_a_peer_that_is_not_probed_is_unknown_however_few_marks_it_has() -> None:
    watch = Watch(DetectorOptions(), intervals=1)
    for at in range(1, 31):
        (one,) = watch.take([signal(ce_marks=0, resent_pkts=0)], at * 5_000_000, 0)
        assert one.decision.regime == SHARED
        assert "no RTT" in one.decision.reason


def test_a_path_is_shared_until_the_baseline_is_known() -> None:
    quiet = signal(rtt_min_us=1_000, rtt_p99_us=1_200, ce_marks=0)
    assert regimes(Detector(), [quiet] * 6) == [*4 * [SHARED], *2 * [SINGLE_OWNER]]
    assert regimes(Detector(DetectorOptions(baseline_ms=1.0)), [quiet]) == [SINGLE_OWNER]
    assert set(regimes(Detector(DetectorOptions(start=SHARED)), [quiet] * 3)) == {SHARED}


def test_a_path_whose_probes_stay_away_for_a_window_is_shared() -> None:
    detector = Detector(DetectorOptions(baseline_ms=1.0))
    quiet, blind = signal(rtt_min_us=1_000, rtt_p99_us=1_200), signal(ce_marks=0)
    seen = regimes(detector, [quiet] * 3 + [blind] * 7 + [quiet] * 3)
    assert seen[:9] == [SINGLE_OWNER] * 9  # four missing RTTs, and three estimates
    assert seen[9] == SHARED
    assert seen[-1] == SINGLE_OWNER


def decided(mode: str, tenths: list[int]) -> list[str]:
    """Regimes per 100 ms on a path whose queue stays below delta, with marks in some tenths of a second."""
    detector = Detector(MODES[mode].options_for(100))
    quiet, busy = (signal(100, rtt_min_us=20_000, rtt_p99_us=24_900, ce_marks=marks) for marks in (0, 120))
    seen = [busy if at in tenths else quiet for at in range(160)]
    return [detector.observe(observation_of(one, at / 10)).regime for at, one in enumerate(seen)]


@pytest.mark.parametrize("mode", ["fast", "own"])
def test_competitors_whose_marks_are_rarer_than_windows_are_found(mode: str) -> None:
    """CUBIC next to CUBIC: marks once in 0.8 s, in the simulator, on 200 Mbit/s that mark at 5 ms."""
    sparse = decided(mode, [20, 28, 36, 43, 50, 58, 66, 74, 82, 90])
    assert set(sparse[10:20]) == {SINGLE_OWNER}
    assert sparse.index(SHARED, 10) <= 20 + 25  # in the third second with marks
    assert set(sparse[45:90]) == {SHARED}
    assert sparse[-1] == SINGLE_OWNER  # seven seconds after the last mark


@pytest.mark.parametrize("mode", ["fast", "own", "paper"])
def test_one_burst_of_marks_is_no_competitor(mode: str) -> None:
    assert set(decided(mode, [60, 61])[40:]) == {SINGLE_OWNER}


def test_marks_in_every_window_are_found_within_half_a_second() -> None:
    dense = decided("fast", list(range(60, 70)))
    assert dense.index(SHARED, 10) <= 65
    assert dense[-1] == SINGLE_OWNER


@pytest.mark.parametrize(
    ("mode", "window_ms", "intervals"), [("fast", 500, 2), ("fast", 5000, 1), ("paper", 1000, 5)]
)
def test_periods_keep_their_length_if_the_window_changes(mode: str, window_ms: int, intervals: int) -> None:
    assert MODES[mode].options_for(window_ms).event_intervals == intervals
