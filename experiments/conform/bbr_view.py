"""Reads the state of a BBR while it runs: ccplane's from its instance, the kernel's from what it does.

The kernel's BBR shows only its window and its pacing rate. The pacing rate divided by the delivery rate of
the last ten rounds is its pacing gain, and the gain shows the state. Quantities that cannot be seen, or do
not exist in version 1, are None.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Final, Protocol

from ccp_algs.bbr3 import CRUISE, DOWN, DRAIN, PROBE_RTT, STARTUP, UP
from ccplane.datapath import sim
from experiments.conform.net import Net

_COLUMNS: Final = (
    "t_us",
    "mss_bytes",
    "delivered_pkts",
    "srtt_us",
    "min_rtt_us",
    "bytes_in_flight",
    "pacing_rate_bytes_per_s",
    "cwnd_bytes",
)
_MARGIN: Final = 0.99
_MIN_PIPE_PKTS: Final = 4
_BW_ROUNDS: Final = 10
_STATE_OF_GAIN: Final = ((1.9, STARTUP), (1.12, UP), (0.87, CRUISE), (0.5, DOWN), (0.0, DRAIN))
"""Lowest pacing gain -> state; the gains of version 1 are 2.89, 1.25, 1, 0.75 and 0.35."""


class View(Protocol):
    """What cases read; quantities have the draft's names and are None if unknown."""

    history: list[tuple[float, str]]
    """Time [s] and state, each time that the state changed."""

    def update(self) -> None:
        """Read again, after time has passed."""

    def get(self, name: str) -> Any:
        """Return a quantity: see `OwnView.get`."""


class OwnView:
    """ccplane's BBR, or an algorithm with the same attributes and report."""

    def __init__(self) -> None:
        self.history: list[tuple[float, str]] = []
        self.reports: list[tuple[str, dict[str, int]]] = []
        self.instance: Any = None

    def watch(self, instance: Any, report: Any) -> None:
        """Keep the state after a report."""
        self.instance = instance
        state = getattr(instance, "state", None)
        if not isinstance(state, str):
            return
        if not self.history or self.history[-1][1] != state:
            self.history.append(((report.now_us - sim.START_US) / 1e6, state))
        self.reports.append((state, report.as_dict()))

    def update(self) -> None:
        """Do nothing: reports were read when they came."""

    def get(self, name: str) -> Any:
        """Return a quantity.

        A dotted name is an attribute of the instance, such as `short.bw_bytes_per_s`; else it is a field of
        the last report, a register that the instance sent, or an attribute.
        """
        if "." not in name:
            if self.reports and name in self.reports[-1][1]:
                return self.reports[-1][1][name]
            sent = getattr(self.instance, "_sent", {})
            if name in sent:
                return sent[name]
        value = self.instance
        for part in name.split("."):
            value = getattr(value, part, None)
        return value


class SeenView:
    """The kernel's BBR, by its window and pacing rate."""

    def __init__(self, net: Net) -> None:
        self.history: list[tuple[float, str]] = []
        self._net = net
        self._read = 0
        self._sent: deque[tuple[float, float]] = deque()
        self._rates: deque[tuple[float, float]] = deque()
        self._known: dict[str, Any] = {}
        self._round_ends_pkts = 0.0
        self._round = 0

    def update(self) -> None:
        """Read the new samples."""
        rows = self._net.flow.rows
        if len(rows) == self._read:
            return
        for row in rows[self._read :][list(_COLUMNS)].tolist():
            self._sample(dict(zip(_COLUMNS, row, strict=True)))
        self._read = len(rows)

    def _sample(self, row: dict[str, int]) -> None:
        t_s, mss = (row["t_us"] - self._net.start_us) / 1e6, row["mss_bytes"]
        delivered_bytes = row["delivered_pkts"] * mss
        rtt_s, min_rtt_s = row["srtt_us"] / 1e6, row["min_rtt_us"] / 1e6
        if not rtt_s or not min_rtt_s:
            return
        if delivered_bytes >= self._round_ends_pkts:
            self._round += 1
            self._round_ends_pkts = delivered_bytes + row["bytes_in_flight"]
        self._sent.append((t_s, delivered_bytes))
        while len(self._sent) > 1 and self._sent[1][0] <= t_s - rtt_s:
            self._sent.popleft()
        before_s, before_bytes = self._sent[0]
        if t_s - before_s >= 0.9 * rtt_s:
            rate = (delivered_bytes - before_bytes) / (t_s - before_s)
            while self._rates and self._rates[-1][1] <= rate:  # the first is the maximum
                self._rates.pop()
            self._rates.append((t_s, rate))
        while self._rates and self._rates[0][0] < t_s - _BW_ROUNDS * rtt_s:
            self._rates.popleft()
        max_bw = self._rates[0][1] if self._rates else 0.0
        pacing, cwnd_bytes = row["pacing_rate_bytes_per_s"], row["cwnd_bytes"]
        gain = pacing / (_MARGIN * max_bw) if max_bw and pacing < 1 << 60 else 2.89
        state = next(state for lowest, state in _STATE_OF_GAIN if gain >= lowest)
        bdp_bytes = max_bw * min_rtt_s
        if cwnd_bytes <= _MIN_PIPE_PKTS * mss and bdp_bytes > 2 * _MIN_PIPE_PKTS * mss and self.history:
            state = PROBE_RTT
        self._known = {
            "max_bw_bytes_per_s": max_bw,
            "bdp_bytes": bdp_bytes,
            "budget_bytes": _MIN_PIPE_PKTS * mss,
            "in_flight_bytes": row["bytes_in_flight"],
            "pacing_permille": round(1000 * _MARGIN * gain),
            "round_count": self._round,
        }
        if not self.history or self.history[-1][1] != state:
            self.history.append((t_s, state))

    def get(self, name: str) -> Any:
        """Return a quantity, or None."""
        return self._known.get(name)
