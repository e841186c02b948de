"""What can go wrong with Wi-Fi: what, where, why, and what to do."""

from __future__ import annotations

from typing import Final

from ccplane.base.errors import CcpError

SLUGS: Final[dict[str, str]] = {
    "wifi.fixed_algorithms": "the algorithms of a figure are what it compares",
    "wifi.mininet_ended": "Mininet-WiFi could not build the network",
    "wifi.no_capture": "tcpdump cannot capture packets",
    "wifi.no_data": "nothing of a flow arrives",
    "wifi.no_figure": "there is no such figure over Wi-Fi",
    "wifi.no_flow": "the flow did not come to the agent",
    "wifi.no_mininet": "Mininet-WiFi is not installed",
    "wifi.no_node": "a node of in-band telemetry did not start",
    "wifi.no_radios": "the kernel's simulated radios are not there, or somebody else's",
    "wifi.not_joined": "a station did not find its access point",
    "wifi.not_root": "radios and networks can be made by root only",
    "wifi.not_up": "an access point did not come up",
}
"""Slug -> what it means; each has a test that names it."""


class WifiError(CcpError):
    """The radios do not do what the demonstration needs."""
