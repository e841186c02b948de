"""The telemetry bus within one process, on a clock of its own: what a simulation has instead of a broker.

    bus = LocalBus(lambda: datapath.now_us)
    sink = bus.join("sink")
    agent = bus.join("agent", kinds=("int_summary",))
    sink.publish(summary)
    samples = agent.drain()

Topics, messages, times to live and what is kept for later subscribers are those of `telemetry.bus`: each
message is encoded, and decoded and checked again, so what would be refused there is refused here. It has no
network: a message is there when it is sent, and its age is 0. Wall clocks show the same as the clock. One
thread uses it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

import msgspec

from broker import topics
from telemetry.codec import Format, about_of, decode_from, encode
from telemetry.schema import VERSION, AgentStatus, Body, Envelope, Sample, kind_of


class LocalBus:
    """Hands messages from whoever publishes to all others that listen."""

    def __init__(self, clock_us: Callable[[], int], form: Format = "json") -> None:
        """Begin without members.

        Args:
            clock_us: The clock of all members [us].
            form: How messages are written.
        """
        self._clock_us = clock_us
        self._form = form
        self._members: list[Member] = []
        self._kept: dict[str, Sample] = {}

    def join(self, sender: str, *, kinds: Collection[str] = (), status: AgentStatus | None = None) -> Member:
        """Return a new member.

        Args:
            sender: Its name: letters, digits, `.`, `_`, `-`.
            kinds: What it listens to; what the bus has kept of that comes first.
            status: What it says of itself at its birth; None for nothing.

        Raises:
            BusError: `bus.bad_name` or `bus.unknown_kind`.
        """
        member = Member(self, topics.check_sender(sender), frozenset(map(_known, kinds)), status)
        now_us = self._clock_us()
        for sample in self._kept.values():
            if not sample.expired(now_us):
                member.take(msgspec.structs.replace(sample, received_us=now_us, retained=True))
        self._members.append(member)
        if status is not None:
            member.publish(status)
        return member

    def publish(self, sender: str, body: Body, ttl_ms: int | None) -> None:
        """Hand a message to all others that listen to its kind; see `Member.publish`."""
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
            member.take(sample)

    def leave(self, member: Member) -> None:
        """Let a member hear nothing more; see `Member.close`."""
        if member in self._members:
            self._members.remove(member)


class Member:
    """One that publishes and listens.

    Attributes:
        sender: Its name.
    """

    def __init__(self, bus: LocalBus, sender: str, kinds: frozenset[str], status: AgentStatus | None) -> None:
        """Be of a bus; see `LocalBus.join`."""
        self.sender = sender
        self._bus = bus
        self._kinds = kinds
        self._status = status
        self._waiting: list[Sample] = []

    def publish(self, body: Body, *, ttl_ms: int | None = None) -> None:
        """Say something to all others that listen to it.

        Args:
            body: What to say.
            ttl_ms: How long it is true [ms]; None for what the table of topics says.

        Raises:
            BusError: `bus.bad_name`, if the body's peer cannot be in a topic.
            InvalidMessageError: What others would refuse it for.
        """
        self._bus.publish(self.sender, body, ttl_ms)

    def drain(self) -> list[Sample]:
        """Return what came since the last call, in order."""
        taken, self._waiting = self._waiting, []
        return taken

    def take(self, sample: Sample) -> None:
        """Keep a sample for `drain`, if we listen to it; what we said ourselves does not come back."""
        if sample.kind in self._kinds and sample.sender != self.sender:
            self._waiting.append(sample)

    def close(self) -> None:
        """Say that we are gone, if we said that we came, and hear nothing more."""
        self._bus.leave(self)
        if self._status is not None:
            self.publish(msgspec.structs.replace(self._status, status="offline", reason="stopped"))


def _known(kind: str) -> str:
    return topics.topic_kind(kind).kind
