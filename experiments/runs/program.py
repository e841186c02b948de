"""Helper processes of a run that execute `ccp`; they end with this process."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ccplane.agent.priority import raise_process
from experiments.agent_process import WITH_THIS_PROCESS, ccp
from experiments.errors import RunError
from experiments.netlab import process
from experiments.runs.bus import failed

START_TIMEOUT_S: Final = 60.0
_LOOK_S: Final = 0.02


@dataclass(frozen=True)
class Failure:
    """Parts of the error for a failed program.

    Attributes:
        message: Which program failed.
        fix: What to do.
        slug: Slug of the error.
    """

    message: str
    fix: str
    slug: str = "run.feature"


class Program:
    """A helper process that executes `ccp`.

    Attributes:
        process: The process.
    """

    def __init__(
        self, arguments: Sequence[str], lines: Path, failure: Failure, *, emits: bool = False
    ) -> None:
        """Start the process.

        Args:
            arguments: Arguments of `ccp`.
            lines: File for its output; its log is next to it.
            failure: The error if it fails.
            emits: Whether it prints something as soon as it is ready; else it only writes to its log then.
        """
        self._arguments = arguments
        self._failure = failure
        self._log = lines.with_suffix(".log")
        self._first_words = lines if emits else self._log
        with open(lines, "wb") as out, open(self._log, "wb") as log:
            self.process = process.start(
                [*WITH_THIS_PROCESS, *ccp(*arguments)],
                where=self._what,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=log,
                env=None,
            )

    @property
    def _what(self) -> str:
        return f"ccp {' '.join(self._arguments)}"

    def wait_ready(self) -> None:
        """Wait until the process is ready.

        Raises:
            RunError: The error that `failure` describes.
        """
        end_s = time.monotonic() + START_TIMEOUT_S
        while not self._first_words.stat().st_size:
            self.must_run()
            if time.monotonic() > end_s:
                raise self._failed(f"it was not ready within {START_TIMEOUT_S:g} s")
            time.sleep(_LOOK_S)
        raise_process(self.process.pid)  # like emulator and agent, so that telemetry is not delayed

    def must_run(self) -> None:
        """Check that the process is running.

        Raises:
            RunError: The error that `failure` describes.
        """
        if (status := self.process.poll()) is not None:
            raise self._failed(f"it exited with {process.status(status)}")

    def _failed(self, why: str) -> RunError:
        return failed(
            why,
            self._log.read_bytes(),
            self._failure.slug,
            self._failure.message,
            self._what,
            self._failure.fix,
        )
