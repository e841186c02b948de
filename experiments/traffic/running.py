"""What all kinds of traffic have in common once they run: one interface, one kind of result."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from experiments.netlab.errors import LabError

if TYPE_CHECKING:
    from experiments.netlab.host import Host


@dataclass(frozen=True)
class FlowSockets:
    """Which of the sender's sockets carry a flow's data; rows of `ccplane.base._native.TcpTrace` join by it.

    Ports alone are not enough: hosts of one scenario may use the same ones. Connections that only control
    (iperf3 has one) are none of the flow's.

    Attributes:
        netns: Inode of the sender's network namespace.
        sports: First and last local port at the sender; any, if None.
        dports: First and last remote port; any, if None.
    """

    netns: int
    sports: tuple[int, int] | None = None
    dports: tuple[int, int] | None = None

    @classmethod
    def of(
        cls, sender: Host, *, sports: tuple[int, int] | None = None, dports: tuple[int, int] | None = None
    ) -> FlowSockets:
        """Describe sockets of a host."""
        from experiments.netlab import namespace  # Linux has them; results are read elsewhere, too

        inode = os.stat(namespace.path_of(sender.namespace)).st_ino
        return cls(inode, sports, dports)

    def has(self, netns: Any, sport: Any, dport: Any) -> Any:
        """Return whether a socket is one of the flow's; elementwise for arrays, such as a trace's columns."""
        found = netns == self.netns
        for ports, port in ((self.sports, sport), (self.dports, dport)):
            if ports is not None:
                found = found & (ports[0] <= port) & (port <= ports[1])
        return found


@dataclass(frozen=True)
class ObjectResult:
    """One object that was downloaded completely.

    Attributes:
        connection: Number of the client, from 0.
        number: Number of the download of that client, from 0.
        size_bytes: Size of the object.
        start_us: When the client began with it, CLOCK_MONOTONIC [us]; late by as long as its report of the
            end took to be read, usually less than 1 ms.
        first_byte_s: From then to the first byte of the answer [s].
        completion_s: From then to the last byte [s]; a client's first download includes its connecting.
        new_connection: Whether it had to connect first; only a client's first download does, unless the
            server closed the connection.
    """

    connection: int
    number: int
    size_bytes: int
    start_us: int
    first_byte_s: float
    completion_s: float
    new_connection: bool


@dataclass(frozen=True)
class Played:
    """A piece of video that was played: a segment.

    Attributes:
        number: Its place in what is played, from 0.
        bitrate_bytes_per_s: Of its encoding.
        played_s: How much of it was played [s].
        startup_s: How long the viewer waited before it began [s]; None for segments in the midst of a video.
        stalls: How often it stopped because the rest of it was not there yet.
        stalled_s: How long it stood still then [s].
    """

    number: int
    bitrate_bytes_per_s: float
    played_s: float
    startup_s: float | None
    stalls: int
    stalled_s: float


@dataclass(frozen=True)
class ConnectionSample:
    """How a connection fared that is none of the kernel's, as the program that sends told.

    Attributes:
        t_us: When, CLOCK_MONOTONIC [us].
        connection: Number of the client, from 0.
        open: Whether it was open still.
        congestion: Which congestion control it had.
        mss_bytes: Largest UDP payload.
        cwnd_bytes: Its window.
        srtt_us: Its smoothed RTT [us].
        lost_pkts: Packets that it took for lost so far.
        bytes_sent: UDP payload that it sent so far.
        bytes_acked: Application bytes that the receiver had by then.
    """

    t_us: int
    connection: int
    open: bool
    congestion: str
    mss_bytes: int
    cwnd_bytes: int
    srtt_us: int
    lost_pkts: int
    bytes_sent: int
    bytes_acked: int


@dataclass(frozen=True)
class TrafficResult:
    """What the applications saw; what a program does not tell is None, never 0.

    Attributes:
        received_bytes: Application bytes that the receiver got.
        duration_s: From the start of the traffic to its end [s].
        complete: Whether it came to its own end; False: it was stopped.
        retrans_pkts: Segments sent again, where the program tells.
        objects: Downloads that were completed, in order of their ends; empty where there are none.
        playback: What was played, in order; empty where there is no video.
        samples: How connections fared, in order of time, where the kernel does not sample them.
    """

    received_bytes: int | None
    duration_s: float
    complete: bool
    retrans_pkts: int | None = None
    objects: tuple[ObjectResult, ...] = ()
    playback: tuple[Played, ...] = ()
    samples: tuple[ConnectionSample, ...] = ()

    @property
    def goodput_bytes_per_s(self) -> float | None:
        """Application bytes received per second [bytes/s]."""
        if self.received_bytes is None or self.duration_s <= 0:
            return None
        return self.received_bytes / self.duration_s


class Outcome:
    """The end of traffic, found out once, by whichever thread: its result, or why there is none."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self._found: TrafficResult | LabError | None = None
        self._finding = threading.Lock()

    @property
    def known(self) -> bool:
        """Whether it was found out."""
        return self._found is not None

    def find(self, find_out: Callable[[], TrafficResult]) -> TrafficResult:
        """Return the result, the same each time.

        Args:
            find_out: Called once; it should not take long, because others wait for it.

        Raises:
            LabError: What `find_out` raised, each time.
        """
        with self._finding:
            if self._found is None:
                try:
                    self._found = find_out()
                except LabError as error:
                    self._found = error
        if isinstance(self._found, LabError):
            raise self._found
        return self._found


class RunningTraffic(Protocol):
    """Traffic under way. It ends by itself, after its time, with `stop()`, or with the lab.

    One thread may wait while another one stops it.
    """

    @property
    def sockets(self) -> FlowSockets:
        """Which sockets carry it."""

    @property
    def started_us(self) -> int:
        """When it started, CLOCK_MONOTONIC [us]."""

    @property
    def running(self) -> bool:
        """Whether it still runs; a program that failed does not, and `wait()` says why."""

    def wait(self) -> TrafficResult:
        """Return the result when the traffic has ended, or its time is over. Nothing of it runs then.

        Raises:
            LabError: `lab.command_failed` or another of the lab's, if a program failed.
        """

    def stop(self) -> None:
        """End it now, and remove its files. May be called again; `wait()` returns what there is of a result.

        Whoever starts traffic calls this or `wait()` at the end, also after an exception.

        Raises:
            LabError: If a program had failed before, as `wait()`.
        """
