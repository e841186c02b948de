"""Networks drawn at random: what is drawn, what runs there, and how it is judged."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from experiments.netlab.spec import Bernoulli, GilbertElliott
from experiments.papers.flex_cubic import bars, drawn
from experiments.papers.flex_cubic import networks as part
from experiments.papers.flex_cubic.paper import PAPER
from experiments.papers.paper import Runs, Size
from experiments.papers.variants import KERNEL
from experiments.runs.shapes import Dumbbell
from experiments.units import MBIT
from tests.unit.experiments.papers.fakes import result_of

OURS, LOSSLESS = bars.SUCCESSOR, bars.LOSSLESS_CUBIC


def test_the_same_seed_draws_the_same_networks_and_more_begin_with_those_of_fewer() -> None:
    assert drawn.networks(10, 5) == drawn.networks(15, 5)[:10]
    assert drawn.networks(5, 5) != drawn.networks(5, 6)


def test_kinds_come_in_turn_and_what_is_drawn_is_in_its_range() -> None:
    found = drawn.networks(100, 3)
    assert [one.kind for one in found] == list(drawn.KINDS) * 20
    for one in found:
        path = one.bottleneck
        assert 2_500 <= path.delay_us <= 100_000
        if path.rate_bytes_per_s is not None:
            assert 2 * MBIT <= path.rate_bytes_per_s <= 200 * MBIT
            bdp_pkts = path.rate_bytes_per_s * 2 * path.delay_us / 1e6 / 1500
            assert path.buffer is not None
            assert path.buffer.bdp is not None
            assert path.buffer.bdp * bdp_pkts > 3.9
        match one.kind:
            case "drop-tail":
                assert path.loss is None
            case "random":
                assert isinstance(path.loss, Bernoulli)
                assert 1e-4 <= path.loss.ratio <= 0.03
            case "bursts":
                assert isinstance(path.loss, GilbertElliott)
    assert len({one.ecn for one in found if one.kind == "aqm"}) == 2


def test_each_algorithm_runs_alone_and_beside_kernel_cubic_in_each_network() -> None:
    alone, lossless_cubic, beside, *others = PAPER.parts["networks"].grids(Size(repeats=3))
    points = [*alone.points(), *lossless_cubic.points()]
    assert len(alone.points()) == 3 * 3
    lossy = [one.name for one in drawn.networks(3, drawn.JUDGED_SEED) if one.bottleneck.loss is not None]
    assert [(p.axes["network"], p.axes["variant"]) for p in lossless_cubic.points()] == [
        (name, LOSSLESS) for name in lossy
    ]
    assert len(lossy) == 2
    (lossless,) = {p.scenario.flows[0].algorithm for p in points if p.axes["variant"] == LOSSLESS}
    assert lossless == KERNEL
    for point in points:
        shape = point.scenario.topology
        assert isinstance(shape, Dumbbell)
        if point.axes["variant"] == LOSSLESS:
            assert shape.bottleneck.loss is None
    for point in beside.points():
        own, other = point.scenario.flows
        assert (own.algorithm, other.algorithm) == (point.axes["variant"], KERNEL)
    assert {p.axes["variant"] for one in others for p in one.points()} == set(part.OTHERS)
    assert {p.scenario.seed for p in points} == {one.seed for one in drawn.networks(3, drawn.JUDGED_SEED)}


def test_algorithms_are_judged_in_other_networks_than_they_were_made_with() -> None:
    judged, tried = (PAPER.parts[name].grids(Size(repeats=2))[0] for name in ("networks", "networks-tried"))
    assert not {p.scenario.seed for p in judged.points()} & {p.scenario.seed for p in tried.points()}


def test_a_run_is_a_row_with_its_network() -> None:
    scenario = part.scenario(part.BESIDE, 4).replace(name="random: 9 Mbit/s")
    row = part.row(result_of(scenario, {"own": 6e6, "other": 2e6}, arrived_pkts=200, dropped_loss_pkts=3))
    assert (row["setting"], row["kind"], row["path"]) == ("beside", "random", "9 Mbit/s")
    assert row["goodput_bytes_per_s"] == pytest.approx(6e6)
    assert row["other_goodput_bytes_per_s"] == pytest.approx(2e6)
    assert row["lost_at_random_pct"] == pytest.approx(1.5)
    assert row["retrans_pct"] == pytest.approx(10)
    assert row["jain_index"] == pytest.approx(0.8)


def runs(**changed: Any) -> pd.DataFrame:
    """Return the runs of two networks; in the second one nothing is lost at random."""
    rows = []
    for network in ("1", "2"):
        for setting, variant, goodput, other in (
            ("alone", KERNEL, 4e6, None),
            ("alone", LOSSLESS, 9e6, None),
            ("alone", OURS, 9.5e6, None),
            ("alone", "kernel/bbr", 10e6, None),
            ("beside", KERNEL, 3e6, 3e6),
            ("beside", OURS, 5e6, 2.7e6),
            ("beside", "kernel/bbr", 8e6, 1e6),
        ):
            rows.append(
                {
                    "network": network,
                    "variant": variant,
                    "setting": setting,
                    "kind": "random" if network == "1" else "drop-tail",
                    "path": "a path",
                    "goodput_bytes_per_s": goodput,
                    "other_goodput_bytes_per_s": other,
                    "retrans_pct": 1.5,
                    "lost_at_random_pct": 1.0 if network == "1" else 0.0,
                    "queueing_delay_us": 10_000.0,
                    "jain_index": 0.95,
                    **(changed if variant == OURS else {}),
                }
            )
    return pd.DataFrame(rows)


def ours(table: pd.DataFrame) -> pd.DataFrame:
    return table[table["variant"] == OURS].set_index("network")


def test_what_an_algorithm_comes_to_is_compared_with_others_in_the_same_network() -> None:
    table = bars.judged(runs())
    assert LOSSLESS not in set(table["variant"])
    row = ours(table).loc["1"]
    assert row["best"] == "kernel/bbr"
    assert row["goodput_of_best_ratio"] == pytest.approx(0.95)
    assert row["retrans_beyond_loss_pct"] == pytest.approx(0.5)
    assert row["delay_over_cubic_us"] == pytest.approx(-1_000)
    assert row["harm_over_cubic_ratio"] == pytest.approx((3 - 2.7) / 4)
    assert row["cubic_kept_ratio"] == pytest.approx(0.9)


@pytest.mark.parametrize(
    ("bar", "changed", "share"),
    [
        ("goodput", {}, 1.0),
        ("goodput", {"goodput_bytes_per_s": 8.9e6}, 0.0),
        ("again", {"retrans_pct": 1.5}, 0.5),
        ("again", {"retrans_pct": 2.1}, 0.0),
        ("delay", {"queueing_delay_us": 12_000.0}, 1.0),
        ("delay", {"queueing_delay_us": 12_001.0}, 0.0),
        ("Jain", {"jain_index": 0.89}, 0.0),
        ("harm", {"other_goodput_bytes_per_s": 2.5e6}, 0.0),
        ("kept", {"other_goodput_bytes_per_s": 2.39e6}, 0.0),
    ],
)
def test_bars(bar: str, changed: dict[str, float], share: float) -> None:
    (chosen,) = (one for one in bars.BARS if one.name == bar)
    found = chosen.met(ours(bars.judged(runs(**changed))).reset_index())
    assert found.value == share
    assert found.n == (1 if chosen.lossless else 2)


def test_findings_have_shares_worst_networks_and_checks() -> None:
    found = bars.findings(Runs([], runs(), 14))
    by_bar, _, _, worst = found.tables
    assert set(by_bar.rows["variant"]) == {KERNEL, OURS, "kernel/bbr"}
    assert list(worst.rows["network"]) == ["1", "2"]
    assert [check.name for check in found.checks] == [bar.name for bar in bars.BARS]
    assert all(check.low == bars.WANTED_RATIO for check in found.checks)
    assert "networks-goodput" in found.figures


def test_findings_need_runs_alone_and_beside() -> None:
    table = runs()
    assert not bars.findings(Runs([], table[table["setting"] == "alone"], 14)).tables
