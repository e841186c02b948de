"""Properties of the queue of an interface: its limit, its rate, and its kind of drops."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, Final, Literal

import msgspec
from pyroute2 import IPRoute
from pyroute2.netlink.rtnl import TC_H_ROOT

from telemetry.inband.air import Air
from telemetry.inband.device import Interface

NOQUEUE: Final = "noqueue"
_NOT_AFTER: Final = ("clsact", "ingress")
_MAJOR: Final = 0xFFFF0000

_DROP_EARLY: Final = frozenset(
    {"tbf", "pfifo", "bfifo", "pfifo_fast", "fq", "red", "mq", "htb", "prio", "netem"}
)
_DROP_LATE: Final = frozenset({"codel", "fq_codel"})
"""Disciplines that drop only arriving packets, and those that also drop queued ones; others are unknown."""

_SHAPERS: Final = frozenset({"tbf", "netem"})
_UNSHAPED: Final = frozenset({"mq", "pfifo_fast", "pfifo", "bfifo", "fq", "fq_codel", "codel"})
"""Disciplines that send as fast as the device accepts packets."""

_LIMITS_PKTS: Final = {"fq_codel": "TCA_FQ_CODEL_LIMIT", "codel": "TCA_CODEL_LIMIT"}
"""Attribute with the limit in packets."""


Drops = Literal["unknown", "early", "late"]


class Queue(msgspec.Struct, kw_only=True, frozen=True):
    """The queue, as input of the native node.

    Attributes:
        known: Whether the kernel's packet count equals the queue length.
        unlimited: Whether it has no limit; without this and without a limit, the limit is unknown.
        limit_pkts: Limit, if in packets.
        limit_bytes: Limit, if in bytes.
        packet_bytes: Bytes that it counts for a full-size packet.
        link_rate_bytes_per_s: Rate at which it drains while busy; None if unknown [bytes/s].
        drops: Packets that it drops: `early`, arriving ones; `late`, also queued ones; `unknown`, possibly
            also some like a lossy link.
        air: mac80211's queues below it; None if there are none, or they are unknown.
    """

    known: bool
    unlimited: bool = False
    limit_pkts: int | None = None
    limit_bytes: int | None = None
    packet_bytes: int = 0
    link_rate_bytes_per_s: int | None = None
    drops: Drops = "unknown"
    air: Air | None = None


def read_queue(ipr: IPRoute, interface: Interface, air: Air | None = None) -> Queue:
    """Ask the kernel for the queue disciplines of an interface."""
    return queue_of(list(ipr.get_qdiscs(index=interface.index)), interface, air)


def queue_of(qdiscs: Sequence[Any], interface: Interface, air: Air | None = None) -> Queue:
    """Return the properties of the queue.

    With one discipline below the root, the limit is that of this discipline. With several disciplines, it is
    unknown which of them a packet will enter, so the limit is unknown.
    """
    behind = [qdisc for qdisc in qdiscs if qdisc.get("kind") not in _NOT_AFTER]
    root = next((qdisc for qdisc in behind if qdisc["parent"] == TC_H_ROOT), None)
    packet_bytes = interface.mtu_bytes + interface.link_bytes
    if root is None or root.get("kind") == NOQUEUE:
        # No queue, except in mac80211 or in drivers of wireless interfaces.
        known = not interface.wireless
        rate = interface.speed_bytes_per_s
        return Queue(
            known=known,
            unlimited=known,
            packet_bytes=packet_bytes,
            link_rate_bytes_per_s=rate,
            drops="early" if known or air else "unknown",
            air=air,
        )
    below = [qdisc for qdisc in behind if qdisc["parent"] & _MAJOR == root["handle"] and qdisc is not root]
    rate, drops = _rate([root, *below], interface), _drops(behind)
    if len(below) > 1:
        return Queue(known=True, packet_bytes=packet_bytes, link_rate_bytes_per_s=rate, drops=drops, air=air)
    limit_pkts, limit_bytes = _limits(below[0] if below else root)
    return Queue(
        known=True,
        limit_pkts=limit_pkts,
        limit_bytes=limit_bytes,
        packet_bytes=packet_bytes,
        link_rate_bytes_per_s=rate,
        drops=drops,
        air=air,
    )


def _drops(qdiscs: Sequence[Any]) -> Drops:
    kinds = {qdisc.get("kind") for qdisc in qdiscs}
    if not kinds <= _DROP_EARLY | _DROP_LATE or any(map(_loses, qdiscs)):
        return "unknown"
    return "early" if kinds <= _DROP_EARLY else "late"


def _loses(qdisc: Any) -> bool:
    """Whether a discipline drops packets like a lossy link, indistinguishable from queue drops."""
    options = qdisc.get("options")
    if qdisc.get("kind") != "netem":
        return False
    return bool(options["loss"]) or options.get_attr("TCA_NETEM_LOSS") is not None


def _rate(qdiscs: Sequence[Any], interface: Interface) -> int | None:
    """Return the rate of the slowest shaper, else the speed of the device; None if unknown."""
    kinds = {qdisc.get("kind") for qdisc in qdiscs}
    if not kinds <= _UNSHAPED | _SHAPERS:
        return None
    shaped = [rate for rate in map(_shaped, qdiscs) if rate]
    return min(shaped, default=interface.speed_bytes_per_s)


def _shaped(qdisc: Any) -> int:
    """Return the rate of a shaper [bytes/s]; 0 if it is not a shaper, or has no rate."""
    options = qdisc.get("options")
    if qdisc.get("kind") == "tbf":
        return int(options.get_attr("TCA_TBF_PARMS")["rate"])
    rate = options.get_attr("TCA_NETEM_RATE") if qdisc.get("kind") == "netem" else None
    return 0 if rate is None else int(rate["rate"])


def _limits(qdisc: Any) -> tuple[int | None, int | None]:
    """Return the limit in packets, and in bytes; None if unknown."""
    kind, options = qdisc.get("kind"), qdisc.get("options")
    if options is None:
        return None, None
    if kind == "tbf":
        return None, options.get_attr("TCA_TBF_PARMS")["limit"]
    if kind == "bfifo":  # its only option is its limit, which pyroute2 does not parse
        return None, int.from_bytes(bytes.fromhex(options.replace(":", "")), sys.byteorder)
    if kind in ("pfifo", "netem"):
        return options["limit"], None
    if kind in _LIMITS_PKTS:
        return options.get_attr(_LIMITS_PKTS[kind]), None
    return None, None
