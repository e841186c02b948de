"""The front end's files as one script and one style sheet: a widget has one of each."""

from __future__ import annotations

from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent
SCRIPTS: Final = (
    "uplot/uPlot.iife.min.js",
    "store.js",
    "colours.js",
    "plot.js",
    "table.js",
    "controls.js",
    "editor.js",
    "happened.js",
    "panel.js",
)
"""In this order: each uses names of those before."""
STYLES: Final = ("uplot/uPlot.min.css", "panel.css")


def script() -> str:
    """Return the front end as an ECMAScript module."""
    return _together(SCRIPTS)


def style() -> str:
    """Return its style sheet."""
    return _together(STYLES)


def _together(names: tuple[str, ...]) -> str:
    return "\n".join((HERE / name).read_text(encoding="utf-8") for name in names)
