"""mac80211's queues behind a wireless interface: what the native node is told of them, and how often."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

import msgspec

from telemetry.inband.radio import ANY_ADDRESS
from telemetry.inband.txq import Backlog, Limits, Txqs

READ_S: Final = 0.005
"""How often queues are read while packets come [s]."""
LOOK_S: Final = 0.02
"""How often to look whether packets come again [s]."""
SHARE: Final = 0.1
"""The part of the time that reading may take: with many stations it is read less often."""
FRESH_NS: Final = 100_000_000
"""For how long a reading counts, if it could not be renewed [ns]."""

_WIRELESS_BYTES: Final = 34
"""In front of IP where packets wait: a header of IEEE 802.11 with QoS (26) and of LLC with SNAP (8)."""
_MEMORY: Final = 2
"""How many times its length a packet of full size takes of the kernel's memory, at most: room is rather told
too small."""


class Air(msgspec.Struct, kw_only=True, frozen=True):
    """The queues, as the native node is told.

    Attributes:
        fresh_ns: For how long a reading counts [ns].
        limit_pkts: For how many packets they have room together; None is not known.
    """

    fresh_ns: int = FRESH_NS
    limit_pkts: int | None = None


class Waiting(msgspec.Struct, kw_only=True, frozen=True):
    """What waits for another end, as the native node is told.

    Attributes:
        address: Its hardware address; ANY_ADDRESS stands for all that are not listed.
        read_ns: When reading began, by the monotonic clock [ns].
        pkts: Full-size packets that wait for it.
        all_pkts: Packets that wait for all.
    """

    address: tuple[int, ...]
    read_ns: int
    pkts: int
    all_pkts: int


class AirQueues:
    """Reads the queues of an interface when it is time to."""

    def __init__(self, txqs: Txqs, mtu_bytes: int) -> None:
        """Ask for the limits.

        Args:
            txqs: The interface's.
            mtu_bytes: Its longest IP packet.

        Raises:
            NetlinkError: If the interface is gone.
        """
        self._txqs = txqs
        self._packet_bytes = mtu_bytes + _WIRELESS_BYTES
        self._limits = txqs.limits()
        self._next_ns = 0
        self._is_empty = False

    def air(self) -> Air | None:
        """Return what the queues are like; None if the driver has none of mac80211's.

        Raises:
            NetlinkError: If the interface is gone.
        """
        if self._limits is None:
            return None
        # What waits for a neighbour is not looked at, and takes from the same room.
        if self._txqs.has_neighbours():
            return Air()
        return Air(limit_pkts=limit_pkts(self._limits, self._packet_bytes))

    def read(self, came_ns: int) -> list[Waiting] | None:
        """Return what waits now; None if it is too early, or nothing can have changed.

        Args:
            came_ns: When a packet came to the interface last [ns].

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
        """Return when to call `read` again [s]."""
        now_ns = time.monotonic_ns()
        return LOOK_S if self._is_idle(came_ns, now_ns) else max(0, self._next_ns - now_ns) / 1e9

    def _is_idle(self, came_ns: int, now_ns: int) -> bool:
        return self._is_empty and now_ns > came_ns + FRESH_NS


def limit_pkts(limits: Limits, packet_bytes: int) -> int:
    """Return for how many packets there is room, by the limit that full-size packets reach first."""
    return min(limits.limit_pkts, limits.memory_bytes // (_MEMORY * packet_bytes))


def waiting_of(backlogs: Sequence[Backlog], read_ns: int, packet_bytes: int) -> list[Waiting]:
    """Return what waits for each other end; the only one stands for all.

    Args:
        backlogs: As `Txqs.read` returns them.
        read_ns: When that was called [ns].
        packet_bytes: What mac80211 counts for a packet of full size.
    """
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
