"""Errors of telemetry."""

from __future__ import annotations

from typing import Final

from ccplane.base.errors import CcpError

MESSAGE_SLUGS: Final[dict[str, str]] = {
    "message.too_long": "the payload is longer than the maximum of a message",
    "message.not_readable": "the payload is neither JSON nor MessagePack",
    "message.version": "the message has a schema version that this program does not support",
    "message.not_valid": "a field is missing, has the wrong type or is out of range",
    "message.wrong_topic": "the topic is unknown, or does not match the message's kind, sender or peer",
}
"""Slug -> why a message is refused; a test covers each."""


class TelemetryError(CcpError):
    """An operation of telemetry failed."""


class InvalidMessageError(TelemetryError):
    """An invalid message, which is not delivered."""
