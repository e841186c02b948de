"""Errors of the receiver agent."""

from __future__ import annotations

from typing import Final

from telemetry.errors import TelemetryError

SLUGS: Final[dict[str, str]] = {
    "receiver.bad_peer": "an address or name of a peer cannot be resolved",
    "receiver.bad_option": "window, interval and probes do not go together",
    "receiver.no_icmp": "no socket for ICMP echo may be opened",
    "receiver.no_kernel_probe": "the kernel may not count arriving segments for this process",
    "receiver.no_netns": "the network namespace is not there, or may not be entered",
    "receiver.no_port": "the port of the responder or prober cannot be used",
    "receiver.no_sockets": "the kernel does not list its TCP sockets",
    "receiver.no_counters": "a file of counters in /proc/net cannot be read",
    "receiver.nothing_to_measure": "not one signal is available",
}
"""What can go wrong -> what it means; each has a test that names it."""


class ReceiverError(TelemetryError):
    """The receiver agent, or one of its signals, cannot work."""
