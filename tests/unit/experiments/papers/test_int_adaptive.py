"""The experiments of adaptive transport by telemetry: plans and results."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pandas as pd
import pytest

from experiments.papers.int_adaptive import paper as int_adaptive
from experiments.papers.int_adaptive.chain import OWN
from experiments.papers.int_adaptive.growth import path_full_s
from experiments.papers.int_adaptive.paper import KERNEL, L1, L2, LOSSES, PAPER, loss_events
from experiments.papers.int_adaptive.quality import TELEMETRIES, paired
from experiments.papers.paper import Runs, Size
from experiments.sweep import PlannedRun, planned
from tests.unit.experiments.papers.int_fakes import capture, records, result_of

FULL, QUICK = Size(repeats=1), Size(quick=True)


@cache
def runs_of(part: str, size: Size) -> list[PlannedRun]:
    return [one for grid in PAPER.parts[part].grids(size) for one in planned(grid)]


def loss_of(run: PlannedRun) -> tuple[float, float]:
    last = run.scenario.network.links[-1]
    return last.forward.loss.ratio, last.back.loss.ratio


def test_all_flows_go_through_the_chain_over_ipv6_and_the_hop_loses_both_ways() -> None:
    for part in PAPER.parts:
        for run in runs_of(part, QUICK):
            network = run.scenario.network
            links = [f"{link.a} {link.b}" for link in network.links]
            assert links == ["sta1 ap1", "ap1 ap2", "ap2 sta2"]
            assert loss_of(run)[0] == loss_of(run)[1]
            ends = {(flow.sender, flow.receiver, flow.family) for flow in run.scenario.flows}
            assert ends == {("sta1", "sta2", "ipv6")}


@pytest.mark.parametrize("size", [FULL, QUICK], ids=["full", "quick"])
def test_figure_6_has_three_variants_at_six_losses(size: Size) -> None:
    cells = {
        (loss_of(run)[0], run.scenario.flows[0].algorithm, run.scenario.flows[0].params.get("wireless_loss"))
        for run in runs_of("fig6", size)
    }
    variants = [(KERNEL, None), (OWN, "keep"), (OWN, "mild")]
    assert cells == {(loss, *variant) for loss in LOSSES for variant in variants}


def test_what_must_show_is_repeated_ten_times_in_the_quick_grid() -> None:
    for loss in (0.0, 0.2):
        repeats = [run.repeat for run in runs_of("fig6", QUICK) if loss_of(run)[0] == loss]
        assert sorted(repeats) == sorted(3 * list(range(10)))


def test_figure_7_has_the_papers_increments() -> None:
    params = [run.scenario.flows[0].params for run in runs_of("fig7", FULL)]
    assert [one.get("increment") for one in params] == [None, 1, 2, 3]


def test_rounds_of_the_overhead_run_everything_once_in_turned_order() -> None:
    grids = PAPER.parts["overhead"].grids(QUICK)
    orders = [[run.axes["telemetry"] for run in planned(grid)][: len(TELEMETRIES)] for grid in grids]
    assert [order[0] for order in orders] == list(TELEMETRIES)
    assert all(set(order) == set(TELEMETRIES) for order in orders)
    every = {
        run.axes["telemetry"]: getattr(run.scenario.network.telemetry, "every_pkts", None)
        for run in planned(grids[0])
    }
    assert every == {"off": None, "1 in 10": 10, "every packet": 1}


def goodputs(values: dict[tuple[str, float], list[float]]) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {"variant": variant, "loss_ratio": loss, "goodput_bytes_per_s": value, "seed": seed}
            for (variant, loss), ones in values.items()
            for seed, value in enumerate(ones)
        ]
    )


def test_what_must_show_is_the_quotient_of_runs_with_the_same_seed() -> None:
    table = goodputs(
        {
            (KERNEL, 0.2): [1e5] * 6,
            (L1, 0.2): [7e5, 7.7e5, 9e5] * 2,
            (L2, 0.2): [6.9e5, 7.6e5, 9e5] * 2,
            (KERNEL, 0.0): [2e6] * 6,
            (L1, 0.0): [2e6] * 6,
            (L2, 0.0): [1.9e6, 1.9e6, 1.95e6] * 2,
        }
    )
    checks = {check.name: check for test in PAPER.parts["fig6"].comparisons for check in [test.check(table)]}
    assert checks[f"gain, {L1}, 0.2"].verdict == "holds"
    assert checks[f"gain, {L1}, 0.2"].found.value == pytest.approx(7.7)
    assert checks[f"gain, {L2}, 0.2"].verdict == "undecided"
    assert checks[f"no harm, {L1}, 0"].verdict == "holds"
    assert checks[f"no harm, {L2}, 0"].verdict == "fails"
    assert checks[f"more, {L1}, 0.05"].verdict is None


def test_figure_6_has_bars_and_lines() -> None:
    table = goodputs({(name, loss): [1e6] for name in (KERNEL, L1, L2) for loss in LOSSES})
    figures = int_adaptive.figure_6(table)
    (bars,) = figures["figure-6"].axes
    assert len(bars.patches) == 18
    (lines,) = figures["figure-6-log"].axes
    assert lines.get_yscale() == "log"


def test_a_loss_event_has_the_window_before_and_after_it() -> None:
    summaries = pd.DataFrame(
        {
            "t_s": [1.0, 1.01, 1.02, 1.05, 1.5, 1.6, 2.0],
            "lost_pkts": [0, 2, 0, 1, 0, 3, 0],
            "cwnd_bytes": [30e3, 30e3, 29e3, 21e3, 25e3, None, 18e3],
        }
    )
    events = loss_events(summaries)
    assert events["t_s"].tolist() == [1.01]  # the loss at 1.05 belongs to it, that at 1.6 has no window after
    (event,) = events[["lost_pkts", "before_bytes", "after_bytes"]].to_numpy().tolist()
    assert event == [2, 30e3, 21e3]


def test_the_path_is_full_when_the_window_is_as_large_as_it() -> None:
    samples = pd.DataFrame({"t_s": [0.5, 0.6, 0.7], "cwnd_bytes": [1e4, 2e4, 3e4]})
    assert path_full_s(samples, 2e4) == pytest.approx(0.1)
    assert path_full_s(samples, 4e4) != path_full_s(samples, 4e4)


def test_overhead_is_by_the_run_of_the_same_round() -> None:
    table = pd.DataFrame(
        [("off", 1, 4.0, 1.0), ("every", 1, 2.0, 3.0), ("off", 2, 8.0, 2.0)],
        columns=["telemetry", "seed", "goodput_bytes_per_s", "cpu_s_per_gb"],
    )
    (row,) = paired(table.assign(load="fast")).to_dict("records")
    assert (row["telemetry"], row["seed"]) == ("every", 1)
    assert (row["goodput_quotient"], row["cpu_quotient"]) == (0.5, 3)


def test_what_echoes_are_for_is_run_with_and_without_them() -> None:
    for part in ("echo-loss", "echo-growth", "silent"):
        for run in runs_of(part, QUICK):
            assert run.scenario.network.telemetry.echo == run.axes["variant"].endswith("echo")


def test_the_silent_bottleneck_takes_no_part() -> None:
    for run in runs_of("silent", QUICK):
        assert "ap1" not in [node.name for node in run.scenario.network.telemetry.nodes]
        assert loss_of(run) == (0.0, 0.0)


@pytest.mark.parametrize("part", PAPER.parts)
def test_every_part_has_a_table_and_figures(part: str, tmp_path: Path) -> None:
    capture(tmp_path, [0, 1, 3])
    rows, results = [], []
    for run in runs_of(part, QUICK):
        if run.repeat == 0:
            received = records({0: (0, 0), 3: (1, 1), 5: (0, 1)})
            result = result_of(run.scenario, tmp_path, int_records=received)
            result.axes = run.axes
            results.append(result)
            rows.append({"seed": run.scenario.seed, **run.axes, **PAPER.parts[part].row(result)})
    found = PAPER.parts[part].findings(Runs(results, pd.DataFrame(rows), len(rows)))
    assert found.tables[0].rows["n"].sum() == len(rows)
    assert found.figures
    drawn = [[ax.lines or ax.patches or ax.images for ax in one.axes] for one in found.figures.values()]
    assert all(any(one) for one in drawn)
