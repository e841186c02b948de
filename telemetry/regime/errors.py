"""Errors of the regime detector."""

from __future__ import annotations

from typing import Final

from telemetry.errors import TelemetryError

SLUGS: Final[dict[str, str]] = {
    "regime.bad_option": "a parameter of the detector has an invalid value",
    "regime.cannot_read": "a recorded series cannot be opened, or is not text",
    "regime.bad_trace": "a recorded series lacks a column, or has an invalid value",
    "regime.not_reported": "the broker did not accept a decision",
}
"""Slug -> meaning; a test covers each."""


class RegimeError(TelemetryError):
    """An invalid parameter or series of the detector, or a failed publication."""
