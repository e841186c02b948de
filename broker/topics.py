"""What is published where: the one table of topics.

All topics are `ccp/v1/WORD/SENDER` or `ccp/v1/WORD/SENDER/ABOUT`. SENDER is who publishes, and also the user
name where a broker has users, so that an access list can keep everybody to their own topics. ABOUT is an
address (or `host`), so that a subscriber can ask for what concerns it.

`docs/telemetry.md` shows this table; a test keeps the two alike.
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
        kind: Name of the kind, as in the field `kind` of the message's body.
        word: Third level of the topic.
        has_about: Whether a last level says whom the message is about.
        qos: 0 = at most once, 1 = at least once.
        retain: Whether the broker keeps the last one for those who subscribe later.
        decision: Whether a full queue keeps it at the cost of samples.
        ttl_ms: Time to live where the publisher says nothing [ms]; None for no end.
        meaning: What it says, for the docs.
    """

    kind: str
    word: str
    has_about: bool
    qos: int
    retain: bool
    decision: bool
    ttl_ms: int | None
    meaning: str

    @property
    def pattern(self) -> str:
        """The topic as the docs show it."""
        return f"{ROOT}/{self.word}/SENDER" + ("/ABOUT" if self.has_about else "")


KINDS: Final[tuple[TopicKind, ...]] = (
    TopicKind(
        "receiver_signal", "signal", True, 0, False, False, 3000,
        "what a receiver measured of a peer or a flow: RTT, one-way delay, CE marks, loss, goodput",
    ),
    TopicKind(
        "regime_decision", "regime", True, 1, True, True, 60_000,
        "which congestion regime a path is in, as a detector decided",
    ),
    TopicKind(
        "int_summary", "int", False, 0, False, False, 1000,
        "what in-band telemetry says of a flow over an interval: latency, loss, its cause, queues by hop",
    ),
    TopicKind(
        "agent_status", "status", False, 1, True, True, None,
        "birth and last will: `online`, or `offline` with the reason",
    ),
    TopicKind(
        "param_change", "param", False, 1, False, True, None,
        "a parameter of an algorithm was set",
    ),
    TopicKind(
        "algorithm_event", "event", False, 0, False, False, None,
        "something happened to an algorithm or a flow, such as a reload or an exception",
    ),
)  # fmt: skip
"""All kinds of messages."""

BY_KIND: Final = {topic.kind: topic for topic in KINDS}
_BY_WORD: Final = {topic.word: topic for topic in KINDS}


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
        kind: A kind in `KINDS`.
        sender: Who publishes.
        about: The address it is about, for kinds that have it.

    Raises:
        BusError: `bus.unknown_kind` or `bus.bad_name`.
    """
    topic = topic_kind(kind)
    start = f"{ROOT}/{topic.word}/{check_sender(sender)}"
    if not topic.has_about:
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
    return f"{ROOT}/{topic.word}/+" + ("/+" if topic.has_about else "")


def parse_topic(topic: str) -> Address | None:
    """Take a topic apart; None if it is none of ours."""
    if not topic.startswith(ROOT + "/"):
        return None
    word, *rest = topic[len(ROOT) + 1 :].split("/")
    found = _BY_WORD.get(word)
    if found is None or len(rest) != 1 + found.has_about or not _NAME.fullmatch(rest[0]):
        return None
    if not found.has_about:
        return Address(found, rest[0], "")
    return Address(found, rest[0], rest[1]) if _ABOUT.fullmatch(rest[1]) else None


def table() -> str:
    """Return the table of topics in Markdown, as the docs have it."""
    rows = ["| kind | topic | QoS | retained | lives | when the queue is full | says |", "|" + "---|" * 7]
    for topic in KINDS:
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
