"""Windows of single connections, and a signal for each. Pure: the clock is an argument."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from telemetry.receiver.arrivals import ArrivalWindow, Arrived
from telemetry.receiver.series import Series, Values
from telemetry.receiver.signals import signal_of
from telemetry.receiver.tcp import NOTHING, Ends, SocketReading
from telemetry.schema import FlowId, ReceiverSignal


@dataclass(slots=True)
class _Flow:
    ends: Ends
    tcp: Series
    newest: Values | None
    arrivals: ArrivalWindow
    seen_us: int


class FlowWindows:
    """Data of each connection; a closed connection gets its last signal at the end of its last window."""

    def __init__(self, start_us: int, intervals: int, peers: Collection[str] = ()) -> None:
        """Start the first window.

        Args:
            start_us: Current time [us].
            intervals: Length of a window in intervals, at least 1.
            peers: Peers whose connections get signals; if empty, all.
        """
        self._peers = frozenset(peers)
        self._intervals = intervals
        self._ends_us = [start_us]
        self._flows: dict[int, _Flow] = {}
        self._has_base = False
        self._has_probe = self._probe_sees_all = False

    def add_sockets(self, now_us: int, readings: Iterable[SocketReading]) -> None:
        """Add a reading of all sockets of this host, taken at `now_us` [us]; the first is the base."""
        for reading in readings:
            base = NOTHING if self._has_base else reading.values
            flow = self._flow(now_us, reading.cookie, reading.ends, base)
            if flow is not None:
                flow.newest = reading.values
        self._has_base = True

    def add_arrivals(self, now_us: int, arrived: Iterable[Arrived], *, is_all: bool) -> None:
        """Add arrivals of this interval, read at `now_us` [us]; see `Windows.add_arrivals`."""
        self._has_probe, self._probe_sees_all = True, is_all
        for one in arrived:
            flow = self._flow(now_us, one.cookie, one.ends, NOTHING)
            if flow is not None:
                flow.arrivals.add(one)

    def close(self, now_us: int) -> list[ReceiverSignal]:
        """End an interval at `now_us` [us]; return a signal for each connection of the window."""
        begin_us = self._ends_us[0]
        signals = []
        for cookie, flow in list(self._flows.items()):
            growth = None if flow.newest is None else flow.tcp.close(now_us, flow.newest)
            arrivals = flow.arrivals.close()
            if flow.seen_us <= begin_us:
                del self._flows[cookie]
                continue
            own, own_port, peer, peer_port = flow.ends
            signals.append(
                signal_of(
                    peer,
                    own,
                    now_us - begin_us,
                    flow=FlowId(src=peer, src_port=peer_port, dst=own, dst_port=own_port),
                    tcp=growth,
                    flows=1,
                    arrivals=arrivals if self._has_probe else None,
                    arrivals_are_all=self._probe_sees_all,
                )
            )
        self._ends_us = [*self._ends_us, now_us][-self._intervals :]
        return signals

    def _flow(self, now_us: int, cookie: int, ends: Ends, base: Values) -> _Flow | None:
        """Return a connection that existed at `now_us` [us]; None if it gets no signals."""
        if self._peers and ends.peer not in self._peers:
            return None
        flow = self._flows.get(cookie)
        if flow is None:
            series = Series(self._ends_us[-1], base, self._intervals)
            flow = _Flow(ends, series, None, ArrivalWindow(self._intervals), now_us)
            self._flows[cookie] = flow
        flow.seen_us = now_us
        return flow
