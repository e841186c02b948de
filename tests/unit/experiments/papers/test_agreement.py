"""A random tenth on real sockets: which points are run, and by how much the simulator is off."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from ccplane.base.errors import UsageError
from experiments import run as runs
from experiments.papers.agreement import DRAWN_RATIO, agreement, tenth
from experiments.papers.comparisons import Claim, Comparison
from experiments.papers.paper import Findings, Paper, Runs, Size, grids_of, read_part, run_part
from experiments.papers.paper import Part as PaperPart
from experiments.papers.two_flows import dumbbell
from experiments.results import Result
from experiments.runs.grid import point_key
from experiments.runs.recording import Recording
from experiments.scenario import Scenario
from experiments.sweep import Grid, planned
from tests.unit.experiments.papers.fakes import fill

DELAY = "topology.bottleneck.delay_us"
DELAYS_US = list(range(1_000, 42_000, 1_000))
CLAIM = Claim("s", "t", "delays", [Comparison("near", "near", "rtt_p95_us", {"delay_us": 5_000}, at_least=1)])
SIM, REAL = Size(datapath="sim"), Size()


def delay_us(result: Result) -> int:
    return int(msgspec.to_builtins(result.scenario.topology)["bottleneck"]["delay_us"])


def row(result: Result) -> dict[str, float]:
    delay_us = result.axes[DELAY]
    faster = 1.1 if result.scenario.datapath == "sim" else 1.0
    return {
        "delay_us": delay_us,
        "goodput_bytes_per_s": faster * 1e6,
        "rtt_p95_us": delay_us,
        "retrans_pct": faster,
    }


def grids(_size: Size) -> list[Grid]:
    return [Grid(dumbbell("x", 1), {DELAY: DELAYS_US}, "delays", 2)]


PART = Paper.of(
    "p", "P", [PaperPart("delays", "delays", grids, lambda _runs: Findings(), row)], [CLAIM]
).parts["delays"]


@pytest.fixture(autouse=True)
def kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    def stand_in(scenario: Scenario, into: Recording, _directory: Path, _progress: object) -> None:
        fill(into, scenario, {flow.name: 1e6 for flow in scenario.flows})

    for datapath in ("ebpf", "sim"):
        monkeypatch.setitem(runs.DATAPATHS, datapath, stand_in)


def test_claims_and_a_tenth_of_the_others_are_run_and_always_the_same(tmp_path: Path) -> None:
    run_part(PART, SIM, tmp_path)
    chosen = tenth(PART, REAL, tmp_path)
    assert point_key({DELAY: 5_000}) in chosen
    assert len(chosen) == 1 + round(DRAWN_RATIO * (len(DELAYS_US) - 1))
    assert tenth(PART, REAL, tmp_path) == chosen
    (grid,) = grids_of(PART, Size(only=chosen))
    assert {point_key(one.axes) for one in planned(grid)} == chosen
    assert len(planned(grid)) == 2 * len(chosen)
    assert grids_of(PART, Size(only=frozenset())) == []


def test_the_simulator_is_off_by_what_both_say_of_the_same_seeds(tmp_path: Path) -> None:
    run_part(PART, SIM, tmp_path / "sim")
    only = Size(only=tenth(PART, REAL, tmp_path / "sim"))
    run_part(PART, only, tmp_path / "real")
    real: Runs = read_part(PART, only, tmp_path / "real")
    rows = agreement(PART, REAL, real, tmp_path / "sim").rows.set_index("quantity")
    assert rows.loc["goodput", "deviation_pct"] == pytest.approx(10)
    assert rows.loc["RTT, 95th percentile", "deviation_size_p90_pct"] == 0
    assert rows.loc["retransmitted", "deviation_pct"] == pytest.approx(0.1)
    assert set(rows["n"]) == {5}


def test_a_part_that_says_nothing_of_runs_is_compared_by_its_flows(tmp_path: Path) -> None:
    few = Grid(dumbbell("x", 1), {DELAY: [1_000, 2_000]}, "delays", 1)
    part = replace(PART, row=lambda _result: {}, grids=lambda _size: [few])
    for datapath in ("sim", "ebpf"):
        run_part(part, replace(SIM, datapath=datapath), tmp_path / datapath)
    real = read_part(part, REAL, tmp_path / "ebpf")
    rows = agreement(part, REAL, real, tmp_path / "sim").rows.set_index("quantity")
    assert rows.loc["goodput", "deviation_pct"] == pytest.approx(0)
    assert rows.loc["goodput", "n"] == 2


def test_points_of_the_same_name_in_two_grids_are_not_mixed_up(tmp_path: Path) -> None:
    def same(name: str, delay: int) -> Grid:
        return Grid(dumbbell("x", 1), {"same": {"point": {DELAY: delay}}}, name, 1)

    part = replace(
        PART,
        grids=lambda _size: [same("a", 1_000), same("b", 9_000)],
        row=lambda result: {
            "rtt_p95_us": msgspec.to_builtins(result.scenario.topology)["bottleneck"]["delay_us"]
        },
    )
    for datapath in ("sim", "ebpf"):
        run_part(part, replace(SIM, datapath=datapath), tmp_path / datapath)
    rows = agreement(part, REAL, read_part(part, REAL, tmp_path / "ebpf"), tmp_path / "sim").rows
    assert list(rows["n"]) == [2]
    assert list(rows["deviation_size_p90_pct"]) == [0]


def test_what_was_not_simulated_cannot_be_chosen_from(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        tenth(PART, REAL, tmp_path)
    assert caught.value.slug == "paper.not_simulated"
