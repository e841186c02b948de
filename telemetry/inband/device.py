"""Changes an interface for a node, and restores it, at the latest when the next node starts.

A source needs room for its headers, so the IPv6 MTU of the interface is lowered. TCP then uses smaller
segments, and Path MTU Discovery informs other hosts. The MTU of the device stays, so incoming packets with
headers still fit. Where each packet needs its own headers, the kernel segments packets before they reach the
source (`gso_max_segs` 1). Veth interfaces from which a sink or a transit node gets packets are given receive
packet steering (`telemetry.inband.steering`), because handling headers takes time in which packets of another
processor overtake. A file holds the previous settings, so that the next node can restore them if this
one is killed.
"""

from __future__ import annotations

import array
import contextlib
import errno
import fcntl
import os
import socket
import struct
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from ccplane.base.private import ROOT_DIR
from telemetry.inband.node_errors import NodeError
from telemetry.inband.radio import has_radio
from telemetry.inband.steering import all_processors, steer, unsteered
from telemetry.putback import claim, keep, left_behind

MIN_IPV6_MTU_BYTES: Final = 1280
"""RFC 8200, section 5."""
ETHERNET_HEADER_BYTES: Final = 14

_NETNS: Final = "/proc/thread-self/ns/net"
_ARPHRD_ETHER: Final = 1
_SINGLE_PACKETS: Final = 1
_SIOCETHTOOL: Final = 0x8946
_GET_SETTINGS: Final = 1
_SETTINGS_BYTES: Final = 44
"""Size of struct ethtool_cmd (<linux/ethtool.h>); the halves of the speed are at 12 and 28."""
_UNKNOWN_SPEED: Final = 0xFFFF
"""The lower half of SPEED_UNKNOWN; drivers may return only this half."""


class Before(msgspec.Struct, kw_only=True, frozen=True):
    """The previous settings of an interface.

    Attributes:
        address: Hardware address, to recognise another interface of the same name.
        gso_max_segs: Maximum segments of a super-packet.
        ipv6_mtu_bytes: Maximum IPv6 packet.
        clsact: Whether it had the queueing discipline to which programs are attached.
        unsteered: Receive queues that get receive packet steering -> their masks.
    """

    address: str
    gso_max_segs: int
    ipv6_mtu_bytes: int
    clsact: bool
    unsteered: dict[str, str] = {}


class Interface(msgspec.Struct, kw_only=True, frozen=True):
    """Constant properties of an interface.

    Attributes:
        name: Name.
        index: Index.
        mtu_bytes: Maximum IP packet of the device.
        link_bytes: Header in front of IP.
        wireless: Whether it is wireless.
        is_veth: Whether it is one end of a veth pair.
        speed_bytes_per_s: Speed of the device; None if unknown, or if it is not hardware [bytes/s].
    """

    name: str
    index: int
    mtu_bytes: int
    link_bytes: int
    wireless: bool
    is_veth: bool
    speed_bytes_per_s: int | None = None


@contextlib.contextmanager
def prepared(
    name: str,
    overhead_bytes: int | None,
    run_dir: Path = ROOT_DIR,
    *,
    single_packets: bool = False,
    is_sink: bool = False,
    forwards: bool = False,
) -> Iterator[Interface]:
    """Prepare an interface of this network namespace for a node, and restore it after the block.

    Args:
        name: Name of the interface.
        overhead_bytes: Size of the headers that a source adds; None if the node is not a source.
        run_dir: Directory for the file with the previous settings.
        single_packets: Whether a source must not get super-packets.
        is_sink: Whether the node handles packets that arrive at the interface.
        forwards: Whether the node handles packets that arrive at other interfaces and leave at this one.

    Yields:
        The interface.

    Raises:
        NodeError: `int.no_interface`, `int.mtu_too_small`, `int.in_use` or `int.not_permitted`.
        LoadError: `load.not_private`.
    """
    path = run_dir / f"inband-{os.stat(_NETNS).st_ino}-{name}.json"
    with contextlib.ExitStack() as stack:
        with kernels_answers(name):
            stack.enter_context(_alone(name))
            ipr = stack.enter_context(IPRoute())
            link = _link(ipr, name)
            left = left_behind(path, Before)
            if left is not None and left.address == link.get("address"):
                _restore(ipr, name, link["index"], left)
                link = _link(ipr, name)
            before = _look(ipr, name, link, _arrivals(ipr, link, is_sink, forwards))
            keep(path, before)
            stack.callback(path.unlink)
            stack.callback(_restore, ipr, name, link["index"], before)
            _change(ipr, name, link["index"], before, overhead_bytes, single_packets)
        yield _describe(name, link)


@contextlib.contextmanager
def kernels_answers(name: str) -> Iterator[None]:
    """Convert the kernel's errors to `NodeError`."""
    try:
        yield
    except (NetlinkError, OSError) as error:
        number = error.code if isinstance(error, NetlinkError) else error.errno
        if number in (errno.EPERM, errno.EACCES):
            raise NodeError(
                "int.not_permitted",
                "changing interfaces is not permitted",
                f"interface {name}",
                str(error),
                "run as root: a node loads BPF programs, and writes to /run and /proc/sys",
            ) from error
        raise NodeError(
            "int.no_interface",
            f"{name} cannot be a node",
            f"interface {name}",
            str(error),
            "check `ip -6 addr`",
        ) from error


@contextlib.contextmanager
def _alone(name: str) -> Iterator[None]:
    """Refuse a second node on the interface, with a name that is unique in a network namespace."""
    taken = claim(f"inband-{name}")
    if taken is None:
        where, fix = f"interface {name}", "give one node all roles"
        raise NodeError("int.in_use", "another node already runs on this interface", where, "", fix)
    with taken:
        yield


def _link(ipr: IPRoute, name: str) -> Any:
    found = ipr.link_lookup(ifname=name)
    if not found:
        raise NodeError(
            "int.no_interface",
            f"there is no interface {name}",
            f"interface {name}",
            "",
            "`ip link` lists the interfaces",
        )
    return ipr.get_links(found[0])[0]


def _ipv6_file(name: str, setting: str) -> Path:
    return Path("/proc/sys/net/ipv6/conf", name, setting)


def _mtu_file(name: str) -> Path:
    return _ipv6_file(name, "mtu")


def _has_clsact(ipr: IPRoute, index: int) -> bool:
    return any(qdisc.get("kind") == "clsact" for qdisc in ipr.get_qdiscs(index=index))


def _arrivals(ipr: IPRoute, link: Any, is_sink: bool, forwards: bool) -> Iterator[str]:
    """Yield the veth interfaces from which the node gets packets."""
    for one in ipr.get_links(kind="veth"):
        own = one["index"] == link["index"]
        if (own and is_sink) or (forwards and not own and _forwards(one.get("ifname"))):
            yield one.get("ifname")


def _forwards(name: str) -> bool:
    try:
        return _ipv6_file(name, "forwarding").read_text().strip() != "0"
    except FileNotFoundError:  # no IPv6, or the interface is gone
        return False


def _look(ipr: IPRoute, name: str, link: Any, arrivals: Iterable[str]) -> Before:
    return Before(
        address=link.get("address"),
        gso_max_segs=link.get("gso_max_segs"),
        ipv6_mtu_bytes=int(_mtu_file(name).read_text()),
        clsact=_has_clsact(ipr, link["index"]),
        unsteered=unsteered(arrivals),
    )


def _change(
    ipr: IPRoute, name: str, index: int, before: Before, overhead_bytes: int | None, single_packets: bool
) -> None:
    if not before.clsact:
        ipr.tc("add", "clsact", index)
    steer(dict.fromkeys(before.unsteered, all_processors()))
    if overhead_bytes is None:
        return
    mtu_bytes = before.ipv6_mtu_bytes - overhead_bytes
    if mtu_bytes < MIN_IPV6_MTU_BYTES:
        raise NodeError(
            "int.mtu_too_small",
            f"headers would leave only {mtu_bytes} bytes for packets",
            f"interface {name}",
            f"headers take {overhead_bytes} of {before.ipv6_mtu_bytes}; IPv6 needs {MIN_IPV6_MTU_BYTES}",
            "raise the MTU of all links of the path, or reserve room for fewer nodes",
        )
    if single_packets:
        ipr.link("set", index=index, gso_max_segs=_SINGLE_PACKETS)
    _mtu_file(name).write_text(str(mtu_bytes))


def _restore(ipr: IPRoute, name: str, index: int, before: Before) -> None:
    with contextlib.suppress(NetlinkError, FileNotFoundError):  # the interface may be gone
        if not before.clsact and _has_clsact(ipr, index):
            ipr.tc("del", "clsact", index)
        ipr.link("set", index=index, gso_max_segs=before.gso_max_segs)
        _mtu_file(name).write_text(str(before.ipv6_mtu_bytes))
    with contextlib.suppress(PermissionError):
        steer(before.unsteered)


def _describe(name: str, link: Any) -> Interface:
    return Interface(
        name=name,
        index=link["index"],
        mtu_bytes=link.get("mtu"),
        link_bytes=ETHERNET_HEADER_BYTES if link["ifi_type"] == _ARPHRD_ETHER else 0,
        wireless=has_radio(link["index"]),
        is_veth=link.get(("linkinfo", "kind")) == "veth",
        # Software devices report meaningless speeds.
        speed_bytes_per_s=_speed(name) if link.get("parent_dev_name") else None,
    )


def _speed(name: str) -> int | None:
    """Ask the driver for the speed [bytes/s]; None if unknown, for instance without a cable."""
    command = array.array("B", _GET_SETTINGS.to_bytes(4, sys.byteorder) + bytes(_SETTINGS_BYTES - 4))
    request = struct.pack("16sP", name.encode(), command.buffer_info()[0])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket, contextlib.suppress(OSError):
        fcntl.ioctl(any_socket, _SIOCETHTOOL, request)
        low, high = struct.unpack_from("=H", command, 12)[0], struct.unpack_from("=H", command, 28)[0]
        mbit_per_s = high << 16 | low
        return mbit_per_s * 125_000 if 0 < mbit_per_s < _UNKNOWN_SPEED else None
    return None
