"""Scenarios drawn at random: what is drawn, which runs count, and how errors are distributed."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from experiments import run as runs
from experiments.bench.errors import BenchError
from experiments.errors import ResultError, RunError
from experiments.netlab import traces
from experiments.netlab.cellular import Cellular, draw, write_trace
from experiments.netlab.spec import Bernoulli, CoDel, Direction, DropTail, GilbertElliott, Red
from experiments.run import run
from experiments.runs.shapes import Dumbbell
from experiments.units import MBIT
from experiments.validation import drawing, rules, running
from experiments.validation import report as reports
from experiments.validation.command import app
from experiments.validation.drawing import KINDS, Drawn, draw_scenarios, part_of
from experiments.validation.heldout import MIN_RETRANS_PKTS, QUANTITIES, Case, Heldout, Spread
from tests.unit.experiments.recorded import record


def bottleneck(drawn: Drawn) -> Direction:
    assert isinstance(drawn.scenario.topology, Dumbbell)
    return drawn.scenario.topology.bottleneck


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> list[Drawn]:
    return draw_scenarios(200, 3, tmp_path_factory.mktemp("traces"))


def test_a_seed_draws_the_same_and_more_begin_with_those_of_fewer(tmp_path: Path) -> None:
    first, again, more = (draw_scenarios(count, 3, tmp_path) for count in (8, 8, 12))
    assert first == again == more[:8]
    assert [one.name for one in more] == [f"s3-{number:03}" for number in range(1, 13)]
    assert draw_scenarios(8, 4, tmp_path) != first


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_earlier_draws_are_drawn_again(seed: int, tmp_path: Path) -> None:
    """Recordings of cellular links are not in the repository, so those cases are left out."""
    kept = reports.read()[f"draw-{seed}"]
    again = {one.name: one for one in draw_scenarios(len(kept.cases), seed, tmp_path)}
    compared = [one for one in kept.cases if one.kind != "cellular"]
    assert len(compared) >= 9
    for case in compared:
        drawn, scenario = again[case.name], case.scenario
        assert (drawn.kind, drawn.description, drawn.algorithms) == (
            case.kind,
            case.description,
            tuple(case.algorithms),
        )
        assert drawn.scenario.seed == scenario["seed"]
        assert [one.ecn for one in drawn.scenario.flows] == [
            one.get("ecn", False) for one in scenario["flows"]
        ]


@pytest.fixture(scope="module")
def wider(tmp_path_factory: pytest.TempPathFactory) -> list[Drawn]:
    return draw_scenarios(200, drawing.WIDER_FROM, tmp_path_factory.mktemp("traces"))


def test_wider_draws_have_all_algorithms_of_the_papers_on_all_kinds(wider: list[Drawn]) -> None:
    leads = {lead for lead in drawing.LEADS if lead}
    found = {(one.kind, one.algorithms[0]) for one in wider}
    assert {(kind, lead) for kind in KINDS for lead in leads} <= found
    assert leads <= {one.algorithms[0] for one in wider[:25]}, "also in a draw of the usual size"
    assert sum(one.kind == "aqm" for one in wider) == 67


def test_wider_draws_have_more_fast_paths_and_marks(many: list[Drawn], wider: list[Drawn]) -> None:
    def share(found: list[bool]) -> float:
        return sum(found) / len(found)

    def fast(drawn: list[Drawn]) -> float:
        rates = [bottleneck(one).rate_bytes_per_s for one in drawn if one.algorithms[0] != "int_cubic"]
        return share([one > drawing.FAST_MBIT * MBIT for one in rates if one])

    def marks(drawn: list[Drawn]) -> float:
        return share([one.description.endswith("marks") for one in drawn if one.kind == "aqm"])

    assert fast(many) < 0.42 < fast(wider)
    assert marks(wider) > marks(many)


def test_algorithms_of_the_papers_get_what_they_need(wider: list[Drawn]) -> None:
    echoes = set()
    for one in wider:
        scenario = one.scenario
        agents = {agent.host for agent in scenario.receivers}
        assert agents == {flow.receiver for flow in scenario.flows if flow.algorithm == "r_hybrid"}
        assert not agents or all(flow.ecn for flow in scenario.flows)
        telemetry = scenario.network.telemetry
        assert (telemetry is not None) == (one.algorithms[0] == "int_cubic")
        if telemetry is not None:
            echoes.add(telemetry.echo)
            assert {flow.family for flow in scenario.flows} == {"ipv6"}
            assert one.rate_mbit <= drawing.FAST_MBIT
    assert echoes == {True, False}


def test_the_traces_of_a_seed_are_the_same(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        draw_scenarios(5, 3, tmp_path / folder)
    (one,), (two,) = ([*(tmp_path / folder).iterdir()] for folder in ("one", "two"))
    assert one.name == two.name == "s3-004.trace"
    assert one.read_text() == two.read_text()


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**9))
def test_whatever_is_drawn_is_a_scenario_of_both_datapaths(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    for one in draw_scenarios(len(drawing.LEADS), seed, tmp_path_factory.mktemp("traces")):
        one.scenario.validate()
        one.scenario.replace(datapath="sim").validate()
        assert 1 <= len(one.algorithms) <= 4
        low, high = drawing.RTTS_MS
        assert low <= bottleneck(one).delay_us / 500 <= high


def test_kinds_come_in_turn_and_all_of_the_space_is_drawn(many: list[Drawn]) -> None:
    assert [one.kind for one in many[:5]] == list(KINDS)
    paths = [bottleneck(one) for one in many]
    assert {type(one.queue) for one in paths} == {DropTail, CoDel, Red}
    assert {type(one.loss) for one in paths} == {type(None), Bernoulli, GilbertElliott}
    assert {one.token_bucket.shaper for one in paths if one.token_bucket} == {True, False}
    assert any(isinstance(one.queue, DropTail) and one.queue.ce_threshold_us for one in paths)
    algorithms = {name for one in many for name in one.algorithms}
    assert algorithms == {*drawing.KERNELS, *drawing.OWN, drawing.STEP_MARKED}
    assert {len(one.algorithms) for one in many} == {1, 2, 3, 4}
    assert any(flow.ecn for one in many for flow in one.scenario.flows)
    assert len({one.scenario.seed for one in many}) == len(many), "each has random streams of its own"


def test_rates_are_log_uniform(many: list[Drawn]) -> None:
    rates_mbit = [one.rate_bytes_per_s / MBIT for one in map(bottleneck, many) if one.rate_bytes_per_s]
    decades = np.histogram(np.log10(rates_mbit), bins=3, range=(0, 3))[0] / len(rates_mbit)
    assert len(rates_mbit) == 160
    assert all(decades > 0.2)
    assert sum(decades) == pytest.approx(1)


def test_step_marking_is_for_dctcp_and_r_hybrid(many: list[Drawn], wider: list[Drawn]) -> None:
    for one in [*many, *wider]:
        queue = bottleneck(one).queue
        marked = isinstance(queue, DropTail) and queue.ce_threshold_us is not None
        assert not marked or set(one.algorithms) <= {drawing.STEP_MARKED, "r_hybrid"}
        assert marked or drawing.STEP_MARKED not in one.algorithms


def test_recordings_are_cut_where_they_are_given(tmp_path: Path) -> None:
    recording = tmp_path / "cell.down"
    write_trace(recording, draw(Cellular(), 60, 1))
    drawn = draw_scenarios(60, 1, tmp_path / "traces", [recording])
    description = [one.description for one in drawn if one.kind == "cellular"]
    assert 0 < sum("cell.down from" in one for one in description) < len(description)
    for one in drawn:
        if one.kind == "cellular":
            times_ms = traces.read_trace(str(bottleneck(one).trace), "")
            assert times_ms[-1] == drawing.DURATION_S * 1e3


def test_a_part_of_a_trace_begins_at_its_own_zero() -> None:
    assert part_of([5, 10, 12, 12, 19, 25], 10, 10) == [2, 2, 9, 10]


def row(case: str = "s1-001", datapath: str = "ebpf", number: int = 1, **changes: float) -> dict[str, Any]:
    usual = {"goodput_bytes_per_s": 1e6, "rtt_p50_us": 50e3, "rtt_p95_us": 60e3, "retrans_pkts": 10.0}
    usual |= {"jain_index": 1.0, "late_us": 500.0, "late_p99_us": 100.0, "untaken_pkts": 0.0}
    usual |= {"taken_ratio": 0.05, "idle_ratio": 0.5}
    return {"case": case, "datapath": datapath, "round": number, **usual, **changes}


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({}, None),
        ({"late_us": 20_001.0}, "stalled"),
        ({"late_p99_us": 1_001.0}, "late"),
        ({"untaken_pkts": 1.0}, "overrun"),
        ({"taken_ratio": 0.11}, "taken"),
        ({"idle_ratio": 0.09}, "full"),
        ({"goodput_bytes_per_s": 0.0, "retrans_pkts": 1e6}, None),
    ],
)
def test_a_run_counts_by_what_the_emulator_did(changes: dict[str, float], why: str | None) -> None:
    assert rules.reason(pd.Series(row(**changes))) == why


def test_runs_that_do_not_count_are_counted() -> None:
    rows = pd.DataFrame([row(), row(late_us=1e5), row(late_us=1e5), row(untaken_pkts=2)])
    counting, left_out = rules.judged(rows)
    assert len(counting) == 1
    assert left_out == {"stalled": 2, "late": 0, "overrun": 1, "taken": 0, "full": 0}
    assert list(rules.judged(rows[:0])[0].columns) == list(rows.columns)


def errors_of(changes: dict[str, float], **kernel: float) -> dict[str, float]:
    before, after = row(**kernel), row(**{**kernel, **changes})
    return {one.column: one.error(after[one.column], before[one.column]) for one in QUANTITIES}


def test_an_error_is_by_the_kernels_value() -> None:
    found = errors_of({"goodput_bytes_per_s": 0.9e6, "rtt_p50_us": 55e3, "jain_index": 0.9})
    assert found["goodput_bytes_per_s"] == pytest.approx(0.1)
    assert found["rtt_p50_us"] == pytest.approx(0.1)
    assert found["rtt_p95_us"] == 0
    assert found["jain_index"] == pytest.approx(0.1)
    assert math.isnan(errors_of({}, goodput_bytes_per_s=0.0)["goodput_bytes_per_s"])


@pytest.mark.parametrize(
    ("kernel", "simulator", "within"),
    [(0, 5, True), (0, 6, False), (25, 30, True), (100, 120, True), (100, 121, False)],
)
def test_retransmissions_may_differ_by_a_fifth_or_by_five_packets(
    kernel: float, simulator: float, within: bool
) -> None:
    goal = next(one.goal for one in QUANTITIES if one.column == "retrans_pkts")
    found = errors_of({"retrans_pkts": simulator}, retrans_pkts=kernel)["retrans_pkts"]
    assert (found <= goal) is within
    assert goal * MIN_RETRANS_PKTS == 5


def test_a_spread_has_the_distribution_and_an_exact_interval_of_the_share() -> None:
    found = Spread.of([*np.linspace(0, 0.09, 10), math.nan], 0.045)
    assert found.median == pytest.approx(0.045)
    assert found.p90 == pytest.approx(0.081)
    assert (found.within, found.n) == (5, 10)
    low, high = found.interval()
    assert low == pytest.approx(0.187, abs=1e-3)  # Clopper and Pearson, Biometrika 26(4), 1934
    assert high == pytest.approx(0.813, abs=1e-3)


@pytest.fixture
def heldout(tmp_path: Path) -> Heldout:
    drawn = draw_scenarios(3, 1, tmp_path)
    cells = itertools.product([one.name for one in drawn], ("ebpf", "sim"), (1, 2))
    rows = [row(*cell) for cell in cells]
    rows[1]["goodput_bytes_per_s"] = 0.98e6  # the first case's second round in the kernel
    rows[2]["goodput_bytes_per_s"] = rows[3]["goodput_bytes_per_s"] = 0.891e6  # in the simulator
    for one in rows[8:10]:
        one["late_us"] = 1e6  # the third case in the kernel
    return Heldout.of(drawn, pd.DataFrame(rows))


def test_one_simulated_run_and_another_of_the_kernel_are_compared_with_one_of_the_kernel(
    heldout: Heldout,
) -> None:
    found = heldout.errors()
    assert list(found) == ["s1-001", "s1-002"]
    assert found["s1-001"]["goodput_bytes_per_s"] == pytest.approx(0.109)
    assert heldout.kernels_own()["s1-001"]["goodput_bytes_per_s"] == pytest.approx(0.02)
    # 0.891 and 0.99, the medians
    assert heldout.median_errors()["s1-001"]["goodput_bytes_per_s"] == pytest.approx(0.1)


def test_a_simulator_that_is_the_kernel_is_as_far_from_it_as_the_kernel(heldout: Heldout) -> None:
    kernel = heldout.rows[heldout.rows["datapath"] == "ebpf"]
    again = kernel.assign(datapath="sim", round=3 - kernel["round"])
    same = Heldout(heldout.cases, pd.concat([kernel, again]), heldout.about)
    assert same.errors() == same.kernels_own()


def test_a_simulated_run_is_of_the_round_of_the_kernels_first_valid_run(heldout: Heldout) -> None:
    rows = heldout.rows.copy()
    rows.loc[0, "late_us"] = 1e6
    rows.loc[3, "goodput_bytes_per_s"] = 1.96e6
    found = Heldout(heldout.cases, rows, heldout.about)
    assert found.errors()["s1-001"]["goodput_bytes_per_s"] == pytest.approx(1.0)
    assert "s1-001" not in found.kernels_own()


def test_several_draws_are_one(heldout: Heldout, tmp_path: Path) -> None:
    drawn = draw_scenarios(1, 2, tmp_path)
    other = Heldout.of(drawn, pd.DataFrame([row("s2-001"), row("s2-001", "sim")]))
    both = Heldout.merged([heldout, other])
    assert list(both.errors()) == ["s1-001", "s1-002", "s2-001"]
    assert both.left_out()["stalled"] == 2


def test_a_case_is_in_the_groups_of_all_its_algorithms() -> None:
    case = Case("s1-001", "loss", 150.0, ("reno", "cubic", "reno"), "", {})
    assert case.groups == (
        ("all", "all"),
        ("path", "loss"),
        ("rate", "above 100 Mbit/s"),
        ("flows", "2 to 4 flows"),
        ("algorithm", "cubic"),
        ("algorithm", "reno"),
    )


def test_runs_that_do_not_count_are_left_out(heldout: Heldout) -> None:
    assert heldout.left_out() == {"stalled": 2, "late": 0, "overrun": 0, "taken": 0, "full": 0}
    description = heldout.reported_left_out()
    assert description.startswith(
        "2 of 6 runs of the kernel do not count: 2 because the emulator was at least once more"
    )
    assert description.endswith("1 of 3 cases have no run that counts.")


def test_the_table_has_errors_by_kind_and_the_kernels_own(heldout: Heldout) -> None:
    lines = {line[0]: line[1:] for line in heldout.cells()}
    assert lines["all"][:2] == ["2", "5.5 % / 9.8 %, 1 of 2 (1 to 99 %)"]
    assert lines["drop-tail"][:2] == ["1", "10.9 % / 10.9 %, 0 of 1 (0 to 98 %)"]
    assert lines["aqm"][1].startswith("0.0 % / 0.0 %, 1 of 1")
    assert "loss" not in lines, "nothing of it can be judged"
    assert lines["kernel against itself"][1].startswith("1.0 % / 1.8 %, 2 of 2")
    ((name, _, _, what),) = heldout.missed()
    assert name == "s1-001"
    assert what == "goodput 8 and 7.84 / 7.13 Mbit/s"


def test_a_kept_result_is_read_again(heldout: Heldout, tmp_path: Path) -> None:
    heldout.keep(tmp_path / "kept" / "draw-1.json")
    text = (tmp_path / "kept" / "draw-1.json").read_text()
    again = Heldout.from_json(text, "draw-1.json")
    assert again.cells() == heldout.cells()
    assert again.missed() == heldout.missed()
    with pytest.raises(BenchError) as caught:
        Heldout.from_json(text.replace('"format": 1', '"format": 2'), "draw-1.json")
    assert caught.value.slug == "bench.cannot_read"
    (tmp_path / "file").write_text("")
    with pytest.raises(ResultError) as refused:
        heldout.keep(tmp_path / "file" / "draw-1.json")
    assert refused.value.slug == "result.cannot_write"
    assert "--keep" in refused.value.fix


def test_a_drawn_scenario_runs_in_the_simulator(tmp_path: Path) -> None:
    one = next(one for one in draw_scenarios(15, 1, tmp_path) if one.rate_mbit < 10)
    done = run(one.scenario.replace(datapath="sim"))
    assert (done.flows["goodput_bytes_per_s"] > 0).all()


@pytest.fixture
def both(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    ran: list[str] = []

    def stand_in(scenario: Any, into: Any, directory: Path, progress: Any) -> None:
        ran.append(f"{scenario.datapath} {scenario.name}")
        record(scenario, into, directory, progress)

    for name in running.DATAPATHS:
        monkeypatch.setitem(runs.DATAPATHS, name, stand_in)
    return ran


def invoke(tmp_path: Path, *more: str) -> Any:
    fixed = ["--draw", "2", "--seed", "5", "--out", str(tmp_path / "out")]
    return CliRunner().invoke(app, [*fixed, *more])


def test_the_command_draws_runs_keeps_and_goes_on(both: list[str], tmp_path: Path) -> None:
    result = invoke(tmp_path, "--keep", str(tmp_path / "kept"))
    assert result.exit_code == 0, result.output
    assert "s5-001" in result.stdout
    assert "All 4 runs of the kernel count" in result.stdout
    rounds = [f"{datapath} s5-00{number}" for datapath in ("ebpf", "sim") for number in (1, 2)]
    assert both == rounds * 2
    kept = json.loads((tmp_path / "kept" / "draw-5.json").read_text())
    assert [one["name"] for one in kept["cases"]] == ["s5-001", "s5-002"]
    assert len(kept["runs"]) == 8
    both.clear()
    assert json.loads(invoke(tmp_path, "--json").stdout)["runs"] == kept["runs"]
    assert both == [], "what is there is not run again"


def test_a_new_simulator_runs_again_and_the_kernel_does_not(
    both: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    invoke(tmp_path)
    both.clear()
    monkeypatch.setattr(running, "_build", lambda: "another")
    invoke(tmp_path)
    assert set(both) == {"sim s5-001", "sim s5-002"}


def test_disturbed_runs_are_repeated_if_asked(both: list[str], tmp_path: Path) -> None:
    invoke(tmp_path)
    files = sorted((tmp_path / "out").glob("draw-5/ebpf/round-2/*/metadata.json"))
    disturbed = next(file for file in files if "s5-002" in file.read_text())
    metadata = json.loads(disturbed.read_text())
    metadata["emulator"] = {"lateness_us": {"max": 1e6, "p99": 0.0}, "untaken_pkts": 0}
    disturbed.write_text(json.dumps(metadata))
    both.clear()
    assert "1 of 4 runs of the kernel does not count" in invoke(tmp_path).stdout
    assert both == []
    assert "All 4 runs of the kernel count" in invoke(tmp_path, "--again").stdout
    assert both == ["ebpf s5-002"]


def test_rounds_differ_in_seed_and_starts(many: list[Drawn]) -> None:
    first, again, second = (running.in_round(many[0].scenario, number) for number in (1, 1, 2))
    assert first == again
    assert first.seed != second.seed
    assert all(a.start_s != b.start_s for a, b in zip(first.flows, second.flows, strict=True))


def test_one_case_of_a_draw_can_be_repeated(both: list[str], tmp_path: Path) -> None:
    result = invoke(tmp_path, "--case", "s5-002", "--rounds", "1")
    assert result.exit_code == 0, result.output
    assert both == ["ebpf s5-002", "sim s5-002"]
    assert invoke(tmp_path, "--no-run").exit_code == 1, "runs are missing"


def test_without_runs_there_is_nothing_to_compare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    error = invoke(tmp_path, "--no-run", "--keep", str(tmp_path / "kept")).exception
    assert isinstance(error, BenchError)
    assert error.slug == "bench.no_runs"
    assert "ccp validate --draw 2 --seed 5" in str(error)
    assert not (tmp_path / "kept").exists()

    def fail(*_: Any) -> None:
        raise RunError("run.agent", "the agent exited")

    for name in running.DATAPATHS:
        monkeypatch.setitem(runs.DATAPATHS, name, fail)
    error = invoke(tmp_path).exception
    assert isinstance(error, BenchError)
    assert error.slug == "bench.no_runs"


def test_the_command_knows_its_scenarios(tmp_path: Path) -> None:
    assert invoke(tmp_path, "--case", "s5-009").exit_code == 2
