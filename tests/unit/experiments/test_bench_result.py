"""Results of benchmarks: verdicts, how they are printed and kept."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from experiments.bench.errors import BenchError
from experiments.bench.result import BenchResult, Metric
from experiments.bench.rounds import Plan, Tally
from experiments.errors import ResultError

ABOUT: dict[str, Any] = {
    "command": ["ccp", "bench", "name"],
    "git": {"commit": "0" * 40, "dirty": True},
    "date": "2026-11-23T00:00:00+00:00",
    "host": {"kernel": "6.18.0", "cores": 2},
}


def result() -> BenchResult:
    return BenchResult("name", Plan(5, 9), {"count": 3}, {"part": Tally(5, 1, {"steal": 1})}, about=ABOUT)


@pytest.mark.parametrize(
    ("values", "goal", "verdict"),
    [
        ((1.0, 1.01, 1.02, 1.02, 1.03, 1.04), "<= 1.05", "met"),
        ((1.06, 1.07, 1.08, 1.08, 1.09, 1.1), "<= 1.05", "missed"),
        ((1.0, 1.01, 1.02, 1.02, 1.03, 1.06), "<= 1.05", "undecided"),
        ((1.0, 1.07, 1.07, 1.07, 1.07, 1.07), "<= 1.05", "undecided"),
        ((10.0,) * 6, ">= 10", "met"),
        ((9.0,) * 6, ">= 10", "missed"),
        ((0.96, 0.97, 1.0, 1.0, 1.02, 1.04), "0.95 - 1.05", "met"),
        ((0.94, 0.97, 1.0, 1.0, 1.02, 1.04), "0.95 - 1.05", "undecided"),
        ((0.9,) * 6, "0.95 - 1.05", "missed"),
        ((1.1,) * 6, "0.95 - 1.05", "missed"),
        ((1.0,) * 5, "<= 1.05", None),
        ((1.0,) * 6, None, None),
    ],
)
def test_the_verdict_needs_the_whole_interval(
    values: tuple[float, ...], goal: str | None, verdict: str | None
) -> None:
    assert Metric(values, "ratio", goal).verdict == verdict


def test_what_is_undecided_says_how_many_rounds_would_decide() -> None:
    # The interval reaches 0.08 upwards, the goal is 0.04 away: four times as many rounds halve it.
    values = (0.92, 0.98, 1.0, 1.0, 1.02, 1.08)
    needed = [Metric(values, "ratio", goal).rounds_needed for goal in ("<= 1.04", "<= 1.0", "<= 2")]
    assert needed == [24, None, None]


def test_below_six_rounds_there_is_no_interval() -> None:
    reported = Metric((1.0, 2.0, 3.0, 4.0, 5.0), "s").as_dict()
    assert (reported["value"], reported["low"], reported["high"]) == (3.0, None, None)


def test_no_value_is_an_error_and_no_zero() -> None:
    with pytest.raises(ValueError, match="no value was measured for metric"):
        result().add("metric", [], "s")


def test_json_has_all_of_the_run(tmp_path: Path) -> None:
    kept = result()
    kept.add("metric", [1.0, 2.0, 3.0, 3.0, 4.0, 5.0], "s", "<= 3")
    reported = json.loads(kept.to_json())
    assert reported["command"] == ["ccp", "bench", "name"]
    assert reported["git"] == {"commit": "0" * 40, "dirty": True}
    assert reported["plan"] == {"rounds": 5, "max_rounds": 9, "precision": 0.03, "seed": 1}
    assert reported["options"] == {"count": 3}
    assert reported["rounds"]["part"]["causes"] == {"steal": 1}
    assert reported["metrics"]["metric"] == {
        "value": 3.0,
        "low": 1.0,
        "high": 5.0,
        "unit": "s",
        "goal": "<= 3",
        "verdict": "undecided",
        "rounds_needed": None,
        "values": [1.0, 2.0, 3.0, 3.0, 4.0, 5.0],
    }
    file = kept.keep(tmp_path / "new")
    assert file == tmp_path / "new/name.json"
    assert BenchResult.from_json(file.read_text(), str(file)) == kept


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 2}'])
def test_what_is_no_result_is_refused(text: str) -> None:
    with pytest.raises(BenchError) as caught:
        BenchResult.from_json(text, "some.json")
    assert caught.value.slug == "bench.cannot_read"
    assert caught.value.where == "some.json"


def test_a_result_that_cannot_be_kept_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ResultError) as caught:
        result().keep(tmp_path / "file")
    assert caught.value.slug == "result.cannot_write"
    assert "--keep" in caught.value.fix


@pytest.mark.parametrize("width", [80, 120])
def test_the_table_shows_all_digits(width: int) -> None:
    shown = result()
    shown.add("agent_memory_per_flow_bytes", [123_456.0], "bytes")
    shown.add("flows_with_agent", [10_000.0] * 6, "flows", ">= 10000")
    shown.add("cpu_ratio", [1.25] * 6, "ratio", "<= 1.05")
    out = io.StringIO()
    shown.print(Console(file=out, width=width))
    text = out.getvalue()
    assert "…" not in text
    parts = ["agent_memory", "123,456", "10,000 - 10,000", "met", "missed", "1.25", "<= 1.05", ">= 10000"]
    assert [part for part in parts if part not in text] == []
    assert "1 disturbed (steal 1)" in text
