from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from typer.testing import CliRunner

from experiments.netlab import LabError
from experiments.netlab.cellular import OPPORTUNITY_BYTES, describe
from experiments.netlab.cli import app
from experiments.netlab.mobile import PROFILES, Access, Profile, draw_profile
from experiments.netlab.traces import read_trace
from experiments.scenario import Scenario, SetLink
from experiments.units import MBIT

RECORDED = sorted((Path(__file__).parents[4] / "shared" / "traces").glob("*LTE*"))


def mbit_by_bin(times_ms: NDArray[np.int64], bin_ms: int) -> NDArray[np.float64]:
    """Return the rate in each whole bin of a trace [Mbit/s]."""
    n_bins = int(times_ms[-1]) // bin_ms
    counts = np.bincount((times_ms - 1).clip(0) // bin_ms, minlength=n_bins)[:n_bins]
    return counts * OPPORTUNITY_BYTES * 1000 / bin_ms / MBIT


def only(**fields: float) -> Profile:
    """Return a profile with one kind of cell, fast enough for smooth rates."""
    return Profile("a link", (Access(mean_mbit=100, **fields),))


@pytest.mark.parametrize("name", PROFILES)
def test_the_same_seed_gives_the_same_trace_and_another_another(name: str) -> None:
    one, same, other = (draw_profile(PROFILES[name], 20, seed, 2 * MBIT) for seed in (1, 1, 2))
    assert np.array_equal(one.times_ms, same.times_ms)
    assert one.delays == same.delays
    assert name == "geo" or not np.array_equal(one.times_ms, other.times_ms)
    assert one.times_ms[-1] == 20_000
    assert np.all(np.diff(one.times_ms) >= 0)


@pytest.mark.parametrize("name", PROFILES)
def test_a_profile_can_be_scaled_to_a_mean_rate(name: str) -> None:
    times_ms = draw_profile(PROFILES[name], 30, 3, 6 * MBIT).times_ms
    assert describe(times_ms).mean_bytes_per_s == pytest.approx(6 * MBIT, rel=1e-4)


def test_a_rate_that_does_not_vary_is_evenly_spaced() -> None:
    drawn = draw_profile(PROFILES["geo"], 10, 1)
    assert set(np.diff(drawn.times_ms)) == {0, 1}
    assert drawn.delays == ((0.0, 300_000),)


def test_reallocations_are_every_15_s_and_change_the_rtt() -> None:
    drawn = draw_profile(PROFILES["leo"], 900, 1, 5 * MBIT)
    starts_s = np.array([at_s for at_s, _ in drawn.delays])
    assert 0 < starts_s[1] <= 15
    assert np.diff(starts_s[1:]) == pytest.approx(15)
    rtts_ms = np.array([delay_us for _, delay_us in drawn.delays]) / 500
    assert len(set(rtts_ms)) == len(rtts_ms) == 61
    assert rtts_ms.min() >= 21
    assert rtts_ms.mean() == pytest.approx(21 + 11, rel=0.25)


def test_nothing_is_sent_right_after_a_handover() -> None:
    link = only(stay_s=5, interruption_s=0.4)
    drawn = draw_profile(link, 600, 1)
    gaps_ms = []
    for at_s, _ in drawn.delays[1:]:
        after = drawn.times_ms[np.searchsorted(drawn.times_ms, at_s * 1000 + 10, "right")]
        gaps_ms.append(after - at_s * 1000)
    assert len(gaps_ms) == pytest.approx(600 / 5, rel=0.2)
    assert np.mean(gaps_ms) == pytest.approx(400, rel=0.25)
    # And nowhere else.
    assert (np.diff(drawn.times_ms) > 20).sum() <= len(gaps_ms)


def test_cells_differ_as_much_as_asked_for_and_resemble_their_neighbours_as_much() -> None:
    link = Profile("a link", (Access(1, cell_ratio=0.4, stay_s=5),), regular=True, persistence=0.6)
    drawn = draw_profile(link, 20_000, 1)
    first_ms = drawn.delays[1][0] * 1000
    rates = mbit_by_bin(drawn.times_ms[drawn.times_ms > first_ms] - round(first_ms), 5000)
    assert rates.std() / rates.mean() == pytest.approx(0.4, rel=0.1)
    logs = np.log(rates)
    assert np.corrcoef(logs[1:], logs[:-1])[0, 1] == pytest.approx(0.6, abs=0.06)
    assert rates.mean() == pytest.approx(1, rel=0.05)


def test_kinds_of_cells_take_turns_with_their_own_rates_and_rtts() -> None:
    near, far = Access(80, stay_s=4, rtt_ms=20), Access(10, stay_s=2, rtt_ms=60)
    drawn = draw_profile(Profile("a link", (near, far)), 600, 1)
    assert [delay_us for _, delay_us in drawn.delays[:4]] == [10_000, 30_000, 10_000, 30_000]
    starts_s = np.array([at_s for at_s, _ in drawn.delays])
    stays_s = np.diff(starts_s)
    assert stays_s[::2].mean() == pytest.approx(4, rel=0.25)
    assert stays_s[1::2].mean() == pytest.approx(2, rel=0.25)
    for kind, mbit in ((0, 80), (1, 10)):
        sent = [
            np.searchsorted(drawn.times_ms, end * 1000) - np.searchsorted(drawn.times_ms, begin * 1000)
            for begin, end in zip(starts_s[kind:-1:2], starts_s[kind + 1 :: 2], strict=True)
        ]
        assert sum(sent) * OPPORTUNITY_BYTES / stays_s[kind::2].sum() / MBIT == pytest.approx(mbit, rel=0.02)


def test_the_measured_figures_are_those_of_long_traces() -> None:
    leo = mbit_by_bin(draw_profile(PROFILES["leo"], 3000, 1, 20 * MBIT).times_ms, 1000)
    # Between slots 0.43, within them 0.20: the root of the sum of their squares and their squared product.
    assert leo.std() / leo.mean() == pytest.approx(0.48, rel=0.1)
    driving = draw_profile(PROFILES["lte-driving"], 4000, 1)
    figures = describe(driving.times_ms)
    # 13 Mbit/s without outages of 1.6 in 117.6 s; cells vary much, and there are 100 of them.
    assert figures.mean_bytes_per_s / MBIT == pytest.approx(13, rel=0.3)
    assert figures.outages == pytest.approx(4000 / 117.6 * np.exp(-0.5 / 1.6), rel=0.4)


@pytest.mark.skipif(not RECORDED, reason="there are no recorded traces")
@pytest.mark.parametrize("file", RECORDED, ids=lambda file: file.name)
@pytest.mark.parametrize("bin_ms", [100, 1000])
def test_lte_in_a_car_is_like_recordings_that_it_was_not_fitted_to(file: Path, bin_ms: int) -> None:
    recorded = np.array(read_trace(file, "trace"))
    duration_s, mean = int(recorded[-1]) / 1e3, describe(recorded).mean_bytes_per_s
    shares = [0.25, 0.5, 0.75, 0.9]
    drawn = np.array(
        [
            np.quantile(
                mbit_by_bin(draw_profile(PROFILES["lte-driving"], duration_s, seed, mean).times_ms, bin_ms),
                shares,
            )
            for seed in range(40)
        ]
    )
    low, high = np.quantile(drawn, [0.025, 0.975], axis=0)
    seen = np.quantile(mbit_by_bin(recorded, bin_ms), shares)
    # A recording is one draw: three of four quantiles are within the range of 95 % of the drawn traces.
    assert ((low <= seen) & (seen <= high)).sum() >= 3


@pytest.mark.parametrize(("seconds", "mean"), [(1e5, 1e9), (0.001, 1.0), (10, 1.0)])
def test_traces_without_opportunities_or_with_too_many_are_refused(seconds: float, mean: float) -> None:
    with pytest.raises(LabError) as caught:
        draw_profile(only(), seconds, 1, mean)
    assert caught.value.slug == "lab.bad_value"
    assert "opportunities" in caught.value.message


def run(*arguments: str, code: int = 0) -> str:
    done = CliRunner().invoke(app, ["trace", *arguments])
    assert done.exit_code == code, done.output
    return done.output


def test_the_command_writes_a_trace_and_a_scenario_with_its_delays(tmp_path: Path) -> None:
    trace, file = tmp_path / "a" / "leo.trace", tmp_path / "leo.yaml"
    trace.parent.mkdir()
    options = ["--profile", "leo", "-t", "40", "--rate", "5mbit", "--seed", "2"]
    output = run(*options, "-o", str(trace), "--scenario", str(file))
    drawn = draw_profile(PROFILES["leo"], 40, 2, 5 * MBIT)
    assert read_trace(trace, "trace") == drawn.times_ms.tolist()
    assert "3 handovers" in output
    scenario = Scenario.load(file)
    direction = scenario.network.links[0].forward
    assert direction.trace == str(trace)
    assert direction.delay_us == drawn.delays[0][1]
    assert direction.buffer is not None
    assert direction.buffer.packets == round(0.2 * 5 * MBIT / 1500)
    changes = [(one.at_s, one.fields["delay_us"]) for one in scenario.events if isinstance(one, SetLink)]
    assert changes == list(drawn.delays[1:])
    assert json.loads(run(*options, "--json"))["delays"] == [list(one) for one in drawn.delays]


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (["--profile", "le0"], "`leo`"),
        (["--profile", "leo", "--variation", "2"], "--variation"),
        (["--profile", "leo", "--run", "2"], "--run"),
        (["--profile", "leo", "--scenario", "x.yaml"], "--scenario"),
        (["--scenario", "x.yaml"], "--scenario"),
        (["x.csv", "--seed", "2"], "--seed"),
        (["x.csv", "--profile", "leo"], "--profile"),
        (["x.csv", "-t", "5"], "--seconds"),
    ],
)
def test_options_that_have_no_effect_are_refused(options: list[str], word: str) -> None:
    done = CliRunner().invoke(app, ["trace", *options])
    assert isinstance(done.exception, LabError)
    assert word in f"{done.exception.message} {done.exception.fix}"


def test_a_scenario_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    options = ["--profile", "geo", "-o", str(tmp_path / "t"), "--scenario", str(tmp_path / "no" / "s.yaml")]
    done = CliRunner().invoke(app, ["trace", *options])
    assert isinstance(done.exception, LabError)
    assert "s.yaml" in done.exception.message
