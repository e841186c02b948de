"""Results of papers' parts, kept as JSON, from which documents are made.

sudo ccp paper r-tcp --quick --part download --keep docs/results/papers
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from experiments import records
from experiments.bench.result import KEEP_FIX, describe_run
from experiments.errors import ResultError
from experiments.papers import models
from experiments.papers.tables import Check, Table
from experiments.runs.check import SIM
from experiments.writing import write_text

if TYPE_CHECKING:
    from experiments.papers.comparisons import Claim
    from experiments.papers.paper import Findings, Paper, Part, Runs

SIMULATED: Final = f"-{SIM}"
"""Suffix of the names of simulated parts."""
_WITHOUT_VALUE: Final = {"--no-run", "--json"}
_WITH_VALUE: Final = {"--keep", "--out", "-o", "--part", "--format", "--report"}
"""Options that say where results go, not what was run; `--part` is added again."""


@dataclass(frozen=True)
class Kept:
    """Results of a part of a paper's experiments.

    Attributes:
        paper: Name of the paper.
        part: Name of the part, with `-sim` appended if it was simulated.
        planned: Number of planned runs.
        done: Number of finished runs.
        left_out: Reason why finished runs do not count -> their number.
        tables: Estimates.
        checks: Checks of claims.
        about: Command, git revision, date and machine of the newest run; `seeds` of the runs, which old files
            lack.
    """

    paper: str
    part: str
    planned: int
    done: int
    left_out: Mapping[str, int]
    tables: tuple[Table, ...]
    checks: tuple[Check, ...]
    about: dict[str, Any]

    @classmethod
    def of(cls, paper: Paper, part: Part, runs: Runs, found: Findings) -> Kept:
        """Return the results of a paper's part."""
        about = describe_run()
        if runs.results:
            newest = max((one.metadata for one in runs.results), key=lambda one: str(one["started"]))
            about |= {"date": newest["started"], "git": newest["ccplane"]["git"]}
            about["seeds"] = sorted({one.metadata["seed"] for one in runs.results})
        about["command"] = _command(about["command"], part.name)
        simulated = SIMULATED if runs.results and runs.results[0].metadata["datapath"] == SIM else ""
        name = f"{part.name}{simulated}"
        tables, checks = tuple(found.tables), tuple(found.checks)
        return cls(paper.name, name, runs.planned, runs.done, runs.left_out, tables, checks, about)

    @staticmethod
    def place(folder: Path, paper: str, part: str) -> Path:
        """Return the file for the results of a paper's part."""
        return folder / paper / f"{part}.json"

    def keep(self, folder: Path) -> Path:
        """Write it.

        Returns:
            The file.

        Raises:
            ResultError: `result.cannot_write`.
        """
        document = {
            "paper": self.paper,
            "part": self.part,
            "planned": self.planned,
            "done": self.done,
            "left_out": dict(self.left_out),
            **self.about,
            "checks": [one.records() for one in self.checks],
            "tables": [one.records() for one in self.tables],
        }
        return write_text(self.place(folder, self.paper, self.part), records.dumped(document), KEEP_FIX)

    @classmethod
    def read(cls, file: Path) -> Kept:
        """Return the results that `keep` wrote.

        Raises:
            ResultError: `result.broken`.
        """
        try:
            reported = json.loads(file.read_text())
            return cls(
                reported["paper"],
                reported["part"],
                reported["planned"],
                reported["done"],
                reported["left_out"],
                tuple(Table.from_records(one) for one in reported["tables"]),
                tuple(Check.from_records(one) for one in reported["checks"]),
                {name: reported[name] for name in ("command", "git", "date", "host")}
                | ({"seeds": reported["seeds"]} if "seeds" in reported else {}),
            )
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ResultError(
                "result.broken",
                "the file does not contain the results of a paper's part",
                str(file),
                str(error) or type(error).__name__,
                "create the file again: ccp paper NAME --part PART --keep FOLDER",
            ) from error

    @property
    def simulated(self) -> bool:
        """Whether the simulator made it."""
        return self.part.endswith(SIMULATED)

    def stale(self, checks: Sequence[str]) -> str:
        """Return why it gives no verdict on these checks, by name; empty if it does."""
        part = self.part.removesuffix(SIMULATED)
        return models.stale(self.paper, part, self.about, checks, simulated=self.simulated)

    def checks_of(self, claim: Claim) -> list[Check]:
        """Return the known checks of a claim, with the claim's bounds, in its order.

        Comparisons that the part did not make when it was run are made from its tables.
        """
        made = {one.name or one.claim: one for one in self.checks if one.known}
        found: list[Check | None] = []
        for test in claim.tests:
            own = made.get(test.name)
            found.append(
                test.of_tables(self.tables)
                if own is None
                else replace(own, low=test.at_least, high=test.at_most)
            )
        for name in claim.checks:
            own = made.get(name)
            if own is not None and name in claim.bars:
                low, high = claim.bars[name]
                own = replace(own, low=low, high=high)
            found.append(own)
        return [replace(one, name=one.name or one.claim) for one in found if one is not None and one.known]

    @property
    def source(self) -> str:
        """Command, number of runs, date, revision and machine, as a line of Markdown."""
        host, git = self.about["host"], self.about["git"]
        revision = "unknown revision"
        if git:
            revision = f"`{git['commit'][:12]}`{' with changes' if git['dirty'] else ''}"
        machine = f"Linux {host['kernel']}, {host['cpu']}, {host['cores']} processors"
        where = "simulated" if self.simulated else machine
        runs = (
            f"{self.done} of {self.planned} runs{reported_left_out(self.left_out)}; " if self.planned else ""
        )
        return f"`{shlex.join(self.about['command'])}`: {runs}{self.about['date'][:10]}, {revision}, {where}."


def reported_left_out(left_out: Mapping[str, int]) -> str:
    """Return the number of excluded runs, and the reasons, as text; empty if no run is excluded."""
    if not left_out:
        return ""
    reasons = "; ".join(f"{why}: {n}" for why, n in left_out.items())
    return f", {sum(left_out.values())} of them not counted ({reasons})"


def _command(words: list[str], part: str) -> list[str]:
    """Return the command of a part's runs, without the options for output."""
    left: list[str] = []
    skip = False
    for word in words:
        if skip:
            skip = False
        elif word in _WITH_VALUE:
            skip = True
        elif word not in _WITHOUT_VALUE and not word.startswith(tuple(f"{one}=" for one in _WITH_VALUE)):
            left.append(word)
    return [*left, "--part", part]
