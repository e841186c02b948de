"""The panel's data of flows: the last minutes of a few quantities, one column per flow."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float32]
"""(n_rows, n_quantities, n_columns) float32, NaN for unknown values."""
Times = NDArray[np.float64]
"""(n_rows,) float64, times [s]."""

MAX_FLOWS: Final = 256
"""Maximum flows shown; further flows are only counted."""

HISTORY_S: Final = 120.0
"""Duration of the past that is kept [s]."""


class Quantity(NamedTuple):
    """A quantity that the panel draws.

    Attributes:
        name: Its name.
        label: Its label.
        unit: Its unit on the panel.
        scale: Factor from a stored value to that unit.
    """

    name: str
    label: str
    unit: str
    scale: float


QUANTITIES: Final = (
    Quantity("cwnd_bytes", "congestion window", "kB", 1e-3),
    Quantity("rate_bytes_per_s", "pacing rate", "Mbit/s", 8e-6),
    Quantity("delivery_bytes_per_s", "delivery rate", "Mbit/s", 8e-6),
    Quantity("srtt_us", "smoothed RTT", "ms", 1e-3),
    Quantity("lost_pkts_per_s", "losses", "packets/s", 1.0),
    Quantity("retrans_pkts_per_s", "retransmissions", "packets/s", 1.0),
    Quantity("reported", "report field", "", 1.0),
)
"""The quantities in the order of the values' second axis; the user chooses the last, a report field."""

_AS_THEY_ARE: Final = ("cwnd_bytes", "rate_bytes_per_s", "srtt_us")
_GROWING: Final = {
    "delivery_bytes_per_s": "bytes_acked",
    "lost_pkts_per_s": "lost_pkts",
    "retrans_pkts_per_s": "retrans_pkts",
}
"""Quantity -> the total of which it is the growth rate."""
_INDEX: Final = {quantity.name: i for i, quantity in enumerate(QUANTITIES)}


class Rates:
    """Growth rates of flows' totals."""

    def __init__(self) -> None:
        self._before: dict[int, dict[str, Any]] = {}

    def of(self, row: dict[str, Any]) -> dict[str, float]:
        """Return the growth rates since the previous row [1/s]; empty for a flow's first row.

        Args:
            row: A row of `Client.flows`.
        """
        before = self._before.get(row["flow_id"])
        if before is not None and row["now_us"] <= before["now_us"]:
            return {}
        self._before[row["flow_id"]] = row
        if before is None:
            return {}
        passed_s = (row["now_us"] - before["now_us"]) / 1e6
        return {name: max(0, row[total] - before[total]) / passed_s for name, total in _GROWING.items()}

    def forget(self, flow_ids: Iterable[int]) -> None:
        """Forget closed flows."""
        for flow_id in flow_ids:
            self._before.pop(flow_id, None)


@dataclass
class Columns:
    """Assigns flows to columns; a closed flow keeps its column until another flow needs it.

    Attributes:
        flows: Columns of open flows by flow id.
        turned_away: Number of flows without a column.
    """

    flows: dict[int, int] = field(default_factory=dict)
    turned_away: int = 0
    _used: int = 0
    _left: deque[int] = field(default_factory=deque)

    def update(self, flow_ids: Iterable[int]) -> tuple[dict[int, int], list[int]]:
        """Update the open flows; return the columns of new flows by id, and the ids of closed flows."""
        now = dict.fromkeys(flow_ids)
        gone = [flow_id for flow_id in self.flows if flow_id not in now]
        for flow_id in gone:
            self._left.append(self.flows.pop(flow_id))
        new: dict[int, int] = {}
        self.turned_away = 0
        for flow_id in now:
            if flow_id in self.flows:
                continue
            if self._used < MAX_FLOWS:
                column, self._used = self._used, self._used + 1
            elif self._left:
                column = self._left.popleft()
            else:
                self.turned_away += 1
                continue
            new[flow_id] = self.flows[flow_id] = column
        return new, gone

    @property
    def width(self) -> int:
        """Number of columns used so far."""
        return self._used


class Extremes:
    """Minimum and maximum of a report field per flow, since the last `take`."""

    def __init__(self) -> None:
        self._seen: dict[int, tuple[float, float]] = {}

    def add(self, flow_id: int, value: float) -> None:
        """Add a value."""
        low, high = self._seen.get(flow_id, (value, value))
        self._seen[flow_id] = (min(low, value), max(high, value))

    def take(self) -> dict[int, tuple[float, float]]:
        """Return minimum and maximum, and start again."""
        seen, self._seen = self._seen, {}
        return seen


def rows(
    flows: Iterable[dict[str, Any]],
    columns: Columns,
    rates: Rates,
    reported: Mapping[int, tuple[float, float]],
) -> Values:
    """Return the values of all flows at one time.

    Args:
        flows: Rows of `Client.flows`; totals are None if a flow has just closed.
        columns: Their columns.
        rates: Growth rates of their totals.
        reported: Minimum and maximum of the report field since the previous call, by flow.

    Returns:
        (1, n_quantities, n_columns), or with reports two rows, the first with only the minimum.
    """
    last = np.full((len(QUANTITIES), columns.width), np.nan, np.float32)
    minimum = np.full_like(last, np.nan)
    for row in flows:
        column = columns.flows.get(row["flow_id"])
        if column is None or row["now_us"] is None:
            continue
        for name in _AS_THEY_ARE:
            last[_INDEX[name], column] = row[name] or np.nan
        for name, value in rates.of(row).items():
            last[_INDEX[name], column] = value
    for flow_id, (low, high) in reported.items():
        if (column := columns.flows.get(flow_id)) is not None:
            minimum[-1, column], last[-1, column] = low, high
    return np.stack([minimum, last] if reported else [last])


def joined(parts: list[Values]) -> Values:
    """Concatenate rows, with NaN in the columns of later flows."""
    width = max(part.shape[2] for part in parts)
    wide = [
        np.pad(part, ((0, 0), (0, 0), (0, width - part.shape[2])), constant_values=np.nan) for part in parts
    ]
    return np.concatenate(wide)


def thinned(times: Times, values: Values, n_rows: int) -> tuple[Times, Values]:
    """Thin out rows, keeping the minimum and maximum of each interval.

    Args:
        times: Times of the rows.
        values: The rows.
        n_rows: Maximum rows of the result; at least 2.
    """
    n_stretches = n_rows // 2
    if len(times) <= n_rows:
        return times, values
    starts = np.linspace(0, len(times), n_stretches, endpoint=False).astype(int)
    ends = np.append(starts[1:], len(times)) - 1
    low, high = np.fmin.reduceat(values, starts), np.fmax.reduceat(values, starts)
    both = np.stack([low, high], axis=1).reshape(2 * n_stretches, *values.shape[1:])
    return np.stack([times[starts], times[ends]], axis=1).reshape(-1), both


class History:
    """The last `HISTORY_S` seconds, for new pages."""

    def __init__(self) -> None:
        self._kept: deque[tuple[float, Values]] = deque()

    def add(self, time_s: float, values: Values) -> None:
        """Add the rows of one time."""
        self._kept.append((time_s, values))
        while self._kept[0][0] < time_s - HISTORY_S:
            self._kept.popleft()

    def clear_column(self, column: int) -> None:
        """Clear the values of a column's previous flow."""
        for _, values in self._kept:
            if column < values.shape[2]:
                values[:, :, column] = np.nan

    def clear_reported(self) -> None:
        """Clear the values of the previous report field."""
        for _, values in self._kept:
            values[:, -1] = np.nan

    def all(self) -> tuple[Times, Values] | None:
        """Return all rows; None if there are none."""
        if not self._kept:
            return None
        return together(list(self._kept))


def together(kept: list[tuple[float, Values]]) -> tuple[Times, Values]:
    """Return all rows as one block, with the time of each row."""
    times = np.repeat([time_s for time_s, _ in kept], [len(values) for _, values in kept])
    return times, joined([values for _, values in kept])
