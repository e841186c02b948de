"""Made-up results of papers' runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from experiments import run as runs
from experiments.results import Result
from experiments.run import run
from experiments.runs.recording import Recording
from experiments.scenario import Scenario
from experiments.traffic import FlowSockets, TrafficResult
from tests.unit.experiments.recorded import NETNS, START_US, flow_record, rows, steady


def fill(into: Recording, scenario: Scenario, goodputs: Mapping[str, float], **dropped: int) -> None:
    """Record flows with these goodputs [bytes/s]; they retransmit a tenth of their bytes.

    As with iperf3, a transfer that does not last whole seconds has no result of the receiver.
    """
    given = []
    for number, flow in enumerate(scenario.flows, 1):
        rate = goodputs[flow.name]
        congestion = flow.algorithm.removeprefix("kernel/")
        own = steady(
            rate, scenario.duration_s, cookie=number, sport=1000 * number, congestion=congestion.encode()
        )
        for row in own:
            row["bytes_retrans"] = row["bytes_sent"] // 10
        given += own
        record = flow_record(flow.name, algorithm=flow.algorithm, congestion=congestion, sender=flow.sender)
        record.sockets = FlowSockets(NETNS, (1000 * number, 1000 * number), (5201, 5201))
        record.stop_us = START_US + round(scenario.duration_s * 1e6)
        if float(scenario.duration_s - flow.start_s).is_integer():
            received = round(rate * scenario.duration_s)
            record.traffic = TrafficResult(received, scenario.duration_s + 0.5, complete=True)
        else:
            record.traffic = TrafficResult(None, scenario.duration_s, complete=False)
        into.flows.append(record)
    into.start_us, into.socket_rows = START_US, rows(*given)
    into.events = [(event.at_s, "set_route", {}) for event in scenario.events]
    into.facts["links"] = {"bottleneck>": {"dropped_loss_pkts": 0, "dropped_queue_pkts": 0, **dropped}}


def result_of(scenario: Scenario, goodputs: Mapping[str, float], **dropped: int) -> Result:
    """Return a made-up result."""

    def record(scenario: Scenario, into: Recording, _directory: Path, _progress: Any) -> None:
        fill(into, scenario, goodputs, **dropped)

    before = runs.DATAPATHS["ebpf"]
    runs.DATAPATHS["ebpf"] = record
    try:
        return run(scenario)
    finally:
        runs.DATAPATHS["ebpf"] = before
