"""What the queue behind an interface is like: for how much it has room, how fast it drains, what is known."""

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
_NOT_BEHIND: Final = ("clsact", "ingress")
_MAJOR: Final = 0xFFFF0000

_DROP_EARLY: Final = frozenset(
    {"tbf", "pfifo", "bfifo", "pfifo_fast", "fq", "red", "mq", "htb", "prio", "netem"}
)
_DROP_LATE: Final = frozenset({"codel", "fq_codel"})
"""What drops only what comes, and what drops also what waits. Of others nobody has looked yet."""

_SHAPERS: Final = frozenset({"tbf", "netem"})
_UNSHAPED: Final = frozenset({"mq", "pfifo_fast", "pfifo", "bfifo", "fq", "fq_codel", "codel"})
"""Disciplines that send as fast as the device takes it."""

_LIMITS_PKTS: Final = {"fq_codel": "TCA_FQ_CODEL_LIMIT", "codel": "TCA_CODEL_LIMIT"}
"""Attribute with the limit, in packets."""


Drops = Literal["unknown", "early", "late"]


class Queue(msgspec.Struct, kw_only=True, frozen=True):
    """The queue, as the native node is told.

    Attributes:
        known: Whether the kernel's count of its packets is what waits.
        unlimited: Whether it has no limit; without this and a limit, that is not known.
        limit_pkts: Its limit, if that is in packets.
        limit_bytes: Its limit, if that is in bytes.
        packet_bytes: What it counts for a packet of full size.
        link_rate_bytes_per_s: What it drains at while it is busy; None is not known [bytes/s].
        drops: Which packets it drops: `early`, those that come; `late`, also those that wait; `unknown`, also
            where it drops some as a link would.
        air: mac80211's queues behind it; None if there are none that anybody tells of.
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
    """Say what the queue is like.

    With one discipline below the root, it is that one that limits; with several, nobody knows into which of
    them a packet goes before it is there, so that the room is not known.

    Args:
        qdiscs: The interface's, as pyroute2 gives them.
        interface: Whose they are.
        air: mac80211's queues behind them, if there are any.
    """
    behind = [qdisc for qdisc in qdiscs if qdisc.get("kind") not in _NOT_BEHIND]
    root = next((qdisc for qdisc in behind if qdisc["parent"] == TC_H_ROOT), None)
    packet_bytes = interface.mtu_bytes + interface.link_bytes
    if root is None or root.get("kind") == NOQUEUE:
        # Packets wait nowhere, unless mac80211 or the driver has queues of its own, as of wireless ones.
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
    """Say which packets a queue drops, as its disciplines do."""
    kinds = {qdisc.get("kind") for qdisc in qdiscs}
    if not kinds <= _DROP_EARLY | _DROP_LATE or any(map(_loses, qdiscs)):
        return "unknown"
    return "early" if kinds <= _DROP_EARLY else "late"


def _loses(qdisc: Any) -> bool:
    """Whether a discipline drops packets as a link would, so that nobody can tell these from others."""
    options = qdisc.get("options")
    if qdisc.get("kind") != "netem":
        return False
    return bool(options["loss"]) or options.get_attr("TCA_NETEM_LOSS") is not None


def _rate(qdiscs: Sequence[Any], interface: Interface) -> int | None:
    """Return what the slowest shaper lets through, else the speed of the device; None if it is not known."""
    kinds = {qdisc.get("kind") for qdisc in qdiscs}
    if not kinds <= _UNSHAPED | _SHAPERS:
        return None
    shaped = [rate for rate in map(_shaped, qdiscs) if rate]
    return min(shaped, default=interface.speed_bytes_per_s)


def _shaped(qdisc: Any) -> int:
    """Return the rate of a shaper [bytes/s]; 0 if it is none, or without one."""
    options = qdisc.get("options")
    if qdisc.get("kind") == "tbf":
        return int(options.get_attr("TCA_TBF_PARMS")["rate"])
    rate = options.get_attr("TCA_NETEM_RATE") if qdisc.get("kind") == "netem" else None
    return 0 if rate is None else int(rate["rate"])


def _limits(qdisc: Any) -> tuple[int | None, int | None]:
    """Return the limit in packets, and in bytes; None is none that we know of."""
    kind, options = qdisc.get("kind"), qdisc.get("options")
    if options is None:
        return None, None
    if kind == "tbf":
        return None, options.get_attr("TCA_TBF_PARMS")["limit"]
    if kind == "bfifo":  # all it has is its limit, and pyroute2 does not read it
        return None, int.from_bytes(bytes.fromhex(options.replace(":", "")), sys.byteorder)
    if kind in ("pfifo", "netem"):
        return options["limit"], None
    if kind in _LIMITS_PKTS:
        return options.get_attr(_LIMITS_PKTS[kind]), None
    return None, None
