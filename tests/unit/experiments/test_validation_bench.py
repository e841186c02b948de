"""The benchmark of the simulator."""

from __future__ import annotations

import pytest

from experiments.bench import sim
from experiments.bench.rounds import Plan

pytestmark = pytest.mark.usefixtures("any_load")


def test_every_kind_of_work_has_a_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    small = {"EVENTS_S": 0.5, "FLOWS": 3, "WORLDS": 2, "STEPS": 5, "RUN_S": 1.0}
    for name, value in small.items():
        monkeypatch.setattr(sim, name, value)
    result = sim.run(Plan(1, 1))
    assert list(result.metrics) == [
        "packet_events_per_s",
        "packet_events_per_s.dumbbell",
        "env_steps_per_s",
        "env_steps_per_s.48mbit_10ms",
        "simulated_ratio.kernel",
        "simulated_ratio.agent",
    ]
    assert all(metric.value > 0 for metric in result.metrics.values())
    goals = {name: metric.goal for name, metric in result.metrics.items() if metric.goal}
    assert goals == {"packet_events_per_s": ">= 1500000", "env_steps_per_s": ">= 20000"}
