from __future__ import annotations

import pytest

from ccplane.agent.monitor.charts import time_axis


def test_ages_stand_below_their_columns() -> None:
    line = time_axis([100 + 0.5 * n for n in range(60)], 60)
    assert line.split() == ["-20", "s", "-10", "s", "now"]
    for age_s in (10, 20):
        label = f"-{age_s} s"
        assert 60 - (line.index(label) + len(label)) == 2 * age_s


def test_axis_is_empty_without_samples_and_has_few_labels_where_there_is_little_room() -> None:
    assert time_axis([], 8) == " " * 8
    assert time_axis([1.0], 8) == "now".rjust(8)
    assert time_axis([1.0, 1.5], 2) == "  "


def test_pause_does_not_hide_that_time_passed() -> None:
    line = time_axis(list(range(20)) + [100 + n for n in range(60)], 80)
    assert line.split() == ["-140", "s", "-40", "s", "-20", "s", "now"]
    assert line.index("-140 s") + len("-140 s") == 80 - 60


@pytest.mark.parametrize("width", [3, 10, 31, 80, 200])
def test_axis_has_the_width_of_the_chart(width: int) -> None:
    assert len(time_axis([0.5 * n for n in range(240)], width)) == width
