"""Where the screen has its data from.

The numbers come from the datapath and need no agent. What only the agent knows (parameters, state of an
algorithm, telemetry, events) comes over its control socket.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ccplane.agent.flowtable import FlowRow
from ccplane.agent.runfile import RunInfo
from ccplane.base.flows import FlowStats


@dataclass(frozen=True, slots=True)
class Look:
    """All flows of one moment.

    Attributes:
        rows: The flows over the interval since the look before.
        stats: Totals by flow id.
        agent: What the agent runs; None if there is none.
        counters: The datapath's counters.
    """

    rows: Sequence[FlowRow]
    stats: Mapping[int, FlowStats]
    agent: RunInfo | None
    counters: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of an algorithm.

    Attributes:
        name: Its name.
        value: What holds for the flow.
        about: Unit, range and meaning as far as they are known, one line.
    """

    name: str
    value: Any
    about: str = ""


@dataclass(frozen=True, slots=True)
class Heard:
    """The last telemetry of a kind and sender that reached a flow.

    Attributes:
        kind: Such as `receiver_signal`.
        sender: Who said it.
        age_s: How old it is [s].
        fields: What it says, without what is missing.
    """

    kind: str
    sender: str
    age_s: float
    fields: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Happened:
    """An event.

    Attributes:
        t_wall_s: When, seconds since 1970.
        kind: Such as `param:set`.
        algorithm: Name of the algorithm; empty if it is about none.
        flow_id: The flow; None if it is about none.
        detail: What else there is to say.
    """

    t_wall_s: float
    kind: str
    algorithm: str = ""
    flow_id: int | None = None
    detail: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Inside:
    """What the agent knows of one flow.

    Attributes:
        algorithm: Its algorithm.
        parameters: Parameters as they hold for the flow.
        state: Attributes of the algorithm's instance.
        telemetry: What it heard last.
        report: Registers of the last report that it got; empty if it got none.
        report_age_s: How old that is [s].
    """

    algorithm: str
    parameters: Sequence[Parameter] = ()
    state: Mapping[str, Any] = field(default_factory=dict)
    telemetry: Sequence[Heard] = ()
    report: Mapping[str, Any] = field(default_factory=dict)
    report_age_s: float = 0.0


class Source(Protocol):
    """What the screen asks; every call may wait, and is made from one thread."""

    def look(self) -> Look:
        """Return all flows of now.

        Raises:
            LoadError: If the datapath went away.
        """
        ...

    def inside(self, flow_id: int) -> Inside:
        """Return what the agent knows of a flow.

        Raises:
            CcpError: If there is no agent, it does not answer, or it has no such flow.
        """
        ...

    def events(self) -> Sequence[Happened]:
        """Return what happened since the last call; at the first, what the agent remembers.

        Raises:
            CcpError: If there is no agent, or it does not answer.
        """
        ...

    def algorithms(self) -> Sequence[str]:
        """Return the names of the running algorithms.

        Raises:
            CcpError: If there is no agent, or it does not answer.
        """
        ...

    def set_param(self, name: str, text: str, algorithm: str, flow_id: int | None) -> int:
        """Set a parameter.

        Args:
            name: The parameter.
            text: Its value, spelled.
            algorithm: Whose.
            flow_id: For this flow only; None for all flows of the algorithm.

        Returns:
            How many running flows it reached.

        Raises:
            CcpError: If the agent refuses, or does not answer.
        """
        ...

    def switch(self, algorithm: str, flow_id: int | None, before: str) -> int:
        """Give flows another algorithm.

        Args:
            algorithm: A running algorithm.
            flow_id: This flow only; None for all flows of `before`.
            before: The algorithm that they have now.

        Returns:
            How many running flows went over.

        Raises:
            CcpError: If the agent refuses, or does not answer.
        """
        ...

    def close(self) -> None:
        """Let go of everything."""
        ...
