"""The thread that polls the agent ten times per second and feeds the panel."""

from __future__ import annotations

import threading
import time
from collections import deque
from contextvars import copy_context
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final

from ccplane.agent import messages as ask
from ccplane.agent.marks import Mark, mark_of
from ccplane.agent.panel.feed import Feed
from ccplane.agent.panel.samples import Columns, Extremes, Rates, rows
from ccplane.agent.panel.state import fields_of, plain_errors, state_of
from ccplane.base.errors import CcpError

if TYPE_CHECKING:
    from ccplane.agent.client import Client
    from ccplane.agent.client_stream import Stream

TICK_S: Final = 0.1
"""Polling interval [s]."""

FIELDS_S: Final = 5.0
"""Interval between checks of the reports' fields [s]."""

RETRY_S: Final = 1.0
"""Delay after a failed request [s]."""

MAX_HAPPENED: Final = 50
"""Maximum events, and maximum telemetry samples, in one message; only the newest are sent."""

MAX_MARKS: Final = 50
"""Maximum marks kept."""

SAME_S: Final = 1.0
"""Changes of one thing within this time have one mark, such as the steps of a slider [s]."""

CHANGES: Final = ("algorithm:", "param:", "program:")
"""Prefixes of events that change the state."""


class Gatherer:
    """Polls the agent and feeds the panel until `close`."""

    def __init__(self, client: Client, feed: Feed, flow: int | None, algorithm: str | None) -> None:
        self._client = client
        self._feed = feed
        self._flow = flow
        self._algorithm = algorithm
        self._columns = Columns()
        self._rates = Rates()
        self._extremes = Extremes()
        self._field = ""
        self._wanted_field = ""
        self._reports: Stream | None = None
        self._fields: list[str] = []
        self._next_fields_s = 0.0
        self._flows: list[dict[str, Any]] = []
        self._marks: deque[dict[str, Any]] = deque(maxlen=MAX_MARKS)
        self._noted: SimpleQueue[str] = SimpleQueue()
        self._stale = True
        self._opened = False
        self._idle = 0
        self._reported_trouble = False
        self._begin_s = time.monotonic()
        self._done = threading.Event()
        self._thread = threading.Thread(
            target=copy_context().run, args=(self._work,), name="ccp-panel", daemon=True
        )
        self._thread.start()

    def want_field(self, name: str) -> None:
        """Select a field of reports; empty for none. Thread-safe."""
        self._wanted_field = name

    def refresh(self) -> None:
        """Send everything again, for a new page. Thread-safe."""
        self._opened = True

    def mark(self, text: str) -> None:
        """Mark the present time as that of a change of the path. Thread-safe."""
        self._noted.put(text)

    def close(self) -> None:
        """Stop the thread."""
        self._done.set()
        self._thread.join()

    # The thread

    def _work(self) -> None:
        happened = self._client.stream(kinds=("event", "telemetry"))
        next_s = time.monotonic()
        while not self._done.wait(max(0.0, next_s - time.monotonic())):
            next_s = max(next_s + TICK_S, time.monotonic())
            try:
                self._choose_field()
                self._report_past()
                self._look()
                self._report_happened(happened)
                self._report_state()
                self._reported_trouble = False
            except CcpError as error:
                if not self._reported_trouble:
                    self._feed.emit({"kind": "trouble", "errors": plain_errors(error)})
                self._reported_trouble = True
                self._stale = True
                next_s += RETRY_S
        happened.close()
        if self._reports is not None:
            self._reports.close()
        self._client.close()

    def _look(self) -> None:
        answer = self._client.ask(ask.Flows())
        wanted = [row for row in answer if self._flow is None or row["flow_id"] == self._flow]
        # Without the receiving ends of connections within this machine.
        self._flows = [row for row in wanted if (row["bytes_acked"] or 0) > 1]
        idle, self._idle = self._idle, len(wanted) - len(self._flows)
        time_s = time.monotonic() - self._begin_s
        new, gone = self._columns.update(row["flow_id"] for row in self._flows)
        self._rates.forget(gone)
        for column in new.values():
            self._feed.clear(column=column)
        if new or gone or self._stale or self._idle != idle:
            self._report_flows()
        self._feed.add(time_s, rows(self._flows, self._columns, self._rates, self._take_reports()))

    def _take_reports(self) -> dict[int, tuple[float, float]]:
        if self._reports is None:
            return {}
        for report in self._reports.ready():
            if (value := report["fields"].get(self._field)) is not None:
                self._extremes.add(report["flow_id"], float(value))
        return self._extremes.take()

    def _choose_field(self) -> None:
        if self._wanted_field == self._field:
            return
        self._field = self._wanted_field
        self._extremes.take()
        self._feed.clear()
        if self._reports is not None:
            self._reports.close()
            self._reports = None
        if self._field:
            self._reports = self._client.stream(self._flow)

    # Messages

    def _report_flows(self) -> None:
        reported = [
            {
                "column": self._columns.flows[row["flow_id"]],
                "id": str(row["flow_id"]),  # may exceed 2^53, the limit of exact integers in JavaScript
                "src": _end(row["src_addr"], row["src_port"]),
                "dst": _end(row["dst_addr"], row["dst_port"]),
                "algorithm": row["algorithm"],
                "failed": row["failed"],
            }
            for row in self._flows
            if row["flow_id"] in self._columns.flows
        ]
        turned_away = self._columns.turned_away
        self._feed.emit({"kind": "flows", "flows": reported, "turned_away": turned_away, "idle": self._idle})

    def _report_happened(self, stream: Stream) -> None:
        came = stream.ready()
        events = [row for row in came if row["stream"] == "event"]
        samples = [row for row in came if row["stream"] == "telemetry"]
        if any(str(row["kind"]).startswith(CHANGES) for row in events):
            self._stale = True
        self._report_marks([mark_of(row["kind"], row["algorithm"], row["detail"]) for row in events])
        if came:
            self._feed.emit(
                {
                    "kind": "happened",
                    "past": False,
                    "events": _plain(events[-MAX_HAPPENED:]),
                    "telemetry": _plain(samples[-MAX_HAPPENED:]),
                }
            )

    def _report_marks(self, new: list[Mark | None]) -> None:
        while not self._noted.empty():
            new.append(Mark("path", self._noted.get()))
        there = [mark for mark in new if mark is not None]
        time_s = time.monotonic() - self._begin_s
        for mark in there:
            add_mark(self._marks, mark, time_s)
        if there:
            self._feed.emit({"kind": "marks", "marks": list(self._marks)})

    def _report_past(self) -> None:
        if self._opened:
            self._feed.emit({"kind": "marks", "marks": list(self._marks)})
            self._opened = False
            self._stale = True
            events = _plain(self._client.events(MAX_HAPPENED))
            self._feed.emit({"kind": "happened", "past": True, "events": events, "telemetry": []})

    def _report_state(self) -> None:
        if time.monotonic() >= self._next_fields_s:
            self._next_fields_s = time.monotonic() + FIELDS_S
            fields = fields_of(self._client, self._flows)
            self._stale |= fields != self._fields
            self._fields = fields
        if self._stale:
            state = state_of(self._client, self._flow, self._algorithm)
            self._feed.emit({**state, "fields": self._fields, "field": self._field})
            self._report_flows()
            self._stale = False


def add_mark(marks: deque[dict[str, Any]], mark: Mark, time_s: float) -> None:
    """Add a mark; a further change of the same thing within `SAME_S` replaces the text of its mark."""
    what = mark.text.partition(" = ")[0]
    for one in marks:
        if one["what"] == what and one["kind"] == mark.kind and time_s - one["last"] < SAME_S:
            one.update(text=mark.text, last=time_s)
            return
    marks.append({"t": time_s, "last": time_s, "kind": mark.kind, "what": what, "text": mark.text})


def _plain(happened: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return events or samples without numbers too large for JavaScript."""
    return [
        {name: value for name, value in row.items() if name not in ("flow_id", "flow_ids")}
        for row in happened
    ]


def _end(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
