"""The benchmark of in-band telemetry measures what there is."""

from __future__ import annotations

import pytest

from ccplane.base import _native
from experiments.bench import ioam
from experiments.bench.rounds import Plan

pytestmark = pytest.mark.usefixtures("whatever_others_do")


def test_every_kind_of_work_has_a_rate() -> None:
    result = ioam.run(Plan(2, 2), packets=2000)
    assert list(result.metrics) == [f"{what}_per_s" for what in ioam.WORK]
    assert all(min(metric.values) > 0 for metric in result.metrics.values())


def test_other_work_is_refused() -> None:
    with pytest.raises(ValueError, match="source, fill, read, sink, remove"):
        _native.ioam_work("sleep", 1)
