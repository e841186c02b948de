"""Parses rows of `ccplane.base._native.TcpArrivals` and of the simulator: arrivals on connections. No I/O."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

from telemetry.receiver.arrivals import Arrived, understood
from telemetry.receiver.tcp import Ends
from telemetry.schema import unpacked


def arrived_of(rows: Any, middles: Sequence[int]) -> list[Arrived]:
    """Convert rows."""
    delays: list[dict[int, int]] = [{} for _ in rows]
    places, bins = rows["bins"].nonzero()
    counts = rows["bins"][places, bins]
    for place, bin_, segs in zip(places.tolist(), bins.tolist(), counts.tolist(), strict=True):
        delays[place][middles[bin_]] = segs
    clocks = zip(*_lists(rows, "elapsed_us", "ticks", "tick_us"), strict=True)
    counters = zip(*_lists(rows, "cookie", "segs", "ce_segs", "resent_segs", "stamped"), strict=True)
    return [
        Arrived(cookie, ends, segs, ce, delay if understood(*clock) else {}, resent if stamped else None)
        for (cookie, segs, ce, resent, stamped), ends, delay, clock in zip(
            counters, ends_of(rows), delays, clocks, strict=True
        )
    ]


def _lists(rows: Any, *names: str) -> list[list[int]]:
    return [rows[name].tolist() for name in names]


def ends_of(rows: Any) -> Iterator[Ends]:
    """Yield both ends of the connection of each row."""
    own, peers = (rows[name].tobytes() for name in ("saddr", "daddr"))
    ports = zip(*_lists(rows, "sport", "dport"), strict=True)
    for at, (own_port, peer_port) in zip(range(0, len(own), 16), ports, strict=True):
        yield Ends(_address(own[at : at + 16]), own_port, _address(peers[at : at + 16]), peer_port)


def middles_us(bounds_us: Sequence[int]) -> list[int]:
    """Return the middle of each bin [us]; for the last one, which has no end, its beginning."""
    return [(begin + end) // 2 for begin, end in pairwise([*bounds_us, bounds_us[-1]])]


@lru_cache(maxsize=65536)
def _address(packed: bytes) -> str:
    return unpacked(packed)
