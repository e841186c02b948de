"""What is published where.

All topics are `ccp/v1/WORD/SENDER` or `ccp/v1/WORD/SENDER/ABOUT`. SENDER is who publishes, and also the user
name where a broker has users, so that an access list can keep everybody to their own topics. ABOUT is an
address (or `host`), so that a subscriber can ask for what concerns it.

`docs/telemetry.md` shows the table of kinds; a test keeps the two alike.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from broker.errors import BusError

ROOT: Final = "ccp/v1"
"""First two levels of all topics; `v1` is the version of the topics, the messages carry their own."""

HOST: Final = "host"
"""Last level of what is about a whole host and not about one peer."""

_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
_ABOUT: Final = re.compile(r"[0-9A-Za-z.:%_-]{1,64}")


@dataclass(frozen=True, slots=True)
class TopicKind:
    """One kind of message and how it travels.

    Attributes:
        word: Third level of the topic.
        meaning: What it says, for the docs.
        about: Field of the message's body that says whom it is about, for the last level; None for no level.
        qos: 0 = at most once, 1 = at least once.
        retain: Whether the broker keeps the last one for those who subscribe later.
        decision: Whether a full queue keeps it at the cost of samples.
        ttl_ms: Time to live where the publisher says nothing [ms]; None for no end.
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
        """The topic as the docs show it."""
        return f"{ROOT}/{self.word}/SENDER" + ("" if self.about is None else "/ABOUT")


BY_KIND: Final[dict[str, TopicKind]] = {}
"""All kinds of messages; each is declared with its body, in `telemetry.schema`."""
_BY_WORD: Final[dict[str, TopicKind]] = {}


def declare(topic: TopicKind) -> None:
    """Add a kind of message."""
    assert topic.kind not in BY_KIND
    assert topic.word not in _BY_WORD
    BY_KIND[topic.kind] = _BY_WORD[topic.word] = topic


@dataclass(frozen=True, slots=True)
class Address:
    """A topic, taken apart.

    Attributes:
        topic: What kind of message belongs there.
        sender: Who may publish there.
        about: Whom it is about; empty where the topic has no such level.
    """

    topic: TopicKind
    sender: str
    about: str


def topic_kind(kind: str) -> TopicKind:
    """Return how messages of a kind travel.

    Raises:
        BusError: `bus.unknown_kind`.
    """
    try:
        return BY_KIND[kind]
    except KeyError:
        raise BusError(
            "bus.unknown_kind",
            f"no messages of kind `{kind}`",
            fix="kinds: " + ", ".join(BY_KIND),
        ) from None


def check_sender(sender: str) -> str:
    """Return the name of a sender, if it can be one.

    Raises:
        BusError: `bus.bad_name`.
    """
    if not _NAME.fullmatch(sender):
        raise BusError(
            "bus.bad_name",
            f"`{sender}` cannot be the name of a sender",
            why="it is a level of a topic and the user name at the broker",
            fix="use 1 to 64 letters, digits, `.`, `_` and `-`",
        )
    return sender


def topic_of(kind: str, sender: str, about: str = HOST) -> str:
    """Return the topic of a message.

    Args:
        kind: A kind in `BY_KIND`.
        sender: Who publishes.
        about: The address it is about, for kinds that have it.

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
            f"`{about}` cannot be the last level of a topic",
            where=start,
            fix=f"use an IP address, or `{HOST}`",
        )
    return f"{start}/{about}"


def subscription(kind: str) -> str:
    """Return the filter for all messages of a kind, whoever sends them.

    Raises:
        BusError: `bus.unknown_kind`.
    """
    topic = topic_kind(kind)
    return f"{ROOT}/{topic.word}/+" + ("" if topic.about is None else "/+")


def parse_topic(topic: str) -> Address | None:
    """Take a topic apart; None if it is none of ours."""
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
    """Return the table of topics in Markdown, as the docs have it."""
    rows = ["| kind | topic | QoS | retained | lives | when the queue is full | says |", "|" + "---|" * 7]
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
