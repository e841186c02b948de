"""Name and birth message of a program on the bus."""

from __future__ import annotations

import importlib.metadata
import socket
from typing import Literal

from broker.options import BusOptions
from telemetry.bus import wall_us
from telemetry.schema import AgentStatus

_NAME_CHARACTERS = 64


def host_name(suffix: str = "") -> str:
    """Return this host's name with characters invalid in topics replaced, short enough for a suffix."""
    name = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "-" for c in socket.gethostname())
    return name[: _NAME_CHARACTERS - len(suffix)] or "host"


def sender_name(way: BusOptions, suffix: str) -> str:
    """Return the default name of a program on the bus: the broker's user, or host name and suffix."""
    return way.user or f"{host_name(suffix)}{suffix}"


def online(role: Literal["receiver", "sink", "client"]) -> AgentStatus:
    """Return the birth message of a program that starts now."""
    return AgentStatus(
        status="online",
        role=role,
        software=f"ccplane {importlib.metadata.version('ccplane')}",
        host=host_name(),
        started_wall_us=wall_us(),
    )
