"""The tables of docs/validation.md, from docs/results/validation; `scripts.tables` writes them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from experiments.bench.result import about_text
from experiments.papers.kept import Kept
from experiments.validation.heldout import HEADINGS, Heldout
from scripts.marks import filled

ROOT: Final = Path(__file__).parents[1]
DOCUMENT: Final = ROOT / "docs/validation.md"
END: Final = "<!-- end -->"
RESULTS: Final = ROOT / "docs/results/validation"
PAPERS: Final = ROOT / "docs/results/papers"
TENTH: Final = "-tenth"
"""Suffix of parts that compare real sockets with the simulator."""


def begin(name: str) -> str:
    """Return the marker before a generated part."""
    return f"<!-- begin {name}: made by `make docs-tables` -->"


# --- drawn scenarios ---------------------------------------------------------------------------------------


def drawn() -> dict[str, Heldout]:
    """Return the kept draws by name.

    Raises:
        BenchError: `bench.cannot_read`.
    """
    files = sorted(RESULTS.glob("draw-*.json"))
    return {file.stem: Heldout.from_json(file.read_text(), str(file)) for file in files}


def drawn_tables(found: dict[str, Heldout]) -> str:
    """Return draws as text for the document."""
    if not found:
        return "No draw is kept yet."
    return "\n\n".join(_drawn(name, one) for name, one in found.items())


def _drawn(name: str, found: Heldout) -> str:
    missed = found.missed()
    return "\n".join(
        [
            f"### {name.replace('-', ' ').capitalize()}: {len(found.cases)} scenarios",
            "",
            f"{about_text(found.about)} {found.reported_left_out()}",
            "",
            *_table(HEADINGS, found.cells()),
            "",
            f"Cases outside a goal in at least one quantity: {len(missed)} of {len(found.errors())}.",
            "",
            *_table(["case", "path", "flows", "kernel / simulator"], missed),
        ]
    )


# --- papers' grids -----------------------------------------------------------------------------------------


def tenths() -> list[Kept]:
    """Return the kept parts that compare real sockets with the simulator.

    Raises:
        ResultError: `result.broken`.
    """
    read = [Kept.read(file) for file in sorted(PAPERS.glob(f"*/*{TENTH}.json"))]
    return [one for one in read if one.tables]


def tenth_table(found: Sequence[Kept]) -> str:
    """Return the deviations of the simulator, a row for each part."""
    if not found:
        return "No result is kept yet."
    quantities = [row["quantity"] for row in found[0].tables[0].rows.to_dict("records")]
    headings = ["paper", "part", "measured", "runs", "not counted", *quantities]
    return "\n".join(_table(headings, [_tenth(one, quantities) for one in found]))


def _tenth(kept: Kept, quantities: Sequence[str]) -> list[str]:
    rows = {row["quantity"]: row for row in kept.tables[0].rows.to_dict("records")}
    cells = []
    for name in quantities:
        row = rows.get(name)
        cells.append(
            "" if row is None else f"{row['deviation_pct']:+.2g} ({row['deviation_size_p90_pct']:.2g})"
        )
    git = kept.about["git"]
    made = f"{kept.about['date'][:10]}, `{git['commit'][:12]}`" if git else kept.about["date"][:10]
    part = f"`{kept.part.removesuffix(TENTH)}`"
    return [kept.paper, part, made, str(kept.done), str(sum(kept.left_out.values())), *cells]


# --- both --------------------------------------------------------------------------------------------------


def _table(headings: Sequence[str], lines: Sequence[Sequence[str]]) -> list[str]:
    rows = [headings, ["---"] * len(headings), *lines]
    return [f"| {' | '.join(row)} |" for row in rows]


def written(text: str) -> str:
    """Return the document with its tables between their marks."""
    made = (
        ("drawn", drawn_tables(drawn())),
        ("tenth", tenth_table(tenths())),
    )
    for name, tables in made:
        text = filled(text, f"{begin(name)}\n", END, tables)
    return text
