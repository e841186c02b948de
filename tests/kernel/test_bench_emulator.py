"""`ccp bench emulator` in short: every figure is measured, and those that no load disturbs are right."""

from __future__ import annotations

import pytest

from experiments.bench import emulator
from experiments.bench.rounds import Plan

pytestmark = [
    pytest.mark.usefixtures("whatever_others_do"),
    pytest.mark.alone,
    pytest.mark.kernel(struct_ops=False),
]

METRICS = {
    "packets_per_s",
    "mbit_per_s",
    "delay_error_p50_us",
    "delay_error_p99_us",
    "delay_error_p50_us.idle",
    "delay_error_p99_us.idle",
    "lateness_p50_us",
    "lateness_p99_us",
    "rate_error_pct",
    "rate_error_pct.10mbit",
    "rate_error_pct.100mbit",
    "rate_error_pct.1gbit",
    "loss_ratio",
    "loss_z",
}


def test_every_figure_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(emulator, "SPEED_S", 1)
    monkeypatch.setattr(emulator, "PROBES", 200)
    monkeypatch.setattr(emulator, "TRAIN_S", 0.1)
    monkeypatch.setattr(emulator, "MOST_EMPTY", 1.0)
    metrics = emulator.run(Plan(1, 1)).metrics
    assert metrics.keys() == METRICS
    assert all(metric.value > 0 for metric in metrics.values())
    assert metrics["mbit_per_s"].value == pytest.approx(
        metrics["packets_per_s"].value * 1500 * 8 / 1e6, rel=0.1
    )
    assert metrics["loss_ratio"].value == pytest.approx(emulator.LOSS_RATIO, rel=0.2)
    assert metrics["loss_z"].value < 2.58  # the seed is the same in every run
