"""Progress reports of a sweep."""

from __future__ import annotations

import datetime
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

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


_LINE_EVERY_S: Final = 60.0


class RunReport:
    """Receives the progress of a sweep; this class ignores it."""

    def begin(
        self,
        title: str,
        runs: Sequence[PlannedRun],
        missing: Sequence[PlannedRun],
        estimate_s: float | None,
    ) -> None:
        """The sweep begins; `estimate_s` is the estimated time of the missing runs [s], None if unknown."""

    def started(self, run: PlannedRun) -> None:
        """A run starts, or waits for its turn."""

    def during(self, run: PlannedRun, what: str, at_s: float) -> None:
        """A run has reached a step, and a time [s]."""

    def done(self, run: PlannedRun, error: CcpError | None) -> None:
        """A run finished, or failed."""

    def end(self, results: ResultSet) -> None:
        """The sweep ended, for any reason."""


class Screen(RunReport):
    """Prints lines and a progress bar on standard error; if that is no terminal, a line each minute."""

    def __init__(self, console: Console | None = None) -> None:
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
        self._n_missing = 0
        self._n_now = 0
        self._n_failed = 0
        self._began_s = self._line_s = 0.0

    def begin(
        self,
        title: str,
        runs: Sequence[PlannedRun],
        missing: Sequence[PlannedRun],
        estimate_s: float | None,
    ) -> None:
        """Print the number of missing runs, and the estimated time."""
        keys = {one.key for one in runs}
        self._n_before = len(keys) - len(missing)
        self._n_missing = len(missing)
        self._n_now = self._n_failed = 0
        about = "" if estimate_s is None or not missing else f", about {duration(estimate_s)}"
        self._console.print(
            f"{title}: {len(keys)} runs, {self._n_before} already done, {len(missing)} to do{about}",
            markup=False,
            highlight=False,
        )
        if self._task is not None:
            self._bar.remove_task(self._task)
            self._task = None
        if missing:
            self._task = self._bar.add_task("", total=len(missing))
            self._bar.start()
            self._began_s = self._line_s = time.monotonic()

    def started(self, run: PlannedRun) -> None:
        """Show the current run."""
        self._describe(run.label)

    def during(self, run: PlannedRun, what: str, at_s: float) -> None:
        """Show the current step."""
        sending = f"{at_s:.0f} of {run.scenario.duration_s:g} s" if at_s else what
        self._describe(f"{run.label}: {sending}")

    def done(self, run: PlannedRun, error: CcpError | None) -> None:
        """Count the run, and print its error."""
        if self._task is not None:
            self._bar.advance(self._task)
        self._n_now += 1
        now_s = time.monotonic()
        if not self._console.is_terminal and now_s - self._line_s >= _LINE_EVERY_S:
            self._line_s = now_s
            took_s = now_s - self._began_s
            left_s = took_s * (self._n_missing / self._n_now - 1)
            text = f"{self._n_now} of {self._n_missing} runs done, "
            text += f"{duration(took_s)}, about {duration(left_s)} left"
            self._console.print(text, markup=False, highlight=False)
        if error is not None:
            self._n_failed += 1
            self._console.print(f"{run.key} ({run.label}) failed\n{error}", markup=False, highlight=False)

    def end(self, results: ResultSet) -> None:
        """Print the numbers of finished and missing runs."""
        self._bar.stop()
        keys = {one["key"] for one in results.planned}
        n_missing = len({one["key"] for one in results.missing})
        n_done = len(keys) - n_missing
        text = f"{n_done} of {len(keys)} runs are done: {self._n_before} earlier, "
        text += f"{n_done - self._n_before} now; {n_missing} missing"
        if self._n_failed:
            text += f", {self._n_failed} of them failed"
        if n_missing:
            text += "; run the same command again to resume"
        self._console.print(text, markup=False, highlight=False)

    def _describe(self, text: str) -> None:
        if self._task is not None:
            self._bar.update(self._task, description=text)


def duration(seconds: float) -> str:
    """Format a duration, such as `1:10:05`."""
    return str(datetime.timedelta(seconds=round(seconds)))
