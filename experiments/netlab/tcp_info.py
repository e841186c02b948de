"""TCP_INFO of a running TCP connection, through inet_diag.

A request for one known connection is answered from the kernel's hash table in a few microseconds: fast enough
for plots, and the same measurement for every congestion control.
"""

from __future__ import annotations

import os
import socket
import struct
import time
from dataclasses import dataclass
from typing import Final, Self

from experiments.netlab.errors import from_kernel
from experiments.netlab.host import Host

_NETLINK_SOCK_DIAG: Final = 4  # <linux/netlink.h>
_SOCK_DIAG_BY_FAMILY: Final = 20  # <linux/sock_diag.h>
_NLM_F_REQUEST: Final = 0x1
_NLM_F_DUMP: Final = 0x300
_NLMSG_ERROR: Final = 2
_NLMSG_DONE: Final = 3
_EXTENSION_INFO: Final = 2  # INET_DIAG_INFO, <linux/inet_diag.h>
_ESTABLISHED: Final = 1
_ANSWER_BYTES: Final = 1 << 16
_TIMEOUT_S: Final = 5.0

_HEAD: Final = struct.Struct("=IHHII")  # struct nlmsghdr
_REQUEST: Final = struct.Struct("=BBBBI48s")  # struct inet_diag_req_v2, ends with the connection's id
_ANSWER: Final = struct.Struct("=BBBB48s20x")  # struct inet_diag_msg
_ATTRIBUTE: Final = struct.Struct("=HH")
# struct tcp_info of <linux/tcp.h>, from tcpi_snd_mss on; unnamed fields are skipped.
_INFO: Final = struct.Struct("=16xI48xI8xI16xI16xQ20xI")


@dataclass(frozen=True, slots=True)
class TcpInfo:
    """One connection at one moment.

    Attributes:
        time_s: Time of the reading, monotonic clock [s].
        cwnd_bytes: Congestion window [bytes].
        srtt_us: Smoothed round-trip time [us].
        min_rtt_us: Minimum round-trip time in the kernel's window [us].
        bytes_acked: Bytes acknowledged in order since the connection began.
        retransmits_pkts: Segments retransmitted since the connection began.
    """

    time_s: float
    cwnd_bytes: int
    srtt_us: int
    min_rtt_us: int
    bytes_acked: int
    retransmits_pkts: int


class TcpWatch:
    """Reads TCP_INFO of one connection of a host: the connection that has sent most.

    with TcpWatch(path.sender) as watch:
        info = watch.read()
    """

    def __init__(self, host: Host) -> None:
        """Open the netlink socket inside the host.

        Raises:
            LabError: `lab.closed`, `lab.not_permitted` or `lab.kernel_refused`.
        """
        self._where = f"host {host.name}"
        kind = socket.SOCK_RAW | socket.SOCK_CLOEXEC
        try:
            self._socket = host.call(lambda: socket.socket(socket.AF_NETLINK, kind, _NETLINK_SOCK_DIAG))
        except OSError as error:
            raise from_kernel(error, "query TCP connections", self._where) from error
        self._socket.settimeout(_TIMEOUT_S)
        self._found: tuple[int, bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the netlink socket."""
        self._socket.close()

    def read(self, sent_bytes: int = 1 << 14) -> TcpInfo | None:
        """Return the current state of the connection; None before it exists, and after its end.

        Args:
            sent_bytes: Acknowledged bytes that identify the connection to watch; more than the control
                connection of iperf3 carries.

        Raises:
            LabError: `lab.kernel_refused`.
        """
        if self._found is None:
            found = [one for family in (socket.AF_INET, socket.AF_INET6) for one in self._ask(family, None)]
            family, identity, info = max(found, key=lambda one: one[2].bytes_acked, default=(0, b"", None))
            if info is None or info.bytes_acked < sent_bytes:
                return None
            self._found = family, identity
            return info
        answers = self._ask(*self._found)
        return answers[0][2] if answers else None

    def _ask(self, family: int, identity: bytes | None) -> list[tuple[int, bytes, TcpInfo]]:
        """Return the connection with this identity, or all established ones."""
        flags = _NLM_F_REQUEST | (_NLM_F_DUMP if identity is None else 0)
        body = _REQUEST.pack(
            family,
            socket.IPPROTO_TCP,
            1 << (_EXTENSION_INFO - 1),
            0,
            1 << _ESTABLISHED,
            identity or b"",
        )
        head = _HEAD.pack(_HEAD.size + len(body), _SOCK_DIAG_BY_FAMILY, flags, 0, 0)
        self._socket.send(head + body)
        found: list[tuple[int, bytes, TcpInfo]] = []
        while True:
            data = self._socket.recv(_ANSWER_BYTES)
            now_s = time.monotonic()
            while data:
                length, kind, *_ = _HEAD.unpack_from(data)
                message, data = data[_HEAD.size : length], data[(length + 3) & ~3 :]
                if kind == _NLMSG_DONE:
                    return found
                if kind == _NLMSG_ERROR:
                    self._complain(struct.unpack_from("=i", message)[0])
                    return found
                if (one := _parse(message, now_s)) is not None:
                    found.append(one)
                if identity is not None:
                    return found

    def _complain(self, status: int) -> None:
        number = -status
        if number != 0 and number != 2:  # ENOENT: the connection is gone
            raise from_kernel(OSError(number, os.strerror(number)), "query TCP connections", self._where)


def _parse(message: bytes, now_s: float) -> tuple[int, bytes, TcpInfo] | None:
    family, _, _, _, identity = _ANSWER.unpack_from(message)
    rest = message[_ANSWER.size :]
    while len(rest) >= _ATTRIBUTE.size:
        length, kind = _ATTRIBUTE.unpack_from(rest)
        if kind == _EXTENSION_INFO and length >= _ATTRIBUTE.size + _INFO.size:
            mss, srtt_us, cwnd_pkts, retransmits, acked, min_rtt_us = _INFO.unpack_from(rest, _ATTRIBUTE.size)
            info = TcpInfo(now_s, cwnd_pkts * mss, srtt_us, min_rtt_us, acked, retransmits)
            return family, identity, info
        rest = rest[max((length + 3) & ~3, _ATTRIBUTE.size) :]
    return None
