"""Writes the table of `docs/conform.md` from the suites of `ccp conform` (`make commands`)."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from experiments.conform.running import SUITES, cases, suite_names
from scripts.marks import filled

PAGE: Final = Path(__file__).parents[1] / "docs/conform.md"
_BEGIN: Final = "<!-- begin suites: made by `make commands` -->\n"
_END: Final = "<!-- end -->"


def suites() -> str:
    """Return the table of suites."""
    rows = ["| suite | cases | what it checks |", "| --- | ---: | --- |"]
    for name in suite_names():
        first = (SUITES / f"{name.replace('-', '_')}.py").read_text().splitlines()[0]
        rows.append(f"| `{name}` | {len(cases(name))} | {first.strip(chr(34)).rstrip('.')} |")
    return "\n".join(rows)


def written(text: str) -> str:
    """Return the page with its table."""
    return filled(text, _BEGIN, _END, suites())
