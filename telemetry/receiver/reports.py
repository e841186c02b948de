"""What peers report of themselves: segments that they sent us again. Pure: no clock, no I/O.

A receiver cannot see what was lost, only gaps. The sender knows: where it runs `ccp telemetry receive`, too,
its signals about us carry `loss_pkts`, and we pass them on as `retrans_pkts` of our signal about it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final

from telemetry.schema import ReceiverSignal, Sample, canonical

_KEEP_PEERS: Final = 10_000
_SLACK: Final = 0.1
"""Share of a window that two reports may overlap by before the later one would count events twice."""


@dataclass(slots=True)
class _Reports:
    until_us: int = 0  # end of the last window that was taken, by the peer's clock
    sender: str = ""
    counts: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=1000))


class PeerReports:
    """Reports by the peer they come from; windows that overlap one already taken are passed over."""

    def __init__(self) -> None:
        self._peers: dict[str, _Reports] = {}

    def take(self, sample: Sample, ours: Collection[str]) -> None:
        """Take a message of the bus; whatever is no such report is passed over.

        Args:
            sample: Of any kind.
            ours: Our own addresses.
        """
        body = sample.body
        if (
            not isinstance(body, ReceiverSignal)
            or body.flow is not None  # in its peer's signal, too
            or body.address is None
            or body.loss_pkts is None
            or body.window_ms is None
            or canonical(body.peer) not in ours
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
        """Return what a peer reported in the window (after_us, until_us] [us]; None if it said nothing.

        Args:
            peer: Its address.
            after_us: Begin of the window by our clock [us].
            until_us: Its end [us].
        """
        reports = self._peers.get(peer)
        if reports is None:
            return None
        while reports.counts and reports.counts[0][0] <= after_us:
            reports.counts.popleft()
        counts = [count for t_us, count in reports.counts if t_us <= until_us]
        return sum(counts) if counts else None
