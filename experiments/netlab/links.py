"""Links between hosts: veth pairs, addresses, routes and token-bucket shapers, through netlink.

Everything here runs inside a host's namespace (`namespace.call_inside`), so that no device appears in the
machine's own namespace, or clashes with one there.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from experiments.netlab import namespace
from experiments.netlab.errors import LabError, bad_value, from_kernel, no_qdisc
from experiments.netlab.names import host_of

PREFIX_V4: Final = 24
PREFIX_V6: Final = 64
DEFAULT_MTU_BYTES: Final = 1500
ETHERNET_HEADER_BYTES: Final = 14
MAX_TBF_RATE_BYTES_PER_S: Final = 2**32 - 1
"""pyroute2 sets tbf's 32-bit rate, not TCA_TBF_RATE64, so the maximum is 34 Gbit/s, more than a veth carries
here.
"""

_ROOT_HANDLE: Final = 0x10000
_FIRST_INDEX: Final = 1000
_CARRIER_TIMEOUT_S: Final = 5.0
IFA_F_NODAD: Final = 0x02  # <linux/if_addr.h>: usable immediately, without duplicate address detection
_T = TypeVar("_T")


@dataclass(frozen=True)
class Interface:
    """One end of a link.

    Attributes:
        name: Device name in its host, such as `eth0`.
        ipv4: IPv4 address.
        ipv6: IPv6 address.
        mtu_bytes: Maximum IP packet [bytes].
    """

    name: str
    ipv4: str
    ipv6: str
    mtu_bytes: int


@dataclass(frozen=True)
class QueueStats:
    """Counters of a queueing discipline since its creation.

    Attributes:
        sent_bytes: Sent bytes, with Ethernet headers.
        sent_pkts: Sent packets; a segmentation-offload packet counts as its segments.
        dropped_pkts: Packets dropped because the buffer was full.
        backlog_bytes: Bytes in the queue.
        backlog_pkts: Packets in the queue.
        overlimits: Number of times that the bucket was empty when a packet was due.
    """

    sent_bytes: int
    sent_pkts: int
    dropped_pkts: int
    backlog_bytes: int
    backlog_pkts: int
    overlimits: int


def make_veth(
    ns_a: str, name_a: str, ns_b: str, name_b: str, *, link_number: int, mtu_bytes: int
) -> tuple[Interface, Interface]:
    """Connect two namespaces by a veth pair with addresses; both ends are up afterwards.

    Args:
        ns_a: Namespace of one end.
        name_a: Device name of that end.
        ns_b: Namespace of the other end.
        name_b: Device name of that end.
        link_number: 1..254, unique in the lab; determines the subnets 10.77.<n>.0/24 and fd77:<n>::/64.
        mtu_bytes: Maximum IP packet [bytes].

    Raises:
        LabError: `lab.kernel_refused`.
    """
    ends = [
        Interface(name, f"10.77.{link_number}.{n}", f"fd77:{link_number:x}::{n}", mtu_bytes)
        for n, name in ((1, name_a), (2, name_b))
    ]
    file_b = os.open(namespace.path_of(ns_b), os.O_RDONLY | os.O_CLOEXEC)
    try:

        def add(ipr: IPRoute) -> None:
            # With equal indices at both ends, the default in two new namespaces, the kernel takes the device
            # for its own lower device and reports the carrier up to a second late; until then IPv6 drops
            # packets.
            index = _FIRST_INDEX + link_number
            peer = {"ifname": name_b, "net_ns_fd": file_b, "mtu": mtu_bytes}
            ipr.link("add", ifname=name_a, index=index, kind="veth", mtu=mtu_bytes, peer=peer)

        ask(ns_a, name_a, "create a veth pair", add)
    finally:
        os.close(file_b)
    for ns, end in zip((ns_a, ns_b), ends, strict=True):
        set_up(ns, end)
    for ns, end in zip((ns_a, ns_b), ends, strict=True):
        _wait_until_up(ns, end)
    return ends[0], ends[1]


def set_up(ns: str, end: Interface) -> None:
    """Give a device its addresses and bring it up.

    Raises:
        LabError: `lab.kernel_refused`.
    """

    def add(ipr: IPRoute) -> None:
        index = index_of(ipr, end.name)
        ipr.addr("add", index=index, address=end.ipv4, prefixlen=PREFIX_V4)
        with if_ipv6():
            ipr.addr("add", index=index, address=end.ipv6, prefixlen=PREFIX_V6, flags=IFA_F_NODAD)
        ipr.link("set", index=index, state="up")

    ask(ns, end.name, "set addresses", add)


def _wait_until_up(ns: str, end: Interface) -> None:
    def wait(ipr: IPRoute) -> None:
        deadline_s = time.monotonic() + _CARRIER_TIMEOUT_S
        index = index_of(ipr, end.name)
        while ipr.get_links(index)[0].get_attr("IFLA_OPERSTATE") != "UP":
            if time.monotonic() > deadline_s:
                raise NetlinkError(errno.ETIMEDOUT, "no carrier")
            time.sleep(0.001)

    ask(ns, end.name, "bring up the link", wait)


def set_loopback_up(ns: str) -> None:
    """Bring up a namespace's loopback device."""
    ask(ns, "lo", "bring up loopback", lambda ipr: ipr.link("set", index=index_of(ipr, "lo"), state="up"))


def add_default_routes(ns: str, gateway: Interface) -> None:
    """Set default routes, IPv4 and IPv6, through a neighbour's interface."""

    def add(ipr: IPRoute) -> None:
        ipr.route("add", dst="0.0.0.0/0", gateway=gateway.ipv4)
        with if_ipv6():
            ipr.route("add", dst="::/0", gateway=gateway.ipv6)

    ask(ns, gateway.ipv4, "add the default routes", add)


def set_routes(ns: str, routes: Sequence[tuple[Interface, Interface]]) -> None:
    """Route to single addresses, IPv4 and IPv6, through neighbours; existing routes to them are replaced.

    Raises:
        LabError: `lab.kernel_refused`.
    """

    def replace(ipr: IPRoute) -> None:
        for destination, gateway in routes:
            ipr.route("replace", dst=f"{destination.ipv4}/32", gateway=gateway.ipv4)
            with if_ipv6():
                ipr.route("replace", dst=f"{destination.ipv6}/128", gateway=gateway.ipv6)

    ask(ns, "any", "set routes", replace)


def set_tbf(
    ns: str, interface: str, *, rate_bytes_per_s: float, burst_bytes: int, buffer_bytes: int, change: bool
) -> None:
    """Shape the output of an interface with a token bucket.

    Args:
        ns: Namespace of the interface.
        interface: Name of the interface.
        rate_bytes_per_s: Rate, Ethernet headers included [bytes/s].
        burst_bytes: Size of the bucket [bytes]; at least one packet. Larger packets (segmentation offload)
            are segmented first, which costs CPU.
        buffer_bytes: Size of the drop-tail queue [bytes].
        change: Whether the shaper exists already; its queue keeps its packets then.

    Raises:
        LabError: `lab.no_qdisc`, `lab.bad_value` or `lab.kernel_refused`.
    """
    where = f"interface {interface}"
    if not 0 < rate_bytes_per_s <= MAX_TBF_RATE_BYTES_PER_S:
        raise bad_value(
            f"invalid rate of a token bucket: {rate_bytes_per_s:g} bytes/s",
            where,
            f"give more than 0 and at most {MAX_TBF_RATE_BYTES_PER_S} bytes/s, or None for no shaping",
        )
    if buffer_bytes <= 0 or burst_bytes <= 0:
        raise bad_value(
            f"no packet fits into a buffer of {buffer_bytes} bytes or a burst of {burst_bytes} bytes",
            where,
            f"give at least one packet, {DEFAULT_MTU_BYTES + ETHERNET_HEADER_BYTES} bytes",
        )

    def shape(ipr: IPRoute) -> None:
        try:
            ipr.tc(
                "change" if change else "add",
                "tbf",
                index=index_of(ipr, interface),
                handle=_ROOT_HANDLE,
                rate=int(rate_bytes_per_s),
                burst=burst_bytes,
                limit=buffer_bytes,
            )
        except NetlinkError as error:
            if error.code == errno.ENOENT:  # the kernel has no such qdisc
                raise no_qdisc("tbf", where) from error
            raise

    ask(ns, interface, "add a token-bucket shaper", shape)


def queue_stats(ns: str, interface: str) -> QueueStats:
    """Return the counters of an interface's root queueing discipline.

    Raises:
        LabError: `lab.kernel_refused`, also if the interface has none (a veth has none by default).
    """

    def read(ipr: IPRoute) -> QueueStats:
        for qdisc in ipr.get_qdiscs(index=index_of(ipr, interface)):
            stats = qdisc.get_attr("TCA_STATS2")
            if qdisc["handle"] == _ROOT_HANDLE and stats is not None:
                basic, queue = stats.get_attr("TCA_STATS_BASIC"), stats.get_attr("TCA_STATS_QUEUE")
                return QueueStats(
                    sent_bytes=basic["bytes"],
                    sent_pkts=basic["packets"],
                    dropped_pkts=queue["drops"],
                    backlog_bytes=queue["backlog"],
                    backlog_pkts=queue["qlen"],
                    overlimits=queue["overlimits"],
                )
        raise NetlinkError(errno.ENOENT, "no shaper")

    return ask(ns, interface, "read the shaper's counters", read)


def dropped_pkts(ns: str, interface: str) -> int:
    """Return the number of packets that a device dropped because it could not keep up.

    Raises:
        LabError: `lab.kernel_refused`.
    """

    def read(ipr: IPRoute) -> int:
        dropped: int = ipr.get_links(index_of(ipr, interface))[0].get_attr("IFLA_STATS64")["tx_dropped"]
        return dropped

    return ask(ns, interface, "read counters", read)


def write_sysctl(ns: str, name: str, value: str | int) -> None:
    """Set a kernel parameter of a namespace.

    Raises:
        LabError: `lab.bad_value`, if the parameter does not exist or refuses the value.
    """

    def write() -> None:
        Path("/proc/sys", *name.split(".")).write_text(f"{value}\n")

    try:
        namespace.call_inside(ns, write)
    except OSError as error:
        raise LabError(
            "lab.bad_value",
            f"cannot set {name} to {value}",
            f"host {host_of(ns)}",
            os.strerror(error.errno or 0),
            "`ls /proc/sys/net/ipv4` in the host lists the parameters",
        ) from error


def write_ipv6_sysctl(ns: str, name: str, value: int) -> None:
    """Set a parameter below `net.ipv6` of a namespace; do nothing if the kernel runs without IPv6.

    Raises:
        LabError: `lab.bad_value`.
    """
    try:
        write_sysctl(ns, f"net.ipv6.{name}", value)
    except LabError as error:
        if not isinstance(error.__cause__, FileNotFoundError):
            raise


@contextmanager
def if_ipv6() -> Iterator[None]:
    """Leave out a netlink request about IPv6 if the kernel runs without it, as with `ipv6.disable=1`."""
    try:
        yield
    except NetlinkError as error:
        if error.code not in (errno.EOPNOTSUPP, errno.EAFNOSUPPORT):
            raise


def index_of(ipr: IPRoute, name: str) -> int:
    """Return the index of a device in the namespace of a netlink socket.

    Raises:
        NetlinkError: ENODEV, if the device does not exist.
    """
    found: list[int] = ipr.link_lookup(ifname=name)
    if not found:
        raise NetlinkError(errno.ENODEV, name)
    return found[0]


def ask(ns: str, interface: str, doing: str, question: Callable[[Any], _T]) -> _T:
    """Call a function with a netlink socket of a namespace, and return its result.

    Raises:
        LabError: `lab.not_permitted` or `lab.kernel_refused`.
    """

    def ask_inside() -> _T:
        try:
            with IPRoute() as ipr:
                return question(ipr)
        except NetlinkError as error:
            where = f"host {host_of(ns)}, interface {interface}"
            raise from_kernel(OSError(error.code, str(error)), doing, where) from error

    return namespace.call_inside(ns, ask_inside)
