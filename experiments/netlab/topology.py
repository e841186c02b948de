"""Common networks of veth pairs: two hosts on a wire, and two hosts with a bottleneck between them.

A path of 100 Mbit/s with a buffer of 20 ms, and CUBIC over it for five seconds:

    with bottleneck(rate_bytes_per_s=12.5e6, buffer_bytes=250_000) as path:
        result = iperf3(path.sender, path.receiver, congestion="cubic", duration_s=5)
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from experiments.netlab import links
from experiments.netlab.host import Host
from experiments.netlab.lab import DEFAULT_CONGESTION, Lab
from experiments.netlab.links import DEFAULT_MTU_BYTES, ETHERNET_HEADER_BYTES, QueueStats

BURST_S: Final = 1e-3
"""Size of a shaper's bucket, as the time that it lasts at the shaper's rate [s]; timers of virtual machines
are up to 0.1 ms late, so a smaller bucket would lose rate.
"""

BURST_VARIABLE: Final = "CCPLANE_LAB_BURST_S"
"""Environment variable that overrides `BURST_S`, for machines with later timers (an emulated processor)."""


class Shaper:
    """A token bucket with its drop-tail buffer, on one interface of a host.

    Attributes:
        host: The sending host.
        interface: Name of the device.
        rate_bytes_per_s: Rate, Ethernet headers included [bytes/s].
        buffer_bytes: Size of the buffer [bytes].
        burst_bytes: Size of the bucket [bytes].
    """

    def __init__(
        self,
        host: Host,
        interface: str,
        *,
        rate_bytes_per_s: float,
        buffer_bytes: int,
        burst_bytes: int | None = None,
        mtu_bytes: int = DEFAULT_MTU_BYTES,
    ) -> None:
        """Add the shaper to the interface.

        Args:
            host: Host of the interface.
            interface: Name of the device.
            rate_bytes_per_s: Rate, Ethernet headers included [bytes/s].
            buffer_bytes: Size of the buffer [bytes].
            burst_bytes: Size of the bucket [bytes]; by default 1 ms of the rate, at least two packets.
            mtu_bytes: Maximum IP packet of the interface [bytes].

        Raises:
            LabError: `lab.no_qdisc`, `lab.bad_value` or `lab.kernel_refused`.
        """
        self.host = host
        self.interface = interface
        self._min_burst_bytes = 2 * (mtu_bytes + ETHERNET_HEADER_BYTES)
        self._apply(rate_bytes_per_s, buffer_bytes, burst_bytes, change=False)

    def set(
        self,
        *,
        rate_bytes_per_s: float | None = None,
        buffer_bytes: int | None = None,
        burst_bytes: int | None = None,
    ) -> None:
        """Change the shaper while packets flow; packets in the buffer stay.

        Args:
            rate_bytes_per_s: New rate [bytes/s]; None for no change.
            buffer_bytes: New size of the buffer [bytes]; None for no change.
            burst_bytes: New size of the bucket [bytes]; None to follow the rate.

        Raises:
            LabError: `lab.bad_value` or `lab.kernel_refused`.
        """
        rate = self.rate_bytes_per_s if rate_bytes_per_s is None else rate_bytes_per_s
        size = self.buffer_bytes if buffer_bytes is None else buffer_bytes
        self._apply(rate, size, burst_bytes, change=True)

    def stats(self) -> QueueStats:
        """Return the shaper's counters.

        Raises:
            LabError: `lab.kernel_refused`.
        """
        return links.queue_stats(self.host.namespace, self.interface)

    def _apply(
        self, rate_bytes_per_s: float, buffer_bytes: int, burst_bytes: int | None, *, change: bool
    ) -> None:
        if burst_bytes is None:
            burst_s = float(os.environ.get(BURST_VARIABLE, BURST_S))
            burst_bytes = max(self._min_burst_bytes, int(rate_bytes_per_s * burst_s))
        links.set_tbf(
            self.host.namespace,
            self.interface,
            rate_bytes_per_s=rate_bytes_per_s,
            burst_bytes=burst_bytes,
            buffer_bytes=buffer_bytes,
            change=change,
        )
        self.rate_bytes_per_s = rate_bytes_per_s
        self.buffer_bytes = buffer_bytes
        self.burst_bytes = burst_bytes


@dataclass(frozen=True)
class Path:
    """A sender, a receiver, and the network between them.

    Attributes:
        lab: Their lab; more hosts can be added to it.
        sender: Host where flows start.
        receiver: Host where flows end.
        router: Host between the two; None on a plain wire.
        shaper: The bottleneck; None without a rate limit.
    """

    lab: Lab
    sender: Host
    receiver: Host
    router: Host | None = None
    shaper: Shaper | None = None


@contextlib.contextmanager
def two_hosts(*, mtu_bytes: int = DEFAULT_MTU_BYTES, congestion: str = DEFAULT_CONGESTION) -> Iterator[Path]:
    """Build a path `sender -- receiver` for a `with` block: one link with neither delay nor rate limit.

    Raises:
        LabError: As in `Lab`, `Lab.add_host` and `Lab.connect`.
    """
    with Lab() as lab:
        sender = lab.add_host("sender", congestion=congestion)
        receiver = lab.add_host("receiver", congestion=congestion)
        lab.connect(sender, receiver, mtu_bytes=mtu_bytes)
        yield Path(lab, sender, receiver)


@contextlib.contextmanager
def bottleneck(
    rate_bytes_per_s: float | None,
    buffer_bytes: int = 0,
    *,
    burst_bytes: int | None = None,
    shaper_at: Literal["router", "sender"] = "router",
    mtu_bytes: int = DEFAULT_MTU_BYTES,
    congestion: str = DEFAULT_CONGESTION,
) -> Iterator[Path]:
    """Build a path `sender -- router -- receiver`, with a token bucket towards the receiver.

    Args:
        rate_bytes_per_s: Rate of the bucket, Ethernet headers included [bytes/s]; None for no bucket.
        buffer_bytes: Buffer in front of the bucket [bytes]; required with a rate.
        burst_bytes: Size of the bucket [bytes]; by default 1 ms of the rate, at least two packets.
        shaper_at: Host whose queue is the bottleneck. `router`: the sender sees losses as in a real network.
            `sender`: its own queue drops packets, and its TCP notices immediately (local congestion, CWR).
        mtu_bytes: Maximum IP packet [bytes].
        congestion: Congestion control of sockets that choose none.

    Raises:
        LabError: `lab.no_qdisc`, or as in `Lab`, `Lab.add_host` and `Lab.connect`.
    """
    with Lab() as lab:
        sender = lab.add_host("sender", congestion=congestion)
        router = lab.add_host("router", congestion=congestion, forwards=True)
        receiver = lab.add_host("receiver", congestion=congestion)
        to_router, from_sender = lab.connect(sender, router, mtu_bytes=mtu_bytes)
        to_receiver, _ = lab.connect(router, receiver, mtu_bytes=mtu_bytes)
        links.add_default_routes(sender.namespace, from_sender)
        links.add_default_routes(receiver.namespace, to_receiver)
        shaper = None
        if rate_bytes_per_s is not None:
            host, end = (router, to_receiver) if shaper_at == "router" else (sender, to_router)
            shaper = Shaper(
                host,
                end.name,
                rate_bytes_per_s=rate_bytes_per_s,
                buffer_bytes=buffer_bytes,
                burst_bytes=burst_bytes,
                mtu_bytes=mtu_bytes,
            )
        yield Path(lab, sender, receiver, router, shaper)
