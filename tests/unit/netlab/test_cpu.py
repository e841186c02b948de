"""CPU time is read from the right columns."""

from __future__ import annotations

import time

import pytest

from experiments.netlab import CpuMeter
from experiments.netlab.cpu import parse_stat

STAT = "cpu  100 20 300 4000 500 60 700 8 9 10\ncpu0 1 1 1 1 1 1 1 1 1 1\nintr 1\n"


def test_columns_are_told_apart() -> None:
    spent = parse_stat(STAT, ticks_per_s=100, elapsed_s=7.0)
    assert spent.user_s == pytest.approx(1.2)  # niced programs are programs
    assert spent.system_s == 3.0
    assert spent.irq_s == 0.6
    assert spent.softirq_s == 7.0
    assert spent.steal_s == 0.08
    assert spent.idle_s == 45.0  # waiting for a disk is idle
    assert spent.elapsed_s == 7.0
    assert spent.kernel_s == pytest.approx(10.6)
    assert spent.busy_s == pytest.approx(11.8)


def test_a_difference_is_taken_column_by_column() -> None:
    earlier = parse_stat(STAT, ticks_per_s=100, elapsed_s=7.0)
    later = parse_stat(STAT.replace("300", "350"), ticks_per_s=100, elapsed_s=9.0)
    spent = later - earlier
    assert spent.system_s == pytest.approx(0.5)
    assert spent.busy_s == pytest.approx(0.5)
    assert spent.elapsed_s == pytest.approx(2.0)
    assert spent.idle_s == 0.0


def test_a_meter_counts_work_of_this_machine() -> None:
    with CpuMeter() as meter:
        end_s = time.process_time() + 0.3
        while time.process_time() < end_s:
            pass
    assert meter.spent.busy_s >= 0.2  # a tick or two are lost at each end
    assert meter.spent.elapsed_s >= 0.3
    assert meter.spent == meter.spent  # stands still after the block
