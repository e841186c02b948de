"""The claims of the demo, checked against its recording; needs no network."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final, Literal

from telemetry.ioam.model import Record, Trace
from telemetry.schema import IntHop, IntSummary

WIRE_ID: Final = 1
AIR_ID: Final = 2
"""Node ids: ap1 sends into the wire, ap2 into the air."""

MIN_PKTS: Final = 100
MIN_SUMMARIES: Final = 20
MIN_GROWTH: Final = 1.3
"""Minimum ratio of the mean windows after and before losses on the air stop counting as congestion."""
LOSS_TOLERANCE: Final = 0.5
"""Maximum relative error of the measured loss, for some hundred random losses."""

Phase = Literal["cubic", "keep"]
"""The values of int_cubic's parameter `wireless_loss`."""


@dataclass(frozen=True)
class Seen:
    """The recording of a demo.

    Attributes:
        packets: The flow's packets with telemetry, as they arrived at sta2.
        summaries: The summaries of the flow that the agent received.
        n_delivered: Number of these that the flow's algorithm received.
        windows_bytes: Congestion windows of the flow, by phase [bytes].
        loss_ratio: Configured loss of the air.
    """

    packets: Sequence[Record]
    summaries: Sequence[IntSummary]
    n_delivered: int
    windows_bytes: Mapping[Phase, Sequence[int]]
    loss_ratio: float


@dataclass(frozen=True)
class Finding:
    """A checked claim.

    Attributes:
        what: The claim.
        holds: Whether it holds.
        detail: The numbers.
    """

    what: str
    holds: bool
    detail: str


def findings(seen: Seen) -> list[Finding]:
    """Return whether each claim of the demo holds, from the packets to the window."""
    return [
        _traces(seen.packets),
        _summaries(seen.summaries),
        _of_hop(seen.summaries, WIRE_ID, "queue of the wire", "packets", _queue_depth, positive=True),
        _of_hop(seen.summaries, WIRE_ID, "room in that queue", "packets", lambda hop: hop.queue_free_pkts),
        _of_hop(
            seen.summaries,
            WIRE_ID,
            "arrivals at the wire",
            "packets/s",
            lambda hop: hop.arrival_pkts_per_s,
            positive=True,
        ),
        _of_hop(seen.summaries, AIR_ID, "signal of the air", "dBm", lambda hop: hop.rssi_dbm),
        _of_hop(
            seen.summaries,
            AIR_ID,
            "data rate of the air",
            "bytes/s",
            lambda hop: hop.data_rate_bytes_per_s,
            positive=True,
        ),
        _losses(seen.summaries, seen.loss_ratio),
        _cause(seen.summaries),
        _received(seen),
        _window(seen.windows_bytes),
    ]


def _traces(packets: Sequence[Record]) -> Finding:
    with_both = sum({WIRE_ID, AIR_ID} <= _node_ids(packet) for packet in packets)
    return Finding(
        "packets carry data from both access points",
        len(packets) >= MIN_PKTS and with_both >= 0.99 * len(packets),
        f"{with_both} of {len(packets)} packets",
    )


def _node_ids(packet: Record) -> set[int | None]:
    traces = (placed.option for placed in packet.options if isinstance(placed.option, Trace))
    return {node.node_id for trace in traces for node in trace.nodes}


def _summaries(summaries: Sequence[IntSummary]) -> Finding:
    whole = sum({WIRE_ID, AIR_ID} <= {hop.node_id for hop in summary.hops} for summary in summaries)
    return Finding(
        "the sink publishes summaries with both access points",
        whole >= MIN_SUMMARIES,
        f"{whole} of {len(summaries)} summaries",
    )


def _of_hop(
    summaries: Iterable[IntSummary],
    node_id: int,
    what: str,
    unit: str,
    read: Callable[[IntHop], float | None],
    *,
    positive: bool = False,
) -> Finding:
    reported = [read(hop) for summary in summaries for hop in summary.hops if hop.node_id == node_id]
    values = [value for value in reported if value is not None]
    if not values:
        return Finding(f"summaries report the {what}", False, f"missing in all {len(reported)}")
    return Finding(
        f"summaries report the {what}",
        max(values) > 0 or not positive,
        f"{min(values):g} to {max(values):g} {unit}, mean {fmean(values):.4g}",
    )


def _queue_depth(hop: IntHop) -> float | None:
    return hop.queue_depth_pkts


def _losses(summaries: Sequence[IntSummary], made_ratio: float) -> Finding:
    lost = sum(summary.lost_pkts or 0 for summary in summaries)
    wireless = sum(summary.lost_link_pkts or 0 for summary in summaries)
    sent = lost + sum(summary.received_pkts or 0 for summary in summaries)
    ratio = wireless / sent if sent else 0.0
    return Finding(
        "summaries report the losses on the air",
        abs(ratio - made_ratio) <= LOSS_TOLERANCE * made_ratio,
        f"{wireless} of {sent} packets, {ratio:.1%}; configured {made_ratio:.1%}",
    )


def _cause(summaries: Sequence[IntSummary]) -> Finding:
    wireless = sum(summary.lost_link_pkts or 0 for summary in summaries)
    overflow = sum(summary.lost_congestion_pkts or 0 for summary in summaries)
    return Finding(
        "the sink attributes more losses to the air than to queues",
        wireless > overflow,
        f"{wireless} on the air, {overflow} in full queues",
    )


def _received(seen: Seen) -> Finding:
    return Finding(
        "the algorithm receives the summaries",
        seen.n_delivered >= MIN_SUMMARIES,
        f"{seen.n_delivered} of {len(seen.summaries)} summaries",
    )


def _window(windows_bytes: Mapping[Phase, Sequence[int]]) -> Finding:
    what = "the window grows once losses on the air no longer count as congestion"
    before, after = windows_bytes.get("cubic", ()), windows_bytes.get("keep", ())
    if not before or not after:
        return Finding(what, False, f"{len(before)} and {len(after)} reports")
    means = fmean(before), fmean(after)
    return Finding(what, means[1] >= MIN_GROWTH * means[0], f"mean {means[0]:.0f}, then {means[1]:.0f} bytes")
