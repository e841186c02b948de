from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from experiments.bench.result import BenchResult, Metric

HOST: dict[str, str | int] = {"kernel": "6.18.0", "cores": 2}


def test_a_figure_is_the_median_with_quartiles() -> None:
    result = BenchResult("name", rounds=5, host=HOST)
    result.add("metric", [1.0, 9.0, 2.0, 3.0, 4.0], "s", "<= 3")
    assert result.metrics["metric"] == Metric(3.0, "s", "<= 3", 2.0, 4.0)


def test_one_value_is_its_own_spread() -> None:
    result = BenchResult("name", rounds=1, host=HOST)
    result.add("metric", [7.0], "s")
    assert result.metrics["metric"] == Metric(7.0, "s", None, 7.0, 7.0)


def test_no_value_is_an_error_and_no_zero() -> None:
    with pytest.raises(ValueError, match="no value was measured for metric"):
        BenchResult("name", rounds=1, host=HOST).add("metric", [], "s")


@pytest.mark.parametrize(
    ("value", "goal", "met"),
    [
        (1.05, "<= 1.05", True),
        (1.06, "<= 1.05", False),
        (9.0, ">= 10", False),
        (10.0, ">= 10", True),
        (1, None, None),
    ],
)
def test_a_goal_is_met_on_its_side_of_the_bound(value: float, goal: str | None, met: bool | None) -> None:
    assert Metric(value, "ratio", goal, value, value).met is met


def test_json_has_the_agreed_shape() -> None:
    result = BenchResult("name", rounds=2, host=HOST)
    result.add("metric", [1.0, 2.0], "s", "<= 3")
    assert json.loads(result.to_json()) == {
        "name": "name",
        "rounds": 2,
        "host": HOST,
        "metrics": {"metric": {"value": 1.5, "unit": "s", "goal": "<= 3", "low": 1.25, "high": 1.75}},
    }


@pytest.mark.parametrize("width", [80, 120])
def test_the_table_cuts_no_figure_short(width: int) -> None:
    result = BenchResult("flows", rounds=3, host=HOST)
    result.add("agent_memory_per_flow_bytes", [123_456.0], "bytes")
    result.add("flows_with_agent", [10_000.0], "flows", ">= 10000")
    result.add("cpu_ratio", [1.25], "ratio", "<= 1.05")
    out = io.StringIO()
    result.print(Console(file=out, width=width))
    text = out.getvalue()
    assert "…" not in text
    for part in (
        "agent_memory",
        "123,456",
        "10,000 - 10,000",
        "met",
        "missed",
        "1.25",
        "<= 1.05",
        ">= 10000",
    ):
        assert part in text
