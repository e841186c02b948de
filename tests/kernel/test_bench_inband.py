"""`ccp bench int` measures each way of telemetry on real interfaces."""

from __future__ import annotations

import pytest

from experiments.bench import inband
from experiments.bench.rounds import Plan

pytestmark = [pytest.mark.usefixtures("whatever_others_do"), pytest.mark.kernel(struct_ops=False)]


def test_every_way_is_compared_with_both_ways_of_being_off() -> None:
    result = inband.run(Plan(1, 1), seconds=1)
    ratios = {"every.off", "1in10.off", "packet.off", "packet.single"}
    ways = {"off", "single", "every", "1in10", "packet"}
    expected = {f"{name}.{label}" for name in ("cpu_per_gb_ratio", "throughput_ratio") for label in ratios}
    expected |= {
        f"{name}.{way}" for name in ("goodput_mbit_per_s", "cpu_s_per_gb", "retransmits") for way in ways
    }
    assert set(result.metrics) == expected
    # Super-packets cost far less than packets one by one: the ways are really different.
    assert result.metrics["throughput_ratio.packet.off"].value < 0.5
