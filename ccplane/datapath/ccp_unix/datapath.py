"""`CcpUnixDatapath`: the flows of all datapaths that join, as a `ccplane.datapath.protocol.Datapath`."""

from __future__ import annotations

import heapq
import logging
import operator
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ccplane.base.errors import CcpError, LoadError, ProgramError, RegisterError
from ccplane.base.flows import MAX_REGISTER, FlowInfo, FlowStats
from ccplane.base.loglimit import LogLimit
from ccplane.base.names import close_names
from ccplane.datapath.ccp_unix import fallback
from ccplane.datapath.ccp_unix.flows import UnixFlow, head_of, info_of
from ccplane.datapath.ccp_unix.inherited import Inherited
from ccplane.datapath.ccp_unix.ledger import Ledger
from ccplane.datapath.ccp_unix.peers import AgentSocket, Peer, is_open
from ccplane.datapath.ccp_unix.programs import LIBCCP, Installed, Limits, Table
from ccplane.datapath.ccp_unix.reports import Batch, Closed, Created, UnixReport
from ccplane.datapath.ebpf import compile_program
from ccplane.datapath.kinds.interop import SOCKET
from ccplane.datapath.protocol import FALLBACK_PROGRAM, STAMP_SHIFT, Event, handle_of
from ccplane.datapath.wire import (
    CWND,
    IMPLICIT,
    RATE,
    ChangeProgram,
    Create,
    Field,
    Measure,
    Message,
    Ready,
    Update,
    messages,
)

log = logging.getLogger("ccplane.datapath")

MAX_CWND_BYTES: Final = 1 << 30
"""Maximum window [bytes]; as in the kernel."""

MAX_RATE_BYTES_PER_S: Final = 0xFFFF_FFFF
"""Maximum rate in libccp [bytes/s]; it means no pacing."""

LOOK_S: Final = 0.5
"""Interval between checks that datapaths are alive [s]."""

MAX_FIELDS: Final = 127
"""Maximum registers in one `Update`: libccp reads their number from a signed byte."""


class CcpUnixDatapath:
    """The agent's end of CCP's Unix sockets; needs no privilege. A context manager."""

    def __init__(
        self,
        path: Path = SOCKET,
        limits: Limits = LIBCCP,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Bind the socket; datapaths can then join.

        Raises:
            UsageError: `wire.no_socket`.
        """
        self.path = path
        self._clock = clock
        self._table = Table(compile_program(fallback.SOURCE, fallback.NAME, fallback.__file__), limits)
        self._peers: dict[str, Peer] = {}
        self._flows: dict[int, UnixFlow] = {}
        self._by_number: dict[tuple[str, int], UnixFlow] = {}
        self._names: dict[str, bool] = {}
        self._counted = count(1)
        self._free_slots: list[int] = []
        self._new_slots = count()
        self._log_limit = LogLimit()
        self._counters = dict.fromkeys(("flows_created", "fallback_entries", "messages_refused"), 0)
        self._events: list[Event] = []
        self._look_s = 0.0
        self._closed = False
        self._socket = AgentSocket(path)
        self._ledger: Ledger | None = None
        self._inherited: Inherited | None = None
        if limits.libccp:
            self._inherit()

    def _inherit(self) -> None:
        """Ask for the flows of an earlier agent, which libccp does not announce again."""
        self._ledger = Ledger(self.path.with_name(f"{self.path.name}.flows"))
        self._inherited = Inherited(self._ledger, self._table.fallback, self._give_fallback)
        for name in list(self._ledger.known):
            if is_open(Path(name)):
                self._join(name)
                self._inherited.greet(name)
            else:
                self._ledger.left(name)

    def _give_fallback(self, name: str, create: Create) -> None:
        flow = UnixFlow(self._peers[name], create.flow, info_of(create, 0, self._now_us()))
        begin = self._beginning(flow, self._table.fallback, FALLBACK_PROGRAM)
        message = ChangeProgram(create.flow, self._table.fallback.uid, list(begin.values()))
        self._socket.send(flow.peer, message.to_bytes())

    @property
    def adopted(self) -> bool:
        """Whether flows of an earlier agent were taken over; False, as the flows answer only later."""
        return False

    # Names and programs

    def register(self, cc_name: str, needs_ecn: bool = False) -> None:
        """Store a name; ECN is up to the datapath."""
        self._names[cc_name] = needs_ecn

    def unregister(self, cc_name: str) -> None:
        """Forget a name."""
        self._names.pop(cc_name, None)

    def registered(self) -> list[str]:
        """Return the registered names."""
        return list(self._names)

    def extend(self, name: str, object: bytes | None = None) -> None:
        """Refuse an extension.

        Raises:
            LoadError: `load.extension`, always.
        """
        raise LoadError(
            "load.extension",
            f"the extension `{name}` is not available on this datapath",
            where=str(self.path),
            why="extensions are kernel programs, and this datapath is outside the kernel",
            fix="run the algorithm on the kernel datapath, or run an algorithm without extensions here",
        )

    def install(self, program: Any) -> int:
        """Send a program to all datapaths; return its handle.

        Raises:
            LangError: `lang.limit`, if the program exceeds the datapaths' limits.
            ProgramError: `program.no_room`.
        """
        installed, to_send = self._table.install(program)
        for peer in self._peers.values():
            for message in to_send:
                self._socket.send(peer, message)
        return installed.handle

    def uninstall(self, handle: int) -> None:
        """Remove a program; flows that still run it get the fallback."""
        for flow in self._flows.values():
            if flow.installed is not None and flow.installed.handle == handle:
                self.update(flow.info.flow_id, program=FALLBACK_PROGRAM)
        self._table.uninstall(handle)

    # From datapaths

    def poll(self, timeout_ms: int) -> Batch:
        """Wait for messages of datapaths, at most `timeout_ms` [ms] and until `wake`."""
        for sender, datagram in self._socket.receive(0 if self._events else timeout_ms):
            try:
                for message in messages(datagram):
                    self._received(sender, message)
            except CcpError as error:
                self._counters["messages_refused"] += 1
                if admitted := self._log_limit.admit((sender, error.slug)):
                    log.error("refused a message of the datapath %s: %s%s", sender, error, admitted)
        self._look()
        events, self._events = self._events, []
        return Batch(events)

    def wake(self) -> None:
        """Make `poll` return immediately. Thread-safe."""
        self._socket.wake()

    def _received(self, sender: str, message: Message) -> None:
        if isinstance(message, Ready):
            self._ready(sender)
        elif isinstance(message, Create):
            if sender not in self._peers:
                self._ready(sender)
            self._create(self._peers[sender], message)
        elif isinstance(message, Measure):
            flow = self._by_number.get((sender, message.flow))
            if flow is None:
                self._unknown(sender, message)
            elif message.fields:
                self._measured(flow, message)
            else:
                self._close(flow)
        elif admitted := self._log_limit.admit((sender, type(message))):
            kind = type(message).__name__
            log.warning("ignored a %s message, which datapaths must not send%s", kind, admitted)

    def _ready(self, sender: str) -> None:
        """Add a datapath without flows; drop its earlier flows."""
        self._forget(self._peers.get(sender))
        if self._ledger is not None:
            self._ledger.joined(sender)
        self._join(sender)

    def _join(self, sender: str) -> None:
        peer = self._peers[sender] = Peer(sender)
        for message in self._table.messages():
            self._socket.send(peer, message)
        log.info("a datapath has joined: %s", sender)

    def _unknown(self, sender: str, measure: Measure) -> None:
        """Take over a flow of an earlier agent; only libccp does not announce such flows itself."""
        if self._inherited is None or not measure.fields:
            return
        if sender not in self._peers:
            self._ready(sender)
        create = self._inherited.answered(sender, measure)
        if create is not None:
            self._create(self._peers[sender], create)
            log.info("took over flow %d of %s from an earlier agent", create.flow, sender)

    def _create(self, peer: Peer, create: Create) -> None:
        before = self._by_number.get((peer.path, create.flow))
        if before is not None:
            self._close(before)
        # The lower half of the id is the lowest free slot: vectorised algorithms index arrays with it.
        slot = heapq.heappop(self._free_slots) if self._free_slots else next(self._new_slots)
        flow_id = next(self._counted) << 32 | slot
        flow = UnixFlow(peer, create.flow, info_of(create, flow_id, self._now_us()))
        self._flows[flow_id] = self._by_number[peer.path, create.flow] = flow
        if self._ledger is not None:
            self._ledger.created(peer.path, create)
        self._counters["flows_created"] += 1
        self._events.append(Created(flow.info))

    def _measured(self, flow: UnixFlow, measure: Measure) -> None:
        installed = self._table.of_uid(measure.program)
        if installed is None:
            return  # uninstalled meanwhile
        if len(measure.fields) != installed.sent.n_reports:
            self._counters["messages_refused"] += 1
            if admitted := self._log_limit.admit(("report", len(measure.fields))):
                log.error(
                    "refused a report of flow %d: its program does not have %d registers%s",
                    flow.number,
                    len(measure.fields),
                    admitted,
                )
            return
        head, now_us = head_of(installed, measure.fields), self._now_us()
        flow.reported(head, now_us)
        if installed.handle != FALLBACK_PROGRAM:
            report = UnixReport(
                flow.info.flow_id,
                now_us,
                flow.stats.cwnd_bytes,
                flow.stats.rate_bytes_per_s,
                head["timeouts"] != 0,
                installed.handle | head["stamp"] << STAMP_SHIFT,
                installed,
                measure.fields[: len(installed.fields)],
            )
            self._events.append(report)

    def _close(self, flow: UnixFlow) -> None:
        del self._by_number[flow.peer.path, flow.number]
        del self._flows[flow.info.flow_id]
        heapq.heappush(self._free_slots, flow.info.flow_id & 0xFFFF_FFFF)
        if self._ledger is not None:
            self._ledger.closed(flow.peer.path, flow.number)
        self._events.append(Closed(flow.info.flow_id, flow.stats))

    def _forget(self, peer: Peer | None) -> None:
        """Close all flows of a datapath."""
        if peer is not None:
            for flow in [flow for flow in self._flows.values() if flow.peer is peer]:
                self._close(flow)
            del self._peers[peer.path]
            if self._ledger is not None and self._inherited is not None:
                self._ledger.left(peer.path)
                self._inherited.forget(peer.path)

    def _look(self) -> None:
        """Send waiting messages, and drop dead datapaths."""
        looks = self._clock() >= self._look_s
        for peer in list(self._peers.values()):
            self._socket.flush(peer)
            if looks:
                self._socket.look(peer)
            if peer.gone:
                log.warning("lost the datapath %s: it exited, or does not read", peer.path)
                self._forget(peer)
        if looks:
            self._look_s = self._clock() + LOOK_S

    def _now_us(self) -> int:
        return int(self._clock() * 1e6)

    # To datapaths

    def update(
        self,
        flow_id: int,
        cwnd_bytes: int | None = None,
        rate_bytes_per_s: int | None = None,
        program: int | None = None,
        registers: dict[str, int] | None = None,
        messages: dict[str, bytes] | None = None,
    ) -> bool:
        """Update one flow; see `Datapath.update`. A rate of 0 is sent as the maximum, which means no pacing.

        Raises:
            ProgramError: `program.unknown`.
            RegisterError: `register.unknown` or `register.no_program`.
            CcpError: `update.extension`, for messages to extensions.
        """
        if messages:
            raise CcpError(
                "update.extension",
                f"this datapath has no extensions: {', '.join(messages)}",
                where=str(self.path),
                fix="call flow.extend only on the kernel datapath",
            )
        flow = self._flows.get(flow_id)
        if flow is None:
            return False
        installed = flow.installed if program is None else self._table.get(handle_of(program))
        if program is not None and installed is None:
            raise ProgramError(
                "program.unknown",
                f"no installed program has the handle {program}",
                fix="install the program first",
            )
        begin = {} if program is None or installed is None else self._beginning(flow, installed, program)
        begin |= {
            place.index: place for place in (_field(installed, *one) for one in (registers or {}).items())
        }
        fields = list(begin.values())
        if cwnd_bytes is not None:
            fields.append(Field(IMPLICIT, CWND, min(cwnd_bytes, MAX_CWND_BYTES)))
        if rate_bytes_per_s is not None and (rate_bytes_per_s or flow.paced):
            flow.paced = rate_bytes_per_s != 0
            rate = min(rate_bytes_per_s or MAX_RATE_BYTES_PER_S, MAX_RATE_BYTES_PER_S)
            fields.append(Field(IMPLICIT, RATE, rate))
            flow.stats = replace(flow.stats, rate_bytes_per_s=rate_bytes_per_s)
        if program is not None and installed is not None:
            self._socket.send(flow.peer, ChangeProgram(flow.number, installed.uid, fields).to_bytes())
            flow.gave(installed, program, self._now_us())
        elif fields:
            for first in range(0, len(fields), MAX_FIELDS):
                part = fields[first : first + MAX_FIELDS]
                self._socket.send(flow.peer, Update(flow.number, part).to_bytes())
        return True

    def _beginning(self, flow: UnixFlow, installed: Installed, given: int) -> dict[int, Field]:
        """Return registers whose initial values differ from the program's, by index."""
        sent = installed.sent
        known = flow.known() | {"stamp": given >> STAMP_SHIFT}
        begin = dict(sent.begin) | {index: known[name] * factor for name, index, factor in sent.carried}
        kinds = dict(enumerate(sent.control_kinds))
        return {index: Field(kinds.get(index, 0), index, value) for index, value in begin.items()}

    def update_many(
        self,
        flow_ids: NDArray[np.uint64],
        cwnd_bytes: NDArray[np.uint64],
        rate_bytes_per_s: NDArray[np.uint64],
        registers: dict[str, NDArray[np.uint64]] | None = None,
    ) -> int:
        """Update many flows; see `Datapath.update_many`."""
        named = registers or {}
        rows = [
            (row, flow)
            for row, flow_id in enumerate(flow_ids)
            if (flow := self._flows.get(int(flow_id))) is not None and not (named and flow.stats.fallback)
        ]
        for _, flow in rows:
            for name in named:
                _field(flow.installed, name, 0)
        for row, flow in rows:
            self.update(
                flow.info.flow_id,
                int(cwnd_bytes[row]) or None,
                int(rate_bytes_per_s[row]) or None,
                registers={name: int(column[row]) for name, column in named.items()},
            )
        return len(rows)

    # Queries

    def flows(self) -> Sequence[FlowInfo]:
        """Return all current flows."""
        return [flow.info for flow in list(self._flows.values())]

    def stats(self, flow_id: int) -> FlowStats | None:
        """Return the totals of one flow at its last report, None if it closed."""
        flow = self._flows.get(flow_id)
        return None if flow is None else flow.stats

    def all_stats(self) -> Sequence[FlowStats]:
        """Return the totals of all current flows."""
        return [flow.stats for flow in list(self._flows.values())]

    def counters(self) -> dict[str, int]:
        """Return the counters; missed events are 0, because datapaths do not report them."""
        return self._counters | {
            "flows_active": len(self._flows),
            "datapaths": len(self._peers),
            "creates_missed": 0,
            "closes_missed": 0,
        }

    def answered(self, event: object) -> None:
        """Do nothing: CCP's messages have no answer to a report."""

    def answered_many(self, flow_ids: NDArray[np.uint64], now_us: NDArray[np.uint64]) -> None:
        """Do nothing: CCP's messages have no answer to a report."""

    def heartbeat(self) -> None:
        """Do nothing: datapaths detect a missing agent themselves."""

    def close(self) -> None:
        """Move all flows to the fallback, and remove the socket; repeated calls have no effect."""
        if self._closed:
            return
        self._closed = True
        for flow_id in list(self._flows):
            self.update(flow_id, program=FALLBACK_PROGRAM)
        for peer in self._peers.values():
            self._socket.flush(peer)
        self._socket.close()
        if self._ledger is not None:
            self._ledger.close()

    def __enter__(self) -> CcpUnixDatapath:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _field(installed: Installed | None, name: str, value: int) -> Field:
    if installed is None:
        raise RegisterError(
            "register.no_program",
            f"cannot set `{name}`: the flow has no program",
            why="control registers belong to a program",
            fix="set the flow's program first, or in the same update",
        )
    place = installed.controls.get(name)
    if place is None:
        raise RegisterError(
            "register.unknown",
            f'program "{installed.name}" has no control register `{name}`',
            fix=close_names(name, installed.controls, "control register"),
        )
    value = operator.index(value)
    if not 0 <= value <= MAX_REGISTER:
        raise OverflowError(f"`{name}` cannot be {value}")
    return Field(*place, value)
