"""What a case is, and what many have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from experiments.evaluate.criteria import Criterion
from experiments.evaluate.measures import (
    INF,
    Measure,
    goodput,
    rtt,
)
from experiments.evaluate.paths import (
    Lineup,
    path,
)
from experiments.netlab.spec import (
    Direction,
)

MBIT_USUAL: Final = 50.0
RTT_MS: Final = 40.0
STEADY_S: Final = 5.0
"""Start of the time that is measured where the beginning is of no interest [s]."""
CONVERGED_S: Final = 15.0
"""The same where flows share a bottleneck [s]."""
ALONE: Final = "alone"
"""Name of the line-up without the flow that is evaluated."""
SIZES: Final = {"30 kB": 30_000, "300 kB": 300_000, "3 MB": 3_000_000}
"""Short flows."""


@dataclass(frozen=True)
class Case:
    """A path with flows, and what is measured there.

    Attributes:
        key: Unique name, for `--only` and files.
        criterion: The criterion.
        title: What happens, as a noun phrase.
        about: Path and flows.
        kind: Kind of path, for the simulator's error; with its rate, if above 100 Mbit/s.
        lineups: Line-ups of flows; the usual one has an empty name.
        measures: What is measured.
    """

    key: str
    criterion: Criterion
    title: str
    about: str
    kind: str
    lineups: Mapping[str, Lineup]
    measures: Sequence[Measure]


def usual(bdp: float = 1.0, **fields: object) -> Direction:
    """Return the usual path, with a buffer of some BDP."""
    return path(MBIT_USUAL, RTT_MS, bdp, **fields)


def queueing(start_s: float = STEADY_S, base_ms: float = RTT_MS) -> tuple[Measure, Measure]:
    """Return the measures of a standing queue: median and 95th percentile of the RTT."""
    return rtt(50, start_s=start_s, base_ms=base_ms), rtt(95, start_s=start_s, base_ms=base_ms)


def steady(mbit: float = MBIT_USUAL, start_s: float = STEADY_S, stop_s: float = INF) -> Measure:
    """Return the measure of goodput over a path of some rate."""
    return goodput(start_s=start_s, stop_s=stop_s, link_mbit=mbit)
