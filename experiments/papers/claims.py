"""`ccp paper claims`: every claim of a paper, its measurements in docs/results/papers, and its verdict."""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from experiments.papers.comparisons import Claim
from experiments.papers.kept import Kept
from experiments.papers.paper import Paper
from experiments.papers.tables import Check
from experiments.runs.check import SIM

PAPERS: Final[Mapping[str, str]] = {
    "flex-cubic": "flex_cubic",
    "int-adaptive": "int_adaptive",
    "hyvar": "hyvar",
    "r-hybrid": "r_hybrid",
    "r-tcp": "r_tcp",
}
"""Name of a paper -> its package in `experiments.papers`."""
OTHERS: Final[Mapping[str, str]] = {"published": "published"}
"""Like `PAPERS`, for published figures of the kernel's congestion controls, which are not in the five
papers.
"""

KEPT: Final = Path(__file__).parents[2] / "docs/results/papers"

NOT_RUN: Final = "not run"
NOT_TESTED: Final = "not tested"
VERDICTS: Final = ("holds", "fails", "undecided", NOT_RUN, NOT_TESTED)
"""Verdicts, in the order in which they are counted."""

SIMULATED: Final = f"-{SIM}"
"""Suffix of the names of simulated parts."""
_COLORS: Final = {"holds": "green", "fails": "red", "undecided": "yellow"}


def paper_of(name: str) -> Paper:
    """Return a paper of `PAPERS` or `OTHERS`."""
    package = {**PAPERS, **OTHERS}[name]
    paper: Paper = importlib.import_module(f"experiments.papers.{package}.paper").PAPER
    return paper


@dataclass(frozen=True)
class Judged:
    """A claim and its checks.

    Attributes:
        paper: Name of the paper.
        claim: The claim.
        checks: Those of its checks that were measured.
        where: "simulated", or empty.
    """

    paper: str
    claim: Claim
    checks: Sequence[Check] = ()
    where: str = ""

    @property
    def verdict(self) -> str:
        """One of `VERDICTS`; a claim holds if all its checks hold, and fails if one fails."""
        if self.claim.part is None:
            return NOT_TESTED
        if not self.checks:
            return NOT_RUN
        found = [check.verdict for check in self.checks]
        if "fails" in found:
            return "fails"
        return "holds" if found == ["holds"] * len(self.claim.names) else "undecided"

    @property
    def reported(self) -> str:
        """The verdict; if undecided, also the number of runs that would decide the claim."""
        if self.verdict != "undecided":
            return self.verdict
        open_checks = [check for check in self.checks if check.verdict == "undecided"]
        missing = len(self.claim.names) - len(self.checks)
        if not open_checks:
            return f"undecided ({missing} of {len(self.claim.names)} not measured)"
        return max(open_checks, key=lambda check: check.records()["runs_needed"] or 0).reported

    @property
    def value(self) -> str:
        """The measured values, with intervals."""
        return "; ".join(check.value for check in self.checks)

    @property
    def n(self) -> str:
        """The number of runs, whether they were simulated, and whether they were all alike."""
        counts = sorted({check.found.n for check in self.checks})
        if not counts:
            return ""
        reported = (
            "computed" if counts == [0] else " to ".join(map(str, dict.fromkeys(counts[:1] + counts[-1:])))
        )
        return ", ".join(
            [reported, *([self.where] if self.where else []), *(["all alike"] if self.alike else [])]
        )

    @property
    def alike(self) -> bool:
        """Whether all runs of the claim's checks are alike."""
        return bool(self.checks) and all(check.alike for check in self.checks)

    @property
    def why(self) -> str:
        """Why the claim fails or is undecided, or the command that runs its part."""
        if self.verdict == NOT_RUN:
            return f"`{self.command}`"
        if self.verdict == "holds":
            return ""
        return self.claim.why

    @property
    def command(self) -> str:
        """The command that runs its part."""
        assert self.claim.part is not None
        video = " --video" if paper_of(self.paper).parts[self.claim.part].video else ""
        return f"sudo ccp paper {self.paper}{video} --part {self.claim.part} --keep docs/results/papers"

    def cells(self) -> list[str]:
        """Return the claim as text."""
        claim = self.claim
        return [f"{claim.source}: {claim.says}", claim.tested, self.value, self.n, self.reported, self.why]

    def records(self) -> dict[str, Any]:
        """Return the claim as plain data."""
        claim = self.claim
        return {
            "paper": self.paper,
            "source": claim.source,
            "claim": claim.says,
            "part": claim.part,
            "tested": claim.tested,
            "where": self.where,
            "checks": [check.records() for check in self.checks],
            "verdict": self.verdict,
            "why": self.why,
        }


HEADINGS: Final = ("claim", "tested by", "value", "runs", "verdict", "reason, or command")


def kept(paper: str, folder: Path = KEPT) -> dict[str, Sequence[Check]]:
    """Return the kept checks of a paper's parts; names of simulated parts end with `-sim`.

    Raises:
        ResultError: `result.broken`.
    """
    found = [Kept.read(file) for file in sorted((folder / paper).glob("*.json"))]
    return {one.part: one.checks for one in found}


def judge(paper: Paper, results: Mapping[str, Sequence[Check]]) -> list[Judged]:
    """Return a paper's claims with their checks, in the paper's order.

    Checks are from real sockets, or from the simulator where runs on real sockets decide nothing.
    """
    return [_judged(paper.name, claim, results) for claim in paper.claims]


def sides(paper: str, claim: Claim, results: Mapping[str, Sequence[Check]]) -> list[Judged]:
    """Return a claim with its checks from real sockets, and with those from the simulator.

    Either is without checks if its part was not run, or if simulated runs are no evidence for the claim.
    """
    found = []
    for behind, where in (("", ""), (SIMULATED, "simulated")):
        kept_checks = results.get(f"{claim.part}{behind}", ()) if claim.simulable or not behind else ()
        known = {one.name: one for one in kept_checks if one.known}
        found.append(Judged(paper, claim, [known[name] for name in claim.names if name in known], where))
    return found


def _judged(paper: str, claim: Claim, results: Mapping[str, Sequence[Check]]) -> Judged:
    found = [one for one in sides(paper, claim, results) if one.checks]
    decided = [one for one in found if one.verdict in {"holds", "fails"}]
    return next(iter([*decided, *found]), Judged(paper, claim))


def counted(rows: Iterable[Judged]) -> dict[str, int]:
    """Return the number of claims with each of `VERDICTS`."""
    found = Counter(one.verdict for one in rows)
    return {verdict: found[verdict] for verdict in VERDICTS}


def count_text(rows: Sequence[Judged]) -> str:
    """Return the counts as text, and how many verdicts rest on runs that are all alike."""
    reported = ", ".join(
        f"{n} {verdict if n == 1 else verdict.removesuffix('s')}" for verdict, n in counted(rows).items() if n
    )
    alike = sum(row.alike and row.verdict in {"holds", "fails"} for row in rows)
    return f"{len(rows)} claims: {reported}" + (
        f"; {alike} {'verdict rests' if alike == 1 else 'verdicts rest'} on runs that are all alike"
        if alike
        else ""
    )


def markdown(rows: Sequence[Judged]) -> str:
    """Return claims as Markdown."""
    lines = [f"| {' | '.join(cells)} |" for cells in (HEADINGS, ["---"] * len(HEADINGS))]
    for row in rows:
        *others, verdict, why = row.cells()
        lines.append(f"| {' | '.join([*others, f'**{verdict}**' if verdict == 'fails' else verdict, why])} |")
    return "\n".join([f"{count_text(rows)}.", "", *lines])


def show(console: Console, title: str, rows: Sequence[Judged]) -> None:
    """Print claims and the number of each verdict."""
    table = Table(title=title, show_lines=True)
    for heading in HEADINGS:
        table.add_column(heading, overflow="fold")
    for row in rows:
        *others, verdict, why = row.cells()
        color = _COLORS.get(row.verdict)
        table.add_row(*others, f"[{color}]{verdict}" if color else verdict, why.strip("`"))
    console.print(table)
    console.print(count_text(rows), highlight=False)
