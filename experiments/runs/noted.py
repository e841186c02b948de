"""Files written by a run's agent, which become tables: reactions of algorithms, events of flows."""

from __future__ import annotations

import contextlib
import csv
import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Final

from ccplane.agent.agent_loop import AgentLoop
from ccplane.agent.events import Event
from ccplane.base import clock
from experiments.features import features
from experiments.runs import artifacts, regime_tables
from telemetry.schema import IntSummary, Sample

DECISION_COLUMNS: Final = (
    "t_us",
    "src",
    "src_port",
    "dst",
    "dst_port",
    "of_acks",
    "interval_us",
    "end_mono_us",
)
"""Columns of the file in which the agent records when algorithms reacted to telemetry summaries: time,
connection, whether the summary is about the opposite direction, and the time of the summary."""


class Notes:
    """The records of one run.

    Attributes:
        note: Called with the number of a flow, and the sample that its algorithm reacted to; None if not
            needed.
    """

    def __init__(
        self, decisions: IO[str] | None, events: list[Callable[[Event], None]], clock_us: Callable[[], int]
    ) -> None:
        self._clock_us = clock_us
        self._events = events
        self._loop: AgentLoop | None = None
        self.note: Callable[[int, Sample], None] | None = None
        if decisions is not None:
            self._rows = csv.writer(decisions)
            self._rows.writerow(DECISION_COLUMNS)
            self.note = self._note

    def begin(self, agent_loop: AgentLoop) -> None:
        """Record an agent loop's events from now on; earlier ones concern no flow."""
        self._loop = agent_loop
        for write in self._events:
            agent_loop.events.listen(write)

    def _note(self, flow_id: int, sample: Sample) -> None:
        if self._loop is None or not isinstance(summary := sample.body, IntSummary):
            return
        info = self._loop.flows[flow_id].flow.info
        ends = (info.src_addr, info.src_port, info.dst_addr, info.dst_port)
        of_acks = (summary.flow.src, summary.flow.src_port) != ends[:2]
        self._rows.writerow((self._clock_us(), *ends, of_acks, summary.interval_us, summary.end_mono_us))


def monotonic_us() -> int:
    """Return CLOCK_MONOTONIC [us]."""
    return clock.now_us()


@contextlib.contextmanager
def notes(
    *,
    decisions: str | Path | None = None,
    regime_events: str | Path | None = None,
    features_in: str | Path | None = None,
    clock_us: Callable[[], int] = monotonic_us,
) -> Iterator[Notes]:
    """Open files to record to, for a `with` block.

    Args:
        decisions: CSV file with the columns `DECISION_COLUMNS`; None for none.
        regime_events: File of JSON lines for the regimes of flows; None for none.
        features_in: Directory for the events that features keep; None for none.
        clock_us: The clock of the flows [us], also used for events.
    """
    with contextlib.ExitStack() as files:
        table = None if decisions is None else files.enter_context(open(decisions, "w", newline=""))
        events = [
            _writer(files.enter_context(open(path, "wb", buffering=0)), kinds, line_of, clock_us)
            for path, kinds, line_of in (
                (regime_events, regime_tables.EVENTS, regime_tables.line_of),
                *_of_features(features_in),
            )
            if path is not None
        ]
        yield Notes(table, events, clock_us)


def _of_features(directory: str | Path | None) -> Iterator[tuple[Path, str, Callable[[Event], bytes]]]:
    if directory is None:
        return
    for feature in features():
        if feature.events:
            yield artifacts.agent_events(Path(directory), feature.name), feature.events, feature.line_of


def _writer(
    file: IO[bytes], kinds: str, line_of: Callable[[Event], bytes], clock_us: Callable[[], int]
) -> Callable[[Event], None]:
    def write(event: Event) -> None:
        if event.kind.startswith(kinds):
            file.write(line_of(dataclasses.replace(event, t_us=clock_us())))

    return write
