"""Reports: one HTML file with claims, intervals, figures, tables and their origin; it needs no other file.

`model` is a report as data, `intervals` draws a figure against its bounds, `html` writes the file, and `web`
has its template, style and scripts. A command builds a `Report` from its results:

from experiments.report import Report, write

write(Report("Title", sections=(...)), Path("out/report.html"))

This package knows neither papers nor benchmarks; what measures builds its own reports.
"""

from __future__ import annotations

from experiments.report.html import rendered, write
from experiments.report.model import (
    Chart,
    Column,
    Evidence,
    Measured,
    Picture,
    Points,
    Report,
    Row,
    Section,
    Source,
    Table,
    Verdict,
)

__all__ = [
    "Chart",
    "Column",
    "Evidence",
    "Measured",
    "Picture",
    "Points",
    "Report",
    "Row",
    "Section",
    "Source",
    "Table",
    "Verdict",
    "rendered",
    "write",
]
