"""What a summary of in-band telemetry means for a congestion control: are losses congestion, is there room?

Pure functions of a summary (`telemetry.schema.IntSummary`), of which any field may be missing (None).

Where a loss comes from (Bhat et al., section VI-A: "based on the flow packet loss ratio and the available
queue capacity"), first line that holds:

| the summary says | verdict |
| --- | --- |
| `loss_cause` is `overflow` or `mixed` | OVERFLOW |
| `loss_cause` is `wireless`, and every hop tells of its queue | WIRELESS |
| a queue is full to `full_ratio` or more | FULL |
| every hop tells of its queue, there is a hop, and nothing was lost nobody knows where | CALM |
| otherwise | UNKNOWN |

Growth, equation (1): cwnd += available_queue_capacity * increment / (arrival_rate * flow_count) on every ACK.
The paper gives no units. Here capacity is in packets and the arrival rate in packets a period, so that the
quotient is a number: segments that each acknowledged segment adds, where slow start adds one. With a period
T, a flow that is alone then grows by the whole free room in T / increment: its window is W' = ACKs/s * free *
increment / (arrivals/s * T) = free * increment / T, whatever the rates are.

Source: R. V. Bhat, J. Haxhibeqiri, I. Moerman, J. Hoebeke, "Adaptive Transport Layer Protocols using In-band
Network Telemetry and eBPF", section VI-A. Deviations: the units, above; of several hops the tightest counts,
where the paper says "intermediate nodes"; limits as of `Room`.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Final

UNKNOWN: Final = 0
"""Nothing can be said: losses are congestion."""
CALM: Final = 1
"""No queue is full, and nothing was lost, or nobody says why."""
WIRELESS: Final = 2
"""What was lost was lost on a link, with room in all queues."""
FULL: Final = 3
"""A queue is nearly full: the next loss will be congestion."""
OVERFLOW: Final = 4
"""Something was lost in a full queue."""

SPARES: Final = frozenset({CALM, WIRELESS})
"""Verdicts under which losses are no congestion."""

MAX_GROWTH: Final = 100.0
"""Most segments that an acknowledged one adds, where next to nothing arrives; the room bounds it sooner."""


def verdict_of(summary: Any, full_ratio: float) -> int:
    """Return what losses of a flow are, UNKNOWN to OVERFLOW.

    Args:
        summary: The summary.
        full_ratio: How much of a queue is in use when it counts as full.
    """
    if summary.loss_cause in ("overflow", "mixed"):
        return OVERFLOW
    uses = [_use_of(hop) for hop in summary.hops]
    if summary.has_silent_hop or summary.lost_unknown_pkts:
        uses.append(None)  # of a queue that nobody tells of
    if summary.loss_cause == "wireless" and None not in uses:
        return WIRELESS
    if any(use is not None and use >= full_ratio for use in uses):
        return FULL
    return UNKNOWN if not uses or None in uses else CALM


def _use_of(hop: Any) -> float | None:
    """Return how much of a hop's queue is in use, 0 to 1; None if it does not tell."""
    if hop.queue_is_unlimited:
        return 0.0
    for depth, free in (
        (hop.queue_depth_pkts, hop.queue_free_pkts),
        (hop.queue_depth_bytes, hop.queue_free_bytes),
    ):
        if depth is not None and free is not None:
            return float(depth / max(1, depth + free))
    return None


@dataclasses.dataclass(frozen=True)
class Room:
    """What equation (1) makes of a summary.

    Attributes:
        growth: Segments that an acknowledged one adds, at increment 1; 0 to MAX_GROWTH.
        share_bytes: Free room of the tightest hop, by its flows [bytes]: the most to grow in a round.
    """

    growth: float
    share_bytes: float


def room_of(summary: Any, period_s: float, mss_bytes: int) -> Room | None:
    """Return the room of the hop that allows the least growth, or None if no hop says all that it takes.

    Args:
        summary: The summary.
        period_s: Time that arrivals are counted over [s], > 0.
        mss_bytes: Segment size, for queues that are counted in bytes [bytes], > 0.
    """
    rooms = [room for hop in summary.hops if (room := _room(hop, period_s, mss_bytes)) is not None]
    return min(rooms, key=lambda room: room.growth, default=None)


def _room(hop: Any, period_s: float, mss_bytes: int) -> Room | None:
    free_pkts = hop.queue_free_pkts
    if free_pkts is None and hop.queue_free_bytes is not None:
        free_pkts = hop.queue_free_bytes / mss_bytes
    if free_pkts is None or hop.arrival_pkts_per_s is None or hop.flow_count is None:
        return None
    flows = max(1, hop.flow_count)  # ours is there, whatever the node has counted
    arrived_pkts = hop.arrival_pkts_per_s * period_s * flows
    growth = min(MAX_GROWTH, free_pkts / arrived_pkts) if arrived_pkts > 0 else MAX_GROWTH
    return Room(growth, mss_bytes * free_pkts / flows)
