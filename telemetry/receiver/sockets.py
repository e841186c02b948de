"""Reads the TCP sockets of this network namespace with their counters, through inet_diag."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any, Final

from pyroute2 import DiagSocket
from pyroute2.netlink.diag import SS_CONN, MarshalDiag, inet_diag_msg

from telemetry.receiver.errors import ReceiverError
from telemetry.receiver.tcp import Ends, SocketReading, parse_tcp_info
from telemetry.schema import canonical

_INFO: Final = 2  # INET_DIAG_INFO, <linux/inet_diag.h>


class _Message(inet_diag_msg):  # type: ignore[misc]  # pyroute2 has no types
    """A socket with raw TCP_INFO, because pyroute2 only knows an older, shorter one."""

    nla_map = tuple(
        (name, "cdata" if name == "INET_DIAG_INFO" else kind) for name, kind in inet_diag_msg.nla_map
    )


class _Marshal(MarshalDiag):  # type: ignore[misc]  # pyroute2 has no types
    msg_map: Final = {**MarshalDiag.msg_map, socket.AF_INET: _Message, socket.AF_INET6: _Message}


class SocketTable:
    """Reads all TCP sockets that are or were connected, without privileges."""

    def __init__(self) -> None:
        """Open the netlink socket in the network namespace of this thread.

        Raises:
            ReceiverError: `receiver.no_sockets`.
        """
        try:
            self._diag: Any = DiagSocket()
            self._diag.set_marshal(_Marshal())
            self._diag.bind()
        except OSError as error:
            raise _refused(error) from error

    def close(self) -> None:
        """Close the netlink socket."""
        self._diag.close()

    def read(self) -> Iterator[SocketReading]:
        """Yield every socket once.

        Raises:
            ReceiverError: `receiver.no_sockets`.
        """
        for family in (socket.AF_INET, socket.AF_INET6):
            try:
                found = self._diag.get_sock_stats(family=family, states=SS_CONN, extensions=1 << (_INFO - 1))
            except OSError as error:
                raise _refused(error) from error
            for message in found:
                raw = message.get_attr("INET_DIAG_INFO")
                if raw is not None:  # None: the socket was closed meanwhile
                    own, peer = canonical(message["idiag_src"]), canonical(message["idiag_dst"])
                    ends = Ends(own, message["idiag_sport"], peer, message["idiag_dport"])
                    yield SocketReading(message["idiag_cookie"], ends, parse_tcp_info(raw))


def kernel_counts_ce() -> bool:
    """Return whether this kernel counts CE marks per socket (Linux 6.18 or newer)."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as sock:
        raw = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1024)
    return parse_tcp_info(raw)["ce"] is not None


def _refused(error: OSError) -> ReceiverError:
    return ReceiverError(
        "receiver.no_sockets",
        "the kernel does not list its TCP sockets",
        "inet_diag (netlink)",
        error.strerror or str(error),
        "`modprobe tcp_diag`; in a container, the seccomp filter may forbid NETLINK_SOCK_DIAG",
    )
