from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from experiments.netlab import LabError
from experiments.netlab.cellular import Cellular, describe, draw, write_trace
from experiments.netlab.cli import app
from experiments.netlab.traces import read_trace

HOUR_S = 3600.0
RECORDED = sorted((Path(__file__).parents[4] / "shared" / "traces").glob("*LTE*"))


def test_the_same_seed_gives_the_same_trace_and_another_another() -> None:
    one, same, other = (draw(Cellular(), 20, seed) for seed in (1, 1, 2))
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)


@pytest.mark.parametrize("mean_bytes_per_s", [150e3, 1.5e6, 25e6])
@pytest.mark.parametrize("seed", [1, 2])
def test_the_mean_rate_is_the_one_asked_for(mean_bytes_per_s: float, seed: int) -> None:
    times_ms = draw(Cellular(mean_bytes_per_s=mean_bytes_per_s), 30, seed)
    assert len(times_ms) == mean_bytes_per_s * 30 / 1500
    assert times_ms[-1] == 30_000
    assert describe(times_ms).mean_bytes_per_s == mean_bytes_per_s


@pytest.mark.parametrize(("variation_ratio", "coherence_s"), [(0.2, 1.0), (0.65, 4.0), (0.4, 8.0)])
def test_variation_and_coherence_are_those_asked_for_over_a_long_time(
    variation_ratio: float, coherence_s: float
) -> None:
    link = Cellular(
        mean_bytes_per_s=1.5e6, variation_ratio=variation_ratio, coherence_s=coherence_s, outage_every_s=None
    )
    figures = describe(draw(link, 2 * HOUR_S, 1))
    assert figures.variation_ratio == pytest.approx(variation_ratio, rel=0.1)
    assert figures.coherence_s == pytest.approx(coherence_s, rel=0.15)


def test_outages_are_as_many_and_as_long_as_asked_for() -> None:
    link = Cellular(mean_bytes_per_s=1.5e6, variation_ratio=0.3, outage_every_s=20, outage_s=2)
    times_ms = draw(link, 2 * HOUR_S, 1)
    figures = describe(times_ms)
    # Lengths are exponential: a share of exp(-0.5 / 2) lasts the 0.5 s that count as an outage. Outages take
    # 2 / 22 of the time, 2.6 % of which are in shorter ones.
    assert figures.outages == pytest.approx(2 * HOUR_S / 22 * np.exp(-0.25), rel=0.1)
    assert figures.outage_ratio == pytest.approx(2 / 22 * 0.974, rel=0.15)
    gaps_ms = np.diff(times_ms)
    # Exponential lengths are memoryless.
    assert (gaps_ms[gaps_ms >= 500] - 500).mean() == pytest.approx(2000, rel=0.15)


def test_there_are_no_outages_when_none_are_asked_for() -> None:
    link = Cellular(mean_bytes_per_s=1.5e6, variation_ratio=0.2, outage_every_s=None)
    assert describe(draw(link, 600, 1)).outages == 0


def test_opportunities_between_changes_of_the_rate_are_a_poisson_process() -> None:
    link = Cellular(mean_bytes_per_s=1.5e6, variation_ratio=1e-6, outage_every_s=None)
    counts = np.bincount(draw(link, 600, 1) - 1)
    assert counts.mean() == 1
    assert counts.var() == pytest.approx(1, rel=0.02)
    assert (counts == 0).mean() == pytest.approx(np.exp(-1), rel=0.02)


@pytest.mark.skipif(not RECORDED, reason="there are no recorded traces")
@pytest.mark.parametrize("file", RECORDED, ids=lambda file: file.name)
def test_a_drawn_trace_is_like_a_recorded_one_with_its_figures(file: Path) -> None:
    recorded_ms = read_trace(file, "trace")
    figures = describe(recorded_ms)
    link = Cellular(
        mean_bytes_per_s=figures.mean_bytes_per_s,
        variation_ratio=figures.variation_ratio,
        coherence_s=figures.coherence_s,
    )

    def quantiles_pkts(times_ms: np.ndarray) -> np.ndarray:
        counts = np.bincount(times_ms // 200)[: times_ms[-1] // 200]
        return np.quantile(counts, [0.25, 0.5, 0.75, 0.9, 0.95])

    drawn = np.median([quantiles_pkts(draw(link, figures.duration_s, seed)) for seed in range(25)], axis=0)
    # Without the slowest tenth: recorded links are slow more often than log-normal ones (docs/netlab.md).
    assert drawn == pytest.approx(quantiles_pkts(np.array(recorded_ms)), rel=0.2)


def test_figures_are_those_of_a_trace_counted_by_hand() -> None:
    # 1 packet per ms for 1 s, nothing for 1 s, 1 packet per ms for 2 s.
    times_ms = [*range(1, 1001), *range(2001, 4001)]
    figures = describe(times_ms)
    assert (figures.duration_s, figures.mean_bytes_per_s) == (4.0, 3000 * 1500 / 4)
    assert (figures.outages, figures.longest_gap_ms) == (1, 1001)
    assert figures.outage_ratio == 1001 / 4000
    assert figures.variation_ratio == 0  # no variation: less than Poisson noise


def test_figures_that_need_more_are_not_made_up() -> None:
    figures = describe([1, 400])
    assert np.isnan(figures.variation_ratio)
    assert np.isnan(figures.coherence_s)


@pytest.mark.parametrize(
    ("link", "duration_s", "word"),
    [
        (Cellular(mean_bytes_per_s=0), 60, "mean_bytes_per_s"),
        (Cellular(variation_ratio=-1), 60, "variation_ratio"),
        (Cellular(outage_every_s=0), 60, "outage_every_s"),
        (Cellular(mean_bytes_per_s=float("inf")), 60, "mean_bytes_per_s"),
        (Cellular(outage_s=float("nan")), 60, "outage_s"),
        (Cellular(), 0.0001, "no opportunity"),
        (Cellular(mean_bytes_per_s=1), 60, "no opportunity"),
    ],
)
def test_what_cannot_be_is_refused(link: Cellular, duration_s: float, word: str) -> None:
    with pytest.raises(LabError) as caught:
        draw(link, duration_s, 1)
    assert caught.value.slug == "lab.bad_value"
    assert word in caught.value.message


def test_the_command_writes_what_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "lte.trace"
    done = CliRunner().invoke(app, ["trace", "-o", str(file), "--seconds", "10", "--seed", "7", "--json"])
    assert done.exit_code == 0, done.output
    assert read_trace(file, "trace") == draw(Cellular(), 10, 7).tolist()
    assert json.loads(done.output)["mean_bytes_per_s"] == pytest.approx(625e3, rel=1e-3)


def test_the_command_reports_the_figures_and_takes_all_parameters(tmp_path: Path) -> None:
    options = "--rate 12mbit --variation 0.2 --coherence 2 --outage-interval 0 --outage 3"
    done = CliRunner().invoke(app, ["trace", "-o", str(tmp_path / "t"), *options.split()])
    assert done.exit_code == 0, done.output
    assert "60 s, mean 12.00 Mbit/s" in done.output
    link = Cellular(
        mean_bytes_per_s=1.5e6, variation_ratio=0.2, coherence_s=2, outage_every_s=None, outage_s=3
    )
    assert read_trace(tmp_path / "t", "trace") == draw(link, 60, 1).tolist()


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(LabError) as caught:
        write_trace(tmp_path / "nowhere" / "t", [1])
    assert caught.value.slug == "lab.bad_value"
    assert "nowhere" in caught.value.message
