"""The network of published figures: flows between separate hosts through one bottleneck."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from experiments.netlab.spec import Bernoulli, Buffer, Direction
from experiments.runs.shapes import Dumbbell
from experiments.scenario import FlowSpec, Scenario
from experiments.units import MBIT

MTU_BYTES: Final = 1500
MSS_BYTES: Final = 1448
"""Payload of such a packet, with TCP timestamps."""


def network(
    name: str, mbit: int, rtt_us: int, bdp: float, algorithms: Sequence[str], duration_s: float
) -> Scenario:
    """Return flows `flow1`, `flow2`, ... through one bottleneck."""
    path = Direction(
        rate_bytes_per_s=mbit * MBIT, delay_us=rtt_us // 2, buffer=Buffer(bdp=bdp), loss=Bernoulli(0.0)
    )
    flows = (
        FlowSpec(f"flow{number}", f"s{number}", f"r{number}", algorithm)
        for number, algorithm in enumerate(algorithms, 1)
    )
    return Scenario(
        name=f"published: {name}",
        topology=Dumbbell(pairs=len(algorithms), bottleneck=path),
        flows=tuple(flows),
        duration_s=duration_s,
    )
