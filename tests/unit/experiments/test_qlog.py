"""Runs as qlog files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from experiments.commands import app
from experiments.qlog import to_qlog
from experiments.results import Result
from experiments.run import run
from experiments.runs.grid import changed
from experiments.scenario import Scenario

FILE = Path(__file__).parents[3] / "experiments/scenarios/two-flows.yaml"


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("qlog") / "run"
    run(changed(Scenario.load(FILE), {"datapath": "sim", "duration_s": 4}), place)
    return place


def replayed(events: list[dict[str, Any]]) -> list[tuple[float, dict[str, float]]]:
    """Return all metrics at each event that changes some."""
    metrics: dict[str, float] = {}
    found = []
    for event in events:
        if event["name"] == "recovery:metrics_updated":
            metrics = metrics | event["data"]
            found.append((event["time"], metrics))
    return found


def test_the_metrics_are_those_of_the_samples_in_units_of_qlog(directory: Path) -> None:
    result = Result.load(directory)
    traces = to_qlog(result)["traces"]
    assert [trace["title"] for trace in traces] == ["kernel, connection 0", "ours, connection 0"]
    for trace, flow in zip(traces, ("kernel", "ours"), strict=True):
        samples = result.connection_samples
        last = samples[samples["flow"] == flow].iloc[-1]
        time_ms, metrics = replayed(trace["events"])[-1]
        assert time_ms <= last["t_s"] * 1e3 + 0.001
        assert metrics["congestion_window"] == last["cwnd_bytes"]
        assert metrics["smoothed_rtt"] == pytest.approx(last["srtt_us"] / 1e3)
        assert metrics["pacing_rate"] == pytest.approx(last["pacing_rate_bytes_per_s"] * 8, abs=1)


def test_events_are_in_order_and_say_only_what_changed(directory: Path) -> None:
    for trace in to_qlog(Result.load(directory))["traces"]:
        times = [event["time"] for event in trace["events"]]
        assert times == sorted(times)
        before: dict[str, float] = {}
        for event in trace["events"]:
            if event["name"] == "recovery:metrics_updated":
                assert event["data"]
                assert event["data"].items().isdisjoint(before.items())
                before |= event["data"]


def test_a_flow_starts_slowly_and_recovers_from_its_losses(directory: Path) -> None:
    for trace in to_qlog(Result.load(directory))["traces"]:
        changes = [
            event["data"] for event in trace["events"] if event["name"] == "recovery:congestion_state_updated"
        ]
        states = [change["new"] for change in changes]
        assert states[0] == "slow_start"
        assert states.index("recovery") > 0
        assert [change.get("old") for change in changes] == [None, *states[:-1]]


def test_the_command_writes_a_file_and_refuses_what_is_no_run(directory: Path, tmp_path: Path) -> None:
    written = CliRunner().invoke(app, ["qlog", str(directory), "--out", str(tmp_path / "a.qlog")])
    assert written.exit_code == 0, written.output
    assert json.loads((tmp_path / "a.qlog").read_text())["qlog_version"] == "0.3"
    refused = CliRunner().invoke(app, ["qlog", str(directory), "--out", str(tmp_path / "no/a.qlog")])
    assert getattr(refused.exception, "slug", "") == "result.cannot_write"
    nothing = CliRunner().invoke(app, ["qlog", str(tmp_path)])
    assert getattr(nothing.exception, "slug", "") == "result.not_found"
