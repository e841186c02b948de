"""`ccp bench echo` measures both ways of telemetry to an algorithm."""

from __future__ import annotations

import pytest

from experiments.bench import echo
from experiments.bench.rounds import Plan

pytestmark = pytest.mark.usefixtures("whatever_others_do")

PATH_US = 10_000


def test_an_echo_is_as_old_as_its_packets_round_trip() -> None:
    result = echo.run(Plan(1, 1), seconds=2)
    ages = {f"p{n}_us.{way}.{state}" for n in (50, 99) for way in echo.WAYS for state in echo.WINDOWS_BYTES}
    assert set(result.metrics) == ages | {f"decisions.{state}" for state in echo.WINDOWS_BYTES}
    for state in echo.WINDOWS_BYTES:
        assert result.metrics[f"p50_us.echo.{state}"].value > PATH_US
        assert result.metrics[f"p50_us.broker.{state}"].value > PATH_US / 2
    queue_us = result.metrics["p50_us.echo.queue"].value - result.metrics["p50_us.echo.empty"].value
    assert queue_us > PATH_US
