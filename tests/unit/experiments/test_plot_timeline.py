from __future__ import annotations

import pandas as pd
import pytest

from experiments import plots
from experiments.metrics import MetricError
from tests.unit.experiments.test_plot_figures import texts

REPORTS = pd.DataFrame(
    {
        "t_s": [0.1, 0.2, 0.3, 0.4],
        "flow_id": [7, 7, 9, 9],
        "cwnd_bytes": [10_000, 20_000, 5_000, 6_000],
        "srtt_us": [20_000] * 4,
    }
)
EVENTS = pd.DataFrame(
    {
        "t_s": [0.1, 0.15, 0.3],
        "source": ["acks", "acks", "retransmits"],
        "srtt_us": [19_000, 21_000, None],
    }
)


def test_reports_are_above_and_each_source_of_events_has_a_panel_below() -> None:
    figure = plots.timeline(
        REPORTS, EVENTS, panels=("cwnd_bytes", "srtt_us"), fields={"acks": "srtt_us"}, title="what"
    )
    cwnd, srtt, acks, retransmits = figure.axes
    assert [list(line.get_ydata()) for line in cwnd.lines] == [[10, 20], [5, 6]]  # kB
    assert len(srtt.lines) == 2
    assert list(acks.lines[0].get_ydata()) == [19, 21]  # ms
    assert list(acks.lines[0].get_xdata()) == [0.1, 0.15]
    (ticks,) = retransmits.collections
    assert [segment[0][0] for segment in ticks.get_segments()] == [0.3]
    shown = texts(figure)
    assert {"what", "congestion window\n[kB]", "smoothed RTT\n[ms]", "reports of flow 9"} <= shown
    assert {"probe `acks`: 2 events", "probe `retransmits`: 1 event"} <= shown


def test_without_events_there_are_the_reports() -> None:
    figure = plots.timeline(REPORTS, EVENTS.iloc[:0][["t_s"]])
    assert len(figure.axes) == 1


def test_a_field_that_no_event_has_is_named() -> None:
    with pytest.raises(MetricError) as refused:
        plots.timeline(REPORTS, EVENTS, fields={"acks": "cwnd"})
    assert "`cwnd`" in refused.value.message
