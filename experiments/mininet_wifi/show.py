"""Findings of a demo as a file and as a table."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Final

from rich.table import Table

from experiments.mininet_wifi.findings import Finding

FINDINGS: Final = "findings.json"
"""File with the findings, in the folder of a recording."""


def write_findings(folder: Path, found: list[Finding]) -> None:
    """Write findings to a folder."""
    (folder / FINDINGS).write_text(json.dumps([asdict(one) for one in found], indent=1))


def read_findings(folder: Path) -> list[Finding]:
    """Read the findings that `write_findings` wrote."""
    return [Finding(**one) for one in json.loads((folder / FINDINGS).read_text())]


def table(found: list[Finding]) -> Table:
    """Return findings as a table."""
    shown = Table("", "finding", "seen")
    for one in found:
        shown.add_row("yes" if one.holds else "NO", one.what, one.detail)
    return shown
