"""The network namespace that is switched."""

from __future__ import annotations

import socket
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

from ccplane.agent.features.regime.errors import SwitchError
from telemetry import netns as namespaces

_SO_NETNS_COOKIE: Final = 71  # <asm-generic/socket.h>
_COOKIE_BYTES: Final = 8


def inside(netns: Path | None) -> AbstractContextManager[None]:
    """Have this thread in a network namespace for the length of a block; None: where it is.

    Raises:
        SwitchError: `switch.no_netns`.
    """
    return namespaces.inside(
        netns,
        lambda error: SwitchError(
            "switch.no_netns",
            "the network namespace cannot be entered",
            str(netns),
            str(error),
            "`ip netns` lists those with names; entering one needs root",
        ),
    )


def cookie() -> int:
    """Return the number of this thread's network namespace that the kernel gives no other until it boots."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        return int.from_bytes(
            sock.getsockopt(socket.SOL_SOCKET, _SO_NETNS_COOKIE, _COOKIE_BYTES), sys.byteorder
        )
