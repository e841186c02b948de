from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry.codec import decode, encode
from telemetry.regime import SHARED, SINGLE_OWNER, Detector, DetectorOptions, Observation
from telemetry.regime.errors import RegimeError
from telemetry.regime.modes import MODES, mode_of, start_of, with_settings
from telemetry.regime.watch import KEEP_US, Watch, observation_of
from telemetry.schema import Envelope, FlowId, ReceiverSignal, RegimeDecision
from tests.unit.telemetry.regime.test_detector import BASELINE_MS, figure_5, switches

PEER, OTHER, OWN = "10.0.0.1", "2001:db8::1", "10.0.0.2"
FLOW = FlowId(src=PEER, src_port=40_000, dst=OWN, dst_port=80)
SECOND = 1_000_000
WALL_US = 1_700_000_000_000_000

counts = st.none() | st.integers(0, 5)


def signal(peer: str = PEER, **measured: int | None) -> ReceiverSignal:
    return ReceiverSignal(peer=peer, address=OWN, window_ms=1000, **measured)


def test_the_tail_is_the_99th_percentile_and_marks_are_marks() -> None:
    measured = signal(
        rtt_min_us=800,
        rtt_p50_us=1000,
        rtt_p99_us=9500,
        rtt_max_us=80_000,
        ce_marks=4,
        arrival_pkts_per_s=70,
        goodput_bytes_per_s=90_000,
    )
    assert observation_of(measured, 12.5) == Observation(
        t_s=12.5,
        rtt_min_ms=0.8,
        rtt_p50_ms=1.0,
        rtt_tail_ms=9.5,
        ce_marks=4,
        arrival_pkts_per_s=70,
        goodput_bytes_per_s=90_000,
    )
    assert observation_of(signal(), 0.0) == Observation(t_s=0.0)


def test_retransmissions_are_the_best_that_is_known() -> None:
    known = {"retrans_pkts": 0, "resent_pkts": 2, "reordered_pkts": 30}
    found = []
    for _ in range(3):
        found.append(observation_of(signal(loss_pkts=7, **known), 0.0).retransmits)
        known.pop(next(iter(known)))
    found.append(observation_of(signal(loss_pkts=7), 0.0).retransmits)
    assert found == [0, 2, 30, None]  # this host's own retransmissions say nothing about the path to it


def test_a_peer_is_observed_once_a_window_and_not_once_a_signal() -> None:
    watch = Watch(DetectorOptions(), intervals=5)
    turns = [watch.take([signal(ce_marks=9)], second * SECOND, WALL_US) for second in range(1, 16)]
    assert [len(found) for found in turns] == [0, 0, 0, 0, 1] * 3
    last = turns[-1][0]
    assert (last.verdict.density, last.verdict.t_s) == (0.6, 15.0)
    assert watch.decisions == {PEER: last.decision}


def test_figure_5_comes_out_of_signals_too() -> None:
    watch = Watch(DetectorOptions(baseline_ms=BASELINE_MS), intervals=1)
    verdicts = []
    for seen in figure_5():
        rtt_us, resent = round((seen.rtt_tail_ms or 0) * 1000), int(seen.retransmits or 0)
        (one,) = watch.take(
            [signal(rtt_p99_us=rtt_us, resent_pkts=resent)], round(seen.t_s * SECOND), WALL_US
        )
        verdicts.append(one.verdict)
    assert switches(verdicts) == [(70, SHARED), (170, SINGLE_OWNER), (220, SHARED), (265, SINGLE_OWNER)]


def test_a_decision_says_what_it_is_of_and_why() -> None:
    watch = Watch(DetectorOptions(window=1, persistence=2, cooldown_s=0, baseline_ms=2.0), intervals=1)
    found = []
    for second, marks in enumerate((0, 5, 5, 5), 1):
        measured = signal(rtt_p99_us=2000, ce_marks=marks)
        found += watch.take([measured], second * SECOND, WALL_US + second)
    first, _, switched, last = (one.decision for one in found)
    assert (first.peer, first.address, first.window_ms) == (PEER, OWN, 1000)
    assert (first.regime, first.since_wall_us, first.score) == (SINGLE_OWNER, WALL_US + 1, 0)
    assert (switched.regime, switched.since_wall_us) == (SHARED, WALL_US + 3)
    assert last == RegimeDecision(
        peer=PEER,
        address=OWN,
        regime=SHARED,
        score=1,
        density=1.0,
        estimate=SHARED,
        window_ms=1000,
        since_wall_us=WALL_US + 3,
        reason="1 of 1 intervals congested; tail RTT 2.0 ms, empty 2.0 ms; CE marks 5",
    )
    assert [one.verdict.switched for one in found] == [False, False, True, False]
    envelope = Envelope(version=1, sender="here", t_mono_us=0, t_wall_us=0, body=last)
    assert decode(encode(envelope)).body == last


def test_of_what_none_measured_nothing_is_decided() -> None:
    watch = Watch(DetectorOptions(window=1, persistence=1, cooldown_s=0), intervals=1)
    assert watch.take([signal()], SECOND, WALL_US) == []
    (one,) = watch.take([signal(ce_marks=9)], 2 * SECOND, WALL_US)
    assert one.decision.regime == SHARED
    for second in range(3, 9):
        assert watch.take([signal(goodput_bytes_per_s=5)], second * SECOND, WALL_US) == []
        assert watch.decisions == {}
    (one,) = watch.take([signal(ce_marks=9)], 9 * SECOND, WALL_US)
    assert (one.decision.regime, one.verdict.switched) == (SHARED, False)  # missing is not 0


def test_each_peer_has_its_own_detector_and_flows_have_none() -> None:
    watch = Watch(DetectorOptions(window=1, persistence=1, baseline_ms=1.0), intervals=1)
    of_flow = ReceiverSignal(peer=PEER, address=OWN, flow=FLOW, ce_marks=50)
    both = signal(ce_marks=0, rtt_p99_us=1000), signal(OTHER, ce_marks=9, rtt_p99_us=1000)
    found = watch.take([*both, of_flow], SECOND, WALL_US)
    assert {one.peer: one.decision.regime for one in found} == {PEER: SINGLE_OWNER, OTHER: SHARED}


def test_a_peer_that_was_away_for_long_begins_again() -> None:
    watch = Watch(DetectorOptions(window=1, persistence=1, baseline_samples=1), intervals=1)
    watch.take([signal(ce_marks=9, rtt_p99_us=100)], SECOND, WALL_US)
    watch.take([], KEEP_US // 2, WALL_US)
    (kept,) = watch.take([signal(ce_marks=9)], KEEP_US // 2 + SECOND, WALL_US)
    assert kept.decision.regime == SHARED
    watch.take([], 2 * KEEP_US, WALL_US)
    (again,) = watch.take([signal(ce_marks=0, rtt_p99_us=300)], 2 * KEEP_US + SECOND, WALL_US + 5)
    assert (again.decision.regime, again.decision.since_wall_us) == (SINGLE_OWNER, WALL_US + 5)
    assert again.baseline_ms == 0.3


@given(
    st.lists(st.tuples(counts, counts, st.none() | st.integers(0, 50_000)), max_size=60), st.integers(1, 4)
)
def test_the_watch_says_what_a_detector_says_of_every_last_signal_of_a_window(
    series: list[tuple[int | None, int | None, int | None]], intervals: int
) -> None:
    options = DetectorOptions(cooldown_s=3.0)
    watch, detector = Watch(options, intervals), Detector(options)
    for second, (marks, resent, rtt_us) in enumerate(series, 1):
        measured = signal(ce_marks=marks, resent_pkts=resent, rtt_p99_us=rtt_us)
        found = watch.take([measured], second * SECOND, WALL_US)
        if second % intervals or (marks, resent, rtt_us) == (None, None, None):
            assert found == []
        else:
            assert [one.verdict for one in found] == [detector.observe(observation_of(measured, second))]


def test_the_modes_are_those_of_the_paper_and_a_faster_one() -> None:
    paper, fast = mode_of("paper"), mode_of("fast")
    assert (paper.window_ms, paper.options) == (5000, DetectorOptions())
    assert paper.options == DetectorOptions(window=5, persistence=3, majority=0.6, cooldown_s=15, delta_ms=5)
    assert (fast.window_ms, fast.probe_ms) == (100, 10)
    assert fast.options == DetectorOptions(
        cooldown_s=1, noise_ce_marks=0.02, noise_retransmits=0.02, event_intervals=10
    )
    for mode in MODES.values():
        assert mode.window_ms % mode.interval_ms == 0
    with pytest.raises(RegimeError) as raised:
        mode_of("hasty")
    assert raised.value.slug == "regime.bad_option"


def test_settings_change_single_parameters() -> None:
    settings = ["delta_ms=2.5", "window=7", "baseline_horizon_s=600", "start=shared"]
    assert with_settings(DetectorOptions(cooldown_s=1), settings) == DetectorOptions(
        cooldown_s=1, delta_ms=2.5, window=7, baseline_horizon_s=600, start=SHARED
    )
    given_baseline = DetectorOptions(baseline_ms=3)
    assert with_settings(given_baseline, ["baseline_ms=null"]) == DetectorOptions()
    assert start_of("single_owner") == SINGLE_OWNER


@pytest.mark.parametrize(
    "setting",
    ["window", "=3", "windows=3", "window=many", "window=2.5", "window=0", "start=ours", "delta_ms=nan"],
)
def test_settings_that_set_nothing_are_refused(setting: str) -> None:
    with pytest.raises(RegimeError) as raised:
        with_settings(DetectorOptions(), [setting])
    assert raised.value.slug == "regime.bad_option"


def test_the_document_has_the_modes_as_they_are() -> None:
    text = (Path(__file__).parents[4] / "docs/r-hybrid.md").read_text()
    reported = {
        cells[0].strip(" `"): [int(re.sub(r"\D", "", cell)) for cell in cells[1:4]]
        for line in text.splitlines()
        if len(cells := line.strip("|").split("|")) == 6 and cells[0].strip(" `") in MODES
    }
    assert reported == {
        name: [mode.window_ms, mode.interval_ms, mode.probe_ms] for name, mode in MODES.items()
    }
