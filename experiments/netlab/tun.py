"""TUN devices: they carry packets between hosts and the emulator.

A device exists while a process has its file open, so no device is ever left behind.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from typing import Any, Final

from experiments.netlab import links, namespace
from experiments.netlab.errors import from_kernel, no_tun
from experiments.netlab.links import Interface
from experiments.netlab.names import host_of
from experiments.netlab.network_spec import addresses

QUEUE_PKTS: Final = 10_000
"""Transmit queue of the device, in packets of up to 64 KiB. A socket may send a whole window in a burst;
packets that do not fit are lost before the first link, uncounted."""

_TUNSETIFF: Final = 0x400454CA  # <linux/if_tun.h>, as the rest
_IFF_TUN: Final = 0x0001
_IFF_NO_PI: Final = 0x1000
_IFF_VNET_HDR: Final = 0x4000
_IFF_UP: Final = 0x1  # <linux/if.h>
_IFF_MULTICAST: Final = 0x1000
_IN6_ADDR_GEN_MODE_NONE: Final = 1  # <linux/if_link.h>


def interface(name: str, number: int, mtu_bytes: int) -> Interface:
    """Return the interface of a host's TUN device."""
    return Interface(name, *addresses(number), mtu_bytes)


def open_tun(ns: str, end: Interface) -> int:
    """Create a TUN device in a namespace, with default routes into it.

    Returns:
        File descriptor of the device: reads and writes are IP packets with a virtio-net header
        (`struct virtio_net_hdr`). Closing it removes the device.

    Raises:
        LabError: `lab.no_tun`, `lab.not_permitted` or `lab.kernel_refused`.
    """
    try:
        file = namespace.call_inside(ns, lambda: _attach(end.name))
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENODEV, errno.ENXIO):
            raise no_tun(os.strerror(error.errno)) from error
        where = f"host {host_of(ns)}, interface {end.name}"
        raise from_kernel(error, "create a TUN device", where) from error
    try:
        # No link-local address: with one, the host would search for routers, and that traffic would count.
        links.write_ipv6_sysctl(ns, f"conf.{end.name}.addr_gen_mode", _IN6_ADDR_GEN_MODE_NONE)
        links.ask(ns, end.name, "set up a TUN device", lambda ipr: _set_up(ipr, end))
    except BaseException:
        os.close(file)
        raise
    return file


def _attach(name: str) -> int:
    file = os.open("/dev/net/tun", os.O_RDWR | os.O_CLOEXEC)
    try:
        flags = _IFF_TUN | _IFF_NO_PI | _IFF_VNET_HDR
        fcntl.ioctl(file, _TUNSETIFF, struct.pack("16sH22x", name.encode(), flags))
    except BaseException:
        os.close(file)
        raise
    return file


def _set_up(ipr: Any, end: Interface) -> None:
    index = links.index_of(ipr, end.name)
    flags = {"flags": _IFF_UP, "change": _IFF_UP | _IFF_MULTICAST}
    ipr.link("set", index=index, mtu=end.mtu_bytes, txqlen=QUEUE_PKTS, **flags)
    ipr.addr("add", index=index, address=end.ipv4, prefixlen=32)
    ipr.route("add", dst="0.0.0.0/0", oif=index)
    with links.if_ipv6():
        ipr.addr("add", index=index, address=end.ipv6, prefixlen=128, flags=links.IFA_F_NODAD)
        ipr.route("add", dst="::/0", oif=index)
