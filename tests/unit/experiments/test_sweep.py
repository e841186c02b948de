from __future__ import annotations

import dataclasses
import io
import itertools
import json
import os
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from rich.console import Console

from ccplane.base.errors import CcpError
from experiments import run as runs
from experiments.errors import ResultError, ScenarioError, SweepError
from experiments.netlab import LabError
from experiments.netlab.spec import Direction, Int, IntNode
from experiments.results import ResultSet
from experiments.runs.grid import Grid, changed
from experiments.runs.recording import Recording
from experiments.runs.reports import Screen
from experiments.runs.workers import Workers
from experiments.scenario import Scenario
from experiments.sweep import estimate_s, planned, sweep
from tests.unit.experiments.recorded import record
from tests.unit.experiments.test_run import SCENARIO

DELAY = "links.link.forward.delay_us"
GRID = Grid(SCENARIO, {"duration_s": [1, 2], DELAY: [10, 20, 30]}, "a sweep", repeats=2)


class Kernel:
    def __init__(self) -> None:
        self.seeds: list[int] = []
        self.fail: Callable[[Scenario], BaseException | None] = lambda _scenario: None

    def __call__(self, scenario: Scenario, into: Recording, directory: Path, progress: Any) -> None:
        if (error := self.fail(scenario)) is not None:
            raise error
        self.seeds.append(scenario.seed)
        record(scenario, into, directory, progress)


@pytest.fixture(autouse=True)
def kernel(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    stand_in = Kernel()
    monkeypatch.setitem(runs.DATAPATHS, "ebpf", stand_in)
    return stand_in


def screen() -> tuple[Screen, io.StringIO]:
    text = io.StringIO()
    return Screen(Console(file=text, width=200)), text


def test_a_grid_is_every_combination_in_order() -> None:
    runs_ = planned(GRID)
    assert len(runs_) == 2 * 3 * 2
    points = [[1, 10], [1, 20], [1, 30], [2, 10], [2, 20], [2, 30]]
    assert [list(one.axes.values()) for one in runs_] == [*points, *points[1:], points[0]]
    assert [(one.repeat, one.scenario.seed) for one in runs_] == [(0, 1)] * 6 + [(1, 2)] * 6
    assert runs_[0].scenario.duration_s == 1
    assert runs_[0].scenario.network.links[0].forward.delay_us == 10
    assert len({one.key for one in runs_}) == 12
    assert [one.key for one in planned(GRID)] == [one.key for one in runs_]


def test_repeats_may_have_networks_of_their_own_that_all_points_share() -> None:
    grid = dataclasses.replace(GRID, own_networks=True)
    runs_ = planned(grid)
    assert {(one.repeat, one.scenario.flows[0].start_s) for one in runs_} == {
        (n, runs_[6 * n].scenario.flows[0].start_s) for n in (0, 1)
    }
    assert runs_[0].scenario.flows != runs_[6].scenario.flows
    assert all(one.axes[DELAY] == one.scenario.network.links[0].forward.delay_us for one in runs_)
    assert [one.key for one in planned(grid)] == [one.key for one in runs_]


@pytest.mark.parametrize(
    ("path", "value", "reached"),
    [
        ("topology.forward.delay_us", 7, lambda s: s.network.links[0].forward.delay_us),
        ("links.link.forward.buffer.bdp", 0.5, lambda s: s.network.links[0].forward.buffer.bdp),
        ("links.*.forward.delay_us", 7, lambda s: s.network.links[0].forward.delay_us),
        ("links.0.forward.delay_us", 7, lambda s: s.network.links[0].forward.delay_us),
        ("flows.*.algorithm", "kernel/reno", lambda s: s.flows[0].algorithm),
        ("flows.flow.start_s", 0.5, lambda s: s.flows[0].start_s),
        ("flows.flow.traffic.parallel", 2, lambda s: s.flows[0].traffic.parallel),
        ("topology.forward.queue.ce_threshold_us", 9, lambda s: s.topology.forward.queue.ce_threshold_us),
        ("seed", 9, lambda s: s.seed),
    ],
)  # fmt: skip
def test_a_path_leads_to_its_field(path: str, value: Any, reached: Callable[[Scenario], Any]) -> None:
    assert reached(changed(SCENARIO, {path: value})) == value


def test_telemetry_varies_like_any_field() -> None:
    telemetry = Int(nodes=(IntNode("sender", ("source", "sink")),))
    base = SCENARIO.replace(topology=msgspec.structs.replace(SCENARIO.topology, telemetry=telemetry))
    varied = changed(base, {"topology.telemetry.every_pkts": 10, "links.link.forward.delay_us": 7})
    assert varied.network.telemetry == msgspec.structs.replace(telemetry, every_pkts=10)
    assert changed(varied, {"topology.telemetry": None}).network.telemetry is None


def test_a_way_back_that_was_not_described_begins_as_it_was() -> None:
    (link,) = changed(SCENARIO, {"links.link.backward.delay_us": 99}).network.links
    assert link.back == Direction(rate_bytes_per_s=12.5e6, delay_us=99)
    assert link.forward == SCENARIO.network.links[0].forward


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("links.lnik.forward.delay_us", "`link`"),
        ("links.link.forward.delay", "`delay_us`"),
        ("flows.flo.algorithm", "`flow`"),
        ("flows.flow", "flows.flow.name"),
        ("duration_s.x", "shorten"),
        ("duration", "`duration_s`"),
    ],
)
def test_a_path_that_leads_nowhere_is_reported(path: str, says: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        changed(SCENARIO, {path: 1})
    assert says in caught.value.fix


def test_a_problem_of_the_grid_is_reported_once_and_with_its_point() -> None:
    grid = Grid(SCENARIO, {"seed": [1, 2, 3], DELAY: [1, -1]})
    with pytest.raises(ScenarioError) as caught:
        grid.points()
    assert "seed=1, links.link.forward.delay_us=-1" in caught.value.where


def test_an_axis_without_points_is_reported() -> None:
    with pytest.raises(ScenarioError) as caught:
        Grid(SCENARIO, {"seed": []}).points()
    assert caught.value.where == "axes.seed"


def test_a_named_axis_sets_several_fields() -> None:
    axis = {"short": {"duration_s": 1, "seed": 5}, "long": {"duration_s": 9}}
    points = Grid(SCENARIO, {"length": axis}).points()
    assert [point.axes for point in points] == [{"length": "short"}, {"length": "long"}]
    assert [(point.scenario.duration_s, point.scenario.seed) for point in points] == [(1, 5), (9, 1)]


def test_a_grid_is_read_from_yaml(tmp_path: Path) -> None:
    SCENARIO.save(tmp_path / "base.yaml")
    (tmp_path / "grid.yaml").write_text("base: base.yaml\naxes: {seed: [1, 2]}\nrepeats: 3\n")
    grid = Grid.load(tmp_path / "grid.yaml")
    assert (grid.title, grid.repeats, len(planned(grid))) == ("a try", 3, 6)
    (tmp_path / "grid.yaml").write_text("base: base.yaml\naxis: {seed: [1, 2]}\n")
    with pytest.raises(CcpError) as caught:
        Grid.load(tmp_path / "grid.yaml")
    assert "`axes`" in str(caught.value)


def test_runs_with_an_agent_do_not_run_side_by_side() -> None:
    kernel_only = planned(GRID)
    with_agent = planned(Grid(changed(SCENARIO, {"flows.flow.algorithm": "reno"}), GRID.axes))
    assert estimate_s(kernel_only, 4) == pytest.approx(estimate_s(kernel_only, 1) / 4)
    assert estimate_s(with_agent, 4) == estimate_s(with_agent, 1)


def test_all_runs_are_done_and_in_one_table(tmp_path: Path, kernel: Kernel) -> None:
    results = sweep(GRID, out=tmp_path / "s")
    assert len(kernel.seeds) == len(results) == 12
    assert results.missing == results.failed == []
    table = results.table()
    assert len(table) == 12
    assert {"run", "repeat", "seed", "duration_s", DELAY, "flow"} <= set(table.columns)
    by_seed = table.groupby("seed")["goodput_bytes_per_s"].median()
    assert by_seed[2] == pytest.approx(2 * by_seed[1])
    assert len(results.table("flow_samples")) == sum(len(one.flow_samples) for one in results)
    assert next(iter(results)).axes == {"duration_s": 1, DELAY: 10}


def test_what_is_done_is_not_done_again(tmp_path: Path, kernel: Kernel) -> None:
    sweep(GRID, out=tmp_path / "s")
    sweep(GRID, out=tmp_path / "s")
    assert len(kernel.seeds) == 12
    grown = Grid(SCENARIO, {**GRID.axes, "duration_s": [1, 2, 3]}, "a sweep", repeats=2)
    assert len(sweep(grown, out=tmp_path / "s")) == 18
    assert len(kernel.seeds) == 18
    assert len(sweep(GRID, out=tmp_path / "s")) == 12  # runs outside of the grid are kept, but do not count
    assert len(kernel.seeds) == 18


def test_points_that_are_the_same_run_are_run_once(tmp_path: Path, kernel: Kernel) -> None:
    grid = Grid(SCENARIO, {"topology.forward.delay_us": [5, 6], DELAY: [7]})
    results = sweep(grid, out=tmp_path / "s")
    assert len(kernel.seeds) == 1
    assert len(results) == 2


def test_an_interrupted_sweep_goes_on_with_the_missing_runs(tmp_path: Path, kernel: Kernel) -> None:
    kernel.fail = lambda _scenario: KeyboardInterrupt() if len(kernel.seeds) == 5 else None
    report, text = screen()
    with pytest.raises(KeyboardInterrupt):
        sweep(GRID, out=tmp_path / "s", report=report)
    said = "5 of 12 runs are done: 0 earlier, 5 now; 7 missing; run the same command again to resume"
    assert said in text.getvalue()
    assert len(ResultSet.load(tmp_path / "s").missing) == 7
    kernel.fail = lambda _scenario: None
    report, text = screen()
    results = sweep(GRID, out=tmp_path / "s", report=report)
    assert "12 runs, 5 already done, 7 to do, about 0:00:2" in text.getvalue()
    assert "12 of 12 runs are done: 5 earlier, 7 now; 0 missing\n" in text.getvalue()
    assert len(kernel.seeds) == 12
    assert len(results) == 12


def lines_of_a_log(text: io.StringIO) -> list[str]:
    return [line for line in text.getvalue().splitlines() if "runs done" in line]


@pytest.fixture
def runs_of_25_s(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.count(step=25)
    monkeypatch.setattr("experiments.runs.reports.time", SimpleNamespace(monotonic=lambda: next(clock)))


@pytest.mark.usefixtures("runs_of_25_s")
def test_a_log_gets_a_line_each_minute(tmp_path: Path) -> None:
    report, text = screen()
    sweep(GRID, out=tmp_path / "s", report=report)
    assert lines_of_a_log(text) == [
        "3 of 12 runs done, 0:01:15, about 0:03:45 left",
        "6 of 12 runs done, 0:02:30, about 0:02:30 left",
        "9 of 12 runs done, 0:03:45, about 0:01:15 left",
        "12 of 12 runs done, 0:05:00, about 0:00:00 left",
    ]


@pytest.mark.usefixtures("runs_of_25_s")
def test_each_sweep_of_a_report_is_counted_from_zero(tmp_path: Path, kernel: Kernel) -> None:
    report, text = screen()
    kernel.fail = lambda scenario: LabError("lab.timeout", "no", "", "", "") if scenario.seed == 2 else None
    sweep(GRID, out=tmp_path / "s", report=report)
    kernel.fail = lambda _scenario: None
    sweep(dataclasses.replace(GRID, repeats=1), out=tmp_path / "t", report=report)
    assert lines_of_a_log(text)[-2:] == [
        "3 of 6 runs done, 0:01:15, about 0:01:15 left",
        "6 of 6 runs done, 0:02:30, about 0:00:00 left",
    ]
    assert text.getvalue().endswith("6 of 6 runs are done: 0 earlier, 6 now; 0 missing\n")


def test_a_run_that_fails_keeps_no_other_from_running(tmp_path: Path, kernel: Kernel) -> None:
    error = LabError("lab.timeout", "too long", "somewhere", "why", "fix")
    kernel.fail = lambda scenario: error if scenario.seed == 2 and scenario.duration_s == 1 else None
    report, text = screen()
    results = sweep(GRID, out=tmp_path / "s", report=report)
    assert len(results) == 9
    assert "9 now; 3 missing, 3 of them failed" in text.getvalue()
    assert "lab.timeout: too long" in text.getvalue()
    assert [one["error"]["slug"] for one in results.failed] == ["lab.timeout"] * 3
    kernel.fail = lambda _scenario: None
    assert sweep(GRID, out=tmp_path / "s").failed == []


def test_a_sweep_whose_runs_cannot_succeed_is_given_up(tmp_path: Path, kernel: Kernel) -> None:
    tried: list[int] = []

    def fail(slug: str) -> Callable[[Scenario], BaseException]:
        tried.clear()
        return lambda scenario: (tried.append(scenario.seed), LabError(slug, "no", "here", "why", "fix"))[1]

    for slug, times in (("lab.not_permitted", 1), ("lab.timeout", 3)):
        kernel.fail = fail(slug)
        with pytest.raises(SweepError) as caught:
            sweep(GRID, out=tmp_path / slug)
        assert caught.value.slug == "sweep.aborted"
        assert "why" in caught.value.why
        assert len(tried) == times


def test_any_executor_does_the_runs(tmp_path: Path, kernel: Kernel) -> None:
    with ThreadPoolExecutor(3) as pool:
        results = sweep(GRID, out=tmp_path / "s", executor=pool)
    assert len(results) == len(kernel.seeds) == 12


class Once(Executor):
    def __init__(self) -> None:
        self.futures: list[Future[Any]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        if len(self.futures) == 3:
            raise KeyboardInterrupt
        future: Future[Any] = Future()
        if not self.futures:
            future.set_result(fn(*json.loads(json.dumps(args)), **kwargs))  # on another machine
        self.futures.append(future)
        return future


def test_an_interruption_takes_back_what_waits(tmp_path: Path) -> None:
    executor = Once()
    with pytest.raises(KeyboardInterrupt):
        sweep(GRID, out=tmp_path / "s", executor=executor)
    assert [future.cancelled() for future in executor.futures] == [False, True, True]
    assert len(ResultSet.load(tmp_path / "s")) == 1


def test_a_pool_whose_processes_die_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Dying(Workers):
        def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
            return super().submit(os._exit, 3)

    monkeypatch.setattr("experiments.sweep.Workers", Dying)
    with pytest.raises(SweepError) as caught:
        sweep(GRID, out=tmp_path / "s", jobs=2)
    assert caught.value.slug == "sweep.workers"
    assert "__main__" in caught.value.fix


def test_one_directory_holds_one_sweep(tmp_path: Path) -> None:
    sweep(GRID, out=tmp_path / "s")
    other = Grid(SCENARIO, {"seed": [1]}, "another")
    with pytest.raises(SweepError) as caught:
        sweep(other, out=tmp_path / "s")
    assert caught.value.slug == "sweep.other"
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("")
    with pytest.raises(SweepError) as caught:
        sweep(other, out=tmp_path / "mine")
    assert caught.value.slug == "sweep.other"
    assert os.listdir(tmp_path / "mine") == ["thesis.tex"]


def test_two_sweeps_do_not_share_a_directory_at_once(tmp_path: Path, kernel: Kernel) -> None:
    caught: list[str] = []

    def nested(_scenario: Scenario) -> BaseException | None:
        kernel.fail = lambda _scenario: None
        with pytest.raises(SweepError) as refused:
            sweep(GRID, out=tmp_path / "s")
        caught.append(refused.value.slug)
        return None

    kernel.fail = nested
    sweep(GRID, out=tmp_path / "s")
    assert caught == ["sweep.busy"]


def test_a_grid_that_cannot_be_runs_nothing(tmp_path: Path, kernel: Kernel) -> None:
    with pytest.raises(ScenarioError):
        sweep(Grid(SCENARIO, {"duration_s": [1, 2, -3]}), out=tmp_path / "s")
    assert kernel.seeds == []
    assert os.listdir(tmp_path) == []


def test_a_place_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ResultError) as caught:
        sweep(GRID, out=tmp_path / "file" / "s")
    assert caught.value.slug == "result.cannot_write"
