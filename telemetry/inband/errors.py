"""Errors of what sinks tell."""

from __future__ import annotations

from typing import Final

from telemetry.errors import TelemetryError

SLUGS: Final[dict[str, str]] = {
    "int.bad_nodes": "a table of nodes is not what it should be",
    "int.bad_records": "a file is none that a sink wrote",
}
"""What can go wrong -> what it means; each has a test that names it."""


class InbandError(TelemetryError):
    """What sinks tell cannot be read."""
