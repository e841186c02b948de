"""The data recorded during a run, on any datapath; `tables.py` converts it to tables."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from experiments.traffic import FlowSockets, TrafficResult

TCP_CLOSE: Final = 7
"""State of a closed connection (<net/tcp_states.h>)."""


@dataclass
class FlowRecord:
    """One flow.

    Attributes:
        name: As in the scenario.
        algorithm: As in the scenario.
        sender: As in the scenario.
        receiver: As in the scenario.
        congestion: Name of the congestion control that its sockets set.
        may_become: Congestion controls that a switch may set during the run.
        base_rtt_us: RTT of its path without queues, at the start of the run [us].
        sockets: Its sockets; None until it starts.
        start_us: Its start, on the clock of the run [us]; None until it starts.
        stop_us: Its latest end [us]; None until it starts.
        end_us: The end of its application [us]; None until it ends.
        traffic: Data recorded by its application; None until it ends.
    """

    name: str
    algorithm: str
    sender: str
    receiver: str
    congestion: str
    may_become: frozenset[str] = frozenset()
    base_rtt_us: int | None = None
    sockets: FlowSockets | None = None
    start_us: int | None = None
    stop_us: int | None = None
    end_us: int | None = None
    traffic: TrafficResult | None = None


@dataclass(frozen=True)
class IntFiles:
    """The files of in-band telemetry of a run, and what is needed to read them.

    Attributes:
        summaries: Lines of JSON, `telemetry.schema.IntSummary`.
        records: CSV file of the sinks, `ccp_int::RecordRow`; None if not recorded.
        decisions: CSV file of the agent, columns `noted.DECISION_COLUMNS`; missing without an agent.
        nodes: Node number -> its name.
    """

    summaries: Path
    records: Path | None
    decisions: Path
    nodes: dict[int, str]


@dataclass(frozen=True)
class RegimeFiles:
    """Files with records of regimes during a run, as lines of JSON.

    Attributes:
        receivers: Host -> file with the measurements and decisions of its receiver agent.
        events: Files in which the agent and the switches record regimes of flows.
    """

    receivers: dict[str, Path]
    events: tuple[Path, ...]


@dataclass
class Recording:
    """One run.

    Attributes:
        sample_interval_us: Time between samples of flows and links [us].
        flows: The flows, in the order of the scenario.
        start_us: Time 0 of the run, on its clock [us].
        socket_rows: Rows of `ccplane.base._native.TcpTrace`.
        links_csv: Samples of the links, as written by the emulator.
        events: Time [s since time 0], kind, and details.
        addresses: Name of a host -> its IPv4 and IPv6 addresses.
        telemetry: Files of in-band telemetry, if any.
        regimes: Files with records of regimes, if any.
        reported: Name of a feature -> files with its reports, as lines of JSON.
        facts: Additional metadata.
    """

    sample_interval_us: int
    flows: list[FlowRecord] = field(default_factory=list)
    start_us: int = 0
    socket_rows: np.ndarray = field(default_factory=lambda: np.empty(0))
    links_csv: Path | None = None
    events: list[tuple[float, str, dict[str, Any]]] = field(default_factory=list)
    addresses: dict[str, tuple[str, str]] = field(default_factory=dict)
    telemetry: IntFiles | None = None
    regimes: RegimeFiles | None = None
    reported: dict[str, tuple[Path, ...]] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)

    def note(self, kind: str, t_us: int, /, **detail: Any) -> None:
        """Record an event."""
        self.events.append(((t_us - self.start_us) / 1e6, kind, detail))

    def congestion_of(self, flow: FlowRecord) -> dict[int, str]:
        """Return the last congestion control of each sampled connection of a flow."""
        if flow.traffic is not None and flow.traffic.samples:
            return {one.connection: one.congestion for one in flow.traffic.samples}
        return {row["cookie"]: row["congestion"].decode() for row in self.rows_of(flow)}

    def rows_of(self, flow: FlowRecord) -> np.ndarray:
        """Return the rows of a flow's connections, in order of time."""
        rows = self.socket_rows
        if flow.sockets is None or not len(rows):
            return rows[:0]
        own: np.ndarray = rows[flow.sockets.has(rows["netns"], rows["sport"], rows["dport"])]
        return own[np.argsort(own["t_us"], kind="stable")]
