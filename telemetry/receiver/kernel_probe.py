"""Reads what the kernel counts of arriving segments, where this process may load a CO-RE program."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from telemetry import netns
from telemetry.receiver.arrivals import Arrived, understood
from telemetry.receiver.errors import ReceiverError
from telemetry.receiver.tcp import Ends
from telemetry.schema import unpacked

if TYPE_CHECKING:
    from datapath._native import TcpArrivals

_WHERE: Final = "CE marks, retransmissions and one-way delays of each flow"


class KernelProbe:
    """Counts the segments of this network namespace's TCP connections while it is open."""

    def __init__(self) -> None:
        """Load and attach it, for the network namespace of this thread.

        Raises:
            ReceiverError: `receiver.no_kernel_probe`.
        """
        self._arrivals = _open(os.stat(netns.OWN).st_ino)
        self._middles_us = _middles(self._arrivals.bin_bounds_us())
        self._dropped = 0

    def close(self) -> None:
        """Take it out of the kernel; may be called again."""
        self._arrivals.close()

    def read(self) -> tuple[list[Arrived], bool]:
        """Return what came in since the last reading, and whether that is all: flows may be too many."""
        rows = self._arrivals.drain()
        before, self._dropped = self._dropped, self._arrivals.dropped
        delays: list[dict[int, int]] = [{} for _ in rows]
        places, bins = rows["bins"].nonzero()
        counts = rows["bins"][places, bins]
        for place, bin_, segs in zip(places.tolist(), bins.tolist(), counts.tolist(), strict=True):
            delays[place][self._middles_us[bin_]] = segs
        clocks = zip(*_lists(rows, "elapsed_us", "ticks", "tick_us"), strict=True)
        counters = zip(*_lists(rows, "cookie", "segs", "ce_segs", "resent_segs", "stamped"), strict=True)
        found = [
            Arrived(cookie, ends, segs, ce, delay if understood(*clock) else {}, resent if stamped else None)
            for (cookie, segs, ce, resent, stamped), ends, delay, clock in zip(
                counters, _ends(rows), delays, clocks, strict=True
            )
        ]
        return found, self._dropped == before


def _lists(rows: Any, *names: str) -> list[list[int]]:
    return [rows[name].tolist() for name in names]


def _ends(rows: Any) -> Iterator[Ends]:
    own, peers = (rows[name].tobytes() for name in ("saddr", "daddr"))
    ports = zip(*_lists(rows, "sport", "dport"), strict=True)
    for at, (own_port, peer_port) in zip(range(0, len(own), 16), ports, strict=True):
        yield Ends(_address(own[at : at + 16]), own_port, _address(peers[at : at + 16]), peer_port)


def _middles(bounds_us: Sequence[int]) -> list[int]:
    """Return the middle of each bin [us]; the last has no end, so its beginning."""
    return [(begin + end) // 2 for begin, end in pairwise([*bounds_us, bounds_us[-1]])]


@lru_cache(maxsize=65536)
def _address(packed: bytes) -> str:
    return unpacked(packed)


def _open(netns_inode: int) -> TcpArrivals:
    try:
        from datapath import _native, errors  # the only compiled module there is, and what it raises
    except ImportError as error:
        raise ReceiverError(
            "receiver.no_kernel_probe", "the native module is missing", _WHERE, str(error), "`make build`"
        ) from error
    try:
        return _native.TcpArrivals(netns_inode)
    except errors.CcpError as error:
        raise ReceiverError(
            "receiver.no_kernel_probe", error.message, _WHERE, f"{error.why} ({error.slug})", error.fix
        ) from error
