"""How a sweep tells how it goes."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from ccplane.base.errors import CcpError

if TYPE_CHECKING:
    from experiments.results import ResultSet
    from experiments.runs.planned import PlannedRun


class Report:
    """What is told how a sweep goes; this one keeps it to itself."""

    def begin(
        self,
        title: str,
        runs: Sequence[PlannedRun],
        missing: Sequence[PlannedRun],
        estimate_s: float | None,
    ) -> None:
        """The runs are known, and how long the missing ones take [s]; None if nobody knows."""

    def started(self, run: PlannedRun) -> None:
        """A run begins, or waits for its turn."""

    def during(self, run: PlannedRun, what: str, at_s: float) -> None:
        """A run is doing something, and is so far [s]."""

    def done(self, run: PlannedRun, error: CcpError | None) -> None:
        """A run came to its end, or failed."""

    def end(self, results: ResultSet) -> None:
        """Nothing is done any more, whatever the reason."""


class Screen(Report):
    """Lines and a progress bar, on standard error."""

    def __init__(self, console: Console | None = None) -> None:
        """Show it on a console; by default standard error."""
        self._console = console or Console(stderr=True)
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=self._console,
            transient=True,
        )
        self._task: TaskID | None = None
        self._n_before = 0
        self._n_failed = 0

    def begin(
        self,
        title: str,
        runs: Sequence[PlannedRun],
        missing: Sequence[PlannedRun],
        estimate_s: float | None,
    ) -> None:
        """Say what there is to do, and how long it takes."""
        keys = {one.key for one in runs}
        self._n_before = len(keys) - len(missing)
        about = "" if estimate_s is None or not missing else f", about {duration(estimate_s)}"
        self._console.print(
            f"{title}: {len(keys)} runs; {self._n_before} are done already, {len(missing)} to do{about}",
            markup=False,
            highlight=False,
        )
        if missing:
            self._task = self._bar.add_task("", total=len(missing))
            self._bar.start()

    def started(self, run: PlannedRun) -> None:
        """Show which run it is."""
        self._describe(run.label)

    def during(self, run: PlannedRun, what: str, at_s: float) -> None:
        """Show what it is doing."""
        sending = f"{at_s:.0f} of {run.scenario.duration_s:g} s" if at_s else what
        self._describe(f"{run.label}: {sending}")

    def done(self, run: PlannedRun, error: CcpError | None) -> None:
        """Count it, and print an error."""
        if self._task is not None:
            self._bar.advance(self._task)
        if error is not None:
            self._n_failed += 1
            self._console.print(f"{run.key} ({run.label}) failed\n{error}", markup=False, highlight=False)

    def end(self, results: ResultSet) -> None:
        """Say what is done and what is missing."""
        self._bar.stop()
        keys = {one["key"] for one in results.planned}
        n_missing = len({one["key"] for one in results.missing})
        n_done = len(keys) - n_missing
        text = f"{n_done} of {len(keys)} runs are done: {self._n_before} were there before, "
        text += f"{n_done - self._n_before} done now; {n_missing} missing"
        if self._n_failed:
            text += f", {self._n_failed} of them failed"
        if n_missing:
            text += "; the same command goes on with them"
        self._console.print(text, markup=False, highlight=False)

    def _describe(self, text: str) -> None:
        if self._task is not None:
            self._bar.update(self._task, description=text)


def duration(seconds: float) -> str:
    """Return a time for people, such as `1:10:05`."""
    return str(datetime.timedelta(seconds=round(seconds)))
