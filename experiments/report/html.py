"""Writes a report as one HTML file, which loads nothing: style, scripts and data are inside.

Texts are escaped by the template. Tables are CSV in hidden elements: the page reads its tables from the same
text that it offers as a download.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from importlib import metadata
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import jinja2
from markupsafe import Markup, escape

from experiments.report import intervals
from experiments.report.model import Picture, Report, Table
from experiments.writing import write_text

SCRIPTS: Final = ("csv.js", "colours.js", "chart.js", "explorer.js", "table.js", "rows.js", "page.js")
"""Files of the script, in order; each file uses names of earlier files."""
SHAPES: Final[Mapping[str, str]] = {
    "holds": "✓",
    "fails": "✕",
    "mixed": "±",
    "undecided": "?",
    "tuned": "=",
    "stale": "~",
    "not run": "○",
    "not tested": "–",
}
"""Verdict -> its sign, for readers who do not see its colour."""

_WEB: Final = files("experiments.report") / "web"
_UPLOT: Final = files("ccplane.agent.panel") / "front" / "uplot"


def rendered(report: Report) -> str:
    """Return a report as HTML."""
    page = _environment().get_template("report.html.jinja")
    tables = report.tables()
    return page.render(
        report=report,
        ids=tables,
        descriptions=_script({name: _described(table) for table, name in tables.items()}),
        style=_inline(_UPLOT / "uPlot.min.css", _WEB / "report.css"),
        script=_inline(_UPLOT / "uPlot.iife.min.js", *(_WEB / name for name in SCRIPTS)),
        version=metadata.version("ccplane"),
    )


def write(report: Report, file: Path) -> Path:
    """Write a report to a file, whose folder is created if it is missing, and return the file.

    Raises:
        ResultError: `result.cannot_write`.
    """
    return write_text(file, rendered(report), "choose another file with --report")


@cache
def _environment() -> jinja2.Environment:
    found = jinja2.Environment(
        loader=jinja2.FunctionLoader(lambda name: (_WEB / name).read_text(encoding="utf-8")),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters.update(
        {
            "address": _address,
            "csv": _csv,
            "interval": intervals.drawn,
            "json": _attribute,
            "shape": SHAPES.get,
            "slug": slug,
        }
    )
    return found


def slug(text: str) -> str:
    """Return a text as part of an address: lower-case letters, digits and hyphens."""
    words = "".join(one if one.isalnum() and one.isascii() else " " for one in text.lower())
    return "-".join(words.split())


def _inline(*found: Any) -> Markup:
    """Return files of this repository for a script or style element."""
    return Markup("\n".join(one.read_text(encoding="utf-8") for one in found))


def _script(data: Any) -> Markup:
    """Return data as JSON for a script element, which ends at the first `</`."""
    return Markup(json.dumps(data, allow_nan=False).replace("<", "\\u003c"))


def _attribute(data: Any) -> str:
    """Return data, or the data of a dataclass, as JSON for an attribute."""
    return json.dumps(asdict(data) if hasattr(data, "__dataclass_fields__") else data)


def _csv(table: Table) -> Markup:
    """Return a table as the text of an element; a parser turns carriage returns into line ends."""
    return Markup(str(escape(table.csv())).replace("\r", "&#13;"))


def _address(picture: Picture) -> str:
    return f"data:image/svg+xml;base64,{base64.b64encode(picture.svg).decode()}"


def _described(table: Table) -> dict[str, Any]:
    return {
        "title": table.title,
        "file": table.file,
        "note": table.note,
        "drawable": table.drawable,
        "columns": [asdict(column) for column in table.columns],
    }
