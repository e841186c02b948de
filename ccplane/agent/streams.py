"""Streams of reports, decisions, events and telemetry: buffers between the agent's thread and the sender.

The agent's thread puts arrays and objects into bounded buffers; the control thread takes and sends them. A
full buffer drops its oldest entry, and counts it. Reports and decisions are buffered only while a client is
subscribed, so streams without subscribers cost nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ccp_algs import Updates
from ccplane.agent.events import Event
from ccplane.base import clock
from ccplane.datapath.protocol import Batch, Reports, handle_of
from telemetry.schema import Sample

if TYPE_CHECKING:
    from ccplane.agent.agent_loop import AgentLoop

BATCHES: Final = 256
"""Maximum batches of reports buffered: a quarter of a second at 1 kHz."""

DECISIONS: Final = 16_384
"""Maximum decisions buffered."""

EVENTS: Final = 4_096
"""Maximum events buffered, and maximum samples buffered."""

HISTORY: Final = 1_000
"""Events kept for later requests."""


@dataclass(frozen=True, slots=True)
class Decision:
    """An update of one flow (the arguments of `Datapath.update`), or of many, with its time.

    Attributes:
        t_us: Time, CLOCK_MONOTONIC [us].
        flow_id: The flow.
        cwnd_bytes: New window [bytes]; None or 0 if unchanged.
        rate_bytes_per_s: New rate [bytes/s]; None if unchanged.
        program: Handle of a new program, None if unchanged; before `singles`, with its stamp.
        registers: Control registers that were set.
        messages: Messages to extensions.
        many: The updates of a vectorised algorithm; the other fields are then unused.
    """

    t_us: int
    flow_id: int = 0
    cwnd_bytes: int | None = None
    rate_bytes_per_s: int | None = None
    program: int | None = None
    registers: dict[str, int] | None = None
    messages: dict[str, bytes] | None = None
    many: Updates | None = None

    def singles(self) -> Iterator[Decision]:
        """Yield one decision per flow."""
        if self.many is None:
            yield self if self.program is None else replace(self, program=handle_of(self.program))
            return
        many = self.many

        def at(row: int, column: Any) -> int:
            return int(np.broadcast_to(column, many.flow_ids.shape)[row])

        for row, flow_id in enumerate(np.asarray(many.flow_ids).tolist()):
            cwnd, rate = (
                None if column is None else at(row, column)
                for column in (many.cwnd_bytes, many.rate_bytes_per_s)
            )
            registers = {name: at(row, column) for name, column in many.registers.items()}
            yield Decision(self.t_us, flow_id, cwnd or None, rate or None, None, registers or None)


class _Buffer:
    """A bounded deque that counts dropped entries."""

    def __init__(self, size: int) -> None:
        self.items: deque[Any] = deque(maxlen=size)
        self.dropped = 0

    def put(self, item: Any) -> None:
        if len(self.items) == self.items.maxlen:
            self.dropped += 1
        self.items.append(item)

    def take(self) -> Iterator[Any]:
        while self.items:
            try:
                yield self.items.popleft()
            except IndexError:
                return


@dataclass(slots=True)
class Dropped:
    """Entries dropped because they were not sent in time.

    Attributes:
        batches: Batches of reports.
        decisions: Decisions.
        events: Events and samples.
    """

    batches: int = field(default=0)
    decisions: int = field(default=0)
    events: int = field(default=0)


class Streams:
    """The buffers of one agent loop.

    Attributes:
        history: The last events.
    """

    def __init__(self, agent_loop: AgentLoop) -> None:
        self.history: deque[Event] = deque(maxlen=HISTORY)
        self._loop = agent_loop
        self._batches = _Buffer(BATCHES)
        self._decisions = _Buffer(DECISIONS)
        self._events = _Buffer(EVENTS)
        self._samples = _Buffer(EVENTS)
        self._wants_events = False
        agent_loop.events.listen(self._event)

    @property
    def dropped(self) -> Dropped:
        """How many entries were dropped, by kind."""
        return Dropped(
            self._batches.dropped, self._decisions.dropped, self._events.dropped + self._samples.dropped
        )

    # On the agent's thread

    def want(self, *, reports: bool, decisions: bool, events: bool) -> None:
        """Select the kinds of messages to buffer."""
        self._wants_events = events
        self._loop.on_batch = self._batch if reports else None
        if decisions:
            self._loop.writer.show(self._one, self._many)
        else:
            self._loop.writer.hide()

    def sample(self, sample: Sample, flow_ids: list[int]) -> None:
        """Buffer a telemetry sample."""
        if self._wants_events:
            self._samples.put((sample, flow_ids))

    def _batch(self, batch: Batch) -> None:
        arrays = batch.arrays()
        if arrays:
            self._batches.put(arrays)

    def _one(self, *written: Any, **named: Any) -> None:
        self._decisions.put(Decision(_now_us(), *written, **named))

    def _many(self, updates: Updates) -> None:
        self._decisions.put(Decision(_now_us(), many=updates))

    def _event(self, event: Event) -> None:
        self.history.append(event)
        if self._wants_events:
            self._events.put(event)

    # On the sender's thread

    def batches(self) -> Iterator[list[tuple[int, Reports]]]:
        """Take the buffered batches of reports, by program handle."""
        return self._batches.take()

    def decisions(self) -> Iterator[Decision]:
        """Take the buffered decisions."""
        for decision in self._decisions.take():
            yield from decision.singles()

    def events(self) -> Iterator[Event]:
        """Take the buffered events."""
        return self._events.take()

    def samples(self) -> Iterator[tuple[Sample, list[int]]]:
        """Take the buffered samples with their flows."""
        return self._samples.take()


def _now_us() -> int:
    return clock.now_us()
