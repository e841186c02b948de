"""Publish and subscribe to messages of `telemetry.schema`, validated on receipt.

Invalid messages are counted, logged once per source, and never delivered.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Final

import msgspec

from broker import client, topics
from broker.messages import Incoming, Outgoing
from broker.options import BusOptions
from ccplane.base import clock
from ccplane.base.printable import printable
from telemetry.age import Ages, retained_age_us
from telemetry.codec import CONTENT_TYPES, Format, about_of, canonical_topic, decode_from, encode
from telemetry.errors import InvalidMessageError
from telemetry.schema import (
    VERSION,
    AgentStatus,
    Body,
    Envelope,
    Sample,
    kind_of,
)

log = logging.getLogger("ccplane.bus")

MAX_LOGGED_SOURCES: Final = 1000
"""Number of sources whose first invalid message is logged; for further sources it is only counted."""


@dataclass(slots=True)
class BusCounters:
    """Totals since the start.

    Attributes:
        connection: Counters of the connection: sent, dropped, time away.
        valid: Messages received and delivered.
        invalid: Messages received and refused, by slug.
        expired: Messages that had expired when they arrived.
        echoes: This sender's own messages, received because of its subscriptions.
    """

    connection: client.BusCounters
    valid: int = 0
    invalid: dict[str, int] = field(default_factory=dict)
    expired: int = 0
    echoes: int = 0


def wall_us() -> int:
    """Return the wall clock [us since 1970]."""
    return time.time_ns() // 1000


def mono_us() -> int:
    """Return CLOCK_MONOTONIC [us]."""
    return clock.now_us()


class Bus:
    """One sender's connection to the bus.

    Attributes:
        sender: Name of this sender.
        counters: Totals since the start.
    """

    def __init__(
        self,
        options: BusOptions,
        *,
        sender: str,
        status: AgentStatus | None = None,
        on_sample: Callable[[Sample], None] | None = None,
        kinds: Collection[str] = (),
        form: Format = "json",
    ) -> None:
        """Prepare the connection; `start` connects.

        Args:
            options: The broker.
            sender: Name of this sender: letters, digits, `.`, `_`, `-`; the user name, where the broker has
                users.
            status: Birth message, published on every connect; `stop` publishes `offline`, or the broker does
                if the connection is lost. None for no messages about this sender.
            on_sample: Called on the network thread with every valid message of other senders; must not block.
            kinds: Kinds of messages to subscribe to.
            form: Format of published messages.

        Raises:
            BusError: `bus.bad_name`, `bus.unknown_kind` or `bus.tls_files`.
        """
        self.sender = topics.check_sender(sender)
        self._form = form
        self._on_sample = on_sample
        self._kinds: dict[str, None] = {}
        self._ages = Ages()
        self._logged: set[str] = set()
        self._status = status
        self._client = client.BusClient(
            options,
            client_id=f"{sender}-{os.getpid()}-{os.urandom(4).hex()}",
            on_message=self._receive,
            birth=None if status is None else self._birth,
            will=None if status is None else self._message(_offline(status, "connection lost"), None),
        )
        self.counters = BusCounters(self._client.counters)
        for kind in kinds:
            self.subscribe(kind)

    def start(self, prepare: Callable[[], None] | None = None) -> None:
        """Connect in the background, and reconnect whenever the connection is lost.

        Args:
            prepare: Called once on the network thread before anything else.
        """
        self._client.start(prepare)

    def wait_connected(self, timeout_s: float) -> None:
        """Wait until the broker has accepted the connection.

        Raises:
            BusError: `bus.not_connected`.
        """
        self._client.wait_connected(timeout_s)

    def stop(self) -> None:
        """Publish `offline`, wait up to a second for queued messages to be sent, and disconnect."""
        status = self._status
        self._client.stop(None if status is None else self._message(_offline(status, "stopped"), None))

    def flush(self, timeout_s: float) -> bool:
        """Wait until all published messages are sent; return whether they were sent in time."""
        return self._client.flush(timeout_s)

    @property
    def connected(self) -> bool:
        """Whether the broker is connected."""
        return self._client.connected

    @property
    def ready(self) -> bool:
        """Whether the broker is connected and has acknowledged all subscriptions."""
        return self._client.ready

    @property
    def away_s(self) -> float:
        """Time since the connection was lost [s]; 0 while connected."""
        return self._client.away_s

    @property
    def kinds(self) -> tuple[str, ...]:
        """The subscribed kinds."""
        return tuple(self._kinds)

    def publish(self, body: Body, *, ttl_ms: int | None = None) -> None:
        """Queue a message; never blocks.

        Args:
            body: The message. Its kind determines topic, quality of service and handling of a full queue: see
                `broker.topics`.
            ttl_ms: Time to live [ms]; None for the default of its kind.

        Raises:
            BusError: `bus.bad_name`, if the body's peer cannot be used in a topic.
        """
        self._client.publish(self._message(body, ttl_ms))

    def subscribe(self, kind: str) -> None:
        """Subscribe to a kind of message, now and after every reconnect.

        Raises:
            BusError: `bus.unknown_kind`.
        """
        self._client.subscribe(topics.subscription(kind), topics.topic_kind(kind).qos)
        self._kinds[kind] = None

    def unsubscribe(self, kind: str) -> None:
        """Unsubscribe from a kind of message.

        Raises:
            BusError: `bus.unknown_kind`.
        """
        self._client.unsubscribe(topics.subscription(kind))
        self._kinds.pop(kind, None)

    def _birth(self) -> Outgoing:
        if self._status is None:
            raise AssertionError("only senders with a status have a birth message")
        return self._message(self._status, None)

    def _message(self, body: Body, ttl_ms: int | None) -> Outgoing:
        kind = kind_of(body)
        topic = topics.topic_kind(kind)
        ttl_ms = ttl_ms or topic.ttl_ms
        envelope = Envelope(
            version=VERSION,
            sender=self.sender,
            t_mono_us=mono_us(),
            t_wall_us=wall_us(),
            ttl_ms=ttl_ms,
            body=body,
        )
        return Outgoing(
            topics.topic_of(kind, self.sender, about_of(body)),
            encode(envelope, self._form),
            topic.qos,
            topic.retain,
            topic.decision,
            CONTENT_TYPES[self._form],
            None if ttl_ms is None else ttl_ms / 1000,
        )

    def _receive(self, incoming: Incoming) -> None:
        if not incoming.payload:  # the removal of a retained message
            return
        try:
            envelope = decode_from(incoming.topic, incoming.payload, incoming.content_type)
        except InvalidMessageError as error:
            self._refuse(incoming.topic, error)
            return
        if envelope.sender == self.sender:
            self.counters.echoes += 1
            return
        sample = self._sample(incoming, envelope)
        if sample.expired(incoming.received_us):
            self.counters.expired += 1
            return
        self.counters.valid += 1
        if self._on_sample is not None:
            self._on_sample(sample)

    def _sample(self, incoming: Incoming, envelope: Envelope) -> Sample:
        if incoming.retained:
            age_us = retained_age_us(envelope.t_wall_us, wall_us())
        else:
            age_us = self._ages.age_us(
                envelope.sender, envelope.t_mono_us, envelope.t_wall_us, incoming.received_us
            )
        kind = kind_of(envelope.body)
        ttl_ms = envelope.ttl_ms or topics.topic_kind(kind).ttl_ms
        return Sample(
            kind=kind,
            body=envelope.body,
            sender=envelope.sender,
            topic=canonical_topic(incoming.topic),
            received_us=incoming.received_us,
            age_at_receipt_us=age_us,
            expires_us=None if ttl_ms is None else incoming.received_us - age_us + ttl_ms * 1000,
            sent_mono_us=envelope.t_mono_us,
            sent_wall_us=envelope.t_wall_us,
            retained=incoming.retained,
        )

    def _refuse(self, topic: str, error: InvalidMessageError) -> None:
        self.counters.invalid[error.slug] = self.counters.invalid.get(error.slug, 0) + 1
        source = topic[:200]
        if source not in self._logged and len(self._logged) < MAX_LOGGED_SOURCES:
            self._logged.add(source)
            log.warning(
                "invalid message on %s dropped (further ones from this source are only counted)\n%s",
                printable(source),
                printable(str(error), keep="\n"),
            )


def _offline(status: AgentStatus, reason: str) -> AgentStatus:
    return msgspec.structs.replace(status, status="offline", reason=reason)
