"""Writes the tables of `docs/conform.md` from the suites of `ccp conform` (`make commands`)."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from experiments.conform.known import KNOWN
from experiments.conform.running import SUITES, cases, suite_names
from scripts.marks import filled

PAGE: Final = Path(__file__).parents[1] / "docs/conform.md"
_END: Final = "<!-- end -->"


def _begin(what: str) -> str:
    return f"<!-- begin {what}: made by `make commands` -->\n"


def suites() -> str:
    """Return the table of suites."""
    rows = ["| suite | cases | what it checks |", "| --- | ---: | --- |"]
    for name in suite_names():
        first = (SUITES / f"{name.replace('-', '_')}.py").read_text().splitlines()[0]
        rows.append(f"| `{name}` | {len(cases(name))} | {first.strip(chr(34)).rstrip('.')} |")
    return "\n".join(rows)


def general() -> str:
    """Return the table of the cases of `general`."""
    rows = ["| case | asked for by |", "| --- | --- |"]
    rows += [f"| {one.title} | {one.source} |" for one in cases("general")]
    return "\n".join(rows)


def known() -> str:
    """Return the table of known alarms."""
    rows = ["| algorithm | alarm | reason |", "| --- | --- | --- |"]
    titles = {one.name: one.title for one in cases("general")}
    rows += [
        f"| `{algorithm}` | {titles[case]} | {reason} |"
        for algorithm, alarms in sorted(KNOWN.items())
        for case, reason in alarms.items()
    ]
    return "\n".join(rows)


def written(text: str) -> str:
    """Return the page with its tables."""
    for what, made in (("suites", suites), ("general", general), ("known", known)):
        text = filled(text, _begin(what), _END, made())
    return text
