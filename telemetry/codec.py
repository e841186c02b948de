"""Converts messages to bytes and back; all messages pass through here.

The default format is JSON, the alternative MessagePack. The content type of MQTT 5 names the format. If the
content type is missing, the first byte decides: a JSON object starts with `{` (or white space), a MessagePack
map never does.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from broker.topics import HOST, parse_topic, topic_kind
from ccplane.base.decoding import UNREADABLE
from telemetry.errors import InvalidMessageError
from telemetry.schema import (
    VERSION,
    Body,
    Envelope,
    canonical,
    kind_of,
)

Format = Literal["json", "msgpack"]

CONTENT_TYPES: Final[dict[Format, str]] = {"json": "application/json", "msgpack": "application/msgpack"}
"""Format -> content type."""

MAX_BYTES: Final = 64 * 1024
"""Maximum payload that is decoded [bytes]."""

_ENCODE: Final = {"json": msgspec.json.Encoder().encode, "msgpack": msgspec.msgpack.Encoder().encode}
_DECODE: Final = {
    "json": msgspec.json.Decoder(Envelope).decode,
    "msgpack": msgspec.msgpack.Decoder(Envelope).decode,
}


class _Versioned(msgspec.Struct):
    version: int


_VERSION: Final = {
    "json": msgspec.json.Decoder(_Versioned).decode,
    "msgpack": msgspec.msgpack.Decoder(_Versioned).decode,
}
_JSON_STARTS: Final = frozenset(b"{ \t\r\n")


def encode(envelope: Envelope, form: Format = "json") -> bytes:
    """Return the payload of a message."""
    return _ENCODE[form](envelope)


def form_of(payload: bytes, content_type: str = "") -> Format:
    """Return the format of a payload by its content type, else by its first byte."""
    if content_type == CONTENT_TYPES["json"]:
        return "json"
    if content_type == CONTENT_TYPES["msgpack"] or (payload and payload[0] not in _JSON_STARTS):
        return "msgpack"
    return "json"


def decode(payload: bytes, content_type: str = "") -> Envelope:
    """Decode and validate a payload.

    Args:
        payload: As received.
        content_type: Content type of MQTT 5; empty if there was none.

    Raises:
        InvalidMessageError: One of `telemetry.errors.MESSAGE_SLUGS`.
    """
    if len(payload) > MAX_BYTES:
        raise InvalidMessageError(
            "message.too_long", f"the message has {len(payload)} bytes; the maximum is {MAX_BYTES}"
        )
    form = form_of(payload, content_type)
    try:
        envelope = _DECODE[form](payload)
    except UNREADABLE as error:
        raise _refusal(payload, form, error) from None
    if envelope.version != VERSION:
        raise _unknown_version(envelope.version)
    return envelope


def about_of(body: Body) -> str:
    """Return the last level of a body's topic: the address that it is about, or `host`."""
    field = topic_kind(kind_of(body)).about
    return HOST if field is None else getattr(body, field) or HOST


def canonical_topic(topic: str) -> str:
    """Return a valid topic with its address in canonical form, as addresses have several spellings."""
    start, _, about = topic.rpartition("/")
    try:
        return f"{start}/{canonical(about)}"
    except ValueError:  # no address: a sender, or `host`
        return topic


def _is_about(body: Body, about: str) -> bool:
    """Whether a body is about the address of its topic, and about no other peer's flow."""
    expected = about_of(body)
    if about != expected:
        try:
            if canonical(about) != canonical(expected):
                return False
        except ValueError:  # `host` on one side
            return False
    flow = getattr(body, "flow", None)
    if flow is None or expected == HOST:
        return True
    return canonical(expected) in {canonical(flow.src), canonical(flow.dst)}


def decode_from(topic: str, payload: bytes, content_type: str = "") -> Envelope:
    """Decode a payload, and check that kind, sender and peer match its topic.

    A broker with users lets each user publish only to topics of its own name, and possibly of certain peers.
    This check makes the sender authentic, and restricts the sender to its peers.

    Args:
        topic: Topic of the message.
        payload: As received.
        content_type: Content type of MQTT 5; empty if there was none.

    Raises:
        InvalidMessageError: One of `telemetry.errors.MESSAGE_SLUGS`.
    """
    address = parse_topic(topic)
    if address is None:
        raise InvalidMessageError("message.wrong_topic", f"unknown topic `{topic[:200]}`")
    envelope = decode(payload, content_type)
    kind = kind_of(envelope.body)
    if kind != address.topic.kind or envelope.sender != address.sender:
        raise InvalidMessageError(
            "message.wrong_topic",
            f"a message of kind `{kind}` from `{envelope.sender}` does not belong to this topic",
            where=topic,
            why=f"the topic is for `{address.topic.kind}` from `{address.sender}`",
        )
    if address.topic.about is not None and not _is_about(envelope.body, address.about):
        raise InvalidMessageError(
            "message.wrong_topic",
            f"a message about `{about_of(envelope.body)}`, or another peer's flow, is on a wrong topic",
            where=topic,
            why=f"the topic is for `{address.about}`",
        )
    return envelope


def _refusal(payload: bytes, form: Format, error: Exception) -> InvalidMessageError:
    """Return why a payload cannot be decoded; an unknown version takes precedence."""
    try:
        version = _VERSION[form](payload).version
    except UNREADABLE:
        pass
    else:
        if version != VERSION:
            return _unknown_version(version)
    if isinstance(error, msgspec.ValidationError):
        return InvalidMessageError("message.not_valid", str(error))
    return InvalidMessageError("message.not_readable", str(error), why=f"the message was decoded as {form}")


def _unknown_version(version: int) -> InvalidMessageError:
    return InvalidMessageError(
        "message.version",
        f"unsupported schema version {version}; this program supports version {VERSION}",
        why="the meaning of fields may differ",
        fix="update the older of the two sides",
    )
