"""From columns to axes: the name of a quantity, its unit in figures, and the conversion factor.

Tables hold bytes, bytes/s and microseconds; figures show kB, Mbit/s and milliseconds. The suffix of a
column's name gives its unit, so any column of any table can be drawn.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Quantity:
    """A quantity on an axis.

    Attributes:
        name: Display name.
        unit: Unit in the figure; empty for dimensionless quantities.
        scale: Factor from the column's values to that unit.
    """

    name: str
    unit: str
    scale: float = 1.0

    @property
    def axis(self) -> str:
        """Label of an axis: name and unit."""
        return f"{self.name} [{self.unit}]" if self.unit else self.name

    @property
    def short_axis(self) -> str:
        """The label in two lines, for low panels."""
        return self.axis.replace(" [", "\n[")

    def of(self, values: Any) -> NDArray[np.float64]:
        """Return values of the column in the unit of the figure; missing ones are NaN."""
        return np.asarray(values, dtype=np.float64) * self.scale


_UNITS: Final = (
    ("_bytes_per_s", "Mbit/s", 8e-6),
    ("_pkts_per_s", "packets/s", 1.0),
    ("_s_per_gb", "s/GB", 1.0),
    ("_per_s", "1/s", 1.0),
    ("_bytes", "kB", 1e-3),
    ("_pkts", "packets", 1.0),
    ("_ns", "ns", 1.0),
    ("_us", "ms", 1e-3),
    ("_ms", "ms", 1.0),
    ("_pct", "%", 1.0),
    ("_ratio", "%", 100.0),
    ("_s", "s", 1.0),
    ("_mss", "MSS", 1.0),
)
"""Suffix of a column's name -> unit and factor; the first match counts."""

_OF_THE_WHOLE: Final = {
    "bdp": ("BDP", 1.0),
    "bytes": ("kB", 1e-3),
    "packets": ("packets", 1.0),
    "ratio": ("%", 100.0),
}
"""Fields that only give the unit of their parent, as in `loss.ratio` -> unit and factor."""

_NAMES: Final = {
    "agent_cpu": "agent's CPU time",
    "arrival": "arrival rate",
    "cpu": "CPU time",
    "cwnd": "congestion window",
    "srtt": "smoothed RTT",
    "rtt": "RTT",
    "min_rtt": "minimum RTT",
    "retrans": "retransmitted",
    "completion": "completion time",
    "queue": "queue",
    "queueing_delay": "queueing delay",
    "jain": "Jain index",
    "jain_index": "Jain index",
    "t": "time",
}

_ACRONYMS: Final = {
    "rtt": "RTT",
    "owd": "OWD",
    "bdp": "BDP",
    "srtt": "smoothed RTT",
    "ecn": "ECN",
    "ce": "CE",
    "mtp": "MTP",
}


def quantity(column: str) -> Quantity:
    """Return the quantity of a column.

    Percentiles (`rtt_p95_us`) are named as such. For a path into a scenario the last part counts
    (`links.bottleneck.forward.delay_us`), or the last two (`forward.buffer.bdp`).

    Args:
        column: Name of a column, or of an axis of a sweep.
    """
    before, _, last = column.rpartition(".")
    if before and last in _OF_THE_WHOLE:
        return Quantity(_named(before.rpartition(".")[2]), *_OF_THE_WHOLE[last])
    for end, unit, scale in _UNITS:
        if last.endswith(end) and last != end:
            return Quantity(_named(last.removesuffix(end)), unit, scale)
    if last.startswith("bytes_"):  # Linux' order of words: bytes_acked
        return Quantity(_named(last.removeprefix("bytes_")), "kB", 1e-3)
    return Quantity(_named(last), "")


def _named(stem: str) -> str:
    whole, _, percentile = stem.rpartition("_p")
    if whole and percentile.replace(".", "").isdigit():
        if percentile == "50":
            return f"median {_named(whole)}"
        return f"{_named(whole)}, {percentile}th percentile"
    words = stem.split("_")
    return _NAMES.get(stem) or " ".join(_ACRONYMS.get(word, word) for word in words)
