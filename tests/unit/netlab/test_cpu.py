"""CPU time of the machine."""

from __future__ import annotations

import os
import time

import pytest

from experiments.netlab import CpuMeter
from experiments.netlab.cpu import CpuSeconds, parse_idle_s, process_cpu_s

#            user nice system idle iowait irq softirq steal guest guest_nice
STAT = "cpu  100 20   300    4000 500    60  700     80    0     0\ncpu0 50 10 150 2000 250 30 350 40 0 0\n"
TIMER_LIST = """
now at 9000000000 nsecs
cpu: 0
  .idle_sleeptime : 1500000000 nsecs
  .iowait_sleeptime: 250000000 nsecs
cpu: 1
  .idle_sleeptime : 2000000001 nsecs
  .iowait_sleeptime: 0 nsecs
"""


def test_idle_time_is_that_of_all_processors_in_nanoseconds() -> None:
    idle_s = parse_idle_s(TIMER_LIST, STAT, ticks_per_s=100)
    assert idle_s == pytest.approx(1.5 + 0.25 + 2.000000001 + 0.8)  # and 80 ticks that were stolen


def test_idle_time_is_that_of_the_ticks_when_the_kernel_notes_none_itself() -> None:
    assert parse_idle_s("", STAT, ticks_per_s=100) == pytest.approx(40 + 5 + 0.8)


def test_differences() -> None:
    assert CpuSeconds(5.0, 10.0) - CpuSeconds(3.5, 8.0) == CpuSeconds(1.5, 2.0)


def test_the_meter_sees_a_busy_process() -> None:
    with CpuMeter() as meter:
        end_s = time.process_time() + 0.3
        while time.process_time() < end_s:
            pass
    assert meter.spent.busy_s >= 0.25
    assert meter.spent.elapsed_s >= 0.3


def test_the_time_of_a_process_is_that_of_its_own_clock() -> None:
    before_s = time.process_time()
    assert before_s <= process_cpu_s(os.getpid()) <= time.process_time()
    with pytest.raises(OSError, match="Invalid argument"):
        process_cpu_s(1 << 22)  # more than there can be
