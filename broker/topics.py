"""The topics of the message bus.

All topics are `ccp/v1/WORD/SENDER` or `ccp/v1/WORD/SENDER/ABOUT`. SENDER is the publisher's name. If the
broker has users, SENDER is also the user name, so that an access list can restrict each user to its own
topics. ABOUT is an address (or `host`), so that subscribers can filter for it.

A test keeps this module and the table of kinds in `docs/telemetry.md` equal.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from broker.errors import BusError

ROOT: Final = "ccp/v1"
"""First two levels of all topics; `v1` is the version of the topics, messages carry their own version."""

HOST: Final = "host"
"""Last level of topics about a whole host instead of one peer."""

_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
_ABOUT: Final = re.compile(r"[0-9A-Za-z.:%_-]{1,64}")


@dataclass(frozen=True, slots=True)
class TopicKind:
    """One kind of message, and how it is delivered.

    Attributes:
        word: Third level of the topic.
        meaning: What the message says, for the documents.
        about: Field of the message's body that fills the last level; None for no such level.
        qos: 0 = at most once, 1 = at least once.
        retain: Whether the broker keeps the last message for later subscribers.
        decision: Whether a full queue keeps the message at the cost of samples.
        ttl_ms: Time to live where the publisher gives none [ms]; None for unlimited.
        for_agents: Whether agents subscribe to it.
        kind: Name of the kind, as in the field `kind` of the message's body.
    """

    word: str
    meaning: str
    about: str | None = None
    qos: int = 0
    retain: bool = False
    decision: bool = False
    ttl_ms: int | None = None
    for_agents: bool = False
    kind: str = ""

    @property
    def pattern(self) -> str:
        """The topic as shown in the documents."""
        return f"{ROOT}/{self.word}/SENDER" + ("" if self.about is None else "/ABOUT")


BY_KIND: Final[dict[str, TopicKind]] = {}
"""All kinds of messages; `telemetry.schema` declares each with its body."""
_BY_WORD: Final[dict[str, TopicKind]] = {}


def declare(topic: TopicKind) -> None:
    """Add a kind of message."""
    assert topic.kind not in BY_KIND
    assert topic.word not in _BY_WORD
    BY_KIND[topic.kind] = _BY_WORD[topic.word] = topic


@dataclass(frozen=True, slots=True)
class Address:
    """A parsed topic.

    Attributes:
        topic: The kind of message.
        sender: The publisher.
        about: The address that the message is about; empty where the topic has no such level.
    """

    topic: TopicKind
    sender: str
    about: str


def topic_kind(kind: str) -> TopicKind:
    """Return a kind of message by its name.

    Raises:
        BusError: `bus.unknown_kind`.
    """
    try:
        return BY_KIND[kind]
    except KeyError:
        raise BusError(
            "bus.unknown_kind",
            f"unknown kind of message: `{kind}`",
            fix="kinds: " + ", ".join(BY_KIND),
        ) from None


def check_sender(sender: str) -> str:
    """Check the name of a sender, and return it.

    Raises:
        BusError: `bus.bad_name`.
    """
    if not _NAME.fullmatch(sender):
        raise BusError(
            "bus.bad_name",
            f"invalid sender name: `{sender}`",
            why="the name is used as a level of topics, and as the user name at the broker",
            fix="use 1 to 64 letters, digits, `.`, `_` and `-`",
        )
    return sender


def topic_of(kind: str, sender: str, about: str = HOST) -> str:
    """Return the topic of a message.

    Args:
        kind: A kind in `BY_KIND`.
        sender: The publisher.
        about: The address that the message is about, for kinds that have one.

    Raises:
        BusError: `bus.unknown_kind` or `bus.bad_name`.
    """
    topic = topic_kind(kind)
    start = f"{ROOT}/{topic.word}/{check_sender(sender)}"
    if topic.about is None:
        return start
    if not _ABOUT.fullmatch(about):
        raise BusError(
            "bus.bad_name",
            f"invalid last level of a topic: `{about}`",
            where=start,
            fix=f"use an IP address, or `{HOST}`",
        )
    return f"{start}/{about}"


def subscription(kind: str) -> str:
    """Return the subscription filter for all messages of a kind, from any sender.

    Raises:
        BusError: `bus.unknown_kind`.
    """
    topic = topic_kind(kind)
    return f"{ROOT}/{topic.word}/+" + ("" if topic.about is None else "/+")


def parse_topic(topic: str) -> Address | None:
    """Parse a topic; None if it is not a topic of ccplane."""
    if not topic.startswith(ROOT + "/"):
        return None
    word, *rest = topic[len(ROOT) + 1 :].split("/")
    found = _BY_WORD.get(word)
    if found is None or len(rest) != (1 if found.about is None else 2) or not _NAME.fullmatch(rest[0]):
        return None
    if found.about is None:
        return Address(found, rest[0], "")
    return Address(found, rest[0], rest[1]) if _ABOUT.fullmatch(rest[1]) else None


def table() -> str:
    """Return the table of topics in Markdown."""
    rows = [
        "| kind | topic | QoS | retained | lifetime | when the queue is full | content |",
        "|" + "---|" * 7,
    ]
    for topic in BY_KIND.values():
        lives = "until the next" if topic.ttl_ms is None else f"{topic.ttl_ms:,} ms".replace(",", " ")
        cells = (
            f"`{topic.kind}`",
            f"`{topic.pattern}`",
            str(topic.qos),
            "yes" if topic.retain else "no",
            lives,
            "kept" if topic.decision else "oldest dropped",
            topic.meaning,
        )
        rows.append("| " + " | ".join(cells) + " |")
    return "\n".join(rows) + "\n"
