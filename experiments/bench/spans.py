"""Where the time from an ACK to its update goes: an algorithm that answers at once, and clocks on its way."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from ccp_algs import Algorithm
from ccplane.agent.description import Description
from ccplane.agent.plane import Plane
from ccplane.agent.priority import raise_priority
from experiments.agent_process import agent_here
from experiments.bench.rounds import Unfit

PARTS: Final = ("fold", "wake", "take", "python", "letter", "next_ack")
"""The way in parts: from the ACK until the report is in the ring, until the agent's thread runs, until it has
the records, until `on_report` is called, until the letter lies in the mailbox, until an ACK applies it."""
SPANS: Final = (*PARTS, "written", "applied")
"""And both ends, from the ACK: the letter lies in the mailbox, and an ACK has applied it."""
LEAST_UPDATES: Final = 100
"""Of a round, below which it has no percentiles."""

Spans = Mapping[str, NDArray[np.float64]]
"""One of `SPANS` -> times of the updates of a round [us]."""


class Stamp(Algorithm):
    """Answers every report at once; the program says when it saw the answer to the one before."""

    name = "bench_latency"
    program = """
    (def (Report (volatile applied_us 0)) (stamp 0) (seen 0))
    (when (> stamp seen)
        (:= Report.applied_us (- Ack.now stamp))
        (:= seen stamp)
        (fallthrough))
    (when true
        (:= Cwnd 289600)
        (fallthrough))
    (when (> Micros 1000)
        (report)
        (:= Micros 0))
    """
    batches: ClassVar[list[Any]] = []
    """Those that came, the last one for which `on_report` is called."""
    answered: ClassVar[list[tuple[Any, int, int, int, int]]] = []
    """Of each report: its batch, its ACK [us], `on_report` and its end [ns], and when the letter before was
    applied, after its ACK [us]. All else is looked up after the round: noting it would take time."""

    def on_report(self, report: Any) -> None:
        """Answer, and note how long it took and how long the last answer was on its way."""
        called_ns = time.monotonic_ns()
        self.flow.set(stamp=report.now_us)
        written_ns = time.monotonic_ns()
        noted = (Stamp.batches[-1], report.now_us, called_ns, written_ns, report.applied_us)
        Stamp.answered.append(noted)


def _times() -> Iterator[tuple[float, ...]]:
    """Yield the times of each report [us], as `split` takes them."""
    made_us = {ack_us: made for batch in Stamp.batches for ack_us, made in batch.made_us().items()}
    written_before_us = np.nan
    for batch, ack_us, called_ns, written_ns, applied_us in Stamp.answered:
        written_us = written_ns / 1000
        way_us = (ack_us, made_us[ack_us], batch.woken_us, batch.taken_us, called_ns / 1000, written_us)
        yield (*way_us, applied_us or np.nan, written_before_us)
        written_before_us = written_us - ack_us


@contextmanager
def stamping() -> Iterator[Plane]:
    """Load the datapath, with an agent in this process that answers at once, as `ccp run` would."""
    with agent_here(Description([Stamp]), max_flows=256) as plane:
        plane.on_batch = Stamp.batches.append
        raise_priority()
        yield plane


def start() -> None:
    """Forget what was noted: a round begins."""
    Stamp.answered.clear()
    Stamp.batches.clear()


def spans() -> Spans:
    """Return the spans of all updates since `start`.

    Raises:
        Unfit: If there were hardly any.
    """
    if len(Stamp.answered) < LEAST_UPDATES:
        raise Unfit(f"only {len(Stamp.answered)} updates were measured")
    return split(list(_times()))


def split(answered: Sequence[Sequence[float]]) -> Spans:
    """Return the spans between times.

    Args:
        answered: Of each report [us]: its ACK, in the ring, awake, taken, `on_report`, written; and when the
            letter before was applied, and written, after its ACK.
    """
    ack_us, made_us, woken_us, taken_us, called_us, written_us, applied, written = np.array(answered).T
    # What was made while the agent was awake already waited for nobody to wake up.
    awake_us = np.clip(woken_us, made_us, None)
    next_ack = applied - written
    found = {
        "fold": made_us - ack_us,
        "wake": awake_us - made_us,
        "take": np.clip(taken_us - awake_us, 0, None),
        "python": called_us - taken_us,
        "letter": written_us - called_us,
        "next_ack": next_ack[next_ack >= 0],  # else another letter had come in between
        "written": written_us - ack_us,
        "applied": applied[~np.isnan(applied)],
    }
    return {name: found[name] for name in SPANS}
