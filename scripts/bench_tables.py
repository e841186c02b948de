"""Writes the tables of docs/benchmarks.md from the results in docs/results/bench (`make docs-tables`).

`make bench KEEP=docs/results/bench` makes these, `ccp bench NAME --keep docs/results/bench` one of them. What
stands between the markers is made here, and a test finds what was changed by hand.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Final

from experiments.bench import peers
from experiments.bench.every import BENCHMARKS
from experiments.bench.result import BenchResult, interval, short, told_rounds, told_verdict
from scripts.marks import filled

ROOT: Final = Path(__file__).parents[1]
DOCUMENT: Final = ROOT / "docs/benchmarks.md"
RESULTS: Final = ROOT / "docs/results/bench"
BEGIN: Final = "<!-- begin: made by `make docs-tables` -->"
END: Final = "<!-- end -->"


def results(folder: Path) -> list[BenchResult]:
    """Return the results that are kept in a folder, in the order of the benchmarks.

    Raises:
        BenchError: `bench.cannot_read`, if a file is no result.
    """
    found = [BenchResult.from_json(file.read_text(), str(file)) for file in folder.glob("*.json")]
    order = list(BENCHMARKS)
    return sorted(
        found, key=lambda one: (order.index(one.name) if one.name in order else len(order), one.name)
    )


def tables(found: list[BenchResult]) -> str:
    """Return results as a document has them."""
    return "\n\n".join(map(_table, found)) if found else "No results are kept yet."


def _table(result: BenchResult) -> str:
    about, host = result.about, result.about["host"]
    git = about["git"]
    changed = " with changes" if git and git["dirty"] else ""
    revision = f"`{git['commit'][:12]}`{changed}" if git else "unknown revision"
    machine = f"Linux {host['kernel']}, {host['cpu']}, {host['cores']} processors"
    rounds = "; ".join(f"{title}: {told_rounds(tally)}" for title, tally in result.rounds.items())
    return "\n".join(
        [
            f"### `{shlex.join(_without_keep(about['command']))}`",
            "",
            f"{about['date'][:10]}, {revision}, {machine}.",
            f"{rounds}.",
            "",
            *(_peers(result) if result.name == "peers" else _metrics(result)),
        ]
    )


def _metrics(result: BenchResult) -> list[str]:
    return [
        "| metric | median | 95 % interval | unit | goal | verdict |",
        "| --- | ---: | ---: | --- | --- | --- |",
        *(
            f"| `{name}` | {short(metric.value)} | {interval(metric)} | {metric.unit} | {metric.goal or ''} "
            f"| {told_verdict(metric)} |"
            for name, metric in result.metrics.items()
        ),
    ]


def _peers(result: BenchResult) -> list[str]:
    """Return one line a congestion control: medians with 95 % intervals, by those of kernel CUBIC."""
    return [
        f"| path | congestion control | {' | '.join(peers.FIGURES)} |",
        f"| --- | --- | {' | '.join('---:' for _ in peers.FIGURES)} |",
        *(f"| {path} | `{name}` | {' | '.join(cells)} |" for path, name, *cells in peers.rows(result)),
    ]


def _without_keep(command: list[str]) -> list[str]:
    """Return a command without where it kept its result, which is nobody's business."""
    kept = [number for number, word in enumerate(command) if word == "--keep"]
    return [word for number, word in enumerate(command) if not {number, number - 1} & set(kept)]


def written(text: str, found: list[BenchResult]) -> str:
    """Return a document with the tables of results between its markers."""
    return filled(text, f"{BEGIN}\n", END, tables(found))


if __name__ == "__main__":
    DOCUMENT.write_text(written(DOCUMENT.read_text(), results(RESULTS)))
