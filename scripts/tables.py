"""Writes the generated parts of the documents from docs/results (`make docs-tables`), and their figures.

A generated part is between two marks of its page; a test finds manual changes. Commands that create results:

    make bench KEEP=docs/results/bench                                  docs/benchmarks.md
    ccp validate --draw N --seed S --keep docs/results/validation       docs/validation.md
    ccp paper NAME --part PART --keep docs/results/papers               docs/papers
    make test-kernels KEEP=--keep                                       docs/kernels.md
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from scripts import scoreboard
from scripts.figures import pages
from scripts.marks import filled
from scripts.vm import results

ROOT: Final = Path(__file__).parents[1]
DOCS: Final = ROOT / "docs"
BEGIN: Final = "<!-- begin: made by `make docs-tables` -->"
END: Final = "<!-- end -->"
NOTHING: Final = "No results are kept yet."

Writer = Callable[[str], str]


def of_machines(kept: Path, table: Callable[[Any], str]) -> Writer:
    """Return the writer of a table from a kept file."""

    def made() -> str:
        return table(json.loads(kept.read_text())) if kept.exists() else NOTHING

    return lambda text: filled(text, f"{BEGIN}\n", END, made())


WRITERS: Final[dict[Path, Writer]] = {
    ROOT / "README.md": lambda text: filled(text, f"{BEGIN}\n", END, scoreboard.table()),
    DOCS / "kernels.md": of_machines(results.KEPT, results.table),
    **{page: lambda text, page=page: pages.written(page, text) for page in pages.all_pages()},
}
"""Page -> function that returns it with its generated parts."""


if __name__ == "__main__":
    for page, writer in WRITERS.items():
        page.write_text(writer(page.read_text()))
    pages.draw()
