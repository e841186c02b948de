"""Entering and identifying network namespaces."""

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
    """Run a block in a network namespace; None for the current namespace.

    Raises:
        SwitchError: `switch.no_netns`.
    """
    return namespaces.inside(
        netns,
        lambda error: SwitchError(
            "switch.no_netns",
            "cannot enter the network namespace",
            str(netns),
            str(error),
            "check the name with `ip netns`, and run as root",
        ),
    )


def cookie() -> int:
    """Return the cookie of this thread's network namespace, unique until the next boot."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        return int.from_bytes(
            sock.getsockopt(socket.SOL_SOCKET, _SO_NETNS_COOKIE, _COOKIE_BYTES), sys.byteorder
        )
