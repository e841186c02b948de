"""What is kept of a run while it runs, whichever datapath it runs on; `tables.py` makes tables of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from experiments.traffic import FlowSockets, TrafficResult

TCP_CLOSE: Final = 7
"""State of a connection that is gone (<net/tcp_states.h>)."""


@dataclass
class FlowRecord:
    """One flow.

    Attributes:
        name: As in the scenario.
        algorithm: As in the scenario.
        sender: As in the scenario.
        receiver: As in the scenario.
        congestion: Congestion-control name that its sockets ask for.
        may_become: Those that a switch may give them while they run.
        base_rtt_us: RTT of its path without queues, at the start of the run [us].
        sockets: Which sockets carry it; None until it starts.
        start_us: When it started, on the clock of the run [us]; None until it does.
        stop_us: When it is stopped at the latest [us]; None until it starts.
        end_us: When its application ended [us]; None until it does.
        traffic: What its application saw; None until it ends.
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
    """What in-band telemetry leaves of a run, in files, and what is needed to read them.

    Attributes:
        summaries: Lines of JSON, `telemetry.schema.IntSummary`.
        records: CSV file of the sinks, `ccp_int::RecordRow`; None if none were asked for.
        decisions: CSV file of the agent, columns `noted.DECISION_COLUMNS`; absent without an agent.
        nodes: Name of each node by its number.
    """

    summaries: Path
    records: Path | None
    decisions: Path
    nodes: dict[int, str]


@dataclass(frozen=True)
class RegimeFiles:
    """What is told of regimes during a run, as lines of JSON.

    Attributes:
        receivers: Host -> file in which its receiver agent tells what it measures and decides.
        events: Files in which the agent and the switches tell what became of flows.
    """

    receivers: dict[str, Path]
    events: tuple[Path, ...]


@dataclass
class Recording:
    """One run.

    Attributes:
        sample_interval_us: How often flows and links are sampled [us].
        flows: The flows, in the order of the scenario.
        start_us: Time 0 of the run, on its clock [us].
        socket_rows: Rows of `ccplane.base._native.TcpTrace`.
        links_csv: Samples of the links, as the emulator writes them.
        events: When [s since time 0], kind, and what there is to say.
        addresses: IPv4 and IPv6 address of each host by its name.
        telemetry: What in-band telemetry leaves, if there is any.
        regimes: What is told of regimes, if anybody tells them apart.
        reported: Files in which features report what happens, as lines of JSON, by the name of the feature.
        facts: What goes into the metadata besides.
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
        """Note an event.

        Args:
            kind: What happened.
            t_us: When, on the clock of the run [us].
            **detail: What there is to say.
        """
        self.events.append(((t_us - self.start_us) / 1e6, kind, detail))

    def congestion_of(self, flow: FlowRecord) -> dict[int, str]:
        """Return which congestion control each connection of a flow that was seen had last."""
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
