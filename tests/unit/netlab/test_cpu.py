from __future__ import annotations

import os
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.netlab import CpuMeter
from experiments.netlab.cpu import CpuCounts, CpuSeconds, parse_counts, process_cpu_s

#                                       user nice system idle iowait irq softirq steal guest guest_nice
STAT = "cpu  100 20 300 4000 500 60 700 80 0 0\ncpu0 50 10 150 2000 250 30 350 40 0 0\n"
STAT += "cpu1 50 10 150 2000 250 30 350 40 0 0\nintr 1 2\n"
TIMER_LIST = """
now at 9000000000 nsecs
cpu: 0
  .idle_sleeptime : 1500000000 nsecs
  .iowait_sleeptime: 250000000 nsecs
cpu: 1
  .idle_sleeptime : 2000000001 nsecs
  .iowait_sleeptime: 0 nsecs
"""


def test_idle_time_is_that_of_each_processor_in_nanoseconds() -> None:
    counts = parse_counts(9.0, TIMER_LIST, STAT, ticks_per_s=100)
    assert counts.idle_s == pytest.approx((1.75, 2.000000001))
    assert counts.stolen_s == (0.4, 0.4)


def test_idle_time_is_that_of_the_ticks_when_the_kernel_notes_none_itself() -> None:
    assert parse_counts(9.0, "", STAT, ticks_per_s=100).idle_s == (22.5, 22.5)


def test_what_is_not_idle_is_busy() -> None:
    spent = CpuCounts(8.0, (3.0, 8.0), (1.0, 1.0)) - CpuCounts(4.0, (2.0, 4.0), (1.0, 1.0))
    assert spent == CpuSeconds(busy_s=3.0, elapsed_s=4.0, stolen_s=0.0)


def test_time_stolen_from_a_processor_that_never_idles_is_not_busy() -> None:
    spent = CpuCounts(4.0, (0.0,), (1.0,)) - CpuCounts(0.0, (0.0,), (0.0,))
    assert spent == CpuSeconds(busy_s=3.0, elapsed_s=4.0, stolen_s=1.0)


def test_a_processor_that_waits_to_wake_is_not_subtracted_twice() -> None:
    # Idle for 3.8 s of 4, of which 0.6 s were stolen: 4 - 3.8 - 0.6 is negative.
    spent = CpuCounts(4.0, (3.8,), (0.6,)) - CpuCounts(0.0, (0.0,), (0.0,))
    assert spent.busy_s == pytest.approx(0.2 * (1 - 0.6 / 4))
    assert spent.stolen_s == pytest.approx(0.6)


@given(st.lists(st.tuples(st.floats(0, 10), st.floats(0, 10)), min_size=1, max_size=4), st.floats(0.001, 5))
def test_busy_time_is_never_negative_nor_more_than_there_is(
    grown: list[tuple[float, float]], elapsed_s: float
) -> None:
    zeros = (0.0,) * len(grown)
    idle_s, stolen_s = zip(*grown, strict=True)
    spent = CpuCounts(elapsed_s, idle_s, stolen_s) - CpuCounts(0.0, zeros, zeros)
    assert 0 <= spent.busy_s <= len(grown) * elapsed_s
    assert 0 <= spent.stolen_s <= len(grown) * elapsed_s


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
        process_cpu_s(1 << 22)  # above the maximum pid
