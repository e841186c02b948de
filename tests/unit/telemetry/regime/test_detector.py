from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.papers.r_hybrid.series import BASELINE_MS, figure_5
from telemetry.regime import (
    SHARED,
    SINGLE_OWNER,
    Detector,
    DetectorOptions,
    Observation,
    Verdict,
)
from telemetry.regime.errors import RegimeError

INTERVAL_S = 5.0

amounts = st.none() | st.integers(0, 5)
observations = st.builds(
    Observation,
    t_s=st.floats(0, 1000),
    rtt_min_ms=st.none() | st.floats(0, 50),
    rtt_p50_ms=st.none() | st.floats(0, 50),
    rtt_tail_ms=st.none() | st.floats(0, 50),
    arrival_pkts_per_s=st.none() | st.floats(0, 1000),
    goodput_bytes_per_s=st.none() | st.floats(0, 1e6),
    ce_marks=amounts,
    retransmits=amounts,
)
all_options = st.builds(
    DetectorOptions,
    window=st.integers(1, 8),
    majority=st.floats(0.05, 1),
    persistence=st.integers(1, 6),
    cooldown_s=st.floats(0, 60),
    baseline_ms=st.none() | st.floats(0, 10),
    baseline_of=st.sampled_from(["min", "tail"]),
    baseline_samples=st.integers(1, 6),
    own_queue=st.booleans(),
    start=st.sampled_from([SINGLE_OWNER, SHARED]),
)


def observed(options: DetectorOptions, series: list[Observation]) -> list[Verdict]:
    detector = Detector(options)
    return [detector.observe(one) for one in series]


def scored(scores: str, options: DetectorOptions | None = None) -> list[Verdict]:
    series = [
        Observation(t_s=INTERVAL_S * i, rtt_tail_ms=1.0, retransmits=2 * int(c)) for i, c in enumerate(scores)
    ]
    return observed(options or DetectorOptions(baseline_ms=1.0), series)


def switches(verdicts: list[Verdict]) -> list[tuple[float, str]]:
    return [(one.t_s, one.regime) for one in verdicts if one.switched]


def test_figure_5_has_its_four_transitions() -> None:
    verdicts = observed(DetectorOptions(baseline_ms=BASELINE_MS), figure_5())
    assert switches(verdicts) == [(70, SHARED), (170, SINGLE_OWNER), (220, SHARED), (265, SINGLE_OWNER)]
    during = [one for one in verdicts if 70 <= one.t_s <= 150]
    assert {one.regime for one in during} == {SHARED}
    assert {one.density for one in during} == {0.6, 0.8}  # the score fluctuates


def test_the_baseline_is_learned_from_the_first_samples() -> None:
    learned = observed(DetectorOptions(), figure_5())
    assert switches(learned) == switches(observed(DetectorOptions(baseline_ms=1.5), figure_5()))
    detector = Detector(DetectorOptions(baseline_samples=2))
    for rtt_ms, expected_ms, regime in (
        (None, None, SHARED),
        (4.0, 4.0, SHARED),
        (3.0, 3.0, SINGLE_OWNER),
        (5.0, 3.0, SINGLE_OWNER),
        (1.0, 1.0, SINGLE_OWNER),
    ):
        assert detector.observe(Observation(t_s=0, rtt_tail_ms=rtt_ms)).regime == regime
        assert detector.baseline_ms == expected_ms


@pytest.mark.parametrize(
    ("seen", "score"),
    [
        ({"rtt_tail_ms": 6.0}, 0),
        ({"rtt_tail_ms": 6.001}, 1),
        ({"ce_marks": 1}, 0),
        ({"ce_marks": 2}, 1),
        ({"retransmits": 1}, 0),
        ({"retransmits": 2}, 1),
        ({}, 0),
        ({"rtt_tail_ms": None, "ce_marks": None, "retransmits": 9}, 1),
    ],
)
def test_what_is_congestion(seen: dict[str, float], score: int) -> None:
    assert Detector(DetectorOptions(baseline_ms=1.0)).observe(Observation(t_s=0, **seen)).score == score


def test_without_a_baseline_an_rtt_says_nothing_yet() -> None:
    assert observed(DetectorOptions(), [Observation(t_s=0, rtt_tail_ms=500.0)])[0].score == 0


def test_a_majority_of_the_window_makes_the_estimate() -> None:
    verdicts = scored("1011000")
    assert [one.density for one in verdicts] == [0.2, 0.2, 0.4, 0.6, 0.6, 0.4, 0.4]
    assert [one.estimate for one in verdicts] == [*3 * [SINGLE_OWNER], *2 * [SHARED], *2 * [SINGLE_OWNER]]


def test_the_regime_changes_on_the_third_estimate_in_a_row() -> None:
    assert switches(scored("11111")) == [(20, SHARED)]
    assert switches(scored("1110000")) == [(20, SHARED)]  # three of the last five, three times
    assert switches(scored("1100100")) == []


def test_the_cooldown_delays_a_change_but_does_not_lose_it() -> None:
    soon = scored("1111100000000", DetectorOptions(baseline_ms=1.0, cooldown_s=0))
    assert switches(soon) == [(20, SHARED), (45, SINGLE_OWNER)]
    late = scored("1111100000000", DetectorOptions(baseline_ms=1.0, cooldown_s=30))
    assert switches(late) == [(20, SHARED), (50, SINGLE_OWNER)]


def test_a_longer_route_is_no_congestion_for_ever_with_a_horizon() -> None:
    route = [Observation(t_s=5.0 * i, rtt_tail_ms=1.0 if i < 20 else 31.0) for i in range(120)]
    assert switches(observed(DetectorOptions(), route)) == [(120, SHARED)]
    adaptive = observed(DetectorOptions(baseline_horizon_s=120.0), route)
    assert [regime for _, regime in switches(adaptive)] == [SHARED, SINGLE_OWNER]


def test_a_clock_that_goes_back_does_not_end_the_cooldown() -> None:
    detector = Detector(DetectorOptions(window=1, persistence=1, cooldown_s=10, baseline_ms=1.0))

    def switches_at(t_s: float, retransmits: float) -> bool:
        seen = Observation(t_s=t_s, rtt_tail_ms=1.0, retransmits=retransmits)
        return detector.observe(seen).switched

    assert not switches_at(90.0, 0)
    assert switches_at(100.0, 9)
    assert not any(switches_at(t_s, 0) for t_s in (50.0, 55.0, 40.0, 44.0))
    assert switches_at(46.0, 0)  # after 5 + 4 + 2 s


@given(all_options, st.lists(observations, max_size=80))
def test_switches_keep_the_cooldown_and_need_agreement(
    options: DetectorOptions, series: list[Observation]
) -> None:
    series = sorted(series, key=lambda one: one.t_s)
    verdicts = observed(options, series)
    times = [one.t_s for one in verdicts if one.switched]
    assert all(b - a >= options.cooldown_s - 1e-9 for a, b in itertools.pairwise(times))
    regime, started = SHARED, False
    for i, one in enumerate(verdicts):
        if one.regime != regime and not one.switched:
            assert (one.regime, started) == (options.start, False)  # the start, once the baseline is known
            started = True
        if one.switched:
            assert one.regime != regime
            agreeing = verdicts[max(0, i - options.persistence + 1) : i + 1]
            assert len(agreeing) == options.persistence
            assert {before.estimate for before in agreeing} == {one.regime}
        regime = one.regime


@given(all_options, st.lists(observations, max_size=60))
def test_any_clock_and_any_gap_is_borne(options: DetectorOptions, series: list[Observation]) -> None:
    for one in observed(options, series):
        assert 0 <= one.density <= 1
        assert one.score in (0, 1)


@pytest.mark.parametrize(
    "wrong",
    [
        {"delta_ms": -1.0},
        {"cooldown_s": float("nan")},
        {"window": 0},
        {"persistence": 0},
        {"majority": 0.0},
        {"baseline_horizon_s": 0.0},
        {"baseline_horizon_s": 5.0, "baseline_ms": 1.0},
        {"baseline_of": "p50"},
        {"start": "OURS"},
    ],
)
def test_parameters_that_cannot_be(wrong: dict[str, object]) -> None:
    with pytest.raises(RegimeError) as raised:
        DetectorOptions(**wrong)  # type: ignore[arg-type]
    assert raised.value.slug == "regime.bad_option"
    assert raised.value.where in wrong


def test_the_majority_is_computed_in_exact_numbers() -> None:
    assert DetectorOptions(window=100, majority=0.55).needed == 55
    assert DetectorOptions().needed == 3
