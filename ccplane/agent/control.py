"""The control socket: clients inspect and change the running agent, and subscribe to its streams.

The control thread receives requests and passes them to the agent's thread, which executes them between two
batches; the control thread also sends the messages of the streams. The agent never waits for a client: ZeroMQ
drops answers and messages for a slow client beyond `QUEUE` messages, and the client detects the gap in their
numbers.

Access to a Unix socket is controlled by its mode, 0600. On TCP both sides need CURVE keys, see
`ccplane.agent.keys`.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Final

import msgspec
import zmq

from ccplane.agent import keys
from ccplane.agent.audit import Audit, Note
from ccplane.agent.listener import Listener
from ccplane.agent.messages import MAX_BYTES, VERSION, Answer, Ask, Envelope, problems_of
from ccplane.agent.requests import Requests, error_from, event_row
from ccplane.agent.rows import rows_of
from ccplane.agent.runfile import run_file
from ccplane.agent.streams import Streams
from ccplane.base.decoding import UNREADABLE
from ccplane.base.errors import CcpError, LoadError, UsageError

log = logging.getLogger("ccplane.agent")

QUEUE: Final = 1000
"""Messages queued for a slow client before they are dropped."""

SEND_S: Final = 0.01
"""Interval between sendings of the streams while there are subscribers [s]."""

SENDING_S: Final = 0.005
"""Time limit of one sending [s], because the agent's thread also needs the interpreter."""

SWITCH_S: Final = 2e-4
"""Maximum time that the control thread holds the interpreter lock while the agent's thread waits [s]."""

CHECK_KEYS_S: Final = 1.0
"""Interval between checks whether keys of stream clients were removed [s]; each request checks them too."""

LINGER_MS: Final = 500
"""Time limit for delivering the last answers at the end [ms]."""

STREAMS: Final = ("report", "decision", "event", "telemetry")
"""First words of the streams' topics."""

Frames = list[bytes]


def control_socket(pin_dir: str, run_dir: Path | None = None) -> str:
    """Return the address of the control socket of a pin directory's agent."""
    return f"ipc://{run_file(pin_dir, run_dir).with_suffix('.control.sock')}"


def check_address(address: str, where: str) -> str:
    """Check and return the address of a control socket.

    Raises:
        UsageError: `control.bad_address`.
    """
    found = re.fullmatch(r"ipc://.+|tcp://(?:[^:/\[\]]+|\[[^/\[\]]+\]):(\d{1,5})", address)
    # The streams use the next port.
    if found is None or (found[1] is not None and not 1 <= int(found[1]) <= 65_534):
        raise UsageError(
            "control.bad_address",
            f"`{address}` is not an address for a control socket",
            where=where,
            fix="write ipc://PATH or tcp://HOST:PORT with a port below 65535",
        )
    return address


def prepare_address(socket: zmq.Socket[bytes], address: str) -> None:
    """Enable IPv6 on a socket for an IPv6 address."""
    if "[" in address:
        socket.setsockopt(zmq.IPV6, 1)


def stream_address(address: str) -> str:
    """Return the address of the streams for the address of a control socket."""
    if address.startswith("ipc://"):
        return address.removesuffix(".sock") + ".streams.sock"
    host, _, port = address.rpartition(":")
    return f"{host}:{int(port) + 1}"


@dataclass(frozen=True, slots=True)
class ControlOptions:
    """Options of the control socket.

    Attributes:
        address: `ipc://PATH` or `tcp://HOST:PORT`; empty for the socket of the agent's pin directory.
        keys: Directory of CURVE keys, for TCP.
        user: User who may open the Unix socket, in addition to root; None for root only.
        shares: Whether the predecessor of this agent may listen there.
    """

    address: str
    keys: Path | None = None
    user: str | None = None
    shares: bool = False


class _Doors:
    """The two sockets: one for requests, one for streams.

    Attributes:
        router: For requests.
        xpub: For streams.
    """

    router: zmq.Socket[bytes]
    xpub: zmq.Socket[bytes]

    def __init__(self, options: ControlOptions) -> None:
        """Read the keys, and occupy the addresses; same errors as `Control`."""
        check_address(options.address, "--control")
        self._guard = keys.Guard(_keys(options)) if options.address.startswith("tcp://") else None
        self._addresses = (options.address, stream_address(options.address))
        self._listeners: list[Listener] = []
        self._sockets: list[zmq.Socket[bytes]] = []
        self._context: zmq.Context[zmq.Socket[bytes]] | None = None
        try:
            for address in self._addresses:
                self._listeners.append(_listener(address, options))
        except BaseException:
            self.close()
            raise

    def open(self) -> None:
        """Accept connections."""
        self._context = zmq.Context()
        if self._guard is not None:
            self._guard.start(self._context)
        for listener in self._listeners:
            listener.settle()
        self.router, self.xpub = self._socket(zmq.ROUTER, 0), self._socket(zmq.XPUB, 1)

    def _socket(self, kind: int, which: int) -> zmq.Socket[bytes]:
        assert self._context is not None
        socket = self._context.socket(kind)
        self._sockets.append(socket)
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.SNDHWM, QUEUE)
        socket.setsockopt(zmq.RCVHWM, QUEUE)
        socket.setsockopt(zmq.MAXMSGSIZE, MAX_BYTES)
        if self._guard is not None:
            self._guard.protect(socket)
        # ZeroMQ closes the descriptor that it gets.
        socket.setsockopt(zmq.USE_FD, os.dup(self._listeners[which].socket.fileno()))
        prepare_address(socket, self._addresses[which])
        socket.bind(self._addresses[which])
        return socket

    def _end(self) -> None:
        for socket in self._sockets:
            # The last answer may be about the end of this agent.
            socket.close(linger=LINGER_MS if socket is self._sockets[0] else 0)
        self._sockets = []
        if self._context is not None:
            if self._guard is not None:
                self._guard.close()
            self._context.term()
            self._context = None

    def close(self) -> None:
        """Close the sockets, and remove their files."""
        self._end()
        for listener in self._listeners:
            listener.close()

    def has_revoked(self) -> bool:
        """Return whether the key of a connected client was removed."""
        return self._guard is not None and self._guard.revoked()

    def reopen(self) -> None:
        """End all sessions. Clients reconnect by themselves."""
        self._end()
        self.open()


def _listener(address: str, options: ControlOptions) -> Listener:
    kind, _, place = address.partition("://")
    try:
        if kind == "ipc":
            return Listener(Path(place), shares=options.shares, user=options.user)
        host, _, port = place.rpartition(":")
        host = "" if host == "*" else host.strip("[]")
        return Listener((host, int(port)), shares=options.shares)
    except (OSError, LookupError) as error:
        raise LoadError(
            "control.cannot_listen",
            f"cannot listen at {address}",
            why=str(error),
            fix="choose another address with --control, or `--control none`",
        ) from error


class Control:
    """The control socket of an agent."""

    def __init__(
        self, options: ControlOptions, requests: Requests, streams: Streams, audit: Audit | None = None
    ) -> None:
        """Occupy the addresses, before the agent drops its capabilities; `start` accepts connections.

        Raises:
            LoadError: `control.cannot_listen`.
            UsageError: `control.bad_address`, `control.bad_keys`, or `control.no_keys` for TCP without keys.
        """
        self._doors = _Doors(options)
        self._requests = requests
        self._audit = audit
        self._streams = streams
        self._want: Callable[[Callable[[], None]], None] = requests.on_agent
        self._answers: SimpleQueue[tuple[Frames, int, Future[Any], Note | None]] = SimpleQueue()
        self._topics: set[str] = set()
        self._numbers: dict[str, int] = {}
        self._closing = threading.Event()
        self._bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._thread = threading.Thread(target=self._work, name="ccp-control", daemon=True)

    def start(self) -> None:
        """Accept connections, and start the thread."""
        self._doors.open()
        # The agent's thread needs the interpreter lock immediately after each wait.
        sys.setswitchinterval(SWITCH_S)
        self._thread.start()

    def close(self) -> None:
        """Stop the thread, and close the sockets."""
        self._closing.set()
        self._ring()
        if self._thread.ident is not None:
            self._thread.join()
        self._doors.close()
        bell, self._bell = self._bell, -1  # the loader may still use it
        if bell >= 0:
            os.close(bell)

    # The thread

    def _work(self) -> None:
        poller = self._poller()
        check_s = 0.0
        while not self._closing.is_set():
            ready = dict(poller.poll(round(1000 * SEND_S) if self._topics else None))
            if self._bell in ready:
                with suppress(BlockingIOError):
                    os.eventfd_read(self._bell)
            try:
                if self._doors.router in ready or time.monotonic() >= check_s:
                    check_s = time.monotonic() + CHECK_KEYS_S
                    if self._doors.has_revoked():
                        self._end_sessions()
                        poller = self._poller()
                self._receive()
                self._subscriptions()
                self._send_answers()
                if self._topics:
                    self._send_streams()
            except zmq.ZMQError as error:
                log.warning("control socket: %s", error)
            except Exception:
                log.exception("unexpected error in the control socket, which keeps running")
        self._send_answers()

    def _poller(self) -> zmq.Poller:
        poller = zmq.Poller()
        for socket in (self._doors.router, self._doors.xpub):
            poller.register(socket, zmq.POLLIN)
        poller.register(self._bell, zmq.POLLIN)
        return poller

    def _end_sessions(self) -> None:
        """Disconnect all clients, as ZeroMQ cannot disconnect one: those with a valid key reconnect."""
        log.warning("the key of a connected client was removed: disconnecting all control clients")
        self._topics.clear()
        self._topics_changed()
        self._doors.reopen()

    def _ring(self) -> None:
        with suppress(OSError):
            os.eventfd_write(self._bell, 1)

    # Requests

    def _receive(self) -> None:
        while True:
            try:
                frames = self._doors.router.recv_multipart(zmq.NOBLOCK, copy=False)
            except zmq.Again:
                return
            self._request([frame.bytes for frame in frames[:-1]], frames[-1])

    def _request(self, way_back: Frames, frame: zmq.Frame) -> None:
        number, what = read_request(frame.bytes)
        if isinstance(what, CcpError):
            failed: Future[Any] = Future()
            failed.set_exception(what)
            self._answers.put((way_back, number, failed, None))
            return

        note = None if self._audit is None else self._audit.of(what, frame)

        def answer(outcome: Future[Any]) -> None:
            self._answers.put((way_back, number, outcome, note))
            self._ring()

        self._requests.take(what, answer)

    def _send_answers(self) -> None:
        while True:
            try:
                way_back, number, outcome, note = self._answers.get_nowait()
            except Empty:
                return
            if note is not None:
                note(outcome)
            with suppress(zmq.Again):  # dropped: the client's queue is full
                self._doors.router.send_multipart([*way_back, answer_text(number, outcome)], zmq.NOBLOCK)

    # Streams

    def _subscriptions(self) -> None:
        before = set(self._topics)
        while True:
            try:
                frame = self._doors.xpub.recv(zmq.NOBLOCK)
            except zmq.Again:
                break
            topic = frame[1:].decode("utf-8", "replace")
            if frame[:1] == b"\1":
                self._topics.add(topic)
            elif frame[:1] == b"\0":
                self._topics.discard(topic)
        if self._topics != before:
            self._topics_changed()

    def _topics_changed(self) -> None:
        self._numbers.clear()
        wanted = {word: self._wanted(f"{word}/") for word in STREAMS}
        self._want(
            lambda: self._streams.want(
                reports=wanted["report"],
                decisions=wanted["decision"],
                events=wanted["event"] or wanted["telemetry"],
            )
        )

    def _wanted(self, topic: str) -> bool:
        """Return whether a client subscribed to a topic, or to topics with this prefix."""
        return any(topic.startswith(one) or one.startswith(topic) for one in self._topics)

    def _send_streams(self) -> None:
        end_s = time.monotonic() + SENDING_S
        for event in self._streams.events():
            self._publish(f"event/{event.kind}", event_row(event))
        for sample, flow_ids in self._streams.samples():
            row = {**msgspec.to_builtins(sample), "flow_ids": flow_ids}
            self._publish(f"telemetry/{sample.kind}", row)
        for decision in self._streams.decisions():
            row = {
                "flow_id": decision.flow_id,
                "t_us": decision.t_us,
                "cwnd_bytes": decision.cwnd_bytes,
                "rate_bytes_per_s": decision.rate_bytes_per_s,
                "program": decision.program,
                "registers": decision.registers or {},
            }
            self._publish(f"decision/{decision.flow_id}/", row)
            if time.monotonic() > end_s:
                return
        for batch in self._streams.batches():
            for handle, reports in batch:
                for row in rows_of(reports, lambda flow_id: self._wanted(f"report/{flow_id}/")):
                    self._publish(f"report/{row['flow_id']}/", {**row, "program": handle})
            if time.monotonic() > end_s:
                return

    def _publish(self, topic: str, row: dict[str, Any]) -> None:
        if not any(topic.startswith(one) for one in self._topics):
            return
        if len(self._numbers) > 100_000:
            self._numbers.clear()
        row["number"] = self._numbers[topic] = self._numbers.get(topic, 0) + 1
        with suppress(zmq.Again):
            self._doors.xpub.send_multipart([topic.encode(), _ENCODE(row)], zmq.NOBLOCK)


_ENCODE: Final = msgspec.json.Encoder(enc_hook=str).encode
_DECODE: Final = msgspec.json.Decoder(Envelope).decode
_NUMBER: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def read_request(text: bytes) -> tuple[int, Ask | CcpError]:
    """Parse a request; return its number (0 if it cannot be parsed), and the request, or the error."""
    try:
        envelope = _DECODE(text)
    except msgspec.ValidationError as error:
        return _number_of(text), _bad_request(str(error))
    except UNREADABLE as error:
        return 0, _bad_request(str(error))
    if envelope.version != VERSION:
        why = f"its protocol version is {envelope.version}; this agent supports version {VERSION}"
        return envelope.id, _bad_request(why)
    return envelope.id, envelope.ask


def _number_of(text: bytes) -> int:
    try:
        number = msgspec.json.decode(_NUMBER(text).get("id", msgspec.Raw(b"0")), type=int)
    except UNREADABLE:
        return 0
    return number if 0 <= number < 1 << 63 else 0


def _bad_request(why: str) -> UsageError:
    return UsageError(
        "control.bad_request",
        "the request is not valid",
        why=why,
        fix="use ccplane.agent.Client of the same version; docs/live.md lists all requests",
    )


def answer_text(number: int, outcome: Future[Any]) -> bytes:
    """Return the encoded answer to a request."""
    try:
        result = outcome.result(timeout=0)
        return _ENCODE(Answer(id=number, ok=result() if callable(result) else result))
    except BaseException as error:
        if not isinstance(error, CcpError):
            log.error("request %d: %s: %s", number, type(error).__name__, error, exc_info=error)
        return _ENCODE(Answer(id=number, error=problems_of(error_from(error))))


def _keys(options: ControlOptions) -> Path:
    if options.keys is None:
        raise UsageError(
            "control.no_keys",
            f"control over {options.address} needs keys",
            where="--control",
            why="without keys, anyone who can reach the port could load code into the agent",
            fix="give a directory with --control-keys; missing keys are created",
        )
    return options.keys
