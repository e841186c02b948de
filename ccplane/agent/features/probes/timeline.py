"""A probe's events together with the reports of an agent, in order of time.

    from ccplane.agent import Client
    from ccplane.agent.features.probes.timeline import record
    from telemetry.bpfcc import BccProbe

    with BccProbe(text) as probe, Client() as client:
        seen = record(probe, client, seconds=10)
    seen.reports, seen.events           # DataFrames

Reports and events carry CLOCK_MONOTONIC. Reports and events arrive over different paths, and events of
several processors arrive out of order, so rows are delayed briefly and then returned in order of time.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from typing import TYPE_CHECKING, Final

from ccplane.agent import messages as ask
from ccplane.agent.client import Client, Row
from ccplane.base import clock
from ccplane.base.extras import extra_part

if TYPE_CHECKING:
    import pandas as pd

    from telemetry.bpfcc import BccProbe

HOLD_US: Final = 250_000
"""Delay of a row, to wait for older ones [us]."""

POLL_S: Final = 0.02
"""Timeout of one poll of the probe [s]."""

LOOK_S: Final = 0.2
"""Minimum interval between requests for new flows [s]; shorter than HOLD_US, so no answer comes too late."""


class Timeline:
    """Sorts rows by time.

    Attributes:
        late: Rows that arrived after a younger row had been returned.
    """

    def __init__(self) -> None:
        self.late = 0
        self._held: list[tuple[int, int, Row]] = []
        self._numbers = count()  # keeps rows with the same time in order of arrival
        self._given_us = 0

    def put(self, rows: Iterable[Row]) -> None:
        """Add rows with `t_us`, in any order."""
        for row in rows:
            heapq.heappush(self._held, (row["t_us"], next(self._numbers), row))

    def take(self, until_us: int | None = None) -> Iterator[Row]:
        """Yield the rows up to a time [us], oldest first; None for all rows."""
        while self._held and (until_us is None or self._held[0][0] <= until_us):
            t_us, _, row = heapq.heappop(self._held)
            self.late += t_us < self._given_us
            self._given_us = max(self._given_us, t_us)
            yield row


class Flows:
    """Finds the agent's flow for an event, by its ports and addresses."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._by_ports: dict[tuple[int, int], dict[int, tuple[str, str]]] = {}
        self._asked_s = -LOOK_S

    def of(self, fields: Row) -> int | None:
        """Return the flow; None if there is none, or the event has no ports.

        Args:
            fields: Fields of the event: `sport` and `dport`, in host byte order; `saddr` and `daddr`
                distinguish flows with the same ports.
        """
        if "sport" not in fields or "dport" not in fields:
            return None
        found = self._find(fields)
        if found is None and time.monotonic() - self._asked_s >= LOOK_S:
            self._ask()
            found = self._find(fields)
        return found

    def _find(self, fields: Row) -> int | None:
        known = self._by_ports.get((fields["sport"], fields["dport"]), {})
        for flow_id, ends in reversed(known.items()):  # the latest: earlier flows with these ports closed
            if all(fields.get(name, end) == end for name, end in zip(("saddr", "daddr"), ends, strict=True)):
                return flow_id
        return None

    def _ask(self) -> None:
        self._asked_s = time.monotonic()
        for row in self._client.ask(ask.Flows()):
            ends = (row["src_addr"], row["dst_addr"])
            self._by_ports.setdefault((row["src_port"], row["dst_port"]), {})[row["flow_id"]] = ends


class ProbeTimeline:
    """A stream of a probe's events and an agent's reports.

    Attributes:
        dropped_reports: Reports lost between the agent and this process.
        late: Rows that are out of order, because they arrived too late.
    """

    def __init__(self, probe: BccProbe, client: Client, flow: int | None = None) -> None:
        """Prepare.

        Args:
            probe: The attached probe.
            client: The connected client.
            flow: Only reports of this flow, and events that may belong to it.
        """
        self._probe = probe
        self._client = client
        self._flow = flow
        self._flows = Flows(client)
        self._timeline = Timeline()
        self.dropped_reports = 0

    @property
    def late(self) -> int:
        """Rows that arrived too late to be in order."""
        return self._timeline.late

    def rows(self, done: Callable[[], object]) -> Iterator[Row]:
        """Yield rows in order of time until `done` returns true, then the delayed rows.

        A report is a row of `Client.stream`. An event has `stream` "probe", `t_us`, `flow_id` (None if
        unknown), `source` and `fields`.

        Raises:
            ProbeError: `probe.clock`.
            CcpError: An error of the agent, or the agent does not answer.
        """
        with self._client.stream(self._flow) as stream:
            while not done():
                self._timeline.put(
                    {"stream": "probe", "t_us": one.t_us, "source": one.source, "fields": one.fields}
                    for one in self._probe.drain(POLL_S)
                )
                self._timeline.put(stream.ready())
                self.dropped_reports = stream.dropped
                yield from self._named(self._timeline.take(clock.now_us() - HOLD_US))
            yield from self._named(self._timeline.take())

    def _named(self, rows: Iterable[Row]) -> Iterator[Row]:
        for row in rows:
            if row["stream"] != "probe":
                yield row
                continue
            flow_id = self._flows.of(row["fields"])
            anybodys = flow_id is None and "dport" not in row["fields"]
            if self._flow is None or anybodys or flow_id == self._flow:
                yield {"stream": "probe", "t_us": row["t_us"], "flow_id": flow_id, **row}


@dataclass(frozen=True)
class Recorded:
    """A recording.

    Attributes:
        begin_us: Begin, CLOCK_MONOTONIC [us].
        end_us: End [us].
        rows: Reports and events in order of time, as from `ProbeTimeline.rows`.
        dropped_reports: Reports lost between the agent and this process.
        dropped_events: Events lost in the kernel.
    """

    begin_us: int
    end_us: int
    rows: list[Row] = field(repr=False)
    dropped_reports: int = 0
    dropped_events: int = 0

    @cached_property
    def reports(self) -> pd.DataFrame:
        """Reports, one per row: `t_s` since the beginning, the head of a report, and its fields."""
        return self._frame("report")

    @cached_property
    def events(self) -> pd.DataFrame:
        """Events, one per row: `t_s` since the beginning, `flow_id`, `source`, the fields of all sources."""
        return self._frame("probe")

    def _frame(self, stream: str) -> pd.DataFrame:
        with extra_part():
            import pandas as pd

        rows = []
        for row in self.rows:
            if row["stream"] != stream:
                continue
            head = {name: value for name, value in row.items() if name not in ("stream", "fields")}
            more = {f"field_{name}" if name in head else name: value for name, value in row["fields"].items()}
            rows.append({"t_s": (row["t_us"] - self.begin_us) / 1e6, **head, **more})
        frame = pd.DataFrame(rows, columns=None if rows else ["t_s", "t_us", "flow_id"])
        return frame.astype({"flow_id": "Int64"})


def record(probe: BccProbe, client: Client, seconds: float, *, flow: int | None = None) -> Recorded:
    """Record a probe and an agent.

    Args:
        probe: The attached probe.
        client: The connected client.
        seconds: Duration [s]; the call takes a quarter of a second more, for rows in transit.
        flow: Only reports of this flow, and events that may belong to it.

    Raises:
        ProbeError: `probe.clock`.
        CcpError: An error of the agent, or the agent does not answer.
    """
    begin_us = clock.now_us()
    end_us = begin_us + round(1e6 * seconds)
    dropped_before = probe.dropped
    alongside = ProbeTimeline(probe, client, flow)
    rows = [
        row
        for row in alongside.rows(lambda: clock.now_us() > end_us + HOLD_US)
        if begin_us <= row["t_us"] <= end_us
    ]
    return Recorded(begin_us, end_us, rows, alongside.dropped_reports, probe.dropped - dropped_before)
