"""Errors of nodes on real interfaces."""

from __future__ import annotations

from typing import Final

from telemetry.errors import TelemetryError

SLUGS: Final[dict[str, str]] = {
    "int.no_interface": "there is no such interface, or it carries no IPv6",
    "int.no_route": "no IPv6 route goes through the interface",
    "int.mtu_too_small": "with headers, packets could not have the 1280 bytes that IPv6 needs",
    "int.in_use": "another node runs on the interface",
    "int.not_permitted": "this process may not load programs or change interfaces",
    "int.refused": "the kernel refused the programs of a node",
    "int.cannot_write": "the file for records cannot be written",
    "int.bad_option": "an option of the command line has a value that it does not know",
    "int.bad_spec": "a node cannot be like this",
    "int.not_built": "the native module, which loads the programs, is missing",
}
"""What can go wrong -> what it means; each has a test that names it."""


class NodeError(TelemetryError):
    """A node on an interface cannot do what it was asked for."""
