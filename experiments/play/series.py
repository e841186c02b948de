"""Samples of flows at equal intervals, from the rows of their sockets."""

from __future__ import annotations

import hashlib
import struct
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, Final

INTERVAL_US: Final = 50_000
"""Time between two samples [us]."""

ROWS_US: Final = 5_000
"""Minimum time between two rows of a socket [us]."""

STATE_SAMPLES: Final = 20
"""Number of samples after which the state is repeated, with the digest: a second."""

GOODPUT_SAMPLES: Final = 4
"""Number of intervals over which goodput is averaged: 200 ms."""

FIRST_PORT: Final = 5201
"""Destination port of the first flow; each flow has the next one."""


class Series:
    """Turns socket rows into samples of window, RTT and goodput.

    Goodput is what reached the receiver, each packet once, over the last 200 ms: selective acknowledgments
    count, so a loss does not delay what arrived after it.
    """

    def __init__(self, names: Sequence[str]) -> None:
        """Begin with flows that have no socket yet; their ports are `FIRST_PORT` and the next ones."""
        self.names = tuple(names)
        self.count = 0
        self._last: list[tuple[int, int, int] | None] = [None] * len(names)
        self._delivered = [deque([0], GOODPUT_SAMPLES + 1) for _ in names]
        self._hash = hashlib.sha256()
        self._times: list[float] = []
        self._columns: list[dict[str, list[int | None]]] = []
        self._clear()

    @property
    def digest(self) -> str:
        """Hash of all samples so far."""
        return self._hash.hexdigest()

    def take(self, rows: Iterable[tuple[int, int, int, int, int]]) -> None:
        """Take the last row of each socket in an interval, as of `SimDatapath.latest`."""
        for port, cwnd_bytes, srtt_us, mss_bytes, delivered_pkts in rows:
            self._last[port - FIRST_PORT] = cwnd_bytes, srtt_us, delivered_pkts * mss_bytes

    def sample(self) -> None:
        """End the interval."""
        self.count += 1
        self._times.append(self.count * INTERVAL_US / 1e6)
        for number, last in enumerate(self._last):
            cwnd_bytes, srtt_us, delivered = last or (None, None, 0)
            history = self._delivered[number]
            history.append(max(delivered, history[-1]))
            passed_us = (len(history) - 1) * INTERVAL_US
            goodput = None if last is None else (history[-1] - history[0]) * 1_000_000 // passed_us
            values = cwnd_bytes, srtt_us or None, goodput
            for column, value in zip(self._columns[number].values(), values, strict=True):
                column.append(value)
            self._hash.update(struct.pack("<3q", *(-1 if value is None else value for value in values)))

    def put(self, number: int, cwnd_bytes: int, srtt_us: int, delivered_bytes: int) -> None:
        """Take the values of a flow, by its number from 0."""
        self._last[number] = cwnd_bytes, srtt_us, delivered_bytes

    def message(self) -> dict[str, Any] | None:
        """Return the samples since the last call as a message, None if there are none."""
        if not self._times:
            return None
        flows = [{"name": name, **columns} for name, columns in zip(self.names, self._columns, strict=True)]
        message = {"type": "samples", "t_s": self._times, "flows": flows}
        self._clear()
        return message

    def _clear(self) -> None:
        self._times = []
        self._columns = [{"cwnd_bytes": [], "srtt_us": [], "goodput_bytes_per_s": []} for _ in self.names]
