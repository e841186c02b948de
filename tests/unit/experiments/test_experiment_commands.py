from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ccplane.agent import cli
from experiments import run as runs
from experiments.commands import app
from experiments.printing import warnings
from experiments.results import Result
from experiments.run import run
from experiments.runs.recording import Recording
from experiments.scenario import Scenario
from telemetry.schema import IntHop
from tests.unit.experiments.recorded import START_US, record
from tests.unit.experiments.test_int_tables import FAR, NEAR, summary, with_telemetry
from tests.unit.experiments.test_regimes import SWITCHED, decision, reported
from tests.unit.experiments.test_run import SCENARIO

GRID = "base: scenario.yaml\nname: two seeds\naxes: {seed: [1, 2]}\nrepeats: 2\n"


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(runs.DATAPATHS, "ebpf", record)
    monkeypatch.chdir(tmp_path)
    SCENARIO.save("scenario.yaml")
    Path("grid.yaml").write_text(GRID)


def call(*arguments: str, status: int = 0) -> str:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == status, (result.output, result.exception)
    return str(result.stdout)


def test_a_run_prints_a_summary_and_keeps_its_result() -> None:
    said = call("run", "scenario.yaml", "--out", "there", "--param", "seed=2")
    assert "kernel/cubic" in said
    assert "16.00" in said  # 2e6 bytes/s in Mbit/s
    assert "result: there" in said
    assert Result.load("there").metadata["seed"] == 2


def test_a_run_with_telemetry_reports_of_the_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    hops = (IntHop(node_id=1, interval_us=10_000, queue_depth_pkts=2.5), IntHop(interval_us=10_000))
    noted = f"{START_US + 12_500},{NEAR},1000,{FAR},5201,False,10000,{START_US + 10_000}\n"

    def record(scenario: Scenario, into: Recording, directory: Path, progress: Any) -> None:
        causes = {"lost_congestion_pkts": 1, "lost_link_pkts": 2, "lost_unknown_pkts": 3}
        reported = summary(hops=hops, lost_pkts=6, **causes)
        done = with_telemetry(directory, reported, decisions=noted)
        vars(into).update(vars(done) | {"facts": {"emulator": {"int_summaries_dropped": 7}}})

    monkeypatch.setitem(runs.DATAPATHS, "ebpf", record)
    said = call("run", "scenario.yaml", "--out", "there")
    (row,) = [line for line in said.splitlines() if "sta1" in line]
    assert "2.5" in row
    assert "1 congestion, 2 link, 3 unknown" in said
    assert "p50 2.5 ms" in said
    assert warnings(Result.load("there")) == ["7 in-band telemetry summaries were lost"]


def test_a_run_with_receivers_reports_of_the_regimes(monkeypatch: pytest.MonkeyPatch) -> None:
    def record(scenario: Scenario, into: Recording, directory: Path, progress: Any) -> None:
        lines = (decision(n, "SHARED" if n else "SINGLE_OWNER", switched=n == 1) for n in range(4))
        vars(into).update(vars(reported(directory, *lines, events=(SWITCHED,))))

    monkeypatch.setitem(runs.DATAPATHS, "ebpf", record)
    said = call("run", "scenario.yaml", "--out", "there")
    (row,) = [line for line in said.splitlines() if line.count("│ sender") and "kernel" not in line]
    assert re.findall(r"\d+", row) == ["75", "1"]
    assert "flows: regime:switched 1" in said


def test_a_run_without_a_place_gets_one() -> None:
    document = json.loads(call("run", "scenario.yaml", "--json"))
    assert document["directory"].startswith("out/a-try-2")
    assert document["flows"][0]["goodput_bytes_per_s"] == pytest.approx(1e6)
    assert document["flows"][0]["received_bytes"] == 2_000_000


def test_a_sweep_lists_its_runs_does_them_and_goes_on() -> None:
    listed = call("sweep", "grid.yaml", "--dry-run")
    assert listed.count("to do") == 5
    assert "4 runs, 3 to do" in listed  # seed 1 again is seed 2
    assert not Path("out").exists()
    said = call("sweep", "grid.yaml")
    assert "results: out/two-seeds" in said
    assert "12.00" in said  # medians of seeds 1 and 2, 2 and 3
    assert "20.00" in said
    assert "[95% interval]" not in said
    said = call("sweep", "grid.yaml", "--repeats", "6", "--out", "six")
    assert "medians [95% interval]" in said
    assert "28.00 [8.00, 48.00]" in said  # of seeds 1 to 6
    document = json.loads(call("sweep", "grid.yaml", "--json"))
    assert (document["planned"], document["done"], document["failed"]) == (4, 4, [])
    listed = json.loads(call("sweep", "grid.yaml", "--dry-run", "--json"))
    assert [one["done"] for one in listed] == [True] * 4


def test_a_sweep_with_failures_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    call("sweep", "grid.yaml", "--repeats", "1")

    def fail(*_arguments: object) -> None:
        from experiments.netlab import LabError

        raise LabError("lab.timeout", "too long")

    monkeypatch.setitem(runs.DATAPATHS, "ebpf", fail)
    document = json.loads(call("sweep", "grid.yaml", "--json", status=1))
    assert document["done"] == 3
    assert document["failed"][0]["error"]["slug"] == "lab.timeout"


def test_results_are_listed_where_they_are() -> None:
    assert "no results in out" in call("list")
    run(SCENARIO, "out/deep/one")
    call("sweep", "grid.yaml", "--repeats", "1")
    Path("out/broken").mkdir()
    Path("out/broken/metadata.json").write_text("{")
    found = json.loads(call("list", "--json"))
    assert [(one["directory"], one["kind"], one["state"]) for one in found] == [
        ("out/broken", "run", "result.broken"),
        ("out/deep/one", "run", "complete"),
        ("out/two-seeds", "sweep", "2 of 2 runs"),
    ]
    assert "out/deep/one" in call("list")


def test_figures_are_drawn() -> None:
    run(SCENARIO, "one")
    files = [Path(line) for line in call("plot", "one", "--format", "svg").splitlines()]
    assert files
    assert all(file.parent == Path("one/plots") and file.stat().st_size > 1000 for file in files)
    call("sweep", "grid.yaml", "--out", "many")
    files = [Path(one) for one in json.loads(call("plot", "many", "--out", "drawn", "--json"))]
    assert files
    assert {file.suffix for file in files} == {".png"}


def test_what_is_wrong_is_reported_without_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, slug in (
        (["run", "none.yaml"], "scenario.no_file"),
        (["run", "grid.yaml"], "fix  ccp experiment sweep grid.yaml"),
        (["sweep", "scenario.yaml"], "fix  ccp experiment run scenario.yaml"),
        (["run", "examples/scenarios/web.yaml"], "ccp experiment examples"),
        (["run", "scenario.yaml", "--param", "seed"], "scenario.bad_field"),
        (["run", "scenario.yaml", "--param", "sed=1"], "`seed`"),
        (["plot", "none"], "result.not_found"),
        (["plot", "scenario.yaml"], "result.broken"),
    ):
        from ccplane.agent.front import Entry

        entry = Entry("experiment", "experiments.commands:app")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(cli, "plugins", lambda entry=entry: {"experiment": entry})
            result = CliRunner().invoke(cli.app, ["experiment", *arguments])
        assert result.exit_code == 1
        assert slug in result.stderr
        assert "Traceback" not in result.output


def test_every_command_has_help() -> None:
    for name in ("run", "sweep", "list", "plot"):
        assert len(call(name, "--help")) > 300
