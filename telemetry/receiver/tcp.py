"""Growth of TCP counters between this host and each peer, from readings of sockets. Pure: no clock, no I/O.

The fields, from the view of the reading host:

* `bytes_received`: payload that arrived in order and was acknowledged (tcpi_bytes_received)
* `data_in`: segments with payload that arrived, duplicates included (tcpi_data_segs_in)
* `out_of_order`: segments that arrived after a gap: a packet before them was lost or overtaken
  (tcpi_rcv_ooopack, Linux 5.4)
* `ce`: packets that arrived with the ECN codepoint CE, pure ACKs included (tcpi_received_ce, Linux 6.18;
  older kernels count CE for the whole host only)
* `data_out`: segments with payload that this host sent (tcpi_data_segs_out)
* `retrans`: segments that this host retransmitted, because the peer's ACKs showed a loss or did not arrive
  (tcpi_total_retrans); independent of the peer's retransmissions
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from telemetry.receiver.series import U32, Values

FIELDS: Final[dict[str, tuple[int, str]]] = {
    "bytes_received": (128, "=Q"),
    "data_in": (152, "=I"),
    "out_of_order": (224, "=I"),
    "ce": (248, "=I"),
    "data_out": (156, "=I"),
    "retrans": (100, "=I"),
}
"""Counter -> its position in `struct tcp_info` of <linux/tcp.h>, and its format. The kernel only appends to
the struct, so it is shorter in older kernels."""

KEEP_US: Final = 60_000_000
"""Time that a socket may be missing in readings and still be known [us]: the kernel's list can skip one."""

NOTHING: Final[Values] = dict.fromkeys(FIELDS, 0)


def parse_tcp_info(raw: bytes) -> dict[str, int | None]:
    """Parse the counters of a socket; None for those that this kernel lacks."""
    values: dict[str, int | None] = {}
    for name, (offset, form) in FIELDS.items():
        fits = offset + struct.calcsize(form) <= len(raw)
        values[name] = struct.unpack_from(form, raw, offset)[0] if fits else None
    return values


class Ends(NamedTuple):
    """Both ends of a connection; addresses in canonical form."""

    own: str
    own_port: int
    peer: str
    peer_port: int


@dataclass(frozen=True, slots=True)
class SocketReading:
    """One TCP socket at one time.

    Attributes:
        cookie: Unique number of the socket.
        ends: Its addresses and ports.
        values: Counters, as in `FIELDS`.
    """

    cookie: int
    ends: Ends
    values: Values


@dataclass(slots=True)
class PeerTotals:
    """Growth of counters between this host and a peer since the start.

    Attributes:
        values: Counters, as in `FIELDS`; None where the kernel lacks it.
        seen_us: Cookie of a socket -> time of its last reading [us].
    """

    values: dict[str, int | None]
    seen_us: dict[int, int]


class PeerCounters:
    """Sums up the sockets of each peer.

    Counts before the first reading are ignored. All counts of a socket that appears after the
    first reading are new. Counts of a socket between its last reading and its end are lost.

    Attributes:
        peers: Peer -> growth since the start.
    """

    def __init__(self) -> None:
        self.peers: dict[str, PeerTotals] = {}
        self._before: dict[int, tuple[int, Values]] | None = None
        self._prune_us = 0

    def update(self, now_us: int, readings: Iterable[SocketReading]) -> None:
        """Add a reading of all sockets, taken at `now_us` [us]."""
        is_base = self._before is None
        last = self._before = self._before or {}
        for reading in readings:
            peer = self.see(now_us, reading.ends.peer, reading.cookie)
            _, base = last.get(reading.cookie, (now_us, reading.values if is_base else NOTHING))
            last[reading.cookie] = now_us, reading.values
            for name, total in peer.values.items():
                after, before = reading.values[name], base[name]
                if total is None or after is None or before is None:
                    peer.values[name] = None
                else:
                    wraps = U32 if FIELDS[name][1] == "=I" else 1 << 64
                    peer.values[name] = total + (after - before) % wraps
        if now_us >= self._prune_us:
            self._prune_us = now_us + KEEP_US
            self._before = {key: old for key, old in last.items() if old[0] > now_us - KEEP_US}

    def see(self, now_us: int, peer: str, cookie: int) -> PeerTotals:
        """Return the totals of a peer, and record that one of its sockets existed at `now_us` [us]."""
        totals = self.peers.get(peer)
        if totals is None:
            totals = self.peers[peer] = PeerTotals(dict(NOTHING), {})
        totals.seen_us[cookie] = now_us
        return totals

    def flows(self, peer: str, after_us: int) -> int:
        """Return the number of a peer's sockets that existed after `after_us` [us], and forget the others."""
        totals = self.peers.get(peer)
        if totals is None:
            return 0
        totals.seen_us = {cookie: t_us for cookie, t_us in totals.seen_us.items() if t_us > after_us}
        return len(totals.seen_us)

    def forget(self, peer: str) -> None:
        """Remove a peer without sockets."""
        self.peers.pop(peer, None)
