"""Errors in the data of telemetry sinks."""

from __future__ import annotations

from typing import Final

from telemetry.errors import TelemetryError

SLUGS: Final[dict[str, str]] = {
    "int.bad_nodes": "a table of nodes is invalid",
    "int.bad_records": "a file is not a file of records written by a sink",
}
"""Slug -> meaning; a test covers each."""


class InbandError(TelemetryError):
    """Data of a telemetry sink cannot be read."""
