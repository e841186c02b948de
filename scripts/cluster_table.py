"""Writes the table of docs/experiments.md, from docs/results (`make docs-tables`).

`python -m scripts.cluster_measure` makes the result.
"""

from __future__ import annotations

import json
from typing import Any, Final

from scripts.bench_tables import BEGIN, END, ROOT
from scripts.marks import filled

DOCUMENT: Final = ROOT / "docs/experiments.md"
RESULT: Final = ROOT / "docs/results/cluster.json"


def result() -> dict[str, Any]:
    """Return the result that is kept."""
    found: dict[str, Any] = json.loads(RESULT.read_text())
    return found


def table(found: dict[str, Any]) -> str:
    """Return what was measured."""
    machine, ways = found["machine"], (found["one_process"], found["cluster"])
    rows = {
        "processes that do runs": ("1", f"{found['workers']}, then {found['workers'] - 1}"),
        f"runs done, of {found['runs']}": [str(way["done"]) for way in ways],
        f"files, of {found['files']}, that differ": ("", str(found["files_that_differ"])),
        "processor time [s]": [_whole(way["processor_s"]) for way in ways],
        "time [s]": [_whole(way["took_s"]) for way in ways],
        "load of the machine at the end, other work included": [
            _whole(way["load_average_5_min"]) for way in ways
        ],
    }
    return "\n".join(
        [
            f"{found['date'][:10]}, ccplane {found['ccplane']}, {machine['cpu']}, {machine['processors']} "
            "processors; each once.",
            "",
            "| | one process | cluster |",
            "| --- | ---: | ---: |",
            *(f"| {name} | {' | '.join(cells)} |" for name, cells in rows.items()),
        ]
    )


def _whole(figure: float | None) -> str:
    return "not measured" if figure is None else f"{figure:.0f}"


def written(text: str, found: dict[str, Any]) -> str:
    """Return a document with the table between its markers."""
    return filled(text, f"{BEGIN}\n", END, table(found))


if __name__ == "__main__":
    DOCUMENT.write_text(written(DOCUMENT.read_text(), result()))
