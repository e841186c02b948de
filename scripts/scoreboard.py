"""Verdicts about published claims, counted by paper: the table in README.md.

Claims are judged twice: by kept runs on real sockets, and by kept runs in the simulator.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from experiments.papers import claims

TITLES: Final = {
    "flex-cubic": "Flex-Cubic",
    "int-adaptive": "INT-driven CUBIC",
    "hyvar": "Hyvar",
    "r-hybrid": "R-Hybrid",
    "r-tcp": "R-TCP",
    "published": "figures of kernel CUBIC and BBR",
}
"""Paper -> its name in the table."""


def counts(
    name: str, folder: Path = claims.KEPT, *, own: bool = False
) -> tuple[int, list[int], list[int], int]:
    """Return how many claims a paper has, and how many hold, fail, are undecided and have no verdict.

    Args:
        name: The paper.
        folder: Folder with the kept results.
        own: Claims with ccplane's rules instead of the paper's.

    Returns:
        All claims; `claims.JUDGED` by real sockets; the same by simulation; those with a verdict of neither
        kind.
    """
    found = claims.judge(claims.paper_of(name), claims.kept(name, folder))
    rows = claims.with_own_rules(found) if own else claims.of_paper(found)
    by_place: list[list[int]] = []
    for place in range(2):
        count = claims.counted(row.sides[place] for row in rows)
        by_place.append([count[verdict] for verdict in claims.JUDGED])
    without = sum(not row.judged for row in rows)
    return len(rows), by_place[0], by_place[1], without


def table(folder: Path = claims.KEPT) -> str:
    """Return the table as Markdown."""
    lines = [
        "| claims of | all | sockets or computed: hold, fail, open"
        " | simulated: hold, fail, open | no verdict |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    total, own = ([_flat(name, folder, own) for name in TITLES] for own in (False, True))
    for (name, title), numbers in zip(TITLES.items(), total, strict=True):
        lines.append(_row(f"[{title}](docs/papers/{name}.md)", numbers))
    lines.append(_row("all", _sum(total)))
    return "\n".join([*lines, _row("in addition, with ccplane's rules", _sum(own))])


def _flat(name: str, folder: Path, own: bool) -> list[int]:
    n, sockets, simulated, without = counts(name, folder, own=own)
    return [n, *sockets, *simulated, without]


def _sum(rows: Sequence[Sequence[int]]) -> list[int]:
    return [sum(column) for column in zip(*rows, strict=True)]


def _row(title: str, numbers: Sequence[int]) -> str:
    n, *found, without = numbers
    sockets, simulated = ", ".join(map(str, found[:3])), ", ".join(map(str, found[3:]))
    return f"| {title} | {n} | {sockets} | {simulated} | {without} |"
