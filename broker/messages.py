"""The messages of the bus, as they are published and received."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A message to publish.

    Attributes:
        topic: Its topic.
        payload: Its content.
        qos: 0 or 1.
        retain: Whether the broker keeps it for later subscribers.
        decision: Whether it must not be displaced by samples in the queue.
        content_type: Format of the payload.
        expiry_s: Time after which the broker discards it [s]; None for never.
    """

    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False
    decision: bool = False
    content_type: str = ""
    expiry_s: float | None = None


@dataclass(frozen=True, slots=True)
class Incoming:
    """A received message.

    Attributes:
        topic: Its topic.
        payload: Its content.
        retained: Whether the broker had stored it.
        content_type: The publisher's format; empty if not given.
        received_us: CLOCK_MONOTONIC at arrival [us].
    """

    topic: str
    payload: bytes
    retained: bool
    content_type: str
    received_us: int
