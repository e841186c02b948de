"""Errors of the network lab."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from typing import Final

from ccplane.base.errors import CcpError

SLUGS: Final[dict[str, str]] = {
    "lab.bad_value": "a rate, size, time or name is invalid",
    "lab.closed": "the lab and its hosts are closed",
    "lab.command_failed": "a command in a host failed",
    "lab.emulator_died": "the process that emulates the links exited while its network was in use",
    "lab.emulator_refused": "the emulator refused a request",
    "lab.iperf3": "iperf3 reported an error or printed no valid result",
    "lab.kernel_refused": "the kernel refused to create a part of the network",
    "lab.no_command": "a program that the lab needs is not installed",
    "lab.no_congestion_control": "the kernel has no congestion control of this name",
    "lab.no_ipv6": "the kernel runs without IPv6",
    "lab.no_qdisc": "the kernel lacks a queueing discipline",
    "lab.no_tun": "the kernel or the container has no TUN devices",
    "lab.no_video": "the programs that play video are not installed",
    "lab.not_listening": "a server did not start listening",
    "lab.not_permitted": "building networks needs root",
    "lab.timeout": "a command exceeded its time limit",
}
"""Slug -> meaning; a test covers each."""

PACKAGE_OF: Final[dict[str, str]] = {
    "curl": "curl",
    "hostapd": "hostapd",
    "iperf3": "iperf3",
    "iw": "iw",
    "modprobe": "kmod",
    "mosquitto": "mosquitto",
    "nginx": "nginx-light",
    "nsenter": "util-linux",
    "setpriv": "util-linux",
    "tc": "iproute2",
    "tcpdump": "tcpdump",
}
"""Program -> the Debian or Ubuntu package that contains it."""


class LabError(CcpError):
    """An operation of the lab failed."""


def bad_value(message: str, where: str, fix: str) -> LabError:
    """Return the error for an invalid argument."""
    return LabError("lab.bad_value", message, where, fix=fix)


def from_kernel(error: OSError, doing: str, where: str) -> LabError:
    """Return the error for a system call or netlink request that the kernel refused."""
    number = error.errno or 0
    if number in (errno.EPERM, errno.EACCES):
        return LabError(
            "lab.not_permitted",
            f"cannot {doing}: not permitted",
            where,
            "network namespaces need root, or CAP_SYS_ADMIN and CAP_NET_ADMIN in a container",
            "run it with sudo, or start the container with --privileged",
        )
    name = errno.errorcode.get(number, str(number))
    return LabError(
        "lab.kernel_refused",
        f"cannot {doing}: {os.strerror(number)}",
        where,
        f"the kernel returned {name}",
        "`ccp doctor` shows what this kernel supports; `ccp lab clean` removes leftovers of earlier runs",
    )


def no_qdisc(kind: str, where: str) -> LabError:
    """Return the error for a queueing discipline that this kernel lacks."""
    option = f"CONFIG_NET_SCH_{kind.upper()}"
    return LabError(
        "lab.no_qdisc",
        f"this kernel has no queueing discipline `{kind}`",
        where,
        f"the kernel was built without {option}, or its module sch_{kind} is not installed",
        f"`modprobe sch_{kind}`, or boot a kernel with {option}",
    )


def no_tun(reason: str) -> LabError:
    """Return the error for a kernel or container without TUN devices."""
    return LabError(
        "lab.no_tun",
        "TUN devices are not available",
        "/dev/net/tun",
        f"{reason}: the kernel has no CONFIG_TUN, or the container was not given the device",
        "`modprobe tun`, or start the container with `--device /dev/net/tun`",
    )


def no_video(missing: Sequence[str], where: str) -> LabError:
    """Return the error for a machine that lacks programs or files to play video."""
    return LabError(
        "lab.no_video",
        "the programs that play video are not installed",
        where,
        f"missing: {', '.join(missing)}",
        "make setup-video",
    )


def no_command(program: str, where: str) -> LabError:
    """Return the error for a program that is not installed."""
    package = PACKAGE_OF.get(os.path.basename(program))
    return LabError(
        "lab.no_command",
        f"program `{program}` not found",
        where,
        "the program is not in PATH",
        f"apt-get install {package}" if package else "install it, or give its full path",
    )
