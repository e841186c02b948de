"""The arguments of `ccp simulate`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class SimOrder:
    """What to simulate.

    Attributes:
        algorithms: Named as in scenarios: one flow each, or algorithms for ccplane's flows of the scenarios.
        params: `NAME=VALUE` or `ALGORITHM.NAME=VALUE`.
        scenarios: Files of scenarios; if empty, a single path as below.
        rate_mbit: Rate of the path [Mbit/s].
        rtt_ms: RTT without queues [ms].
        buffer_bdp: Buffer, in bandwidth-delay products.
        loss: Share of packets that the path loses at random.
        seconds: Duration of the flows [s].
        flows: Number of flows of each algorithm.
        seed: Random seed; None for 1, or the scenario's. If it is given, flows start slightly apart, and some
            paths are slightly longer, as drawn from the seed: without random loss, nothing else is random.
        repeat: Number of runs, with consecutive seeds.
        out: Directory for the results; None to keep none.
        as_json: Print JSON instead of tables.
    """

    algorithms: Sequence[str]
    params: Sequence[str] = ()
    scenarios: Sequence[Path] = ()
    rate_mbit: float = 100.0
    rtt_ms: float = 50.0
    buffer_bdp: float = 1.0
    loss: float = 0.0
    seconds: float = 10.0
    flows: int = 1
    seed: int | None = None
    repeat: int = 1
    out: Path | None = None
    as_json: bool = False
