"""Processors that answer at once while flows report, for who wants that.

An idle processor sleeps, and waking it takes longer than all that the agent does with a report; in a virtual
machine several times as long. While reports come, the agent asks the kernel, through /dev/cpu_dma_latency, to
let idle processors wait in a loop instead. That costs power, and others: a loop on one hyperthread takes
cycles from the other one of the same core (docs/architecture.md has the figures).
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

log = logging.getLogger("ccplane.agent")

DEVICE: Final = Path("/dev/cpu_dma_latency")
AT_ONCE: Final = (0).to_bytes(4, "little")
"""Latency that we bear [us], as the device wants it: a 32-bit number that holds while the file is open."""

LINGER_S: Final = 1.0
"""How long after the last report processors may not sleep [s]."""


class Wakeful:
    """Keeps processors from sleeping while reports come."""

    def __init__(self, device: Path = DEVICE, clock: Callable[[], float] = time.monotonic) -> None:
        """Ask for nothing yet.

        Args:
            device: Where to ask.
            clock: Seconds, monotonic.
        """
        self._device = device
        self._clock = clock
        self._file: int | None = None
        self._reports = 0
        self._last_s = 0.0
        self._refused = False

    @property
    def awake(self) -> bool:
        """Whether processors are kept awake now."""
        return self._file is not None

    def note(self, reports: int) -> None:
        """Take note of how many reports there were so far; to be called every now and then."""
        if reports != self._reports:
            self._reports, self._last_s = reports, self._clock()
            if self._file is None and not self._refused:
                self._ask()
        elif self._file is not None and self._clock() - self._last_s > LINGER_S:
            self.close()

    def close(self) -> None:
        """Let processors sleep again."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _ask(self) -> None:
        try:
            self._file = os.open(self._device, os.O_WRONLY | os.O_CLOEXEC)
            os.write(self._file, AT_ONCE)
        except OSError as error:
            self.close()
            self._refused = True
            log.warning("cannot keep processors awake (--wakeful): %s", error)
