"""The events of a poll: reports, created and closed flows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np

from ccplane.base.flows import FlowInfo, FlowStats
from ccplane.datapath.ccp_unix.programs import Installed
from ccplane.datapath.protocol import CLOSED, CREATED, REPORT, REPORT_HEAD, Event, Reports, handle_of

_TIMEOUT = 1
"""Bit in a report's `flags`: a retransmission timeout happened."""


@dataclass(frozen=True, slots=True)
class Created:
    """A flow was created."""

    EVENT_KIND: ClassVar[Literal[1]] = CREATED
    info: FlowInfo


@dataclass(frozen=True, slots=True)
class Closed:
    """A flow closed."""

    EVENT_KIND: ClassVar[Literal[2]] = CLOSED
    flow_id: int
    stats: FlowStats


@dataclass(frozen=True, slots=True)
class UnixReport:
    """One report; the Report registers of its program are also attributes."""

    EVENT_KIND: ClassVar[Literal[0]] = REPORT
    flow_id: int
    now_us: int
    cwnd_bytes: int
    rate_bytes_per_s: int
    timeout: bool
    program_handle: int
    _installed: Installed = field(repr=False)
    _values: Sequence[int]
    missed: ClassVar[int] = 0
    fold_error: ClassVar[bool] = False

    @property
    def program(self) -> str:
        """Name of the program that made the report."""
        return self._installed.name

    def as_dict(self) -> dict[str, int]:
        """Return the Report registers by name, without the other fields of the report."""
        return dict(zip(self._installed.fields, self._values, strict=True))

    def __getattr__(self, name: str) -> int:
        place = self._installed.places.get(name)
        if place is None:
            raise AttributeError(
                f'program "{self._installed.name}" does not report `{name}`; it reports '
                + ", ".join(self._installed.fields)
            )
        return self._values[place]


class Batch:
    """The events of one poll, in order."""

    def __init__(self, events: Sequence[Event]) -> None:
        self._events = events

    def __len__(self) -> int:
        return len(self._events)

    def __iter__(self) -> Iterator[Event]:
        return iter(self._events)

    def arrays(self) -> list[tuple[int, Reports]]:
        """Return the reports by program handle, each as one structured array in order of arrival."""
        rows: dict[int, list[UnixReport]] = {}
        for event in self._events:
            if isinstance(event, UnixReport):
                rows.setdefault(handle_of(event.program_handle), []).append(event)
        return [(handle, _array(reports)) for handle, reports in rows.items()]

    def events(self) -> Sequence[Event]:
        """Return the events in order, without the reports."""
        return [event for event in self._events if event.EVENT_KIND != REPORT]


def _array(reports: Sequence[UnixReport]) -> Reports:
    fields = reports[0]._installed.fields
    made = np.zeros(len(reports), np.dtype([*REPORT_HEAD, *((name, "u8") for name in fields)]))
    for name in ("flow_id", "now_us", "cwnd_bytes", "rate_bytes_per_s"):
        made[name] = [getattr(report, name) for report in reports]
    made["flags"] = [_TIMEOUT if report.timeout else 0 for report in reports]
    for place, name in enumerate(fields):
        made[name] = np.array([report._values[place] for report in reports], np.uint64)
    return made
