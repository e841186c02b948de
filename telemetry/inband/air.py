"""mac80211's queues of a wireless interface, as input of the native node."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

import msgspec

from telemetry.inband.radio import ANY_ADDRESS
from telemetry.inband.txq import Backlog, Limits, Txqs

READ_S: Final = 0.005
"""Time between readings of the queues while packets flow [s]."""
LOOK_S: Final = 0.02
"""Time between checks for new packets [s]."""
SHARE: Final = 0.1
"""Maximum share of time spent reading; with many stations, readings are less frequent."""
FRESH_NS: Final = 100_000_000
"""Validity of a reading that could not be renewed [ns]."""

_WIRELESS_BYTES: Final = 34
"""Bytes in front of IP in these queues: IEEE 802.11 header with QoS (26), and LLC with SNAP (8)."""
_MEMORY: Final = 2
"""Maximum kernel memory of a full-size packet, as a multiple of its length; high, to underestimate the
room."""


class Air(msgspec.Struct, kw_only=True, frozen=True):
    """The queues, as input of the native node.

    Attributes:
        fresh_ns: Validity of a reading [ns].
        limit_pkts: Limit of all queues together [packets]; None if unknown.
    """

    fresh_ns: int = FRESH_NS
    limit_pkts: int | None = None


class Waiting(msgspec.Struct, kw_only=True, frozen=True):
    """The queue of a station, as input of the native node.

    Attributes:
        address: Hardware address; ANY_ADDRESS stands for all that are not listed.
        read_ns: Start of the reading, monotonic clock [ns].
        pkts: Full-size packets in its queue.
        all_pkts: Packets in all queues.
    """

    address: tuple[int, ...]
    read_ns: int
    pkts: int
    all_pkts: int


class AirQueues:
    """Reads the queues of an interface periodically."""

    def __init__(self, txqs: Txqs, mtu_bytes: int) -> None:
        """Read the limits.

        Raises:
            NetlinkError: If the interface is gone.
        """
        self._txqs = txqs
        self._packet_bytes = mtu_bytes + _WIRELESS_BYTES
        self._limits = txqs.limits()
        self._next_ns = 0
        self._is_empty = False

    def air(self) -> Air | None:
        """Return the properties of the queues; None if the driver does not use mac80211's queues.

        Raises:
            NetlinkError: If the interface is gone.
        """
        if self._limits is None:
            return None
        # Packets of other interfaces on this radio count against the same limit, but are not read.
        if self._txqs.has_neighbours():
            return Air()
        return Air(limit_pkts=limit_pkts(self._limits, self._packet_bytes))

    def read(self, came_ns: int) -> list[Waiting] | None:
        """Return the queues; None if it is too early, or nothing can have changed.

        Raises:
            NetlinkError: If the interface is gone.
        """
        begin_ns = time.monotonic_ns()
        if self._limits is None or self._is_idle(came_ns, begin_ns) or begin_ns < self._next_ns:
            return None
        waiting = waiting_of(self._txqs.read(), begin_ns, self._packet_bytes)
        self._is_empty = not any(one.all_pkts for one in waiting)
        took_ns = time.monotonic_ns() - begin_ns
        self._next_ns = begin_ns + max(int(READ_S * 1e9), int(took_ns / SHARE))
        return waiting

    def wait_s(self, came_ns: int) -> float:
        """Return the delay before the next call of `read` [s]."""
        now_ns = time.monotonic_ns()
        return LOOK_S if self._is_idle(came_ns, now_ns) else max(0, self._next_ns - now_ns) / 1e9

    def _is_idle(self, came_ns: int, now_ns: int) -> bool:
        return self._is_empty and now_ns > came_ns + FRESH_NS


def limit_pkts(limits: Limits, packet_bytes: int) -> int:
    """Return the limit in full-size packets: the lower one of the two limits."""
    return min(limits.limit_pkts, limits.memory_bytes // (_MEMORY * packet_bytes))


def waiting_of(backlogs: Sequence[Backlog], read_ns: int, packet_bytes: int) -> list[Waiting]:
    """Return the queue of each station; a single entry stands for all stations."""
    all_pkts = sum(one.waiting_pkts for one in backlogs)
    found = [
        Waiting(
            address=one.address,
            read_ns=read_ns,
            pkts=-(-one.waiting_bytes // packet_bytes),
            all_pkts=all_pkts,
        )
        for one in backlogs
    ]
    if len(found) == 1:
        found.append(msgspec.structs.replace(found[0], address=ANY_ADDRESS))
    return found
