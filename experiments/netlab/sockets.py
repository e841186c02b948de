"""Sockets: reading and setting their congestion control, and finding free ports."""

from __future__ import annotations

import errno
import socket
from pathlib import Path

from experiments.netlab.errors import LabError

_NAME_BYTES = 16  # TCP_CA_NAME_MAX, <net/tcp.h>


_SYSCTLS = Path("/proc/sys/net/ipv4")


def available_congestion_controls() -> list[str]:
    """Return the congestion controls that the kernel has loaded."""
    return (_SYSCTLS / "tcp_available_congestion_control").read_text().split()


def allowed_congestion_controls() -> list[str]:
    """Return the congestion controls that need no privilege and can be a namespace's default."""
    return (_SYSCTLS / "tcp_allowed_congestion_control").read_text().split()


def no_congestion_control(name: str, where: str) -> LabError:
    """Return the error for a missing congestion control."""
    known = ", ".join(available_congestion_controls())
    return LabError(
        "lab.no_congestion_control",
        f"this kernel has no congestion control `{name}`",
        where,
        f"the kernel has {known}",
        "start ccplane's algorithms with `ccp run`; load the kernel's with `modprobe tcp_NAME`",
    )


def free_port() -> int:
    """Return an unused TCP port of this machine's loopback."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def set_congestion(sock: socket.socket, name: str) -> None:
    """Set a TCP socket's congestion control.

    Raises:
        LabError: `lab.no_congestion_control`.
    """
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())
    except OSError as error:
        if error.errno == errno.ENOENT:
            raise no_congestion_control(name, "socket") from error
        raise


def congestion_of(sock: socket.socket) -> str:
    """Return a TCP socket's congestion control."""
    raw = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, _NAME_BYTES)
    return raw.split(b"\0")[0].decode()
