from __future__ import annotations

import pandas as pd
import pytest

from experiments import plots
from experiments.metrics import MetricError
from tests.unit.experiments.test_plot_figures import texts


def series(**changed: list[float | None]) -> pd.DataFrame:
    columns = {
        "t_s": [0.0, 5.0, 10.0, 15.0],
        "rtt_tail_ms": [1.0, None, 9.0, 1.0],
        "ce_marks": [0, 0, 0, 0],
        "retransmits": [0, 3, None, 0],
        "density": [0.0, 0.2, 0.4, 0.4],
        "regime": ["SINGLE_OWNER", "SINGLE_OWNER", "SHARED", "SHARED"],
    }
    return pd.DataFrame(columns | changed)


def test_there_is_a_panel_for_each_of_what_was_seen_and_one_for_the_decision() -> None:
    figure = plots.regime_series(series(), threshold_ms=6.0, title="what")
    rtt, again, decision = figure.axes  # no marks: no panel for them
    assert [bar.get_height() for bar in again.patches][:2] == [0, 3]
    assert {0.0, 1.0} == set(decision.lines[1].get_ydata())
    assert list(decision.lines[0].get_ydata()) == [0.0, 0.2, 0.4, 0.4]
    assert any(set(line.get_ydata()) == {6.0} for line in rtt.lines)
    assert {"what", "RTT tail\n[ms]", "retransmissions", "regime", "congested above 6 ms"} <= texts(figure)


def test_marks_have_a_panel_if_there_were_any_and_a_threshold_is_optional() -> None:
    figure = plots.regime_series(series(ce_marks=[0, 7, 0, None]))
    assert len(figure.axes) == 4
    assert "new CE marks" in texts(figure)
    assert len(figure.axes[0].lines) == 1


def test_a_column_that_is_missing_is_reported() -> None:
    with pytest.raises(MetricError) as caught:
        plots.regime_series(series().drop(columns="regime"))
    assert caught.value.slug == "metric.no_column"
