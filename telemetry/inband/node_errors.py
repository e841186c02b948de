"""Errors of nodes on real interfaces."""

from __future__ import annotations

from typing import Final

from telemetry.errors import TelemetryError

SLUGS: Final[dict[str, str]] = {
    "int.no_interface": "the interface does not exist, or has no IPv6",
    "int.no_route": "no IPv6 route goes through the interface",
    "int.mtu_too_small": "with headers, packets could not have the 1280 bytes that IPv6 needs",
    "int.in_use": "another node runs on the interface",
    "int.not_permitted": "this process is not permitted to load programs or change interfaces",
    "int.refused": "the kernel refused the programs of a node",
    "int.cannot_write": "the file of records cannot be written",
    "int.bad_option": "an option of the command line has an invalid value",
    "int.bad_spec": "the description of a node is invalid",
    "int.not_built": "the native module, which loads the programs, is missing",
}
"""Slug -> meaning; a test covers each."""


class NodeError(TelemetryError):
    """A node on an interface cannot be started or updated."""
