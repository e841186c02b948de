"""One detector a client, for all connections to it: they share the client's limit.

    clients = Clients()
    flow = clients.open("192.0.2.7", Progress(...))
    flow.start(Progress(...))    # it has data to send again
    flow.ack(Progress(...))
    flow.idle()                  # application-limited: it has none any more
    flow.detector.limited        # what is known of the client
    flow.close(Progress(...))

What the flows of a client deliver and lose is added up, as if it were one flow. A transfer begins when one of
them starts and none was active. What is known of a limited client outlives its connections for a while, so
that the next one is limited from its first packet on (SR-TCP).

Source: S. Zhu et al., "R-TCP: A Framework to Optimize TCP Performance Over Rate-Limiting Networks", NSDI
2026, sections 4.4 ("Concurrent flows") and 6.1 ("Stateful Optimization"). Where the paper leaves a choice:

* ACKs count also while their flow is application-limited: what they acknowledge has used up tokens.
* The least RTT is that of the flow whose ACK it is.
* A client is forgotten ten minutes after its last connection; at once if it was not limited, or is no
  longer. One that was about to be judged is kept for ten seconds: its next connection goes on where this
  one ended.
* A client whose connections cannot share a bucket (`member.py`) is several, behind one address: it falls
  apart for its life, and each of them is a client of its own, known by its port, too.
* A limit that is gone is so for the connections that were there. The next one that the client opens looks
  anew: in the paper, which has a detector a flow, it would, too.
"""

from __future__ import annotations

import dataclasses

from ccp_algs.rtcp.detector import Detector
from ccp_algs.rtcp.member import Member
from ccp_algs.rtcp.options import Options
from ccp_algs.rtcp.remote import Remote
from ccp_algs.rtcp.transfer import Progress

UNDECIDED_US = 10_000_000
"""How long a client is kept without a connection that was about to be judged [us]."""


@dataclasses.dataclass(slots=True)
class _Client:
    """What is known of a client; its progress is the sum over its flows."""

    detector: Detector
    open_flows: int = 0
    active_flows: int = 0
    delivered_pkts: int = 0
    lost_pkts: int = 0
    over_at_us: int = 0
    is_apart: bool = False

    def add(self, last: Progress, now: Progress) -> Progress:
        self.delivered_pkts += now.delivered_pkts - last.delivered_pkts
        self.lost_pkts += now.lost_pkts - last.lost_pkts
        return now._replace(delivered_pkts=self.delivered_pkts, lost_pkts=self.lost_pkts)

    def catch_up(self, member: Member) -> None:
        """Tell a new detector what its connection has been through since its transfer began."""
        mss_bytes = self.detector.mss_bytes
        self.delivered_pkts = member.delivered_bytes // mss_bytes
        self.lost_pkts = member.lost_bytes // mss_bytes
        self.detector.start(Progress(member.start_us, 0, 0, 0))
        self.detector.ack(Progress(member.calm_us, member.calm_bytes // mss_bytes, 0, 0))


class Flow:
    """A connection to a client. All times are of one clock, that of all flows.

    Attributes:
        remote: The client's ends.
    """

    __slots__ = ("_active", "_client", "_clients", "_end", "_last", "_member", "remote")

    def __init__(self, clients: Clients, end: tuple[str, int], now: Progress) -> None:
        """Begin with the counters that the connection has now; see `Clients.open`."""
        self._clients = clients
        self._end = end
        self._member = Member()
        self._last = now
        self._active = False
        self.remote, self._client = clients.joined(*end, now.time_us)

    @property
    def detector(self) -> Detector:
        """The client's detector."""
        return self._client.detector

    def start(self, now: Progress) -> None:
        """Have data to send again, after there was none. Nothing happens if it is active already."""
        self._make_whole(now.time_us)
        client = self._client
        total = self._add(now)
        if not self._active:
            self._member.start(now.time_us)
            self._active = True
            client.active_flows += 1
            if client.active_flows == 1:
                client.detector.start(total)

    def ack(self, now: Progress) -> None:
        """Take an ACK of this flow in; counters are the flow's own."""
        self._make_whole(now.time_us)
        total = self._add(now)
        client = self._client
        client.detector.ack(total)
        judged = client.detector.options.falls_apart and not self.remote.is_single
        if judged and self._member.ack(client.detector.mss_bytes, total):
            client.is_apart = True

    def idle(self) -> None:
        """Have nothing to send any more. Nothing happens if it is idle already."""
        if self._active:
            self._active = False
            self._client.active_flows -= 1

    def close(self, now: Progress) -> None:
        """End the connection, once."""
        self._client.add(self._last, now)
        self._leave(now.time_us)

    def _leave(self, now_us: int) -> None:
        self.idle()
        self._client.open_flows -= 1
        if self._client.open_flows == 0:
            self._clients.rest(self.remote, now_us)

    def _add(self, now: Progress) -> Progress:
        last, mss_bytes = self._last, self._client.detector.mss_bytes
        delivered_pkts, lost_pkts = now.delivered_pkts - last.delivered_pkts, now.lost_pkts - last.lost_pkts
        self._member.add(now.time_us, delivered_pkts * mss_bytes, lost_pkts * mss_bytes)
        self._last = now
        return self._client.add(last, now)

    def _make_whole(self, now_us: int) -> None:
        """Leave a client that has fallen apart, and go on with one of its own."""
        if not self._client.is_apart:
            return
        was_active = self._active
        self._leave(now_us)
        self.remote, client = self._clients.joined(*self._end, now_us)
        self._client = client
        if not was_active:
            return
        self._active = True
        client.active_flows += 1
        is_new = client.active_flows == 1 and client.detector.transfer is None
        if is_new and self._member.is_short(now_us):
            client.catch_up(self._member)


class Clients:
    """Clients by their ends: those with connections, and the limited ones that had some lately."""

    def __init__(self, options: Options | None = None, *, mss_bytes: int = 1448) -> None:
        """Start without clients.

        Args:
            options: Parameters of the detectors, and how long a limited client is remembered.
            mss_bytes: Segment size of all flows [bytes].
        """
        self._options = options or Options()
        self._mss_bytes = mss_bytes
        self._present: dict[Remote, _Client] = {}
        self._limited: dict[Remote, _Client] = {}
        self._undecided: dict[Remote, _Client] = {}

    def __len__(self) -> int:
        """Return how many clients are known."""
        return len(self._present) + len(self._limited) + len(self._undecided)

    def open(self, address: str, now: Progress, *, port: int = 0) -> Flow:
        """Begin a connection; what is known of the client holds for it.

        Args:
            address: Of the connection's other end.
            now: The time, and the counters that the connection begins with.
            port: Of the connection's other end.
        """
        return Flow(self, (address, port), now)

    def joined(self, address: str, port: int, now_us: int) -> tuple[Remote, _Client]:
        """Return the client of a port of an address, which has one connection more now."""
        self._forget(now_us)
        remote = Remote.of(address, port, self._options)
        known = self._limited.get(remote) or self._present.get(remote)
        if known is not None and known.is_apart:
            known.over_at_us = now_us + self._options.exact.kept_us
            if self._limited.pop(remote, None):
                self._limited[remote] = known  # the last to be forgotten
            remote = Remote.single(address, port)
        client = (
            self._limited.pop(remote, None) or self._undecided.pop(remote, None) or self._present.get(remote)
        )
        if client is None:
            client = _Client(Detector(self._options, mss_bytes=self._mss_bytes))
        elif client.detector.undetected_at_us is not None:
            client.detector = Detector(self._options, mss_bytes=self._mss_bytes)
        self._present[remote] = client
        client.open_flows += 1
        return remote, client

    def rest(self, remote: Remote, now_us: int) -> None:
        """Note that the last connection to a client has ended."""
        client = self._present.pop(remote)
        if client.detector.limited or client.is_apart:
            client.over_at_us = now_us + self._options.exact.kept_us
            self._limited[remote] = client
        elif client.detector.is_undecided:
            client.over_at_us = now_us + UNDECIDED_US
            self._undecided[remote] = client

    def _forget(self, now_us: int) -> None:
        """Forget the clients whose time is up: the first ones, as they stand in the order of closing."""
        for resting in (self._limited, self._undecided):
            while resting:
                remote, client = next(iter(resting.items()))
                if now_us <= client.over_at_us:
                    break
                del resting[remote]
