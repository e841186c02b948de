"""Errors of the receiver agent."""

from __future__ import annotations

from typing import Final

from telemetry.errors import TelemetryError

SLUGS: Final[dict[str, str]] = {
    "receiver.bad_peer": "an address or name of a peer cannot be resolved",
    "receiver.bad_option": "window, interval and probe options do not fit together",
    "receiver.no_icmp": "opening a socket for ICMP echo is not permitted",
    "receiver.no_kernel_probe": "the kernel probe that counts arriving segments cannot be loaded",
    "receiver.no_netns": "the network namespace does not exist, or may not be entered",
    "receiver.no_port": "the port of the responder or prober cannot be used",
    "receiver.no_sockets": "the kernel does not list its TCP sockets",
    "receiver.no_counters": "a file of counters in /proc/net cannot be read",
    "receiver.nothing_to_measure": "no signal is available",
}
"""Slug -> meaning; a test covers each."""


class ReceiverError(TelemetryError):
    """The receiver agent, or one of its signals, is not available."""
