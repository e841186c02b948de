"""Writes the reports of papers, benchmarks and validation from docs/results (`make docs`).

python -m scripts.reports out/site/reports
"""

from __future__ import annotations

import sys
from pathlib import Path

from experiments.bench import cli as bench
from experiments.bench import report as benchmarks
from experiments.papers import claims
from experiments.papers import report as papers
from experiments.report import write
from experiments.validation import report as validation


def written(folder: Path) -> list[Path]:
    """Write all reports to a folder, as NAME.html of the page that each belongs to, and return the files.

    Raises:
        CcpError: If a kept result cannot be read, or a report not written.
    """
    reports = {
        name: papers.report_of(claims.paper_of(name), papers.read(name))
        for name in (*claims.PAPERS, *claims.OTHERS)
    }
    reports["benchmarks"] = benchmarks.report_of(benchmarks.read(), bench.ABOUT)
    reports["validation"] = validation.report_of(validation.read(), validation.compared())
    return [write(report, folder / f"{name}.html") for name, report in reports.items()]


if __name__ == "__main__":
    print(*written(Path(sys.argv[1])), sep="\n")
