"""Progress bar of all benchmarks, on stderr."""

from __future__ import annotations

import time
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn


class RoundsProgress:
    """Shows finished and disturbed rounds and the maximum time left, for the length of a block."""

    def __init__(self, title: str, max_rounds: int) -> None:
        """Create it; `with` shows it."""
        self._max_rounds = max_rounds
        self._display = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed} of at most {task.total} rounds"),
            TextColumn("{task.fields[disturbed]}"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = self._display.add_task(title, total=max_rounds, disturbed="", left="")

    def __enter__(self) -> Self:
        self._begin_s = time.monotonic()
        self._display.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._display.stop()

    def show(self, counted: int, disturbed: int) -> None:
        """Show how many rounds count, and how many were disturbed."""
        each_s = (time.monotonic() - self._begin_s) / max(counted, 1)
        minutes, seconds = divmod(round(each_s * (self._max_rounds - counted)), 60)
        self._display.update(
            self._task,
            completed=counted,
            disturbed=f"{disturbed} disturbed" if disturbed else "",
            left=f"at most {minutes}:{seconds:02} left",
        )
