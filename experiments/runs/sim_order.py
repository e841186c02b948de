"""What `ccp simulate` is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class SimOrder:
    """What to simulate.

    Attributes:
        algorithms: As scenarios name them: one flow each, or those for ccplane's flows of the scenarios.
        params: `NAME=VALUE` or `ALGORITHM.NAME=VALUE`.
        scenarios: Files of scenarios; a single path as below, if there are none.
        rate_mbit: Rate of the path [Mbit/s].
        rtt_ms: Its RTT without queues [ms].
        buffer_bdp: Its buffer, in bandwidth-delay products.
        loss: Share of packets that it loses at random.
        seconds: How long flows send [s].
        flows: How many of each algorithm.
        seed: Of all that is random; None: 1, or that of the scenario.
        out: Directory for the results; None keeps none.
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
    out: Path | None = None
    as_json: bool = False
