"""Writes the tables of the documents from docs/results (`make docs-tables`).

A table is between two marks of its page; a test finds manual changes. Commands that create the results:

    make bench KEEP=docs/results/bench                                          docs/benchmarks.md
    ccp validate --draw N --seed S --keep docs/results/validation       docs/validation.md
    ccp paper NAME --part PART --keep docs/results/papers                       docs/papers
    make test-kernels KEEP=--keep                                               docs/kernels.md
    make test-services KEEP=--keep                                              docs/operations.md
    make test-compose KEEP=--keep                                               docs/containers.md

A paper's page has a block for each part, and a block `claims`, whose checks the parts do not repeat.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from experiments.bench.every import BENCHMARKS
from experiments.bench.result import BenchResult, interval, rounds_text, short, verdict_text
from experiments.papers import claims
from experiments.papers.kept import Kept
from scripts import scoreboard, validation_tables
from scripts.marks import filled
from scripts.vm import compose, results, services

ROOT: Final = Path(__file__).parents[1]
DOCS: Final = ROOT / "docs"
RESULTS: Final = DOCS / "results"
BEGIN: Final = "<!-- begin: made by `make docs-tables` -->"
END: Final = "<!-- end -->"
NOTHING: Final = "No results are kept yet."

# --- benchmarks ---------------------------------------------------------------------------------------------


def kept_benchmarks(folder: Path = RESULTS / "bench") -> list[BenchResult]:
    """Return the results in a folder, in the order of the benchmarks.

    Raises:
        BenchError: `bench.cannot_read`.
    """
    found = [BenchResult.from_json(file.read_text(), str(file)) for file in folder.glob("*.json")]
    order = list(BENCHMARKS)
    return sorted(
        found, key=lambda one: (order.index(one.name) if one.name in order else len(order), one.name)
    )


def benchmarks(found: list[BenchResult]) -> str:
    """Return results as text for docs/benchmarks.md."""
    return "\n\n".join(map(_benchmark, found)) if found else NOTHING


def _benchmark(result: BenchResult) -> str:
    command = f"`{shlex.join(_without_keep(result.about['command']))}`"
    rounds = "; ".join(f"{title}: {rounds_text(tally)}" for title, tally in result.rounds.items())
    return "\n".join(
        [
            # Benchmarks that this version does not have are shown without a command.
            f"### {command if result.name in BENCHMARKS else f'`{result.name}`, measured once'}",
            "",
            result.made,
            f"{rounds}.",
            "",
            "| metric | median | 95 % interval | unit | goal | verdict |",
            "| --- | ---: | ---: | --- | --- | --- |",
            *(
                f"| `{name}` | {short(metric.value)} | {interval(metric)} | {metric.unit} "
                f"| {metric.goal or ''} | {verdict_text(metric)} |"
                for name, metric in result.metrics.items()
            ),
        ]
    )


def _without_keep(command: list[str]) -> list[str]:
    """Return a command without `--keep FOLDER`."""
    kept = [number for number, word in enumerate(command) if word == "--keep"]
    return [word for number, word in enumerate(command) if not {number, number - 1} & set(kept)]


# --- papers -------------------------------------------------------------------------------------------------

CLAIMS: Final = "claims"
"""Name of the block with a paper's claims."""
PAPERS: Final = RESULTS / "papers"
PAGES: Final = DOCS / "papers"
_BLOCK: Final = re.compile(
    r"(?P<begin><!-- begin (?P<part>[\w-]+): made by `make docs-tables` -->\n).*?"
    r"(?P<end><!-- end (?P=part) -->)",
    re.DOTALL,
)


def paper(text: str, name: str, folder: Path = PAPERS) -> str:
    """Return a page with the kept results of its parts between their marks.

    Raises:
        ResultError: `result.broken`, if a part's are missing.
    """
    judged = []
    if f" {CLAIMS}: " in text:
        judged = claims.judge(claims.paper_of(name), claims.kept(name, folder))
    reported = {str(check) for row in judged for check in row.checks}

    def made(block: re.Match[str]) -> str:
        if block["part"] == CLAIMS:
            return f"{block['begin']}\n{claims.markdown(judged)}\n\n{block['end']}"
        kept = Kept.read(Kept.place(folder, name, block["part"]))
        return f"{block['begin']}\n{kept.markdown(reported)}\n\n{block['end']}"

    return _BLOCK.sub(made, text)


def shown(text: str) -> list[str]:
    """Return the names of the parts whose results a page shows."""
    return [block["part"] for block in _BLOCK.finditer(text) if block["part"] != CLAIMS]


# --- all pages ----------------------------------------------------------------------------------------------

Writer = Callable[[str], str]


def of_machines(kept: Path, table: Callable[[Any], str]) -> Writer:
    """Return the writer of a table from a kept file."""

    def made() -> str:
        return table(json.loads(kept.read_text())) if kept.exists() else NOTHING

    return lambda text: filled(text, f"{BEGIN}\n", END, made())


WRITERS: Final[dict[Path, Writer]] = {
    ROOT / "README.md": lambda text: filled(text, f"{BEGIN}\n", END, scoreboard.table()),
    DOCS / "benchmarks.md": lambda text: filled(text, f"{BEGIN}\n", END, benchmarks(kept_benchmarks())),
    DOCS / "validation.md": validation_tables.written,
    DOCS / "kernels.md": of_machines(results.KEPT, results.table),
    DOCS / "operations.md": of_machines(services.KEPT, services.table),
    DOCS / "containers.md": of_machines(compose.KEPT, compose.table),
    **{page: lambda text, name=page.stem: paper(text, name) for page in sorted(PAGES.glob("*.md"))},
}
"""Page -> function that returns it with its tables."""


if __name__ == "__main__":
    for page, writer in WRITERS.items():
        page.write_text(writer(page.read_text()))
