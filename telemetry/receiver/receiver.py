"""The receiver agent: reads its sources periodically, closes windows, and delivers signals.

Everything runs in one thread; only `request_stop` may be called from another thread or a signal handler. If a
source cannot start, only its signals are missing.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from ccplane.base import clock
from telemetry.receiver.errors import ReceiverError
from telemetry.receiver.flows import FlowWindows
from telemetry.receiver.kernel_probe import KernelProbe
from telemetry.receiver.peers import by_address, own_address
from telemetry.receiver.probing import DEFAULT_PORT, Kind, Prober
from telemetry.receiver.proc import HostCounters
from telemetry.receiver.sockets import SocketTable, kernel_counts_ce
from telemetry.receiver.windows import Windows
from telemetry.schema import ReceiverSignal, Sample

MAX_INTERVALS: Final = 1000
READ_US: Final = 100_000
"""Time between readings of sockets [us]; what a socket counts between its last reading and its end is
lost."""

READ_SHARE: Final = 0.05
"""Maximum share of a processor for reading sockets; with more sockets, readings are less frequent."""


@dataclass(frozen=True, slots=True)
class Options:
    """Options of the measurement.

    Attributes:
        peers: Peers, as returned by `telemetry.receiver.peers.resolve`, that get a signal and are probed; if
            empty, each peer with TCP sockets gets a signal, and there are no probes.
        window_ms: Length of a window [ms]; a multiple of `interval_ms`.
        interval_ms: Time between two signals of a peer [ms].
        probe: How to probe RTT; None for no probes.
        probe_ms: Time between two probes to a peer [ms].
        port: Port of the responders, for UDP probes.
        kernel_probe: Whether the kernel counts arriving segments, if permitted.
        per_flow: Whether connections also get signals.
    """

    peers: tuple[str, ...] = ()
    window_ms: int = 1000
    interval_ms: int = 1000
    probe: Kind | None = "icmp"
    probe_ms: int = 50
    port: int = DEFAULT_PORT
    kernel_probe: bool = True
    per_flow: bool = False

    def __post_init__(self) -> None:
        for name in ("window_ms", "interval_ms", "probe_ms"):
            if getattr(self, name) < 1:
                raise _bad_option(f"invalid {name}: {getattr(self, name)}", "give at least 1 ms")
        intervals, rest = divmod(self.window_ms, self.interval_ms)
        if rest or not 1 <= intervals <= MAX_INTERVALS:
            raise _bad_option(
                f"a window of {self.window_ms} ms does not fit intervals of {self.interval_ms} ms",
                f"give a window of 1 to {MAX_INTERVALS} whole intervals",
            )


def _bad_option(what: str, fix: str) -> ReceiverError:
    return ReceiverError("receiver.bad_option", what, "options", "", fix)


def monotonic_us() -> int:
    """Return CLOCK_MONOTONIC [us]."""
    return clock.now_us()


@dataclass(slots=True)
class Available:
    """The available signals.

    Attributes:
        how: Source -> description of its method.
        missing: Unavailable source -> reason.
    """

    how: dict[str, str] = field(default_factory=dict)
    missing: dict[str, ReceiverError] = field(default_factory=dict)


class Receiver:
    """Measures until `request_stop`.

    Attributes:
        available: The available signals.
        windows: Data of each peer.
    """

    def __init__(
        self,
        options: Options,
        on_signals: Callable[[Sequence[ReceiverSignal]], None],
        *,
        clock_us: Callable[[], int] = monotonic_us,
    ) -> None:
        """Open all sources that are permitted, in the network namespace of this thread, and start.

        Args:
            options: Options of the measurement.
            on_signals: Called at the end of every interval with the signals of all peers, followed by those
                of connections; must be quick.
            clock_us: The monotonic clock [us].

        Raises:
            ReceiverError: `receiver.nothing_to_measure` or `receiver.bad_peer`.
        """
        self.options = options
        self._named = by_address(options.peers)
        self._own: dict[str, str] = {}
        self.available = Available()
        self._on_signals = on_signals
        self._clock_us = clock_us
        self._prober: Prober | None = None
        self._sockets: SocketTable | None = None
        self._host: HostCounters | None = None
        self._kernel_probe: KernelProbe | None = None
        self._flows: FlowWindows | None = None
        self._received: deque[Sample] = deque(maxlen=10_000)
        self._stopping = False
        self._selector = selectors.DefaultSelector()
        self._wake_here, self._wake_there = socket.socketpair()
        self._selector.register(self._wake_here, selectors.EVENT_READ)
        try:
            self._open()
            now_us = clock_us()
            intervals = options.window_ms // options.interval_ms
            self.windows = Windows(now_us, intervals, self._named)
            if options.per_flow:
                self._flows = FlowWindows(now_us, intervals, self._named)
            self._read_due_us, self._close_due_us = now_us, now_us + options.interval_ms * 1000
            self._read()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        options, how, missing = self.options, self.available.how, self.available.missing
        if options.probe is not None and options.peers:
            interval_us = options.probe_ms * 1000
            try:
                self._prober = Prober(options.peers, interval_us, self._clock_us, options.probe, options.port)
            except ReceiverError as error:
                missing["RTT and jitter"] = error
            else:
                how["RTT and jitter"] = self._prober.how
                for file in self._prober.files:
                    self._selector.register(file, selectors.EVENT_READ)
        try:
            self._sockets = SocketTable()
        except ReceiverError as error:
            missing["goodput, reordering, loss"] = error
        else:
            how["goodput, reordering, loss"] = "each TCP socket (inet_diag)"
        try:
            self._host = HostCounters()
        except ReceiverError as error:
            missing["duplicates"] = error
        else:
            how["duplicates"] = "the host (TCPDSACK*Sent in /proc/net/netstat), while one peer sends"
        if options.kernel_probe:
            what = "one-way delay, retransmissions"
            try:
                self._kernel_probe = KernelProbe()
            except ReceiverError as error:
                missing[what] = error
            else:
                how[what] = "each TCP segment (kernel probe, by its timestamp)"
        if self._kernel_probe is not None:
            how["CE marks"] = "each TCP segment (kernel probe)"
        elif self._sockets is not None and kernel_counts_ce():
            how["CE marks"] = "each TCP socket (tcpi_received_ce)"
        elif self._host is not None:
            how["CE marks"] = "the host (InCEPkts in /proc/net/netstat and snmp6), while one peer sends"
        if not how:
            raise ReceiverError(
                "receiver.nothing_to_measure",
                "no signal is available",
                why="\n".join(str(error) for error in missing.values()),
                fix="permit at least one source",
            )

    def close(self) -> None:
        """Close all sources; may be called again."""
        if self._prober is not None:
            self._prober.close()
        if self._sockets is not None:
            self._sockets.close()
        if self._kernel_probe is not None:
            self._kernel_probe.close()
        self._selector.close()
        self._wake_here.close()
        self._wake_there.close()

    def request_stop(self) -> None:
        """Make `run` return; from any thread or signal handler."""
        self._stopping = True
        with contextlib.suppress(OSError):
            self._wake_there.send(b"\0")

    def take(self, sample: Sample) -> None:
        """Take a message of the bus, which may be a peer's report of retransmissions. From any thread."""
        self._received.append(sample)

    def run(self, each_turn: Callable[[], None] | None = None) -> None:
        """Measure until `request_stop`; then close all sources.

        Args:
            each_turn: Called after each turn, several times a second; must be quick.
        """
        try:
            while not self._stopping:
                self.turn()
                if each_turn is not None:
                    each_turn()
        finally:
            self.close()

    def turn(self) -> None:
        """Wait for the next task, and do it."""
        due_us = min(self._read_due_us, self._close_due_us)
        if self._prober is not None:
            due_us = min(due_us, self._prober.due_us)
        self._selector.select(max(due_us - self._clock_us(), 0) / 1e6)
        if self._prober is not None:
            for rtt in self._prober.poll():
                self.windows.add_rtt(rtt.peer, rtt.t_us, rtt.rtt_us)
        now_us = self._clock_us()
        if now_us >= self._close_due_us:
            self._close_interval()
        elif now_us >= self._read_due_us:
            self._read()

    # Turns

    def _read(self) -> None:
        began_us = self._clock_us()
        if self._sockets is not None:
            readings = list(self._sockets.read())
            self._own |= {reading.ends.peer: reading.ends.own for reading in readings}
            self.windows.add_sockets(began_us, readings)
            if self._flows is not None:
                self._flows.add_sockets(began_us, readings)
        if self._host is not None:
            self.windows.add_host(self._host.read())
        now_us = self._clock_us()
        pause_us = max(min(READ_US, self.options.interval_ms * 1000), int((now_us - began_us) / READ_SHARE))
        self._read_due_us = now_us + pause_us

    def _read_arrivals(self) -> None:
        """Read the kernel's counts of this interval, including closed connections."""
        if self._kernel_probe is None:
            return
        now_us = self._clock_us()
        arrived, is_all = self._kernel_probe.read()
        for windows in (self.windows, self._flows):
            if windows is not None:
                windows.add_arrivals(now_us, arrived, is_all=is_all)

    def _close_interval(self) -> None:
        self._read()
        self._read_arrivals()
        addresses = {peer: own for peer in self.windows.peers if (own := self._own_address(peer)) is not None}
        self._own = {peer: own for peer, own in self._own.items() if peer in addresses}
        while self._received:
            self.windows.reports.take(self._received.popleft(), addresses.values())
        now_us = self._clock_us()
        signals = self.windows.close(now_us, addresses)
        if self._flows is not None:
            signals += self._flows.close(now_us)
        interval_us = self.options.interval_ms * 1000
        late = (now_us - self._close_due_us) // interval_us  # missed intervals are skipped
        self._close_due_us += (late + 1) * interval_us
        self._on_signals(signals)

    def _own_address(self, peer: str) -> str | None:
        """Return this host's address on the path to a peer; that of a socket if the interface is unknown."""
        return own_address(self._named.get(peer, peer)) or self._own.get(peer)
