"""Parts of the time from an ACK to its update, measured with an algorithm that responds immediately."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from ccp_algs import Algorithm
from ccplane.agent.agent_loop import AgentLoop
from ccplane.agent.description import Description
from ccplane.agent.priority import raise_priority
from experiments.agent_process import agent_here
from experiments.bench.rounds import Unfit

PARTS: Final = ("fold", "wake", "take", "python", "update", "next_ack")
"""Parts of the time from an ACK. The parts end when the report is in the ring, when the agent's thread runs,
when it has the records, when `on_report` is called, when the update is in the mailbox, and when an ACK
applies it."""
SPANS: Final = (*PARTS, "written", "applied")
"""The parts, and the time from the ACK until the update is in the mailbox, and until an ACK applied it."""
MIN_UPDATES: Final = 100
"""Minimum updates of a round for percentiles."""

Spans = Mapping[str, NDArray[np.float64]]
"""Span -> times of the updates of a round [us]."""


class Stamp(Algorithm):
    """Responds to every report immediately; the next report says when the update was applied."""

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
    """Received batches; `on_report` is called for the last one."""
    answered: ClassVar[list[tuple[Any, int, int, int, int]]] = []
    """Per report: batch, time of the ACK [us], begin and end of `on_report` [ns], and when the previous
    update was applied, after its ACK [us]. All other times are looked up after the round, to save time in the
    callback."""

    def on_report(self, report: Any) -> None:
        """Respond, and record times."""
        called_ns = time.monotonic_ns()
        self.flow.set(stamp=report.now_us)
        written_ns = time.monotonic_ns()
        noted = (Stamp.batches[-1], report.now_us, called_ns, written_ns, report.applied_us)
        Stamp.answered.append(noted)


def _times() -> Iterator[tuple[float, ...]]:
    """Yield the times of each report [us], for `split`."""
    made_us = {ack_us: made for batch in Stamp.batches for ack_us, made in batch.made_us().items()}
    written_before_us = np.nan
    for batch, ack_us, called_ns, written_ns, applied_us in Stamp.answered:
        written_us = written_ns / 1000
        way_us = (ack_us, made_us[ack_us], batch.woken_us, batch.taken_us, called_ns / 1000, written_us)
        yield (*way_us, applied_us or np.nan, written_before_us)
        written_before_us = written_us - ack_us


@contextmanager
def stamping() -> Iterator[AgentLoop]:
    """Load the datapath with an agent in this process that responds immediately."""
    with agent_here(Description([Stamp]), max_flows=256) as agent_loop:
        agent_loop.on_batch = Stamp.batches.append
        raise_priority()
        yield agent_loop


def start() -> None:
    """Begin a round."""
    Stamp.answered.clear()
    Stamp.batches.clear()


def spans() -> Spans:
    """Return the spans of all updates since `start`.

    Raises:
        Unfit: If there are fewer than `MIN_UPDATES`.
    """
    if len(Stamp.answered) < MIN_UPDATES:
        raise Unfit(f"only {len(Stamp.answered)} updates were measured")
    return split(list(_times()))


def split(answered: Sequence[Sequence[float]]) -> Spans:
    """Return the spans between times.

    Args:
        answered: Per report [us]: ACK, in the ring, awake, taken, `on_report`, written; and when the previous
            update was applied, and written, after its ACK.
    """
    ack_us, made_us, woken_us, taken_us, called_us, written_us, applied, written = np.array(answered).T
    # Reports made while the agent was awake did not wait for a wake-up.
    awake_us = np.clip(woken_us, made_us, None)
    next_ack = applied - written
    found = {
        "fold": made_us - ack_us,
        "wake": awake_us - made_us,
        "take": np.clip(taken_us - awake_us, 0, None),
        "python": called_us - taken_us,
        "update": written_us - called_us,
        "next_ack": next_ack[next_ack >= 0],  # else another update came in between
        "written": written_us - ack_us,
        "applied": applied[~np.isnan(applied)],
    }
    return {name: found[name] for name in SPANS}
