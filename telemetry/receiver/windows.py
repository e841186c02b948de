"""Windows of all peers: from what the sources read to a signal of each peer. Pure: the clock comes in.

A window is the last `intervals` intervals; each interval's end is a call of `close`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from telemetry.receiver.arrivals import ArrivalWindow, Arrived
from telemetry.receiver.reports import PeerReports
from telemetry.receiver.rtt import RttWindow
from telemetry.receiver.series import Growth, Series, Values
from telemetry.receiver.signals import signal_of, sole_sender
from telemetry.receiver.tcp import NOTHING, PeerCounters, SocketReading
from telemetry.schema import ReceiverSignal


@dataclass(slots=True)
class _Peer:
    tcp: Series
    arrivals: ArrivalWindow
    rtts: RttWindow = field(default_factory=RttWindow)


class Windows:
    """What is known of each peer.

    Attributes:
        reports: What peers report of themselves; whoever listens to the bus fills it.
    """

    def __init__(self, start_us: int, intervals: int, named: Collection[str] = ()) -> None:
        """Begin.

        Args:
            start_us: Now [us].
            intervals: Length of a window in intervals, at least 1.
            named: Peers that always get a signal; if there are none, all that there are sockets with.
        """
        self.reports = PeerReports()
        self._named = dict.fromkeys(named)
        self._intervals = intervals
        self._ends_us = [start_us]
        self._counters: PeerCounters | None = None
        self._peers: dict[str, _Peer] = {peer: self._new_peer() for peer in self._named}
        self._host: Series | None = None
        self._host_now: Values = {}
        self._has_probe = self._probe_sees_all = False

    @property
    def peers(self) -> list[str]:
        """All that a signal may be about."""
        return list(self._named or self._peers)

    def add_rtt(self, peer: str, t_us: int, rtt_us: int) -> None:
        """Take an answered probe: RTT [us], known at `t_us` [us]."""
        if peer in self._peers:
            self._peers[peer].rtts.add(t_us, rtt_us)

    def add_sockets(self, now_us: int, readings: Iterable[SocketReading]) -> None:
        """Take a reading of all sockets of this host, made at `now_us` [us]."""
        if self._counters is None:
            self._counters = PeerCounters()
        self._counters.update(now_us, readings)
        for peer in self._counters.peers:
            if peer not in self._peers:
                self._peers[peer] = self._new_peer()

    def add_host(self, values: Values) -> None:
        """Take a reading of the counters of this host."""
        self._host_now = values
        if self._host is None:
            self._host = Series(self._ends_us[-1], values, self._intervals)

    def add_arrivals(self, now_us: int, arrived: Iterable[Arrived], *, is_all: bool) -> None:
        """Take what came in in this interval, as the kernel probe counted it; connections that ended, too.

        Args:
            now_us: When it was read [us].
            arrived: What came in on each connection.
            is_all: Whether there was room for all connections.
        """
        self._has_probe, self._probe_sees_all = True, is_all
        for one in arrived:
            peer = one.ends.peer
            if peer not in self._peers:
                self._peers[peer] = self._new_peer()
            self._peers[peer].arrivals.add(one)
            if self._counters is not None:
                self._counters.see(now_us, peer, one.cookie)

    def close(self, now_us: int, addresses: dict[str, str] | None = None) -> list[ReceiverSignal]:
        """End an interval at `now_us` [us]; what was read until then belongs to it.

        Args:
            now_us: The end [us].
            addresses: Peer -> our own address on that path, where known.

        Returns:
            A signal of each named peer, or of each peer with sockets.
        """
        begin_us = self._ends_us[0]
        growths = self._tcp(now_us)
        host = None if self._host is None else self._host.close(now_us, self._host_now)
        sole = sole_sender(growths)
        signals = []
        idle = []
        for peer, state in self._peers.items():
            flows = None if self._counters is None else self._counters.flows(peer, begin_us)
            rtt = state.rtts.close(begin_us, now_us)
            arrivals = state.arrivals.close()
            if peer in self._named or (flows and not self._named):
                signals.append(
                    signal_of(
                        peer,
                        (addresses or {}).get(peer),
                        now_us - begin_us,
                        rtt=rtt,
                        tcp=growths.get(peer),
                        flows=flows,
                        host=host.values if host is not None and peer == sole else None,
                        retrans_pkts=self.reports.close(peer, begin_us, now_us),
                        arrivals=arrivals if self._has_probe else None,
                        arrivals_are_all=self._probe_sees_all,
                    )
                )
            if not flows:
                idle.append(peer)
        self._ends_us = [*self._ends_us, now_us][-self._intervals :]
        for peer in idle:
            self._forget(peer)
        return signals

    def _tcp(self, now_us: int) -> dict[str, Growth]:
        if self._counters is None:
            return {}
        totals = self._counters.peers
        return {
            peer: state.tcp.close(now_us, totals[peer].values if peer in totals else NOTHING)
            for peer, state in self._peers.items()
        }

    def _new_peer(self) -> _Peer:
        series = Series(self._ends_us[-1], NOTHING, self._intervals)
        return _Peer(series, ArrivalWindow(self._intervals))

    def _forget(self, peer: str) -> None:
        """Drop the sockets of a peer that has none; its counters start anew when it comes back."""
        if self._counters is not None:
            self._counters.forget(peer)
        if peer in self._named:
            self._peers[peer].tcp = Series(self._ends_us[-1], NOTHING, self._intervals)
        else:
            del self._peers[peer]
