"""Errors of the regime detector."""

from __future__ import annotations

from typing import Final

from telemetry.errors import TelemetryError

SLUGS: Final[dict[str, str]] = {
    "regime.bad_option": "a parameter of the detector has a value that cannot be",
    "regime.cannot_read": "a recorded series cannot be opened, or is no text",
    "regime.bad_trace": "a recorded series lacks a column, or has a value that cannot be",
    "regime.not_told": "the broker did not take a decision",
}
"""What can go wrong -> what it means; each has a test that names it."""


class RegimeError(TelemetryError):
    """The detector, or a series for it, cannot be."""
