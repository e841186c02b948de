"""Writes the table of docs/verdicts.md: how often intervals cover the truth (`make docs-tables`).

`python -m scripts.coverage_table --measure` simulates first, and keeps docs/results/coverage.json.
"""

from __future__ import annotations

import argparse
import json
import math
import re
from pathlib import Path
from typing import Any, Final

from experiments import records
from experiments.coverage import APART, OF_ONE, OF_TWO, SHAPES, of_one, of_two

ROOT: Final = Path(__file__).parents[1]
PAGE: Final = ROOT / "docs/verdicts.md"
RESULT: Final = ROOT / "docs/results/coverage.json"
BLOCK: Final = re.compile(
    r"(?P<begin><!-- begin: made by `make docs-tables` -->\n).*?(?P<end><!-- end -->)", re.DOTALL
)
TIMES: Final = 2000
TIMES_RESAMPLED: Final = 300
"""Of intervals by resampling, which take a hundred times as long."""
RUNS: Final = (5, 6, 7, 10, 20)


def measured() -> dict[str, Any]:
    """Return how often intervals cover, for each method, distribution and number of runs."""
    rows = [
        {
            "of": of,
            "method": method,
            "shape": shape,
            "intervals": times,
            "covered": {str(n): _known(cover(method, shape, n, times)) for n in RUNS},
        }
        for of, methods, shapes, cover in (
            ("a median", OF_ONE, SHAPES, of_one),
            ("a quotient of medians", OF_TWO, APART, of_two),
        )
        for method in methods
        for times in (TIMES_RESAMPLED if method.startswith("bootstrap") else TIMES,)
        for shape in shapes
    ]
    return {"runs": list(RUNS), "rows": rows}


def _known(covered: float) -> float | None:
    return None if math.isnan(covered) else covered


def written(text: str, result: dict[str, Any]) -> str:
    """Return a page with the table between its markers."""
    runs = result["runs"]
    lines = [
        "Per cent of intervals that cover the truth; 95 is what they promise:",
        "",
        f"| of | method | runs are | {' | '.join(f'{n} runs' for n in runs)} | intervals |",
        f"| --- | --- | --- |{' ---: |' * (len(runs) + 1)}",
    ]
    for row in result["rows"]:
        covered = [row["covered"][str(n)] for n in runs]
        cells = ["none" if one is None else f"{100 * one:.1f}" for one in covered]
        lines.append(
            f"| {row['of']} | {row['method']} | {row['shape']} | {' | '.join(cells)} | {row['intervals']:,} |"
        )
    table = "\n".join(lines)
    return BLOCK.sub(lambda block: f"{block['begin']}\n{table}\n\n{block['end']}", text)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--measure", action="store_true", help="simulate first; takes minutes")
    if parser.parse_args().measure:
        RESULT.write_text(records.dumped(measured()))
    PAGE.write_text(written(PAGE.read_text(), json.loads(RESULT.read_text())))
