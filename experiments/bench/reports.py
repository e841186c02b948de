"""`ccp bench reports`: reports per second that one Python process handles.

Flows whose fold program reports every ACK fill a large ring while the agent does not read. After the flows
have ended, only the agent is timed: reader, dispatch, `on_report`, and its update.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ccp_algs import Algorithm, Updates, VectorAlgorithm
from ccplane.agent.agent_loop import AgentLoop
from ccplane.agent.description import Description
from experiments.agent_process import agent_here
from experiments.bench.result import BenchResult
from experiments.bench.rounds import Plan, Unfit, measure_rounds
from experiments.disturbance import disturbances_alone
from experiments.netlab import Path, start_iperf3, two_hosts

RING_BYTES = 64 << 20
FILL_S = 5
FLOWS = 8
MIN_REPORTS = 10_000
"""Minimum reports in the ring for a figure."""
PER_FLOW_GOAL = ">= 200000"
VECTORISED_GOAL = ">= 2000000"
PROGRAM = """
(def (Report (volatile acked 0) (volatile lost 0) (rtt_us 0) (in_flight 0)))
(when true
    (:= Report.acked (+ Report.acked Ack.bytes_acked))
    (:= Report.lost (+ Report.lost Ack.lost_pkts_sample))
    (:= Report.rtt_us Flow.rtt_sample_us)
    (:= Report.in_flight Flow.bytes_in_flight)
    (:= Cwnd 65536)
    (report))
"""
"""A small window on a short path makes many ACKs."""


class PerFlow(Algorithm):
    """Reads four fields of every report, and sets a window after losses."""

    name = "bench_per_flow"
    program = PROGRAM
    acked_bytes = 0
    rtt_us = 0

    def on_report(self, report: Any) -> None:
        """Do the work of a small algorithm."""
        self.acked_bytes += report.acked
        self.rtt_us = report.rtt_us
        if report.lost and report.in_flight:
            self.flow.set(cwnd_bytes=report.cwnd_bytes)


class Vectorised(VectorAlgorithm):
    """Does the same as `PerFlow`, over arrays of flows."""

    name = "bench_vectorised"
    program = PROGRAM
    acked_bytes = 0

    def on_reports(self, reports: Any, program: str) -> Updates | None:
        """Do the work of a small algorithm."""
        self.acked_bytes += int(reports["acked"].sum())
        lossy = reports[reports["lost"] > 0]
        if not len(lossy):
            return None
        return Updates(
            flow_ids=np.ascontiguousarray(lossy["flow_id"]),
            cwnd_bytes=np.ascontiguousarray(lossy["cwnd_bytes"]),
        )


@dataclass(frozen=True, slots=True)
class Taken:
    """Reports that an agent handled from a full ring.

    Attributes:
        reports_per_s: Reports per second.
        reports: Number of reports.
    """

    reports_per_s: float
    reports: int


def _round(path: Path, algorithm: str) -> Taken:
    """Fill the ring and time the agent."""
    with agent_here(
        Description([f"{__name__}:{algorithm}"]),
        max_flows=256,
        ring_bytes=RING_BYTES,
        heartbeat_timeout_ms=60_000,
        report_timeout_ms=60_000,
    ) as agent_loop:
        agent_loop.adopt()
        transfer = start_iperf3(
            path.sender, path.receiver, congestion="ccp", duration_s=FILL_S, parallel=FLOWS
        )
        with transfer:
            _turn_until(agent_loop, lambda: agent_loop.counters.reports > 0)
            transfer.wait()
        before = agent_loop.counters.reports
        start = time.perf_counter()
        while agent_loop.turn(0):
            pass
        took_s = time.perf_counter() - start
        taken = agent_loop.counters.reports - before
        if taken < MIN_REPORTS:
            raise Unfit(f"the ring had only {taken} reports")
        return Taken(taken / took_s, taken)


def _turn_until(agent_loop: AgentLoop, done: Callable[[], bool], timeout_s: float = 10.0) -> None:
    end_s = time.monotonic() + timeout_s
    while not done():
        if time.monotonic() > end_s:
            raise Unfit(f"no report arrived within {timeout_s:g} s")
        agent_loop.turn(20)


def run(plan: Plan) -> BenchResult:
    """Measure.

    Returns:
        `per_flow_per_s` and `vectorised_per_s`.

    Raises:
        BenchError: As `measure_rounds`.
        LoadError: If the datapath does not load.
    """
    result = BenchResult("reports", plan)
    with two_hosts() as path:
        measured = measure_rounds(
            ("PerFlow", "Vectorised"),
            lambda algorithm, _: _round(path, algorithm),
            plan,
            title="reports",
            headlines=lambda samples: [_rates(taken) for taken in samples.values()],
            judge=disturbances_alone,
        )
    result.rounds["reports"] = measured.tally
    samples = measured.samples
    result.add("per_flow_per_s", _rates(samples["PerFlow"]), "reports/s", PER_FLOW_GOAL)
    result.add("vectorised_per_s", _rates(samples["Vectorised"]), "reports/s", VECTORISED_GOAL)
    counts = [min(one.reports for one in both) for both in zip(*samples.values(), strict=True)]
    result.add("reports_per_round", counts, "reports")
    return result


def _rates(taken: Sequence[Taken]) -> list[float]:
    return [one.reports_per_s for one in taken]
