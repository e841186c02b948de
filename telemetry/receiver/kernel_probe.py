"""Counts arriving segments in the kernel, where this process may load a CO-RE program."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from ccplane.base.errors import CcpError
from telemetry import netns
from telemetry.receiver.arrival_rows import arrived_of, middles_us
from telemetry.receiver.arrivals import Arrived
from telemetry.receiver.errors import ReceiverError

if TYPE_CHECKING:
    from ccplane.base._native import TcpArrivals

_WHERE: Final = "CE marks, retransmissions and one-way delays of each flow"


class KernelProbe:
    """Counts segments of the TCP connections of this network namespace while open."""

    def __init__(self) -> None:
        """Load and attach the probe, for the network namespace of this thread.

        Raises:
            ReceiverError: `receiver.no_kernel_probe`.
        """
        self._arrivals = _open(os.stat(netns.OWN).st_ino)
        self._middles_us = middles_us(self._arrivals.bin_bounds_us())
        self._dropped = 0

    def close(self) -> None:
        """Remove the probe from the kernel; may be called again."""
        self._arrivals.close()

    def read(self) -> tuple[list[Arrived], bool]:
        """Return the arrivals since the last reading, and whether there was room for all flows."""
        rows = self._arrivals.drain()
        before, self._dropped = self._dropped, self._arrivals.dropped
        return arrived_of(rows, self._middles_us), self._dropped == before


def _open(netns_inode: int) -> TcpArrivals:
    try:
        from ccplane.base import _native
    except ImportError as error:
        raise ReceiverError(
            "receiver.no_kernel_probe", "the native module is missing", _WHERE, str(error), "`make build`"
        ) from error
    try:
        return _native.TcpArrivals(netns_inode)
    except CcpError as error:
        raise ReceiverError(
            "receiver.no_kernel_probe", error.message, _WHERE, f"{error.why} ({error.slug})", error.fix
        ) from error
