"""The comparison of the simulator with the kernel: what is run, how often, and what deviations are."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from typer.testing import CliRunner

from experiments import run as runs
from experiments.bench.cli import app
from experiments.netlab.spec import Bernoulli, CoDel, Direction, Red
from experiments.runs.recording import Recording
from experiments.scenario import Scenario
from experiments.units import MBIT
from experiments.validation import comparison, running
from experiments.validation.cases import CASES, QUICK, in_round
from experiments.validation.comparison import GOALS, compare, counted
from tests.unit.experiments.recorded import record


class Both:
    """Stands in for both datapaths, and counts their runs."""

    def __init__(self) -> None:
        self.runs: list[tuple[str, str, int]] = []

    def __call__(self, scenario: Scenario, into: Recording, directory: Path, progress: Any) -> None:
        self.runs.append((scenario.datapath, scenario.name, scenario.seed))
        record(scenario, into, directory, progress)


@pytest.fixture
def both(monkeypatch: pytest.MonkeyPatch) -> Both:
    stand_in = Both()
    for name in running.DATAPATHS:
        monkeypatch.setitem(runs.DATAPATHS, name, stand_in)
    return stand_in


# --- scenarios ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_a_scenario_fits_together_when_a_round_has_it(name: str) -> None:
    first, second = (in_round(CASES[name], number) for number in (1, 2))
    for one in (first, second):
        one.validate()
        assert one.name == name
    assert first.seed != second.seed
    assert all(a.start_s != b.start_s for a, b in zip(first.flows, second.flows, strict=True))
    assert in_round(CASES[name], 1) == first


def _bottleneck(scenario: Scenario) -> Direction:
    return next(link.forward for link in scenario.network.links if link.name == "bottleneck")


def test_scenarios_cover_what_tcp_reacts_to() -> None:
    links = [_bottleneck(one) for one in CASES.values()]
    rates = [one.rate_bytes_per_s for one in links if one.rate_bytes_per_s]
    assert min(rates) == 2 * MBIT
    assert max(rates) == 100 * MBIT
    assert {2 * one.delay_us for one in links} >= {10_000, 200_000}
    assert {one.buffer.bdp for one in links if one.buffer} >= {0.25, 1, 4}
    assert any(isinstance(one.loss, Bernoulli) for one in links)
    assert any(one.token_bucket for one in links)
    assert {type(one.queue) for one in links} >= {CoDel, Red}
    algorithms = {flow.algorithm for one in CASES.values() for flow in one.flows}
    assert algorithms >= {"kernel/cubic", "kernel/reno", "kernel/bbr", "cubic"}
    assert {len(one.flows) for one in CASES.values()} >= {1, 2, 4}
    assert len(CASES) >= len(QUICK) >= 12
    assert set(QUICK) <= set(CASES)


# --- deviations --------------------------------------------------------------------------------------------


def _rows(kernel: dict[str, list[float]], simulator: dict[str, list[float]]) -> pd.DataFrame:
    """Return rows of runs of one scenario; what is not given is 1 everywhere."""
    found = []
    for datapath, given in (("ebpf", kernel), ("sim", simulator)):
        for number in range(3):
            values = {name: given.get(name, [1.0] * 3)[number] for name in GOALS}
            found.append({"case": "one", "datapath": datapath, "round": number, "late_us": 0.0, **values})
    return pd.DataFrame(found)


def _deviation(name: str, kernel: list[float], simulator: list[float]) -> comparison.Deviation:
    rows = _rows({name: kernel}, {name: simulator})
    return next(one for one in compare(rows) if one.quantity == name)


def test_a_deviation_is_that_of_the_medians() -> None:
    found = _deviation("goodput_bytes_per_s", [100, 90, 110], [104, 104, 80])
    assert found.kernel.value == 100
    assert found.ratio.value == pytest.approx(0.04)
    assert found.kernel_spread_ratio == pytest.approx(0.1)
    assert found.verdict == "met"


@pytest.mark.parametrize(
    ("simulator", "verdict"),
    [(104.9, "met"), (95.1, "met"), (106, "within the kernel's range"), (94, "missed"), (111, "missed")],
)
def test_a_missed_goal_counts_less_when_the_kernels_own_runs_differ_as_much(
    simulator: float, verdict: str
) -> None:
    assert _deviation("goodput_bytes_per_s", [100, 99, 110], [simulator] * 3).verdict == verdict


@pytest.mark.parametrize(
    ("kernel", "simulator", "verdict"), [(0, 0, "met"), (0, 3, "missed"), (math.nan, 3, "unknown")]
)
def test_no_retransmissions_at_all_are_no_deviation(kernel: float, simulator: float, verdict: str) -> None:
    found = _deviation("retrans_pkts", [kernel] * 3, [simulator] * 3)
    assert found.verdict == verdict
    assert found.ratio.value == 0 if verdict == "met" else math.isnan(found.ratio.value)
    json.dumps(found.records(), allow_nan=False)


def test_a_run_does_not_count_when_the_machine_stood_still() -> None:
    rows = _rows({"goodput_bytes_per_s": [100, 50, 100]}, {"goodput_bytes_per_s": [100] * 3})
    rows.loc[1, "late_us"] = comparison.LATE_US + 1
    found = compare(rows)[0]
    assert found.kernel.n == 2
    assert found.kernel_range == (100, 100)
    assert comparison.left_out(rows) == 1


# --- runs --------------------------------------------------------------------------------------------------

TWO = running.Extent(("cubic", "reno"), 2)


def test_runs_are_done_round_by_round_and_none_twice(both: Both, tmp_path: Path) -> None:
    rows = running.collect(TWO, tmp_path)
    assert both.runs == [(d, case, n) for n in (1, 2) for d in ("ebpf", "sim") for case in ("cubic", "reno")]
    assert list(rows["case"]) == ["cubic"] * 4 + ["reno"] * 4
    assert list(rows["round"]) == [1, 2] * 4
    again = running.collect(TWO, tmp_path)
    assert len(both.runs) == 8
    pd.testing.assert_frame_equal(rows, again)


def test_a_new_simulator_runs_again_and_the_kernel_does_not(
    both: Both, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running.collect(TWO, tmp_path)
    both.runs.clear()
    monkeypatch.setattr(running, "_build", lambda: "another")
    running.collect(TWO, tmp_path)
    assert {datapath for datapath, _, _ in both.runs} == {"sim"}


def test_more_rounds_go_on_where_fewer_were(both: Both, tmp_path: Path) -> None:
    running.collect(running.Extent(("cubic",), 1), tmp_path)
    both.runs.clear()
    running.collect(running.Extent(("cubic", "reno"), 2, ("ebpf",)), tmp_path)
    assert both.runs == [("ebpf", "reno", 1), ("ebpf", "cubic", 2), ("ebpf", "reno", 2)]


@pytest.fixture
def command(both: Both, tmp_path: Path) -> Callable[..., Any]:
    """The command, over stand-ins for both datapaths."""
    fixed = ["validation", "--case", "cubic", "--rounds", "2", "--out", str(tmp_path)]
    return lambda *more: CliRunner().invoke(app, [*fixed, *more])


def test_the_command_prints_each_deviation(command: Callable[..., Any]) -> None:
    result = command()
    assert result.exit_code == 0, result.output
    for word in ("goodput", "median RTT", "95th percentile", "retransmitted", "Mbit/s", "+0.0"):
        assert word in result.stdout
    assert counted(compare(pd.DataFrame(json.loads(command("--json").stdout)["runs"]))) == {
        "met": 4,
        "within the kernel's range": 0,
        "missed": 0,
        "unknown": 0,
    }


def test_the_command_reports_without_running_when_asked_to(command: Callable[..., Any], both: Both) -> None:
    result = command("--no-run", "--json")
    assert both.runs == []
    assert result.exit_code == 1, "runs are missing"
    assert json.loads(result.stdout)["deviations"] == []


def test_the_command_knows_its_scenarios(command: Callable[..., Any]) -> None:
    result = command("--case", "cubik")
    assert result.exit_code == 2
    assert "cubic" in result.output


def test_the_document_has_every_scenario_and_its_results() -> None:
    text = (Path(__file__).parents[3] / "docs/validation.md").read_text()
    for name in CASES:
        assert text.count(f"\n| `{name}` |") == 2, name
