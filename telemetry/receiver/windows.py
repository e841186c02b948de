"""Windows of all peers, and a signal for each. Pure: the clock is an argument.

A window is the last `intervals` intervals; each call of `close` ends an interval.
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
    """Data of each peer.

    Attributes:
        reports: Peers' reports about themselves; filled by the subscriber of the bus.
    """

    def __init__(self, start_us: int, intervals: int, named: Collection[str] = ()) -> None:
        """Start the first window.

        Args:
            start_us: Current time [us].
            intervals: Length of a window in intervals, at least 1.
            named: Peers that always get a signal; if empty, all peers with sockets get one.
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
        """All peers that may get a signal."""
        return list(self._named or self._peers)

    def add_rtt(self, peer: str, t_us: int, rtt_us: int) -> None:
        """Add an answered probe: RTT [us], answered at `t_us` [us]."""
        if peer in self._peers:
            self._peers[peer].rtts.add(t_us, rtt_us)

    def add_sockets(self, now_us: int, readings: Iterable[SocketReading]) -> None:
        """Add a reading of all sockets of this host, taken at `now_us` [us]."""
        if self._counters is None:
            self._counters = PeerCounters()
        self._counters.update(now_us, readings)
        for peer in self._counters.peers:
            if peer not in self._peers:
                self._peers[peer] = self._new_peer()

    def add_host(self, values: Values) -> None:
        """Add a reading of this host's counters."""
        self._host_now = values
        if self._host is None:
            self._host = Series(self._ends_us[-1], values, self._intervals)

    def add_arrivals(self, now_us: int, arrived: Iterable[Arrived], *, is_all: bool) -> None:
        """Add the kernel probe's counts of this interval, including closed connections."""
        self._has_probe, self._probe_sees_all = True, is_all
        for one in arrived:
            peer = one.ends.peer
            if peer not in self._peers:
                self._peers[peer] = self._new_peer()
            self._peers[peer].arrivals.add(one)
            if self._counters is not None:
                self._counters.see(now_us, peer, one.cookie)

    def close(self, now_us: int, addresses: dict[str, str] | None = None) -> list[ReceiverSignal]:
        """End an interval at `now_us` [us]; everything read until then belongs to it.

        Args:
            now_us: End of the interval [us].
            addresses: Peer -> this host's address on that path, where known.

        Returns:
            A signal for each named peer, or for each peer with sockets.
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
        """Forget a peer without sockets; if it returns, its counters start again."""
        if self._counters is not None:
            self._counters.forget(peer)
        if peer in self._named:
            self._peers[peer].tcp = Series(self._ends_us[-1], NOTHING, self._intervals)
        else:
            del self._peers[peer]
