"""Flex-Cubic's experiments: plans and results."""

from __future__ import annotations

import math
from collections import Counter
from functools import cache
from itertools import product
from typing import Any

import msgspec
import pandas as pd
import pytest

from experiments.events import SetParam, SetRoute
from experiments.papers.flex_cubic import paper as flex_cubic
from experiments.papers.flex_cubic.paper import BETAS, BUFFERS_BDP, KERNEL, LOSSES, OWDS_US, OWN, PAPER
from experiments.papers.paper import Runs, Size, table_of
from experiments.papers.tables import Check
from experiments.papers.two_flows import against, bursts_of, dumbbell, shares
from experiments.runs.grid import changed
from experiments.runs.shapes import Dumbbell
from experiments.sweep import PlannedRun, planned
from tests.unit.experiments.papers.fakes import result_of

FULL, QUICK = Size(repeats=1), Size(quick=True)


@cache
def runs_of(part: str, size: Size) -> list[PlannedRun]:
    return [one for grid in PAPER.parts[part].grids(size) for one in planned(grid)]


def cell(run: PlannedRun) -> tuple[Any, ...]:
    shape = run.scenario.topology
    assert isinstance(shape, Dumbbell)
    link, flow = shape.bottleneck, run.scenario.flows[0]
    if "queue_fraction" in flow.params:
        return ("beyond the paper",)
    return link.delay_us, link.loss.ratio, link.buffer.bdp, flow.algorithm, flow.params.get("beta")


def test_the_full_grid_is_the_papers_and_kernel_cubic_is_run_once_for_all_betas() -> None:
    cells = Counter(cell(run) for run in runs_of("grid", FULL))
    networks = list(product(OWDS_US, LOSSES, BUFFERS_BDP))
    assert len(networks) == 60
    expected = {(*one, OWN, beta) for one in networks for beta in BETAS}
    expected |= {(*one, KERNEL, None) for one in networks}
    assert cells.pop(("beyond the paper",)) == 4 * 5
    assert set(cells) == expected
    assert set(cells.values()) == {1}


def test_the_quick_grid_has_a_dozen_networks_and_repeats_what_must_show() -> None:
    cells = Counter(cell(run) for run in runs_of("grid", QUICK))
    both = {one[:3] for one in cells if one[3:] == (KERNEL, None)}
    assert both == {one[:3] for one in cells if one[3:] == (OWN, 0.7)}
    assert len(both) == 12
    for loss, which in product((0.0, 0.005), ((KERNEL, None), (OWN, 0.7))):
        assert cells[(25_000, loss, 1.0, *which)] >= 5


def test_all_flows_of_a_grids_run_have_the_same_algorithm_through_one_bottleneck() -> None:
    for run in runs_of("grid", QUICK):
        first, second = run.scenario.flows
        assert (first.algorithm, first.params) == (second.algorithm, second.params)
        assert (first.sender, first.receiver, second.sender, second.receiver) == ("s1", "r1", "s2", "r2")
        assert run.scenario.topology.bottleneck.rate_bytes_per_s == 12.5e6


def test_size_decides_repeats_and_length() -> None:
    runs = runs_of("bursts", Size(quick=True, repeats=3, duration_s=4))
    assert {run.scenario.duration_s for run in runs} == {4}
    assert max(run.repeat for run in runs) == 2


@pytest.mark.parametrize("mean_pkts", [1, 5, 20])
def test_bursts_lose_the_share_that_is_asked_for(mean_pkts: float) -> None:
    process = bursts_of(mean_pkts, 0.005)
    enter, leave = process["good_to_bad"], process["bad_to_good"]
    assert enter / (enter + leave) == pytest.approx(0.005, rel=1e-5)
    assert 1 / leave == pytest.approx(mean_pkts)


def test_fairness_pairs_have_one_flow_of_each() -> None:
    pairs = {tuple(flow.algorithm for flow in run.scenario.flows) for run in runs_of("fairness", FULL)}
    assert {(OWN, KERNEL), (OWN, "kernel/bbr"), (KERNEL, KERNEL)} <= pairs


def test_the_path_becomes_another_one_while_the_flow_runs() -> None:
    for run in runs_of("reroute", QUICK):
        near, far = (event for event in run.scenario.events if isinstance(event, SetRoute))
        assert "near" in near.path
        assert "far" in far.path
        assert near.at_s == 0 < far.at_s < run.scenario.duration_s
        delays = {link.name: link.forward.delay_us for link in run.scenario.network.links}
        assert delays["far"] == 4 * delays["near"]


def test_k_is_set_at_half_of_a_run_and_compared_with_itself_from_the_start() -> None:
    runs = {run.axes["variant"]: run.scenario for run in runs_of("live", FULL)}
    ks = {name: (one.flows[0].params["rtt_multiplier"], one.events[0].value) for name, one in runs.items()}
    assert ks == {"k 1": (1, 1), "k 2": (2, 2), "k 1, then 2": (1, 2), "k 2, then 1": (2, 1)}
    for one in runs.values():
        (event,) = one.events
        assert isinstance(event, SetParam)
        assert (event.flow, event.param, event.at_s) == ("flow", "rtt_multiplier", one.duration_s / 2)


def test_parameters_have_their_defaults_among_them() -> None:
    runs = runs_of("parameters", FULL)
    assert {"C 0.4", "k 2", KERNEL} <= {run.axes["variant"] for run in runs}
    for run in runs:
        if "rtt_multiplier" in (params := run.scenario.flows[0].params):
            assert run.scenario.topology.bottleneck.buffer.bdp + 1 > params["rtt_multiplier"]


def test_flows_overlap_for_half_of_the_run() -> None:
    for run in runs_of("overlap", FULL):
        first, second = run.scenario.flows
        assert 0 == first.start_s < second.start_s < first.stop_s < run.scenario.duration_s
        assert second.stop_s is None


def test_a_run_is_one_row_of_both_flows_together() -> None:
    scenario = dumbbell("x", 2, owd_us=10_000, loss_ratio=0.01, buffer_bdp=0.5)
    result = result_of(scenario, {"h1-h2": 4e6, "h3-h4": 2e6}, dropped_queue_pkts=7)
    row = table_of([result], PAPER.parts["grid"].row).iloc[0]
    assert (row["owd_us"], row["loss_ratio"], row["buffer.bdp"]) == (10_000, 0.01, 0.5)
    assert (row["algorithm"], row["beta"]) == (KERNEL, 0.7)
    assert row["goodput_bytes_per_s"] == pytest.approx(6e6)
    assert row["throughput_bytes_per_s"] == pytest.approx(6e6 * 2 / 2.5)  # the application took 0.5 s more
    assert row["retrans_pct"] == pytest.approx(10)
    assert row["jain_index"] == pytest.approx(0.9)
    assert row["dropped_queue_pkts"] == 7


def test_where_the_end_of_the_run_interrupts_iperf3_what_was_acknowledged_is_the_throughput() -> None:
    scenario = dumbbell("x", 2)
    later = tuple(msgspec.structs.replace(flow, start_s=0.067) for flow in scenario.flows)
    result = result_of(msgspec.structs.replace(scenario, flows=later), {"h1-h2": 4e6, "h3-h4": 2e6})
    assert math.isnan(result.flows["received_bytes"].sum(skipna=False))
    assert table_of([result], PAPER.parts["grid"].row).iloc[0]["throughput_bytes_per_s"] == pytest.approx(6e6)


def test_two_flows_against_each_other_have_shares() -> None:
    scenario = changed(dumbbell("x", 2), against(OWN, KERNEL, beta=0.8))
    assert [flow.params for flow in scenario.flows] == [{"beta": 0.8}, {}]
    row = shares(result_of(scenario, {"h1-h2": 6e6, "h3-h4": 2e6}))
    assert row["algorithm"] == OWN
    assert row["quotient"] == pytest.approx(3)
    assert row["jain_index"] == pytest.approx(0.8)
    assert row["share_of_first_ratio"] == pytest.approx(0.75)
    idle = shares(result_of(scenario, {"h1-h2": 6e6, "h3-h4": 0.0}))
    assert math.isnan(idle["quotient"])
    assert idle["share_of_first_ratio"] == 1


def grid_table(goodputs: dict[tuple[str, float], list[float]]) -> pd.DataFrame:
    rows = [
        (*cell, value, seed, value, 1.0)
        for cell, values in goodputs.items()
        for seed, value in enumerate(values)
    ]
    columns = [
        "algorithm",
        "loss_ratio",
        "goodput_bytes_per_s",
        "seed",
        "throughput_bytes_per_s",
        "retrans_pct",
    ]
    network = {"owd_us": 25_000, "buffer.bdp": 1.0, "beta": 0.7, "queue_fraction": 0.0}
    return pd.DataFrame(rows, columns=columns).assign(**network)


def test_what_must_show_is_the_quotient_of_runs_with_the_same_seed() -> None:
    table = grid_table(
        {
            (KERNEL, 0.005): [1e6, 1.1e6, 1.2e6] * 2,
            (OWN, 0.005): [3.5e6, 3.3e6, 9e6] * 2,
            (KERNEL, 0.0): [10e6] * 6,
            (OWN, 0.0): [9.5e6, 9.6e6, 9.6e6] * 2,
        }
    )
    gain, harm = (judged(table, name) for name in ("several, 25000, 1, 0.005", "same, 25000, 1, 0"))
    assert (gain.found.value, gain.verdict) == (pytest.approx(3.5), "holds")
    assert (harm.found.value, harm.verdict) == (pytest.approx(0.96), "fails")
    other = table.assign(**{"buffer.bdp": 0.25})
    assert judged(other, "several, 25000, 1, 0.005").verdict is None
    assert judged(pd.concat([table, other]), "several, 25000, 1, 0.005").found == gain.found


def judged(table: pd.DataFrame, name: str) -> Check:
    (comparison,) = (one for one in PAPER.parts["grid"].comparisons if one.name == name)
    return comparison.check(table)


def test_each_of_the_papers_figures_has_kernel_cubic_and_one_beta() -> None:
    table = pd.concat(
        [
            grid_table({(KERNEL, 0.0): [9e6], (KERNEL, 0.01): [1e6]}),
            grid_table({(OWN, 0.0): [9e6], (OWN, 0.01): [8e6]}),
            grid_table({(OWN, 0.0): [7e6], (OWN, 0.01): [6e6]}).assign(beta=0.3),
        ]
    )
    figures = flex_cubic.figures_4_to_6(table, 0.3)
    (axes,) = figures["goodput"].axes
    drawn = sorted(tuple(line.get_ydata()) for line in axes.lines if len(line.get_xdata()) == 2)
    assert (72.0, 8.0) in drawn
    assert (56.0, 48.0) in drawn
    assert (72.0, 64.0) not in drawn


def test_the_grid_has_a_table_and_three_figures_for_each_beta_and_two_for_queues() -> None:
    table = pd.concat(
        [grid_table({(KERNEL, 0.0): [9e6], (OWN, 0.0): [9e6]})]
        + [grid_table({(OWN, 0.0): [2e6]}).assign(queue_fraction=0.5)]
        + [grid_table({(OWN, 0.0): [8e6]}).assign(beta=beta) for beta in (0.3, 0.9)]
    )
    table = table.assign(retrans_pkts=10.0, variation_ratio=0.1)
    found = PAPER.parts["grid"].findings(Runs([], table, 4))
    assert {"queue-goodput", "queue-retransmitted"} <= set(found.figures)
    assert {name.rpartition("-beta-")[0] for name in found.figures if "beta" in name} == {
        f"{figure}-{what}"
        for figure in ("figure-4", "figure-5", "figure-6")
        for what in ("throughput", "goodput", "retransmitted")
    }
    assert "figure-6-goodput-beta-0.9" in found.figures
    assert len(found.tables[0].rows) == 5


def test_seconds_of_a_flow_vary_about_their_mean() -> None:
    result = result_of(dumbbell("x", 6), {"h1-h2": 4e6, "h3-h4": 2e6})
    assert PAPER.parts["grid"].row(result)["variation_ratio"] == pytest.approx(0, abs=1e-6)


def test_what_came_after_the_change_is_judged_by_its_own_bytes() -> None:
    scenario = runs_of("live", FULL)[0].scenario
    row = PAPER.parts["live"].row(result_of(scenario, {"flow": 3e6}))
    assert row["after_goodput_bytes_per_s"] == pytest.approx(3e6)
    assert row["before_retrans_pct"] == pytest.approx(10)


def test_overlap_is_judged_while_both_send() -> None:
    scenario = runs_of("overlap", FULL)[0].scenario
    row = PAPER.parts["overlap"].row(result_of(scenario, {"h1-h2": 6e6, "h3-h4": 2e6}))
    assert row["jain_index"] == pytest.approx(0.8)
    assert row["together_goodput_bytes_per_s"] == pytest.approx(8e6)


def test_bursts_have_a_table_and_bars() -> None:
    rows = []
    for run in runs_of("bursts", QUICK):
        flows = {flow.name: 1e6 for flow in run.scenario.flows}
        if run.repeat == 0:
            rows.append({"seed": 1, **run.axes, **PAPER.parts["bursts"].row(result_of(run.scenario, flows))})
    found = PAPER.parts["bursts"].findings(Runs([], pd.DataFrame(rows), len(rows)))
    assert len(found.tables[0].rows) == len(rows)
    assert set(found.tables[0].rows["goodput_bytes_per_s"].round()) == {2e6}
    assert sorted(found.figures) == ["bursts-goodput", "bursts-retransmitted"]


def test_fairness_without_its_clean_runs_draws_nothing() -> None:
    run = next(one for one in runs_of("fairness", QUICK) if one.scenario.topology.bottleneck.loss.ratio > 0)
    row = PAPER.parts["fairness"].row(result_of(run.scenario, {"h1-h2": 1e6, "h3-h4": 1e6}))
    found = PAPER.parts["fairness"].findings(Runs([], pd.DataFrame([{"seed": 1, **run.axes, **row}]), 1))
    assert found.figures == {}
