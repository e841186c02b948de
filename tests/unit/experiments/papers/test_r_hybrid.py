"""R-Hybrid's experiments: plans and results."""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd
import pytest

from experiments.netlab.spec import DropTail
from experiments.papers.paper import Runs, Size, findings, table_of
from experiments.papers.r_hybrid import series as r_hybrid_series
from experiments.papers.r_hybrid.claims import OWN_ONLY
from experiments.papers.r_hybrid.paper import AGGRESSIVE, BASELINE, CASES, CLAIMED, PAPER, STRICT
from experiments.papers.r_hybrid.path import (
    AGGRESSIVE_US,
    BBR,
    DCTCP,
    LINK,
    MARKED_US,
    OWN,
    OWN_MARKS,
    PAPER_NOISE,
    conditions,
    path,
)
from experiments.papers.tables import Check
from experiments.papers.variants import KERNEL
from experiments.results import Result
from experiments.runs.shapes import PointToPoint
from experiments.scenario import FlowSpec, Scenario
from experiments.sweep import PlannedRun, planned
from experiments.traffic.spec import Iperf3
from telemetry.regime import DetectorOptions
from tests.unit.experiments.papers import fakes

FULL, QUICK = Size(repeats=1), Size(quick=True)
RTT_US = 21_000  # of all samples; without queue it would be 20 ms
OWN_PARTS = ("fig2", "fig3", "clean")

EVENTS = pd.DataFrame(
    [
        (2.5, "regime:probed", "", "probe: share of the queue 0.93"),
        (2.5, "regime:switched", "dctcp", "probe: share of the queue 0.93"),
        (3.25, "regime:switched", "cubic", "decision of receiver"),
    ],
    columns=["t_s", "event", "after", "reason"],
).assign(flow="data", connection=0, backward=False)


@cache
def runs_of(part: str, size: Size) -> list[PlannedRun]:
    return [one for grid in PAPER.parts[part].grids(size) for one in planned(grid)]


def result_of(scenario: Scenario, goodput_bytes_per_s: float = 1e6, decisions: bool = True) -> Result:
    """A made-up result: every second decision is SHARED."""
    without = fakes.result_of(scenario, {flow.name: goodput_bytes_per_s for flow in scenario.flows})
    metadata = without.metadata | {"links": {LINK: {"delivered_pkts": 200, "marked_pkts": 50}}}
    times_s = np.arange(0, scenario.duration_s if decisions else 0, 0.5)
    regimes = pd.DataFrame(
        {
            "t_s": times_s,
            "rtt_min_ms": 1.0,
            "rtt_p50_ms": 1.5,
            "rtt_tail_ms": 2.0,
            "arrival_pkts_per_s": 1000.0,
            "ce_marks": 100 * times_s,
            "retransmits": 0.0,
            "density": 0.0,
            "regime": np.where(np.arange(len(times_s)) % 2, "SHARED", "SINGLE_OWNER"),
        }
    )
    samples = without.connection_samples.assign(rtt_us=RTT_US)
    tables = {"regimes": regimes, "regime_events": EVENTS, "connection_samples": samples}
    tables |= {"flows": without.flows, "flow_samples": without.flow_samples}
    return Result(None, metadata, tables.__getitem__, scenario.to_yaml())


@pytest.mark.parametrize("size", [FULL, QUICK], ids=["full", "quick"])
def test_figures_2_and_4_have_the_papers_algorithms_clean_and_with_loss(size: Size) -> None:
    cells = {
        (flow.algorithm, shape.forward.loss.ratio, flow.traffic)
        for run in runs_of("fig2", size)
        for flow, shape in [(run.scenario.flows[0], run.scenario.topology)]
        if shape.forward.delay_us == 500 and "shared" not in flow.params
    }
    assert cells == {(one, loss, Iperf3(parallel=4)) for one in (KERNEL, BBR, OWN) for loss in (0.0, 0.01)}


def test_figure_2_is_also_run_over_a_fast_link_with_the_papers_rule() -> None:
    runs = runs_of("fast", QUICK)
    cells = {(run.scenario.flows[0].algorithm, run.scenario.topology.forward.loss.ratio) for run in runs}
    assert cells == {(one, loss) for one in (KERNEL, BBR, OWN) for loss in (0.0, 0.01)}
    for run in runs:
        link, (receiver,) = run.scenario.topology.forward, run.scenario.receivers
        assert (link.rate_bytes_per_s, link.queue) == (125e6, DropTail())
        assert receiver.detector == {"noise_ce_marks": PAPER_NOISE}
        assert run.scenario.flows[0].params == {}


def test_figure_3_compares_an_aggressive_threshold_with_none() -> None:
    first = [run for run in runs_of("fig3", FULL) if run.scenario.seed == 1]
    assert {str(run.axes["case"]) for run in first} == set(CASES)
    for run in first:
        threshold_us = run.scenario.topology.forward.queue.ce_threshold_us
        assert threshold_us == (None if run.axes["case"].endswith(BASELINE) else AGGRESSIVE_US)
        assert run.scenario.receivers[0].detector == {"noise_ce_marks": PAPER_NOISE}
        mine = run.scenario.flows[0]
        assert mine.ecn == (mine.algorithm != KERNEL)


def test_rounds_have_the_same_seed_for_what_is_compared_and_begin_with_another_case() -> None:
    rounds = [planned(grid) for grid in PAPER.parts["fig3"].grids(QUICK)]
    assert [{run.scenario.seed for run in one} for one in rounds] == [{n} for n in range(1, 7)]
    assert {frozenset(run.axes["case"] for run in one) for one in rounds[1:]} == {frozenset(CLAIMED)}
    assert len({str(one[0].axes["case"]) for one in rounds[1:5]}) == len(CLAIMED)


def test_the_clean_link_marks_as_dctcp_needs_it_and_its_own_marks_do_not_count() -> None:
    for run in runs_of("clean", QUICK):
        forward = run.scenario.topology.forward
        assert forward.queue == DropTail(ce_threshold_us=MARKED_US)
        variant = run.axes["variant"]
        noise = PAPER_NOISE if variant in (STRICT, OWN_ONLY) else OWN_MARKS
        (receiver,) = run.scenario.receivers
        assert receiver.detector == {"noise_ce_marks": noise}
        assert receiver.mode == ("own" if variant == OWN_ONLY else "fast")


def test_a_run_counts_from_when_it_has_settled() -> None:
    row = conditions(result_of(path("x", 4), 2e6))
    assert row["goodput_bytes_per_s"] == pytest.approx(2e6)
    assert row["queueing_delay_p50_us"] == RTT_US - 20_000
    assert row["shared_ratio"] == 0.5
    assert row["ce_marks_p95"] == pytest.approx(342.5)  # of 200, 250, 300, 350
    assert row["marked_ratio"] == 0.25
    assert (row["rtt_us"], row["loss_ratio"], row["noise_ce_marks"]) == (1_000, 0.0, OWN_MARKS)


def test_without_decisions_nothing_is_said_of_them() -> None:
    row = conditions(result_of(path("x", 4), decisions=False))
    assert np.isnan([row["shared_ratio"], row["ce_marks_p95"]]).all()


def cases(values: dict[tuple[str, str], list[float]]) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {"variant": variant, "marking": marking, "goodput_bytes_per_s": value, "seed": seed}
            for (variant, marking), ones in values.items()
            for seed, value in enumerate(ones)
        ]
    )


def judged(part: str, name: str, table: pd.DataFrame) -> Check:
    (comparison,) = (one for one in PAPER.parts[part].comparisons if one.name == name)
    return comparison.check(table)


def test_figure_3_must_show_goodput_by_the_baseline_of_the_same_round() -> None:
    table = cases(
        {
            (KERNEL, BASELINE): [100.0, 50.0, 200.0] * 2,
            (DCTCP, AGGRESSIVE): [90.0, 50.0, 196.0] * 2,
            (OWN, AGGRESSIVE): [98.0, 50.0, 196.0] * 2,
        }
    )
    dctcp, mine = (judged("fig3", name, table) for name in ("dctcp", "ours"))
    assert (dctcp.found.value, dctcp.verdict) == (0.98, "undecided")
    assert (mine.found.value, mine.verdict) == (0.98, "holds")
    without = table[table["variant"] != KERNEL]
    assert [judged("fig3", name, without).verdict for name in ("dctcp", "ours")] == [None] * 2


def test_the_clean_case_must_show_both_throughput_and_delay() -> None:
    table = pd.DataFrame(
        {
            "variant": [DCTCP, OWN, OWN_ONLY] * 6,
            "seed": [seed for seed in range(6) for _ in range(3)],
            "goodput_bytes_per_s": [100.0, 99.0, 97.0] * 6,
            "queueing_delay_p50_us": [100.0, 103.0, 100.0] * 6,
        }
    )
    values = ("goodput_bytes_per_s", "queueing_delay_p50_us")
    assert [judged("clean", f"as dctcp, {one}", table).verdict for one in values] == ["holds", "fails"]
    own = [judged("clean", f"as dctcp, {one}, mode own", table).verdict for one in values]
    assert own == ["fails", "holds"]


def test_figure_5_is_the_papers() -> None:
    found = findings(PAPER.parts["fig5"], Runs([], pd.DataFrame(), 0))
    assert [check.verdict for check in found.checks] == ["holds"] * 4
    assert found.tables[0].rows["t_s"].tolist() == [70, 170, 220, 265]
    assert len(found.figures["figure-5"].axes) == 3


def test_a_detector_that_is_too_slow_is_not_the_papers() -> None:
    options = DetectorOptions(baseline_ms=r_hybrid_series.BASELINE_MS, persistence=5)
    table = r_hybrid_series.decided(r_hybrid_series.figure_5(), options)
    assert "fails" in [check.verdict for check in r_hybrid_series.claims(table)]


@pytest.mark.parametrize("part", OWN_PARTS)
def test_every_part_has_tables_and_figures(part: str) -> None:
    results = []
    for run in runs_of(part, QUICK):
        result = result_of(run.scenario)
        result.axes = run.axes
        results.append(result)
    rows = table_of(results, PAPER.parts[part].row)
    found = findings(PAPER.parts[part], Runs(results, rows, len(rows)))
    assert sum(table.rows["n"].sum() for table in found.tables) == len(rows)
    assert found.figures
    assert all(any(axes.lines or axes.patches for axes in one.axes) for one in found.figures.values())
    assert all(check.found.n >= 6 or not check.known for check in found.checks)


def test_the_path_is_that_of_two_hosts_with_a_receiver_that_decides() -> None:
    scenario = path("x", 4)
    scenario.validate()
    assert isinstance(scenario.topology, PointToPoint)
    assert scenario.flows == (FlowSpec("data", "sender", "receiver", KERNEL, traffic=Iperf3(parallel=4)),)
    assert [(one.host, one.mode) for one in scenario.receivers] == [("receiver", "fast")]
