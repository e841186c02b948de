"""Errors of telemetry."""

from __future__ import annotations

from typing import Final

from ccplane.base.errors import CcpError

MESSAGE_SLUGS: Final[dict[str, str]] = {
    "message.too_long": "the payload is longer than any message may be",
    "message.not_readable": "the payload is neither JSON nor MessagePack",
    "message.version": "the message has a schema version that this program does not know",
    "message.not_valid": "a field is missing, has the wrong type or is out of range",
    "message.wrong_topic": "the topic is none of ours, or of another kind, sender or peer than the message",
}
"""Why a message is refused -> what it means; each has a test that names it."""


class TelemetryError(CcpError):
    """Telemetry cannot do what it was asked for."""


class InvalidMessageError(TelemetryError):
    """A message that must not reach anybody."""
