"""What can go wrong in the lab: what, where, why, and what to do."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from typing import Final

from ccplane.base.errors import CcpError

SLUGS: Final[dict[str, str]] = {
    "lab.bad_value": "a rate, size, time or name cannot be",
    "lab.closed": "the lab is closed, its hosts are gone",
    "lab.command_failed": "a command in a host ended with an error",
    "lab.emulator_died": "the process that emulates the links ended before its network did",
    "lab.emulator_refused": "the emulator cannot do what it was told",
    "lab.iperf3": "iperf3 reported an error or printed something that is no result",
    "lab.kernel_refused": "the kernel refused to build a part of the network",
    "lab.no_command": "a program that the lab needs is not installed",
    "lab.no_congestion_control": "the kernel knows no congestion control of this name",
    "lab.no_qdisc": "the kernel lacks a queueing discipline",
    "lab.no_tun": "the kernel or the container has no TUN devices",
    "lab.no_video": "what plays video is not installed",
    "lab.not_listening": "a server did not start to listen",
    "lab.not_permitted": "building networks needs root",
    "lab.timeout": "a command took longer than it was given",
}
"""Slug -> what it means; each has a test that names it."""

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
"""Program -> the Debian or Ubuntu package that has it."""


class LabError(CcpError):
    """The lab cannot do what it was asked for."""


def bad_value(message: str, where: str, fix: str) -> LabError:
    """Return the error for an argument that cannot be."""
    return LabError("lab.bad_value", message, where, fix=fix)


def from_kernel(error: OSError, doing: str, where: str) -> LabError:
    """Return the error for a system call or netlink request that the kernel refused.

    Args:
        error: What the kernel said; only its number counts.
        doing: What was tried, as in "cannot <doing>".
        where: The host or interface.
    """
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
        f"the kernel answered {name}",
        "`ccp doctor` tells what this kernel can do; `ccp lab clean` removes what dead runs left behind",
    )


def no_qdisc(kind: str, where: str) -> LabError:
    """Return the error for a queueing discipline that this kernel has not got."""
    option = f"CONFIG_NET_SCH_{kind.upper()}"
    return LabError(
        "lab.no_qdisc",
        f"no queueing discipline `{kind}` in this kernel",
        where,
        f"it was built without {option}, or its module sch_{kind} is not installed",
        f"`modprobe sch_{kind}`, or boot a kernel with {option}",
    )


def no_tun(reason: str) -> LabError:
    """Return the error for a kernel or container without TUN devices."""
    return LabError(
        "lab.no_tun",
        "no TUN devices",
        "/dev/net/tun",
        f"{reason}: the kernel has no CONFIG_TUN, or the container was not given the device",
        "`modprobe tun`, or start the container with `--device /dev/net/tun`",
    )


def no_video(missing: Sequence[str], where: str) -> LabError:
    """Return the error for a machine that plays no video, for want of programs or files."""
    return LabError(
        "lab.no_video",
        "what plays video is not installed",
        where,
        f"missing: {', '.join(missing)}",
        "make setup-video",
    )


def no_command(program: str, where: str) -> LabError:
    """Return the error for a program that is not installed."""
    package = PACKAGE_OF.get(os.path.basename(program))
    return LabError(
        "lab.no_command",
        f"no program `{program}`",
        where,
        "it is not in PATH",
        f"apt-get install {package}" if package else "install it, or give its full path",
    )
