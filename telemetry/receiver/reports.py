"""Reports of peers about themselves: segments that they retransmitted. Pure: no clock, no I/O.

A receiver only sees gaps, not losses; the sender knows its losses. Where the sender also runs `ccp telemetry
receive`, its signals about this host contain `loss_pkts`, which become `retrans_pkts` of this host's signal
about the sender.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final

from telemetry.schema import ReceiverSignal, Sample, canonical

_KEEP_PEERS: Final = 10_000
_SLACK: Final = 0.1
"""Maximum overlap of two reports, as a share of a window; more would count events twice."""


@dataclass(slots=True)
class _Reports:
    until_us: int = 0  # end of the last accepted window, by the peer's clock
    sender: str = ""
    counts: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=1000))


class PeerReports:
    """Reports of peers; windows that overlap an accepted one are ignored."""

    def __init__(self) -> None:
        self._peers: dict[str, _Reports] = {}

    def take(self, sample: Sample, own: Collection[str]) -> None:
        """Take a message of the bus; messages other than such reports are ignored."""
        body = sample.body
        if (
            not isinstance(body, ReceiverSignal)
            or body.flow is not None  # already included in its peer's signal
            or body.address is None
            or body.loss_pkts is None
            or body.window_ms is None
            or canonical(body.peer) not in own
        ):
            return
        peer = canonical(body.address)
        if peer not in self._peers and len(self._peers) >= _KEEP_PEERS:
            return
        reports = self._peers.setdefault(peer, _Reports())
        window_us = body.window_ms * 1000
        restarted = reports.sender != sample.sender or sample.sent_mono_us < reports.until_us
        if restarted or sample.sent_mono_us - window_us >= reports.until_us - _SLACK * window_us:
            reports.sender, reports.until_us = sample.sender, sample.sent_mono_us
            reports.counts.append((sample.received_us, body.loss_pkts))

    def close(self, peer: str, after_us: int, until_us: int) -> int | None:
        """Return the retransmissions that a peer reported for a window; None without a report."""
        reports = self._peers.get(peer)
        if reports is None:
            return None
        while reports.counts and reports.counts[0][0] <= after_us:
            reports.counts.popleft()
        counts = [count for t_us, count in reports.counts if t_us <= until_us]
        return sum(counts) if counts else None
