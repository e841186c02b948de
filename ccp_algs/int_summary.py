"""Interpretation of a summary of in-band telemetry for congestion control: cause of losses, and free room.

Pure functions of a summary (`telemetry.schema.IntSummary`), any field of which may be missing (None).

The cause of a loss (Bhat et al., section VI-A: "based on the flow packet loss ratio and the available
queue capacity"); the first matching line applies:

| summary | verdict |
| --- | --- |
| `loss_cause` is `overflow` or `mixed` | OVERFLOW |
| `loss_cause` is `wireless`, and every hop reports its queue | WIRELESS |
| a queue is full to `full_ratio` or more | FULL |
| every hop reports its queue, there is a hop, and no loss has an unknown place | CALM |
| otherwise | UNKNOWN |

Growth, equation (1): cwnd += available_queue_capacity * increment / (arrival_rate * flow_count) on every ACK.
The paper gives no units. Here capacity is in packets and the arrival rate in packets per period, so the
quotient is the number of segments added per acknowledged segment, which is one in slow start. With a period
T, a single flow then fills the whole free room within T / increment, because its window grows at the rate W'
= (ACKs/s) free increment / ((arrivals/s) T) = free increment / T, for any arrival rate.

Source: R. V. Bhat, J. Haxhibeqiri, I. Moerman, J. Hoebeke, "Adaptive Transport Layer Protocols using In-band
Network Telemetry and eBPF", section VI-A. Deviations: the units above; growth follows the hop that allows the
smallest growth, where the paper says "intermediate nodes"; growth is limited, see `Room`.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Final

UNKNOWN: Final = 0
"""Unknown: losses count as congestion."""
CALM: Final = 1
"""No queue is full, and no loss has an unknown cause."""
WIRELESS: Final = 2
"""Packets were lost on a link while all queues had room."""
FULL: Final = 3
"""A queue is nearly full: the next loss counts as congestion."""
OVERFLOW: Final = 4
"""A full queue dropped packets."""

SPARES: Final = frozenset({CALM, WIRELESS})
"""Verdicts for which losses do not count as congestion."""

MAX_GROWTH: Final = 100.0
"""Maximum growth per acknowledged segment, for tiny arrival rates; usually the room limits it earlier."""


def verdict_of(summary: Any, full_ratio: float) -> int:
    """Return the verdict on a flow's losses, UNKNOWN to OVERFLOW.

    Args:
        summary: The summary.
        full_ratio: Fraction of a queue in use from which it counts as full.
    """
    if summary.loss_cause in ("overflow", "mixed"):
        return OVERFLOW
    uses = [_use_of(hop) for hop in summary.hops]
    if summary.has_silent_hop or summary.lost_unknown_pkts:
        uses.append(None)  # a hop that does not report its queue
    if summary.loss_cause == "wireless" and None not in uses:
        return WIRELESS
    if any(use is not None and use >= full_ratio for use in uses):
        return FULL
    return UNKNOWN if not uses or None in uses else CALM


def _use_of(hop: Any) -> float | None:
    """Return the fraction of a hop's queue that is in use, 0 to 1; None if the hop does not report it."""
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
    """The room to grow by equation (1).

    Attributes:
        growth: Segments per acknowledged segment at increment 1; 0 to MAX_GROWTH.
        share_bytes: Free room of the tightest hop, divided by its flows [bytes]: maximum growth per round.
    """

    growth: float
    share_bytes: float


def room_of(summary: Any, period_s: float, mss_bytes: int) -> Room | None:
    """Return the room at the hop that allows the smallest growth; None if no hop reports all that it needs.

    Args:
        summary: The summary.
        period_s: Period over which arrivals are counted [s], > 0.
        mss_bytes: Segment size, for queues counted in bytes [bytes], > 0.
    """
    rooms = [room for hop in summary.hops if (room := _room(hop, period_s, mss_bytes)) is not None]
    return min(rooms, key=lambda room: room.growth, default=None)


def _room(hop: Any, period_s: float, mss_bytes: int) -> Room | None:
    free_pkts = hop.queue_free_pkts
    if free_pkts is None and hop.queue_free_bytes is not None:
        free_pkts = hop.queue_free_bytes / mss_bytes
    if free_pkts is None or hop.arrival_pkts_per_s is None or hop.flow_count is None:
        return None
    flows = max(1, hop.flow_count)  # this flow counts even if the node has not seen it
    arrived_pkts = hop.arrival_pkts_per_s * period_s * flows
    growth = min(MAX_GROWTH, free_pkts / arrived_pkts) if arrived_pkts > 0 else MAX_GROWTH
    return Room(growth, mss_bytes * free_pkts / flows)
