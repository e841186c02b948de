"""The connection to a broker: MQTT 5 through `paho-mqtt`, adapted to control loops.

- `publish` never blocks. Messages are queued up to a limit; a full queue drops a message that a later message
  on the same topic supersedes, or else the oldest message. For retained messages, only the last one per topic
  is queued.
- A lost connection is restored automatically, with increasing delays, together with subscriptions and the
  birth message; the time without the broker is counted.
- The socket has TCP_NODELAY: otherwise a small message may wait 40 ms for the ACK of the previous one.
- Neither incoming data nor an exception of a handler ends the network thread.
"""

from __future__ import annotations

import logging
import math
import socket
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from paho.mqtt.client import Client as Paho
from paho.mqtt.client import MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from broker.errors import NO_ANSWER, BusError, refused_because
from broker.messages import Incoming, Outgoing
from broker.options import BusOptions, warn_of_expiry
from broker.queue import TopicQueue
from ccplane.base import clock

log = logging.getLogger("ccplane.bus")

IN_FLIGHT: Final = 64
"""Maximum messages handed to `paho-mqtt` that are not yet sent or acknowledged."""

MAX_DECISIONS: Final = 10_000
"""Maximum queued decisions; samples never displace them."""

GOODBYE_S: Final = 1.0
"""Maximum time that `stop` waits until queued decisions are sent [s]."""

_CONNECT_TIMEOUT_S: Final = 5.0
_QOS1_IN_FLIGHT: Final = 1000


@dataclass(slots=True)
class BusCounters:
    """Counters of a connection since its start.

    Attributes:
        published: Sent messages: written to the socket, at QoS 1 acknowledged.
        samples_dropped: Samples dropped from the full queue, or lost with the connection.
        decisions_dropped: Decisions dropped from their full queue.
        decisions_replaced: Queued decisions replaced by a newer one on their topic.
        refused: Messages that the broker refused.
        received: Received messages.
        handler_errors: Exceptions of handlers.
        connects: Successful connections.
        failures: Failed connections.
        away_total_s: Total time without a connection, including the time before the first one [s].
    """

    published: int = 0
    samples_dropped: int = 0
    decisions_dropped: int = 0
    decisions_replaced: int = 0
    refused: int = 0
    received: int = 0
    handler_errors: int = 0
    connects: int = 0
    failures: int = 0
    away_total_s: float = 0.0


def _properties(message: Outgoing) -> Properties:
    properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
    if message.content_type:
        properties.ContentType = message.content_type
    if message.expiry_s is not None:
        properties.MessageExpiryInterval = max(1, math.ceil(message.expiry_s))
    return properties


class BusClient:
    """A connection to a broker; a lost connection is restored automatically.

    Attributes:
        options: The broker.
        counters: Totals since the start.
    """

    def __init__(
        self,
        options: BusOptions,
        *,
        client_id: str = "",
        on_message: Callable[[Incoming], None] | None = None,
        birth: Callable[[], Outgoing] | None = None,
        will: Outgoing | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare the connection; `start` connects.

        Args:
            options: The broker.
            client_id: Unique name of the connection at the broker; empty lets the broker choose one.
            on_message: Called on the network thread with every message.
            birth: Makes the message to send on every connect.
            will: Message that the broker publishes if the connection is lost.
            clock: Monotonic clock [s].

        Raises:
            BusError: `bus.tls_files`.
        """
        self.options = options
        self.counters = BusCounters()
        self._on_message = on_message
        self._birth = birth
        self._clock = clock
        self._lock = threading.Lock()
        self._decisions: TopicQueue[Outgoing] = TopicQueue(MAX_DECISIONS)
        self._samples: TopicQueue[Outgoing] = TopicQueue(options.queue_samples)
        self._sending = threading.Lock()
        self._in_flight: dict[int, Outgoing] = {}
        self._early: set[int] = set()
        self._filters: dict[str, int] = {}
        self._asked = self._answered = 0
        self._connected = threading.Event()
        self._idle = threading.Event()
        self._stopping = threading.Event()
        self._away_since_s: float | None = None
        self._refusal = ""
        self._thread: threading.Thread | None = None
        self._paho = self._make(client_id, will)

    def _make(self, client_id: str, will: Outgoing | None) -> Paho:
        options = self.options
        paho = Paho(
            CallbackAPIVersion.VERSION2,
            client_id,
            protocol=MQTTProtocolVersion.MQTTv5,
            reconnect_on_failure=False,  # done here, with the reason of the failure
        )
        paho.connect_timeout = _CONNECT_TIMEOUT_S
        paho.max_inflight_messages_set(_QOS1_IN_FLIGHT)
        if options.user is not None:
            paho.username_pw_set(options.user, options.password)
        if options.tls is not None:
            paho.tls_set_context(options.tls.context())
        if will is not None:
            properties = Properties(PacketTypes.WILLMESSAGE)  # type: ignore[no-untyped-call]
            if will.content_type:
                properties.ContentType = will.content_type
            paho.will_set(will.topic, will.payload, will.qos, will.retain, properties)
        paho.on_connect = self._connect_answered
        paho.on_disconnect = self._disconnected
        paho.on_publish = self._published
        paho.on_message = self._message
        paho.on_subscribe = self._subscribed
        paho.on_socket_open = _no_delay
        # With this callback, `publish` leaves writing to the network thread.
        paho.on_socket_register_write = _nothing
        return paho

    # Lifecycle

    def start(self, prepare: Callable[[], None] | None = None) -> None:
        """Connect in the background, and reconnect whenever the connection is lost.

        Args:
            prepare: Called once on the network thread before anything else.
        """
        self._away_since_s = self._clock()
        self._paho.connect_async(self.options.host, self.options.port, self.options.keepalive_s)
        self._thread = threading.Thread(target=self._run, args=(prepare,), name="ccp-bus", daemon=True)
        self._thread.start()

    def _run(self, prepare: Callable[[], None] | None) -> None:
        """Connect and serve; exceptions of `paho-mqtt` on broken data only end the connection."""
        if prepare is not None:
            prepare()
        wait_s = self.options.backoff_min_s
        while not self._stopping.is_set():
            connects = self.counters.connects
            try:
                self._paho.reconnect()
                self._paho.loop(0)  # creates the socket pair that wakes this thread; `loop_forever` does not
                self._paho.loop_forever()
            except OSError as error:
                self._not_connected(str(error))
            except Exception:
                log.exception("the connection to %s broke", self.options)
            self._lost()
            if self.counters.connects != connects:
                wait_s = self.options.backoff_min_s
            self._stopping.wait(wait_s)
            wait_s = min(2 * wait_s, self.options.backoff_max_s)

    def wait_connected(self, timeout_s: float) -> None:
        """Wait until the broker has accepted the connection.

        Raises:
            BusError: `bus.not_connected`.
        """
        if self._connected.wait(timeout_s):
            return
        raise BusError(
            "bus.not_connected",
            f"no connection to the broker within {timeout_s:g} s",
            where=str(self.options),
            why=self._refusal or "the broker has not answered",
            fix="check address, user and password; is the broker running?",
        )

    def stop(self, last: Outgoing | None = None, timeout_s: float = GOODBYE_S) -> None:
        """Send queued messages and a last message, then disconnect, without publishing the will.

        Args:
            last: The last message.
            timeout_s: Maximum time to send them [s]; 0 without a connection.
        """
        if self._thread is None:
            return
        if last is not None:
            self.publish(last)
        if self._connected.is_set():
            self.flush(timeout_s)
        self._stopping.set()
        self._paho.disconnect()
        self._thread.join(_CONNECT_TIMEOUT_S + 1)
        self._thread = None
        self._connected.clear()

    @property
    def connected(self) -> bool:
        """Whether the broker is connected."""
        return self._connected.is_set()

    @property
    def ready(self) -> bool:
        """Whether the broker is connected and has acknowledged all subscriptions."""
        return self._connected.is_set() and self._asked == self._answered

    @property
    def away_s(self) -> float:
        """Time since the connection was lost [s]; 0 while connected."""
        since_s = self._away_since_s
        return 0.0 if since_s is None else self._clock() - since_s

    # Publishing

    def publish(self, message: Outgoing) -> None:
        """Queue a message; never blocks."""
        with self._lock:
            self._idle.clear()
            if message.decision:
                decisions, counters = self._decisions, self.counters
                counters.decisions_dropped += decisions.put(message.topic, message, only_last=message.retain)
                counters.decisions_replaced = decisions.replaced
            else:
                self.counters.samples_dropped += self._samples.put(message.topic, message)
        self._send()

    def flush(self, timeout_s: float) -> bool:
        """Wait until all messages are sent; return whether they were sent in time."""
        return self._idle.wait(timeout_s)

    @property
    def queued(self) -> int:
        """Number of messages not yet handed to the network."""
        return len(self._decisions) + len(self._samples)

    def _may_send(self) -> bool:
        return self._connected.is_set() and self.queued > 0 and len(self._in_flight) < IN_FLIGHT

    def _send(self) -> None:
        """Hand queued messages to the network, in order; only one thread at a time, and without blocking.

        Checking the queue after releasing `_sending` makes this safe: a thread that could not acquire it has
        queued its message before.
        """
        sent = True
        while sent and self._may_send() and self._sending.acquire(blocking=False):
            try:
                sent = self._send_next()
            finally:
                self._sending.release()

    def _send_next(self) -> bool:
        """Hand one message to the network; False if disconnected, with the message back in the queue."""
        with self._lock:
            queue = self._decisions or self._samples
            if not queue:
                return True
            message = queue.pop()
        # Without a lock: `paho-mqtt` calls back while it holds its own locks.
        sent = self._paho.publish(
            message.topic, message.payload, message.qos, message.retain, _properties(message)
        )
        with self._lock:
            if message.qos == 0 and sent.rc == MQTTErrorCode.MQTT_ERR_NO_CONN:
                queue.put_first(message.topic, message)
                return False
            if sent.mid in self._early:  # the acknowledgement was faster
                self._early.discard(sent.mid)
                self._settle()
            else:
                self._in_flight[sent.mid] = message
        return True

    def _settle(self) -> None:
        self.counters.published += 1
        if not self.queued and not self._in_flight:
            self._idle.set()

    def _published(self, _paho: Paho, _data: Any, mid: int, reason: ReasonCode, _properties: Any) -> None:
        with self._lock:
            message = self._in_flight.pop(mid, None)
            if message is None:
                self._early.add(mid)
            else:
                self._settle()
            if reason.is_failure:
                self.counters.refused += 1
                if self.counters.refused == 1:
                    topic = "a message" if message is None else message.topic
                    log.warning(
                        "the broker refused %s: %s (further refusals are only counted)", topic, reason
                    )
        self._send()

    # Receiving

    def subscribe(self, topic_filter: str, qos: int = 0) -> None:
        """Subscribe now, if connected, and after every reconnect."""
        with self._lock:
            self._filters[topic_filter] = qos
        if self._connected.is_set():
            self._subscribe([(topic_filter, qos)])

    def _subscribe(self, filters: list[tuple[str, int]]) -> None:
        with self._lock:
            self._asked += 1
        self._paho.subscribe(filters)

    def _subscribed(
        self, _paho: Paho, _data: Any, _mid: int, reasons: list[ReasonCode], _properties: Any
    ) -> None:
        with self._lock:
            self._answered += 1
        refused = [str(reason) for reason in reasons if reason.is_failure]
        if refused:
            log.warning("the broker refused subscriptions: %s", ", ".join(refused))

    def unsubscribe(self, topic_filter: str) -> None:
        """End a subscription."""
        with self._lock:
            known = self._filters.pop(topic_filter, None)
        if known is not None and self._connected.is_set():
            self._paho.unsubscribe(topic_filter)

    def _message(self, _paho: Paho, _data: Any, message: MQTTMessage) -> None:
        received_us = clock.now_us()
        self.counters.received += 1
        if self._on_message is None:
            return
        try:
            self._on_message(
                Incoming(
                    message.topic,
                    bytes(message.payload),
                    message.retain,
                    getattr(message.properties, "ContentType", ""),
                    received_us,
                )
            )
        except Exception:
            self.counters.handler_errors += 1
            if self.counters.handler_errors == 1:
                log.exception(
                    "the handler of a message on %r failed (further failures are only counted)",
                    message._topic,
                )

    # Connection changes

    def _connect_answered(
        self, _paho: Paho, _data: Any, _flags: Any, reason: ReasonCode, _properties: Any
    ) -> None:
        if reason.is_failure:
            self._not_connected(refused_because(reason.value, str(reason)))
            return
        if self._stopping.is_set():
            self._paho.disconnect()
            return
        away_s, self._away_since_s, self._refusal = self.away_s, None, ""
        self.counters.away_total_s += away_s
        self.counters.connects += 1
        if self.counters.connects == 1:
            log.info("connected to %s", self.options)
        else:
            log.warning("reconnected to %s after %.1f s", self.options, away_s)
        warn_of_expiry(self._paho.socket(), self.options)
        with self._lock:
            filters = list(self._filters.items())
        if filters:
            self._subscribe(filters)
        if self._birth is not None:
            birth = self._birth()
            with self._lock:
                self._decisions.put_first(birth.topic, birth)
        self._connected.set()
        self._send()

    def _not_connected(self, why: str) -> None:
        before, self._refusal = self._refusal, why
        self.counters.failures += 1  # after the reason, for readers of both
        if why != before:
            log.warning("no connection to %s: %s; retrying", self.options, why)

    def _disconnected(
        self, _paho: Paho, _data: Any, _flags: Any, reason: ReasonCode, _properties: Any
    ) -> None:
        if self._stopping.is_set():
            pass
        elif self._connected.is_set():
            log.warning("lost the connection to %s (%s); reconnecting", self.options, reason)
        elif not self._refusal:
            self._not_connected(NO_ANSWER)
        self._lost()

    def _lost(self) -> None:
        """Handle the loss of the connection: messages in flight at QoS 0 are lost, others are resent."""
        self._connected.clear()
        if self._away_since_s is None:
            self._away_since_s = self._clock()
        with self._lock:
            lost = [mid for mid, message in self._in_flight.items() if message.qos == 0]
            for mid in lost:
                del self._in_flight[mid]
            self.counters.samples_dropped += len(lost)
            self._early.clear()
            self._asked = self._answered = 0


def _no_delay(_paho: Paho, _data: Any, sock: Any) -> None:
    if isinstance(sock, socket.socket | ssl.SSLSocket):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def _nothing(_paho: Paho, _data: Any, _socket: Any) -> None:
    pass
