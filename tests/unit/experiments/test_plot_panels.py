from __future__ import annotations

import pandas as pd
import pytest

from experiments import plots
from experiments.metrics import MetricError
from tests.unit.experiments.test_plot_figures import repeats, texts


def table() -> pd.DataFrame:
    return pd.concat([repeats(3).assign(**{"buffer.bdp": bdp}) for bdp in (0.25, 1.0)], ignore_index=True)


def test_panels_have_the_values_of_their_column_and_row() -> None:
    figure = plots.panels(
        table(), "goodput_bytes_per_s", "loss_ratio", "delay_us", "buffer.bdp", limit=7.5e6, title="what"
    )
    assert len(figure.axes) == 4
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["kernel CUBIC", "ccplane CUBIC"]
    assert {"delay 10 ms", "delay 25 ms", "buffer 0.25 BDP\ngoodput\n[Mbit/s]", "loss [%]", "what"} <= texts(
        figure
    )
    for axes in figure.axes:
        (kernel,) = (line for line in axes.lines if line.get_marker() == "o")
        assert list(kernel.get_xdata()) == [0.0, 1.0, 2.0]
        assert list(kernel.get_ydata()) == pytest.approx([40.16, 36.16, 32.16])
        assert axes.get_ylim() == figure.axes[0].get_ylim()
        assert axes.get_ylim()[0] == 0
        assert any(set(line.get_ydata()) == {60.0} for line in axes.lines)


def test_panels_without_values_are_empty_and_rows_are_optional() -> None:
    some = table()
    some = some[(some["delay_us"] == 10_000) | (some["buffer.bdp"] == 1.0)]
    figure = plots.panels(some, "goodput_bytes_per_s", "loss_ratio", "delay_us", "buffer.bdp")
    drawn = [
        [len(line.get_xdata()) for line in axes.lines if line.get_marker() in "os"] for axes in figure.axes
    ]
    assert drawn == [[3, 3], [0, 0], [3, 3], [3, 3]]
    assert len(plots.panels(repeats(), "rtt_p50_us", "loss_ratio", "delay_us").axes) == 2


def test_a_column_that_is_missing_is_reported() -> None:
    with pytest.raises(MetricError) as caught:
        plots.panels(repeats(), "goodput_bytes_per_s", "loss_ratio", "delay_us", "buffer")
    assert caught.value.slug == "metric.no_column"
