"""The interface of data sources for the screen.

Numbers come from the datapath and need no agent. Parameters, algorithm state, telemetry and events come from
the agent over its control socket.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from ccplane.agent.flowtable import FlowRow
from ccplane.agent.runfile import RunInfo
from ccplane.base.flows import FlowStats

SYN_BYTES: Final = 1
"""Sequence numbers of a SYN: they count as acknowledged."""


@dataclass(frozen=True, slots=True)
class Look:
    """A snapshot of all flows.

    Attributes:
        rows: The flows over the interval since the previous snapshot.
        stats: Totals by flow id.
        agent: What the agent runs; None if no agent runs.
        counters: The datapath's counters.
        t_wall_s: Time, seconds since 1970.
    """

    rows: Sequence[FlowRow]
    stats: Mapping[int, FlowStats]
    agent: RunInfo | None
    counters: Mapping[str, int]
    t_wall_s: float

    def sends(self, flow_id: int) -> bool:
        """Return whether a flow has sent data; the receiving end of a connection sends none."""
        stats = self.stats.get(flow_id)
        return stats is None or stats.bytes_acked > SYN_BYTES


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of an algorithm.

    Attributes:
        name: Its name.
        value: Its value for the flow.
        about: Unit, range and description on one line, as far as known.
    """

    name: str
    value: Any
    about: str = ""


@dataclass(frozen=True, slots=True)
class Received:
    """The last telemetry sample of a kind and sender for a flow.

    Attributes:
        kind: Such as `receiver_signal`.
        sender: Its sender.
        age_s: Its age [s].
        fields: Its fields, without missing ones.
    """

    kind: str
    sender: str
    age_s: float
    fields: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Happened:
    """An event.

    Attributes:
        t_wall_s: Time, seconds since 1970.
        kind: Such as `param:set`.
        algorithm: Name of the algorithm; empty if the event concerns none.
        flow_id: The flow; None if the event concerns none.
        detail: Details.
    """

    t_wall_s: float
    kind: str
    algorithm: str = ""
    flow_id: int | None = None
    detail: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Inside:
    """The agent's data of one flow.

    Attributes:
        algorithm: Its algorithm.
        parameters: Parameters with their values for the flow.
        state: Attributes of the algorithm's instance.
        telemetry: Its latest telemetry.
        report: Registers of its last report; empty if there is none.
        report_age_s: Age of that report [s].
    """

    algorithm: str
    parameters: Sequence[Parameter] = ()
    state: Mapping[str, Any] = field(default_factory=dict)
    telemetry: Sequence[Received] = ()
    report: Mapping[str, Any] = field(default_factory=dict)
    report_age_s: float = 0.0


class Source(Protocol):
    """A data source; all calls may block, and come from one thread."""

    def look(self) -> Look:
        """Return a snapshot of all flows.

        Raises:
            LoadError: If the datapath was unloaded.
        """
        ...

    def inside(self, flow_id: int) -> Inside:
        """Return the agent's data of a flow.

        Raises:
            CcpError: If no agent runs, it does not answer, or it has no such flow.
        """
        ...

    def events(self) -> Sequence[Happened]:
        """Return the events since the last call; at the first call, all events that the agent keeps.

        Raises:
            CcpError: If no agent runs, or it does not answer.
        """
        ...

    def algorithms(self) -> Sequence[str]:
        """Return the names of the running algorithms.

        Raises:
            CcpError: If no agent runs, or it does not answer.
        """
        ...

    def set_param(self, name: str, text: str, algorithm: str, flow_id: int | None) -> int:
        """Set a parameter; return the number of running flows affected.

        Raises:
            CcpError: If the agent refuses, or does not answer.
        """
        ...

    def switch(self, algorithm: str, flow_id: int | None, before: str) -> int:
        """Move flows to another algorithm; return the number of running flows that moved.

        Raises:
            CcpError: If the agent refuses, or does not answer.
        """
        ...

    def close(self) -> None:
        """Release all resources."""
        ...
