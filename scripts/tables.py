"""Writes the generated parts of the documents from docs/results (`make docs-tables`), and their figures.

A generated part is between two marks of its page; a test finds manual changes. Commands that create results:

    make bench KEEP=docs/results/bench                                  docs/benchmarks.md
    ccp validate --draw N --seed S --keep docs/results/validation       docs/validation.md
    ccp paper NAME --part PART --keep docs/results/papers               docs/papers
    make test-kernels KEEP=--keep                                       docs/kernels.md
    ccp compare ALGORITHM... --json docs/results/evaluate.json          docs/evaluate.md

The simulator's errors are also written where `ccp evaluate` has them in a wheel. Of kept evaluations, what
follows from their values is written again: effects, verdicts, and descriptions of cases.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Final

from experiments import records
from experiments.evaluate.evaluation import Evaluation
from experiments.evaluate.model_error import FILE as MODEL_ERROR
from experiments.papers.model_error import errors
from scripts import scoreboard
from scripts.figures import evaluate as gallery
from scripts.figures import pages
from scripts.marks import filled
from scripts.vm import results

ROOT: Final = Path(__file__).parents[1]
DOCS: Final = ROOT / "docs"
BEGIN: Final = "<!-- begin: made by `make docs-tables` -->"
END: Final = "<!-- end -->"

Writer = Callable[[str], str]


def kernels(text: str) -> str:
    """Return the page of kernels with the table of its kept results."""
    return filled(text, f"{BEGIN}\n", END, results.table(json.loads(results.KEPT.read_text())))


def model_error(_text: str) -> str:
    """Return the simulator's errors, by kind of path and quantity, as JSON."""
    found: dict[str, dict[str, float]] = {}
    for (kind, quantity), error in sorted(errors().items()):
        found.setdefault(kind, {})[quantity] = round(error, 3)
    return records.dumped(
        {"about": "made by `make docs-tables` from docs/results/validation", "errors": found}
    )


def evaluation(text: str) -> str:
    """Return a kept evaluation with the same values, and with what follows from them today."""
    return Evaluation.from_json(text, "docs/results").to_json()


WRITERS: Final[dict[Path, Writer]] = {
    ROOT / "README.md": lambda text: filled(text, f"{BEGIN}\n", END, scoreboard.table()),
    DOCS / "kernels.md": kernels,
    ROOT / "experiments/evaluate" / MODEL_ERROR: model_error,
    **dict.fromkeys((gallery.KEPT, gallery.AGREEMENT), evaluation),
    **{page: lambda text, page=page: pages.written(page, text) for page in pages.all_pages()},
}
"""Page -> function that returns it with its generated parts."""


if __name__ == "__main__":
    for page, writer in WRITERS.items():
        page.write_text(writer(page.read_text()))
    pages.draw()
