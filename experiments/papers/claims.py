"""`ccp paper claims`: every claim of a paper, its measurements in docs/results/papers, and its verdicts."""

from __future__ import annotations

import importlib
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from experiments import verdicts
from experiments.papers import model_error
from experiments.papers.comparisons import Claim
from experiments.papers.kept import SIMULATED, Kept
from experiments.papers.paper import Paper
from experiments.papers.tables import Check
from experiments.report import model
from experiments.report.model import Verdict

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
STALE: Final = "stale"
TUNED: Final = "tuned"

VERDICTS: Final[tuple[Verdict, ...]] = tuple(one for one in model.VERDICTS if one != "mixed")
"""Verdicts on claims, in the order of the bar; a claim fails if one of its figures does."""
JUDGED: Final[tuple[Verdict, ...]] = ("holds", "fails", "undecided")
"""Verdicts of runs; all others say why there is none."""
DECIDED: Final = frozenset({"holds", "fails"})
SIDES: Final = ("real sockets", "simulator")
_COLORS: Final = {"holds": "green", "fails": "red", "undecided": "yellow"}


def paper_of(name: str) -> Paper:
    """Return a paper of `PAPERS` or `OTHERS`."""
    package = {**PAPERS, **OTHERS}[name]
    paper: Paper = importlib.import_module(f"experiments.papers.{package}.paper").PAPER
    return paper


@dataclass(frozen=True)
class Side:
    """A claim judged by runs of one datapath alone.

    Attributes:
        claim: The claim.
        checks: Those of its checks that were measured.
        simulated: Whether the simulator made them.
        stale: Why the result gives no verdict; empty if it does.
        tuned: Whether parameters were chosen on these runs.
        made_by: The command that made the result, as text.
        made_on: The day on which it was made (ISO 8601).
    """

    claim: Claim
    checks: Sequence[Check] = ()
    simulated: bool = False
    stale: str = ""
    tuned: bool = False
    made_by: str = ""
    made_on: str = ""

    @classmethod
    def of(cls, claim: Claim, kept: Kept) -> Side:
        """Return the claim judged by a kept result."""
        checks = kept.checks_of(claim)
        tuned = claim.tuned is not None and claim.tuned.covers(kept.about.get("seeds"))
        stale, made_by = kept.stale(claim.names) if checks else "", shlex.join(kept.about["command"])
        made_on = kept.about["date"][:10]
        return cls(claim, checks, kept.simulated, stale, tuned, made_by, made_on)

    @property
    def verdict(self) -> Verdict:
        """One of `VERDICTS`; a claim holds if all its checks hold, and fails if one fails."""
        if self.claim.part is None:
            return NOT_TESTED
        if not self.checks:
            return NOT_RUN
        if self.stale:
            return STALE
        if self.tuned:
            return TUNED
        found = {self._verdict(check) for check in self.checks}
        complete = len(self.checks) == len(self.claim.names)
        if self.claim.readings:
            return found.pop() if complete and len(found) == 1 else "undecided"
        if "fails" in found:
            return "fails"
        return "holds" if found == {"holds"} and complete else "undecided"

    def _verdict(self, check: Check) -> Verdict:
        """Return the verdict on a check; that of a simulated one has to exceed the simulator's error."""
        plain = check.verdict or "undecided"
        if plain == "undecided" or not self.simulated or not check.found.n:
            return plain
        column, path = model_error.measured(self.claim, check.name)
        found = model_error.widened(check.found, column, path)
        return "undecided" if found is None else verdicts.verdict(found, check.low, check.high)

    @property
    def note(self) -> str:
        """What the verdict lacks: the reason that the result does not count, or runs that would decide."""
        if self.verdict == STALE:
            return self.stale
        if self.verdict == TUNED and self.claim.tuned is not None:
            return self.claim.tuned.parameters
        if self.verdict != "undecided":
            return ""
        missing = len(self.claim.names) - len(self.checks)
        if self.claim.readings and not missing and len({self._verdict(check) for check in self.checks}) > 1:
            return "its readings disagree"
        undecided = [check for check in self.checks if check.verdict == "undecided"]
        if undecided:
            widest = max(undecided, key=lambda check: check.records()["runs_needed"] or 0)
            return widest.reported.removeprefix("undecided").strip(" ()")
        if missing:
            return f"{missing} of {len(self.claim.names)} not measured"
        return "model"

    @property
    def reported(self) -> str:
        """The verdict with its note."""
        return f"{self.verdict} ({self.note})" if self.note else self.verdict

    @property
    def runs(self) -> int:
        """The number of runs of the check with the fewest; -1 without checks."""
        return min((check.found.n for check in self.checks), default=-1)

    @property
    def value(self) -> str:
        """The measured values, with intervals."""
        return "; ".join(check.value for check in self.checks)

    @property
    def n(self) -> str:
        """The number of runs, and whether they were all alike."""
        counts = sorted({check.found.n for check in self.checks})
        if not counts:
            return ""
        ends = "computed" if counts == [0] else " to ".join(map(str, dict.fromkeys(counts[:1] + counts[-1:])))
        return f"{ends}, all alike" if self.alike else ends

    @property
    def alike(self) -> bool:
        """Whether all runs of the claim's checks are alike."""
        return bool(self.checks) and all(check.alike for check in self.checks)

    @property
    def computed(self) -> bool:
        """Whether all checks were computed, without runs."""
        return bool(self.checks) and not any(check.found.n for check in self.checks)

    @property
    def cell(self) -> str:
        """Verdict, values, number of runs and their day; empty if it was not run."""
        if not self.checks:
            return ""
        return f"{self.reported}: {self.value} ({', '.join(one for one in (self.n, self.made_on) if one)})"

    def records(self) -> dict[str, Any]:
        """Return it as plain data."""
        checks = [check.records() for check in self.checks]
        return {"verdict": self.verdict, "note": self.note, "made_on": self.made_on, "checks": checks}


@dataclass(frozen=True)
class Judged:
    """A claim with its verdicts.

    Attributes:
        paper: Name of the paper.
        kernel: Judged by runs on real sockets.
        simulated: Judged by simulated runs.
    """

    paper: str
    kernel: Side
    simulated: Side

    @property
    def claim(self) -> Claim:
        """The claim."""
        return self.kernel.claim

    @property
    def sides(self) -> tuple[Side, Side]:
        """Both sides, in the order of `SIDES`."""
        return self.kernel, self.simulated

    @property
    def deciding(self) -> Side:
        """The side whose verdict is the claim's: real sockets, if there are such runs, whatever they say."""
        return self.kernel if self.kernel.checks or not self.simulated.checks else self.simulated

    @property
    def verdict(self) -> Verdict:
        """The claim's verdict."""
        return self.deciding.verdict

    @property
    def judged(self) -> bool:
        """Whether either side has a verdict of runs."""
        return any(side.verdict in JUDGED for side in self.sides)

    @property
    def why(self) -> str:
        """Why the claim does not hold; the command that runs its part, where that gives a verdict."""
        if self.verdict == "holds":
            return ""
        command = f"`{self.command}`" if self.verdict in {NOT_RUN, STALE} else ""
        return "; ".join(one for one in (self.claim.why, command) if one)

    @property
    def command(self) -> str:
        """The command that runs its part; if a result is stale, that which made it."""
        assert self.claim.part is not None
        if self.verdict == STALE:
            root = "" if self.deciding.simulated else "sudo "
            return f"{root}{self.deciding.made_by} --keep docs/results/papers"
        part = paper_of(self.paper).parts.get(self.claim.part)
        video = " --video" if part and part.video else ""
        return f"sudo ccp paper {self.paper}{video} --part {self.claim.part} --keep docs/results/papers"

    def cells(self) -> list[str]:
        """Return the claim as text, for `HEADINGS`."""
        claim = self.claim
        says = f"{claim.source}: {claim.says}{f' [with {claim.rule}]' if claim.rule else ''}"
        return [
            says,
            claim.number,
            claim.tested,
            self.kernel.cell,
            self.simulated.cell,
            self.deciding.reported,
            self.why,
        ]

    def records(self) -> dict[str, Any]:
        """Return the claim as plain data."""
        claim = self.claim
        return {
            "paper": self.paper,
            "source": claim.source,
            "claim": claim.says,
            "number": claim.number,
            "rule": claim.rule,
            "part": claim.part,
            "tested": claim.tested,
            "kernel": self.kernel.records(),
            "simulator": self.simulated.records(),
            "verdict": self.verdict,
            "why": self.why,
        }


HEADINGS: Final = (
    "claim",
    "paper's number",
    "tested by",
    "real sockets",
    "simulator",
    "verdict",
    "reason, or command",
)


def kept(paper: str, folder: Path = KEPT) -> dict[str, Kept]:
    """Return the kept results of a paper's parts; names of simulated parts end with `-sim`.

    Raises:
        ResultError: `result.broken`.
    """
    found = [Kept.read(file) for file in sorted((folder / paper).glob("*.json"))]
    return {one.part: one for one in found}


def judge(paper: Paper, results: Mapping[str, Kept]) -> list[Judged]:
    """Return a paper's claims with their verdicts, in the paper's order.

    A claim that ccplane tests with a rule of its own has two rows: one for the paper's rule, and one with
    `Claim.rule`.
    """
    found = []
    for claim in paper.claims:
        simulated = _side(claim, results, SIMULATED) if claim.simulable else Side(claim, simulated=True)
        found.append(Judged(paper.name, _side(claim, results, ""), simulated))
    return found


def _side(claim: Claim, results: Mapping[str, Kept], suffix: str) -> Side:
    """Return a claim judged by its part, or by the other part that has its runs.

    A result that still counts precedes a stale one, then the result with more runs.
    """
    parts = (f"{part}{suffix}" for part in (claim.part, claim.also) if part)
    sides = [Side.of(claim, results[part]) for part in parts if part in results]
    none = Side(claim, simulated=bool(suffix))
    return max(sides, key=lambda side: (not side.stale, side.runs), default=none)


def of_paper(rows: Iterable[Judged]) -> list[Judged]:
    """Return the rows with the paper's rules."""
    return [row for row in rows if not row.claim.rule]


def with_own_rules(rows: Iterable[Judged]) -> list[Judged]:
    """Return the rows with ccplane's rules."""
    return [row for row in rows if row.claim.rule]


def counted(rows: Iterable[Judged | Side]) -> dict[str, int]:
    """Return the number of claims with each of `VERDICTS`."""
    found = Counter(one.verdict for one in rows)
    return {verdict: found[verdict] for verdict in VERDICTS}


def side_counts(rows: Iterable[Judged]) -> dict[str, dict[str, int]]:
    """Return the number of claims with each verdict: on real sockets, in the simulator, and in total."""
    rows = list(rows)
    return {
        "real_sockets": counted(row.kernel for row in rows),
        "simulator": counted(row.simulated for row in rows),
        "total": counted(rows),
    }


def count_text(rows: Sequence[Judged], *, why: bool = True) -> str:
    """Return the counts on both sides, and of claims without a verdict (with `why`: which), as text."""
    said = [f"{len(rows)} claim{'s' if len(rows) != 1 else ''}"]
    measured = {
        "Real sockets": [row.kernel for row in rows if not row.kernel.computed],
        "Simulator": [row.simulated for row in rows],
        "Computed": [row.kernel for row in rows if row.kernel.computed],
    }
    for name, sides in measured.items():
        counts = {verdict: n for verdict, n in counted(sides).items() if verdict in JUDGED}
        if any(counts.values()):
            said.append(f"{name}: {_listed(counts)}")
    without = counted(row for row in rows if not row.judged)
    if any(without.values()):
        said.append(f"No verdict: {_listed(without) if why else sum(without.values())}")
    return ". ".join(said)


def _listed(counts: Mapping[Any, int]) -> str:
    return ", ".join(
        f"{n} {verdict if n == 1 else verdict.removesuffix('s')}" for verdict, n in counts.items() if n
    )


def summary(rows: Sequence[Judged], *, why: bool = True) -> str:
    """Return the counts of the paper's rules, and of ccplane's, as text."""
    own = with_own_rules(rows)
    text = count_text(of_paper(rows), why=why)
    return f"{text}. With ccplane's rules: {count_text(own, why=why)}" if own else text


def show(console: Console, title: str, rows: Sequence[Judged]) -> None:
    """Print claims and the number of each verdict."""
    table = Table(title=title, show_lines=True)
    for heading in HEADINGS:
        table.add_column(heading, overflow="fold")
    for row in rows:
        *others, verdict, why = row.cells()
        color = _COLORS.get(row.verdict)
        table.add_row(*others, f"[{color}]{verdict}" if color else verdict, why.replace("`", ""))
    console.print(table)
    console.print(summary(rows), highlight=False)
