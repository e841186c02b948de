"""The common interface and result type of all kinds of running traffic."""

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
    """Identifies the sender's sockets that carry a flow's data, and their rows in a `TcpTrace`.

    Ports alone do not suffice, because hosts of a scenario may use the same ones. Control connections (iperf3
    has one) do not belong to the flow.

    Attributes:
        netns: Inode of the sender's network namespace.
        sports: First and last local port at the sender; None for any.
        dports: First and last remote port; None for any.
    """

    netns: int
    sports: tuple[int, int] | None = None
    dports: tuple[int, int] | None = None

    @classmethod
    def of(
        cls, sender: Host, *, sports: tuple[int, int] | None = None, dports: tuple[int, int] | None = None
    ) -> FlowSockets:
        """Describe sockets of a host."""
        from experiments.netlab import namespace  # Linux only; results can be read on other systems

        inode = os.stat(namespace.path_of(sender.namespace)).st_ino
        return cls(inode, sports, dports)

    def has(self, netns: Any, sport: Any, dport: Any) -> Any:
        """Return whether a socket belongs to the flow; elementwise for arrays, such as columns of a trace."""
        found = netns == self.netns
        for ports, port in ((self.sports, sport), (self.dports, dport)):
            if ports is not None:
                found = found & (ports[0] <= port) & (port <= ports[1])
        return found


@dataclass(frozen=True)
class ObjectResult:
    """One completely downloaded object.

    Attributes:
        connection: Number of the client, from 0.
        number: Number of the download of that client, from 0.
        size_bytes: Size of the object.
        start_us: Time at which the client started it, CLOCK_MONOTONIC [us]; too late by the time it took to
            read the client's report, usually less than 1 ms.
        first_byte_s: Time from then to the first byte of the answer [s].
        completion_s: Time from then to the last byte [s]; a client's first download includes connecting.
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
    """A played segment of video.

    Attributes:
        number: Its position in the played video, from 0.
        bitrate_bytes_per_s: Bitrate of its encoding.
        played_s: Played duration [s].
        startup_s: Wait before the playback began [s]; None for later segments of a video.
        stalls: Number of stalls for lack of data.
        stalled_s: Total duration of the stalls [s].
    """

    number: int
    bitrate_bytes_per_s: float
    played_s: float
    startup_s: float | None
    stalls: int
    stalled_s: float


@dataclass(frozen=True)
class ConnectionSample:
    """A sample of a connection outside of the kernel, as reported by the sending program.

    Attributes:
        t_us: Time, CLOCK_MONOTONIC [us].
        connection: Number of the client, from 0.
        open: Whether the connection was still open.
        congestion: Its congestion control.
        mss_bytes: Maximum UDP payload.
        cwnd_bytes: Its congestion window.
        srtt_us: Its smoothed RTT [us].
        lost_pkts: Packets detected as lost so far.
        bytes_sent: UDP payload sent so far.
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
class MediaPacket:
    """A packet of media.

    Attributes:
        frame: Number of its frame, from 0.
        len_bytes: Its payload.
        sent_us: When it was sent, on the clock of the run [us].
        arrived_us: When it arrived [us]; None if it was lost.
    """

    frame: int
    len_bytes: int
    sent_us: int
    arrived_us: int | None


@dataclass(frozen=True)
class MediaReport:
    """A receiver report (RFC 3550, section 6.4.2).

    Attributes:
        arrived_us: When it arrived at the sender, on the clock of the run [us].
        fraction_lost: Share of packets lost since the report before.
        highest: Highest sequence number received.
        rtt_us: RTT by its echo of a sender report [us]; None before it echoes one.
    """

    arrived_us: int
    fraction_lost: float
    highest: int
    rtt_us: int | None


@dataclass(frozen=True)
class Media:
    """What happened to media over RTP.

    Attributes:
        packets: All packets, in the order of sending.
        reports: The reports that arrived, in order.
        frame_s: Time between frames [s].
        report_s: Time between reports [s].
        playout_us: One-way delay above which a packet is late [us].
    """

    packets: tuple[MediaPacket, ...]
    reports: tuple[MediaReport, ...]
    frame_s: float
    report_s: float
    playout_us: int


@dataclass(frozen=True)
class TrafficResult:
    """Results of the applications; values that a program does not report are None, never 0.

    Attributes:
        received_bytes: Application bytes received.
        duration_s: Time from the start of the traffic to its end [s].
        complete: Whether it ended by itself; False if it was stopped.
        retrans_pkts: Retransmitted segments, if the program reports them.
        objects: Completed downloads, in order of completion; empty for other traffic.
        playback: Played segments, in order; empty without video.
        samples: Samples of connections, in order of time, if the kernel does not sample them.
        media: Packets and reports of media over RTP; None for other traffic.
    """

    received_bytes: int | None
    duration_s: float
    complete: bool
    retrans_pkts: int | None = None
    objects: tuple[ObjectResult, ...] = ()
    playback: tuple[Played, ...] = ()
    samples: tuple[ConnectionSample, ...] = ()
    media: Media | None = None

    @property
    def goodput_bytes_per_s(self) -> float | None:
        """Application bytes received per second [bytes/s]."""
        if self.received_bytes is None or self.duration_s <= 0:
            return None
        return self.received_bytes / self.duration_s


class Outcome:
    """The outcome of traffic, determined once, by any thread: its result or its error."""

    def __init__(self) -> None:
        self._found: TrafficResult | LabError | None = None
        self._finding = threading.Lock()

    @property
    def known(self) -> bool:
        """Whether the outcome is known."""
        return self._found is not None

    def find(self, find_out: Callable[[], TrafficResult]) -> TrafficResult:
        """Return the result, the same each time.

        Args:
            find_out: Called once; must be quick, because other threads wait for it.

        Raises:
            LabError: The error that `find_out` raised, each time.
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
    """Running traffic. The traffic ends by itself, after its time, with `stop()`, or with the lab.

    One thread may wait while another stops the traffic.
    """

    @property
    def sockets(self) -> FlowSockets:
        """Sockets that carry the traffic."""

    @property
    def started_us(self) -> int:
        """Start of the traffic, CLOCK_MONOTONIC [us]."""

    @property
    def running(self) -> bool:
        """Whether the traffic is running; False after a failure, which `wait()` raises."""

    def wait(self) -> TrafficResult:
        """Wait until the traffic has ended or its time is over; stop it, and return the result.

        Raises:
            LabError: `lab.command_failed` or another of the lab's, if a program failed.
        """

    def stop(self) -> None:
        """Stop the traffic now, and remove its files; may be called again. `wait()` returns a partial result.

        Callers that start traffic must call `stop()` or `wait()` at the end, even after an exception.

        Raises:
            LabError: As in `wait()`, if a program had failed before.
        """
