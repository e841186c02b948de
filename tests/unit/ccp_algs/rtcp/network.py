"""Simulated transfers, and their ACKs as R-TCP's detector hears them."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from ccp_algs.rtcp import Progress
from experiments.netlab.spec import Buffer, Direction, Loss, TokenBucket
from experiments.papers.r_tcp.acks import connections
from experiments.papers.r_tcp.baselines import Ack
from experiments.papers.two_flows import PAYLOAD_SHARE
from experiments.run import run
from experiments.runs.shapes import PointToPoint
from experiments.scenario import FlowSpec, Scenario
from experiments.traffic.spec import Http

MSS = 1448
MBIT = 125_000.0
"""Bytes a second in a Mbit/s."""
CONTROLS = ("cubic", "bbr")


class Event(NamedTuple):
    """A row of a trace: `kind` is S (a transfer starts) or A (an ACK)."""

    kind: str
    progress: Progress


def path(
    limit: float = 0,
    bucket_bytes: float = 0,
    *,
    rtt_s: float = 0.04,
    link: float = 40 * MBIT,
    buffer_bytes: int = 500_000,
    loss: Loss | None = None,
    shaper: bool = False,
) -> Direction:
    """A link; with a limit [bytes/s] also a token bucket, both of payload."""
    bucket = TokenBucket(limit / PAYLOAD_SHARE, round(bucket_bytes / PAYLOAD_SHARE), shaper)
    return Direction(
        rate_bytes_per_s=link,
        delay_us=round(rtt_s * 5e5),
        buffer=Buffer(bytes=buffer_bytes),
        loss=loss,
        token_bucket=bucket if limit else None,
    )


@cache
def recorded(
    over: Direction,
    control: str,
    duration_s: float,
    objects: Sequence[float] = (50e6,),
    gap_s: float = 0.0,
    seed: int = 1,
) -> list[Ack]:
    """Return the ACKs of downloads on one connection, over a path that R-TCP observes.

    Args:
        over: The path.
        control: One of `CONTROLS`.
        duration_s: When it is given up [s].
        objects: Sizes [bytes].
        gap_s: Idle time between them [s].
        seed: Of the scenario.
    """
    traffic = Http(tuple(map(round, objects)), (gap_s,) if gap_s else ())
    flow = FlowSpec(
        "flow", "sender", "receiver", f"rtcp/{control}", {"record": True, "observe": True}, traffic
    )
    scenario = Scenario(
        name="recorded",
        topology=PointToPoint(over),
        flows=(flow,),
        duration_s=duration_s,
        datapath="sim",
        seed=seed,
    )
    with tempfile.TemporaryDirectory() as directory:
        (acks,) = connections(run(scenario, Path(directory) / "run"), "flow")
    return acks


def events(acks: Sequence[Ack]) -> list[Event]:
    """Return ACKs as the detector takes them."""
    return [
        Event(
            "S" if one.start else "A",
            Progress(one.time_us, one.delivered_pkts, one.lost_pkts, one.min_rtt_us),
        )
        for one in acks
    ]
