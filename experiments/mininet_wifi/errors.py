"""Errors of the Wi-Fi demos."""

from __future__ import annotations

from typing import Final

from ccplane.base.errors import CcpError

SLUGS: Final[dict[str, str]] = {
    "wifi.fixed_algorithms": "the algorithms of a figure are fixed",
    "wifi.mininet_ended": "Mininet-WiFi could not build the network",
    "wifi.no_capture": "tcpdump cannot capture packets",
    "wifi.no_data": "no data of a flow arrives",
    "wifi.no_figure": "there is no such figure over Wi-Fi",
    "wifi.no_flow": "the agent did not get the flow",
    "wifi.no_mininet": "Mininet-WiFi is not installed",
    "wifi.no_node": "a node of in-band telemetry did not start",
    "wifi.no_radios": "the kernel's simulated radios are missing or already in use",
    "wifi.not_joined": "a station did not join its access point",
    "wifi.not_root": "creating radios and networks needs root",
    "wifi.not_up": "an access point did not start",
}
"""Slug -> meaning; a test covers each."""


class WifiError(CcpError):
    """A step of a Wi-Fi demo failed."""
