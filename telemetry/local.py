"""The telemetry bus of a simulation: within one process, on a virtual clock, without a broker.

    bus = LocalBus(lambda: datapath.now_us)
    sink = bus.join("sink")
    agent = bus.join("agent", kinds=("int_summary",))
    sink.publish(summary)
    samples = agent.drain()

Topics, messages, times to live and retained messages are those of `telemetry.bus`. Each message is encoded,
decoded and validated, so invalid messages are refused as on the real bus. There is no network: a message
arrives when it is sent, with age 0. Wall clocks equal the virtual clock. The bus is not thread-safe.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection

import msgspec

from broker import topics
from telemetry.codec import Format, about_of, decode_from, encode
from telemetry.schema import VERSION, AgentStatus, Body, Envelope, Sample, kind_of


class LocalBus:
    """Delivers messages from a publisher to all other subscribers."""

    def __init__(self, clock_us: Callable[[], int], form: Format = "json") -> None:
        """Create a bus without members."""
        self._clock_us = clock_us
        self._form = form
        self._members: list[Member] = []
        self._kept: dict[str, Sample] = {}

    def join(self, sender: str, *, kinds: Collection[str] = (), status: AgentStatus | None = None) -> Member:
        """Return a new member.

        Args:
            sender: Its name: letters, digits, `.`, `_`, `-`.
            kinds: Kinds that it subscribes to; retained messages come first.
            status: Its birth message; None for none.

        Raises:
            BusError: `bus.bad_name` or `bus.unknown_kind`.
        """
        member = Member(self, topics.check_sender(sender), frozenset(map(_known, kinds)), status)
        now_us = self._clock_us()
        for sample in self._kept.values():
            if not sample.expired(now_us):
                member.receive(msgspec.structs.replace(sample, received_us=now_us, retained=True))
        self._members.append(member)
        if status is not None:
            member.publish(status)
        return member

    def publish(self, sender: str, body: Body, ttl_ms: int | None) -> None:
        """Deliver a message to all other subscribers of its kind; see `Member.publish`."""
        kind = kind_of(body)
        topic = topics.topic_kind(kind)
        now_us = self._clock_us()
        envelope = Envelope(
            version=VERSION,
            sender=sender,
            t_mono_us=now_us,
            t_wall_us=now_us,
            ttl_ms=ttl_ms or topic.ttl_ms,
            body=body,
        )
        address = topics.topic_of(kind, sender, about_of(body))
        received = decode_from(address, encode(envelope, self._form))
        sample = Sample(
            kind=kind,
            body=received.body,
            sender=received.sender,
            topic=address,
            received_us=now_us,
            expires_us=None if received.ttl_ms is None else now_us + received.ttl_ms * 1000,
            sent_mono_us=received.t_mono_us,
            sent_wall_us=received.t_wall_us,
        )
        if topic.retain:
            self._kept[address] = sample
        for member in self._members:
            member.receive(sample)

    def leave(self, member: Member) -> None:
        """Remove a member; see `Member.close`."""
        if member in self._members:
            self._members.remove(member)


class Member:
    """A publisher and subscriber.

    Attributes:
        sender: Its name.
    """

    def __init__(self, bus: LocalBus, sender: str, kinds: frozenset[str], status: AgentStatus | None) -> None:
        """Use `LocalBus.join` instead."""
        self.sender = sender
        self._bus = bus
        self._kinds = kinds
        self._status = status
        self._waiting: deque[Sample] = deque()

    def publish(self, body: Body, *, ttl_ms: int | None = None) -> None:
        """Publish a message to all other subscribers of its kind.

        Args:
            body: The message.
            ttl_ms: Time to live [ms]; None for the default of its kind.

        Raises:
            BusError: `bus.bad_name`, if the body's peer cannot be used in a topic.
            InvalidMessageError: If the message is invalid.
        """
        self._bus.publish(self.sender, body, ttl_ms)

    def drain(self) -> list[Sample]:
        """Return the samples since the last call, in order."""
        taken = list(self._waiting)
        self._waiting.clear()
        return taken

    def take(self) -> Sample | None:
        """Return the first sample; None if there is none."""
        return self._waiting.popleft() if self._waiting else None

    def receive(self, sample: Sample) -> None:
        """Keep a sample of a subscribed kind for `take` and `drain`, unless it is from this member."""
        if sample.kind in self._kinds and sample.sender != self.sender:
            self._waiting.append(sample)

    def close(self) -> None:
        """Publish `offline`, if there was a birth message, and leave the bus."""
        self._bus.leave(self)
        if self._status is not None:
            self.publish(msgspec.structs.replace(self._status, status="offline", reason="stopped"))


def _known(kind: str) -> str:
    return topics.topic_kind(kind).kind
