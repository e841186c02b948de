"""Recent samples of flows: a ring buffer per flow, filled by polling the datapath."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ccplane.agent.flowtable import FlowRow

LENGTH: Final = 240
"""Samples kept per flow: two minutes at two polls per second."""


class Metric(IntEnum):
    """Stored metrics; the value is the row in the ring buffer."""

    CWND = 0
    THROUGHPUT = 1
    SRTT = 2
    RATE = 3


def sample(row: FlowRow) -> tuple[float, float, float, float]:
    """Return the metrics of a row [bytes, bytes/s, us, bytes/s]; NaN for unknown values.

    The throughput is unknown at the first poll, the RTT before the first ACK, and the rate if the algorithm
    does not pace.
    """
    return (
        float(row.cwnd_bytes),
        float("nan") if row.throughput_bytes_per_s is None else row.throughput_bytes_per_s,
        float(row.srtt_us) or float("nan"),
        float(row.rate_bytes_per_s) or float("nan"),
    )


class FlowHistory:
    """The samples of one flow.

    Attributes:
        row: The last row.
        closed: Whether the flow was missing in the last poll.
    """

    __slots__ = ("_count", "_ring", "_times_s", "closed", "row")

    def __init__(self, row: FlowRow, length: int = LENGTH) -> None:
        self.row = row
        self.closed = False
        self._ring = np.full((len(Metric), length), np.nan)
        self._times_s = np.zeros(length)
        self._count = 0

    def add(self, row: FlowRow, t_wall_s: float) -> None:
        """Store a sample with its time, replacing the oldest if the ring buffer is full."""
        self.row = row
        place = self._count % self._ring.shape[1]
        self._ring[:, place] = sample(row)
        self._times_s[place] = t_wall_s
        self._count += 1

    def series(self, metric: Metric, n: int) -> NDArray[np.float64]:
        """Return the last samples of a metric, oldest first.

        Returns:
            Array of shape (<= n,), NaN for unknown values.
        """
        values: NDArray[np.float64] = self._ring[metric, self._places(n)]
        return values

    def times_s(self, n: int) -> NDArray[np.float64]:
        """Return the times of the last samples, seconds since 1970, oldest first."""
        times: NDArray[np.float64] = self._times_s[self._places(n)]
        return times

    def _places(self, n: int) -> NDArray[np.int64]:
        length = self._ring.shape[1]
        n = max(0, min(n, self._count, length))
        return np.arange(self._count - n, self._count) % length


class Histories:
    """The histories of all open flows."""

    def __init__(self, length: int = LENGTH) -> None:
        self._length = length
        self._flows: dict[int, FlowHistory] = {}

    @property
    def flows(self) -> Mapping[int, FlowHistory]:
        """The histories by flow id."""
        return self._flows

    def add(self, rows: Iterable[FlowRow], t_wall_s: float) -> None:
        """Store the rows of a poll. Flows without a row have closed: they are marked and dropped."""
        there: dict[int, FlowHistory] = {}
        for row in rows:
            history = self._flows.pop(row.flow_id, None) or FlowHistory(row, self._length)
            history.add(row, t_wall_s)
            there[row.flow_id] = history
        for history in self._flows.values():
            history.closed = True
        self._flows = there
