from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from experiments.soak.judge import Point, judge
from experiments.soak.network import Load
from experiments.soak.report import FAILED, HELD, UNDECIDED, exit_code, keep, publish, show
from experiments.soak.run import Options, Outcome
from experiments.soak.samples import Series, limit_of


def outcome(*series: list[float], violations: tuple[str, ...] = ()) -> Outcome:
    made = Outcome(Options(1.0, 7, 1, Load(1, 1.0, 1.0), 1.0, 1.0, False), violations=[*violations])
    for number, values in enumerate(series):
        for at, value in enumerate(values):
            made.series.add(60.0 * at, f"agent{number}", "1", {"fds": value})
    made.trends = {name: judge(points, limit_of(name)) for name, points in made.series.points.items()}
    return made


CONSTANT = [50.0] * 20
LEAKING = [50.0 + n for n in range(20)]
SHORT = [50.0] * 3


@pytest.mark.parametrize(
    ("reported", "code"),
    [
        (outcome(CONSTANT, CONSTANT), HELD),
        (outcome(CONSTANT, LEAKING), FAILED),
        (outcome(SHORT, LEAKING), FAILED),
        (outcome(CONSTANT, SHORT), UNDECIDED),
        (outcome(), UNDECIDED),
        (outcome(CONSTANT, violations=("3.0 s: a connection failed",)), FAILED),
    ],
)
def test_exit_code_is_the_worst_of_what_is_judged(reported: Outcome, code: int) -> None:
    assert exit_code(reported) == code


def test_file_has_the_series_the_verdicts_and_how_to_run_it_again(tmp_path: Path) -> None:
    keep(outcome(CONSTANT, SHORT), tmp_path / "out" / "soak.json")
    read = json.loads((tmp_path / "out" / "soak.json").read_text())
    assert read["options"]["seed"] == 7
    assert read["trends"]["agent0 fds"]["verdict"] == "holds"
    assert read["trends"]["agent1 fds"]["low"] is None, "infinities are no JSON"
    assert len(read["series"]["agent0 fds"]) == 20


def test_summary_counts_disturbances_and_has_no_samples(tmp_path: Path) -> None:
    reported = outcome(CONSTANT)
    reported.disturbances = [{"at_s": at, "kind": "agent killed"} for at in (1.0, 2.0)]
    keep(reported, tmp_path / "soak.json")
    publish(tmp_path / "soak.json", tmp_path / "kept.json", "0123456")
    whole, read = (json.loads((tmp_path / name).read_text()) for name in ("soak.json", "kept.json"))
    assert read == {name: value for name, value in whole.items() if name != "series"} | {
        "disturbances": {"agent killed": 2},
        "revision": "0123456",
    }


def test_table_names_what_fails() -> None:
    console = Console(width=140, file=io.StringIO(), record=True)
    show(outcome(LEAKING, violations=("3.0 s: [a connection] failed",)), console)
    text = console.export_text()
    assert "fails" in text
    assert "violation: 3.0 s: [a connection] failed" in text
    assert "\nfailed" in text


def test_every_series_has_a_limit() -> None:
    series = Series()
    series.add(0.0, "kernel", "1", {"entries of moving": 1.0, "maps": 2.0})
    series.add(0.0, "agent", "1", {"pss_bytes": 1.0})
    assert all(limit_of(name) > 0 for name in series.points)
    assert series.points["kernel maps"] == [Point(0.0, "1", 2.0)]
