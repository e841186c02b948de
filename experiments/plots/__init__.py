"""Figures of results: one style, one colour per algorithm, a unit on every axis, and a footnote on the data.

Tables go in, matplotlib figures come out; nothing here measures or touches pyplot's global state. A notebook
displays a figure directly; `save` writes it as PNG, SVG or PDF.

This package may import `experiments.metrics`, `experiments.statistics` and `experiments.results`.
"""

from __future__ import annotations

from experiments.plots.comparisons import bars, heat_map, lines
from experiments.plots.distributions import cdf, throughput_delay
from experiments.plots.files import as_svg, save, save_as
from experiments.plots.panels import panels
from experiments.plots.quantities import quantity
from experiments.plots.regimes import regime_series
from experiments.plots.results import save_all
from experiments.plots.series import side_by_side, time_series
from experiments.plots.style import Plot, label, looks
from experiments.plots.timeline import timeline

__all__ = [
    "Plot",
    "as_svg",
    "bars",
    "cdf",
    "heat_map",
    "label",
    "lines",
    "looks",
    "panels",
    "quantity",
    "regime_series",
    "save",
    "save_all",
    "save_as",
    "side_by_side",
    "throughput_delay",
    "time_series",
    "timeline",
]
