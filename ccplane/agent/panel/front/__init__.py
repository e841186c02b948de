"""Joins the front end's files into one script and one style sheet, as a widget needs."""

from __future__ import annotations

from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent
SCRIPTS: Final = (
    "uplot/uPlot.iife.min.js",
    "store.js",
    "colours.js",
    "bands.js",
    "marks.js",
    "plot.js",
    "table.js",
    "controls.js",
    "editor.js",
    "happened.js",
    "panel.js",
)
"""The files of the script, in order; each file uses names of earlier files."""
STYLES: Final = ("uplot/uPlot.min.css", "panel.css")


def script() -> str:
    """Return the front end as an ECMAScript module."""
    return _together(SCRIPTS)


def style() -> str:
    """Return the style sheet of the front end."""
    return _together(STYLES)


def _together(names: tuple[str, ...]) -> str:
    return "\n".join((HERE / name).read_text(encoding="utf-8") for name in names)
