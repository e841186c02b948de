"""Writes the reports of papers, benchmarks, validation and evaluations from docs/results (`make docs`).

python -m scripts.reports out/site/reports
"""

from __future__ import annotations

import html
import re
import sys
from pathlib import Path
from typing import Final

from experiments.bench import cli as bench
from experiments.bench import report as benchmarks
from experiments.evaluate import page
from experiments.evaluate.comparing import ranking
from experiments.papers import claims
from experiments.papers import report as papers
from experiments.report import Picture, Report, write
from experiments.validation import report as validation
from scripts.figures import evaluate as gallery

FIGURES: Final = Path(__file__).parents[1] / "docs/images/figures"
"""Figures of the pages; those of the page NAME are NAME-*.svg."""
_TITLE: Final = re.compile(rb"<title>(.*?)</title>", re.DOTALL)
_OF_CLAIMS: Final = "-verdicts"


def overview(page: str, folder: Path = FIGURES) -> list[Picture]:
    """Return the figures of a page, without that of its verdicts, which the report has as a bar."""
    found = []
    for file in sorted(folder.glob(f"{page}-*.svg")):
        if not file.stem.endswith(_OF_CLAIMS):
            svg = file.read_bytes()
            title = _TITLE.search(svg)
            found.append(Picture(html.unescape(title[1].decode()) if title else file.stem, svg))
    return found


def evaluations() -> dict[str, Report]:
    """Return the report of the kept comparison, and one for each of its algorithms."""
    kept = gallery.kept()
    rankings = {side: one for side in kept.sides if (one := ranking(kept, side)) is not None}
    each = {gallery.report_name(one): page.report_of(kept.alone(one)) for one in kept.subjects}
    return {gallery.NAME: page.comparison_of(kept, rankings), **each}


def written(folder: Path) -> list[Path]:
    """Write all reports to a folder, as NAME.html of the page that each belongs to, and return the files.

    Raises:
        CcpError: If a kept result cannot be read, or a report not written.
    """
    reports = {
        name: papers.report_of(claims.paper_of(name), claims.kept(name), overview=overview(name))
        for name in (*claims.PAPERS, *claims.OTHERS)
    }
    reports["benchmarks"] = benchmarks.report_of(benchmarks.read(), bench.ABOUT)
    reports["validation"] = validation.report_of(validation.read())
    reports |= evaluations()
    return [write(report, folder / f"{name}.html") for name, report in reports.items()]


if __name__ == "__main__":
    print(*written(Path(sys.argv[1])), sep="\n")
