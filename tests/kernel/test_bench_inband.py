"""`ccp bench int` compares transfers with and without telemetry."""

from __future__ import annotations

import pytest

from experiments.bench import inband
from experiments.bench.rounds import Plan

pytestmark = [pytest.mark.usefixtures("any_load"), pytest.mark.kernel(struct_ops=False)]


def test_telemetry_is_compared_with_its_absence() -> None:
    result = inband.run(Plan(1, 1), seconds=1)
    ratios, figures = (
        ("cpu_per_gb_ratio", "throughput_ratio", "retransmit_ratio"),
        ("goodput_mbit_per_s", "cpu_s_per_gb", "retransmits"),
    )
    expected = {f"{name}.{way}.off" for name in ratios for way in ("every", "1in10")}
    expected |= {f"{name}.{way}" for name in figures for way in ("off", "every", "1in10")}
    assert set(result.metrics) == expected
