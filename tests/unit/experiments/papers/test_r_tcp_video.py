"""R-TCP with video: plans and results."""

from __future__ import annotations

import pandas as pd
import pytest

from experiments.papers.paper import Part, Runs, Size, findings, table_of
from experiments.papers.r_tcp.operators import limit_of
from experiments.papers.r_tcp.runs import LIMITED_BY, VARIANTS, name_of
from experiments.papers.r_tcp.video import VIDEO, claims, viewed
from experiments.results import Result
from experiments.sweep import planned
from experiments.traffic import Dash

QUICK = Size(quick=True)
RETRANS_PCT = {"kernel/cubic": 10.0, "rtcp/cubic": 5.0, "kernel/bbr": 20.0, "rtcp/bbr": 15.0, "bbr3": 30.0}
QOE = {"kernel/cubic": 2.0, "rtcp/cubic": 1.9, "kernel/bbr": -1.0, "rtcp/bbr": -1.1, "bbr3": 1.0}


@pytest.mark.parametrize("size", [QUICK, Size(repeats=2)])
def test_all_algorithms_are_compared_side_by_side_in_the_same_network(size: Size) -> None:
    runs = [one for grid in VIDEO.grids(size) for one in planned(grid)]
    assert len({one.key for one in runs}) == len(runs)
    for one in runs:
        scenario = one.scenario
        operators = {flow.name.partition("-")[0] for flow in scenario.flows}
        for operator in operators:
            own = [flow for flow in scenario.flows if flow.name.startswith(operator)]
            assert [flow.algorithm for flow in own] == list(VARIANTS)
            assert len({limit_of(scenario, flow) for flow in own} - {None}) == 1
        assert len({flow.receiver for flow in scenario.flows}) == len(operators) * len(VARIANTS)
        assert len({flow.traffic for flow in scenario.flows}) == 1


def test_each_way_to_choose_bitrates_is_tried_with_each_operator() -> None:
    runs = [one for grid in VIDEO.grids(Size(repeats=1)) for one in planned(grid)]
    tried = {
        (flow.name.partition("-")[0], flow.traffic.abr)
        for one in runs
        for flow in one.scenario.flows
        if isinstance(flow.traffic, Dash)
    }
    assert len(tried) == len(runs) == 9
    assert {abr for _, abr in tried} == {one.axes["abr"] for one in runs}


def played_by(algorithms: tuple[str, ...]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Flows that retransmitted as `RETRANS_PCT` says, and played two segments of the quality in `QOE`."""
    flows = pd.DataFrame(
        [(name_of("op1", 1, name), name, RETRANS_PCT.get(name, 0.0)) for name in algorithms],
        columns=["flow", "algorithm", "retrans_pct"],
    )
    first = flows[["flow"]].assign(
        number=0,
        bitrate_bytes_per_s=250_000.0,
        played_s=4.0,
        startup_s=1.0,
        stalls=1,
        stalled_s=[(2.0 - QOE.get(name, 0.0)) / 4.3 for name in algorithms],
    )
    second = first.assign(number=1, startup_s=float("nan"))
    return flows.assign(connections=2, completion_s=60.0), pd.concat([first, second], ignore_index=True)


def results_of(part: Part) -> Runs:
    results = []
    for grid in part.grids(QUICK):
        for one in planned(grid):
            flows, segments = played_by(VARIANTS)
            facts = {"seed": one.scenario.seed}
            tables = {"flows": flows, "playback": segments}
            result = Result(None, facts, tables.__getitem__, one.scenario.to_yaml())
            result.axes = dict(one.axes)
            results.append(result)
    return Runs(results, table_of(results, part.row), len(results))


def test_sessions_have_retransmissions_and_quality() -> None:
    (result,) = results_of(VIDEO).results
    found = viewed(result).set_index("algorithm")
    assert list(found.index) == list(VARIANTS)
    assert found["retrans_pct"]["kernel/bbr"] == 20.0
    assert found["qoe"].to_dict() == pytest.approx({**QOE, "r_tcp_bbr3": 0.0})
    assert set(found["operator"]) == {"op1"}
    assert set(found["abr"]) == {"dynamic"}


def test_the_part_has_a_table_figures_and_claims() -> None:
    runs = results_of(VIDEO)
    assert runs.table["whole_sessions"].tolist() == [len(VARIANTS)]
    made = findings(VIDEO, runs)
    assert len(made.tables[0].rows) == len(VARIANTS)
    assert made.figures
    assert [check.found.value for check in made.checks[::2]] == pytest.approx([0.5, 0.25, 1.0])


def test_what_is_saved_and_changed_is_that_of_pairs() -> None:
    found = pd.concat([viewed(one) for one in results_of(VIDEO).results]).assign(seed=1)
    minimum = dict.fromkeys(LIMITED_BY, 0.3)
    cubic_saved, cubic_kept, bbr_saved, bbr_kept, *_ = claims(found, minimum, "qoe", "quality")
    assert cubic_saved.found.value == pytest.approx(0.5)
    assert cubic_kept.found.value == pytest.approx(-0.05)
    assert bbr_saved.found.value == pytest.approx(0.25)
    assert bbr_kept.found.value == pytest.approx(-0.05)  # of 2 Mbit/s, not of -1


def test_nothing_is_claimed_of_what_was_not_run() -> None:
    found = pd.concat([viewed(one) for one in results_of(VIDEO).results]).assign(seed=1)
    without = found[~found["algorithm"].str.startswith("rtcp/")]
    made = claims(without, {"kernel/cubic": 0.3}, "qoe", "quality")
    assert [check.verdict for check in made] == [None, None]
