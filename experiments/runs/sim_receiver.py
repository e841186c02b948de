"""A receiver agent in a simulation, the counterpart of `ccp telemetry receive --regime` on a host.

Windows, signals and detector are those of the receiver agent. Only its inputs come from the simulator: the
results of its probes, the counters of its sockets, and the segments that arrived.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import IO, TYPE_CHECKING

import numpy as np

from ccplane.datapath import sim
from experiments.netlab.spec import Family
from experiments.runs.check import peers_of, settings_of
from telemetry.local import LocalBus
from telemetry.receiver.arrival_rows import arrived_of, ends_of, middles_us
from telemetry.receiver.output import Moment, json_lines
from telemetry.receiver.tcp import NOTHING, SocketReading
from telemetry.receiver.times import lives_ms, times
from telemetry.receiver.windows import Windows
from telemetry.regime.modes import mode_of, with_settings
from telemetry.regime.watch import Watch
from telemetry.status import online

if TYPE_CHECKING:
    from ccplane.base._native import SimDatapath
    from experiments.regimes import ReceiverAgent
    from experiments.scenario import Scenario


Answer = tuple[str, str, int, int]
"""Result of a probe: probing host, answering address, time of the answer [us], and RTT [us]."""


class SimReceiver:
    """The receiver agent of a host.

    Attributes:
        host: Name of the host.
        netns: Stands for the host's network namespace.
        due_us: End of its interval [us].
    """

    def __init__(
        self,
        scenario: Scenario,
        receiver: ReceiverAgent,
        datapath: SimDatapath,
        bus: LocalBus,
        addresses: Mapping[str, tuple[str, str]],
        lines: IO[bytes],
    ) -> None:
        """Start to measure."""
        mode = mode_of(receiver.mode)
        window_ms, interval_ms, probe_ms = times(
            mode, receiver.window_ms, receiver.interval_ms, receiver.probe_ms
        )
        flows = [flow for flow in scenario.flows if flow.receiver == receiver.host]
        self._own: dict[str, str] = {}
        for peer in peers_of(scenario, receiver):
            families: dict[Family, None] = dict.fromkeys(flow.family for flow in flows if flow.sender == peer)
            for family in families or ("ipv4",):
                at = ("ipv4", "ipv6").index(family)
                self._own[addresses[peer][at]] = addresses[receiver.host][at]
                datapath.probe(receiver.host, peer, probe_ms * 1000, family)
        self.host = receiver.host
        self.netns = 1 + scenario.network.hosts.index(receiver.host)
        self._datapath = datapath
        self._lines = lines
        self._bus = bus.join(f"{receiver.host}-receiver", status=online("receiver"))
        intervals = window_ms // interval_ms
        self._watch = Watch(with_settings(mode.options_for(window_ms), settings_of(receiver)), intervals)
        self._windows = Windows(datapath.now_us, intervals, tuple(self._own))
        self._windows.add_sockets(datapath.now_us, ())
        self._sockets: dict[int, SocketReading] = {}
        self._duplicates: dict[int, int] = {}
        self._interval_us = interval_ms * 1000
        self._ttl_ms = lives_ms(interval_ms)
        self._regime_ttl_ms = receiver.ttl_ms or lives_ms(window_ms)
        self._middles_us = middles_us(sim.arrival_bins_us())
        self.due_us = datapath.now_us + self._interval_us

    def receive(self, answers: Sequence[Answer]) -> None:
        """Add the results of this host's probes."""
        for _, peer, known_us, rtt_us in answers:
            self._windows.add_rtt(peer, known_us, rtt_us)

    def take(self, rows: np.ndarray) -> None:
        """Add the segments that arrived on this host's sockets since the last call."""
        now_us = self._datapath.now_us
        arrived = arrived_of(rows, self._middles_us)
        for row, ends, one in zip(rows, ends_of(rows), arrived, strict=True):
            values = {
                "bytes_received": int(row["bytes_received"]),
                "data_in": int(row["data_in"]),
                "out_of_order": int(row["out_of_order"]),
            }
            self._sockets[one.cookie] = SocketReading(one.cookie, ends, {**NOTHING, "ce": None, **values})
            self._duplicates[one.cookie] = int(row["duplicates"])
        self._windows.add_sockets(now_us, self._sockets.values())
        self._windows.add_arrivals(now_us, arrived, is_all=True)
        self._windows.add_host({"ce": None, "duplicates": sum(self._duplicates.values())})
        for cookie in rows["cookie"][rows["closed"] != 0].tolist():
            del self._sockets[cookie]

    def close_interval(self) -> None:
        """End an interval, and publish its measurements and decisions."""
        now_us = self._datapath.now_us
        self.due_us += self._interval_us
        signals = self._windows.close(now_us, self._own)
        for signal in signals:
            self._bus.publish(signal, ttl_ms=self._ttl_ms)
        watched = self._watch.take(signals, now_us, now_us)
        decided = [(one.decision, one.details) for one in watched]
        for one in watched:
            self._bus.publish(one.decision, ttl_ms=self._regime_ttl_ms)
        moment = Moment(wall_us=now_us, mono_us=now_us)
        self._lines.writelines(line.encode() + b"\n" for line in json_lines(moment, signals, decided))
