"""Common parts of runs on all datapaths: records of flows, and events."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from experiments.events import Edit, Event, ParamValue, SetLink, SetRoute
from experiments.runs.recording import FlowRecord
from experiments.runs.variants import Variant, Variants, congestion_of
from experiments.traffic.spec import Transport

if TYPE_CHECKING:
    from experiments.scenario import FlowSpec, Scenario

Progress = Callable[[str, float], None]
"""Called with the current step of a run, and the time that flows have been sending [s]."""


class Network(Protocol):
    """A network that can change during a run."""

    def change(self, link: str, **fields: Any) -> None:
        """Change some properties of a link."""

    def set_route(self, path: Sequence[str], *, both: bool = True) -> None:
        """Change a route."""


class Agent(Protocol):
    """The agent of a run, as seen by events."""

    def set_param(self, variant: Variant, param: str, value: ParamValue) -> None:
        """Change a parameter of a variant for all its flows."""

    def edit(self, variant: Variant, file: Path) -> None:
        """Switch the flows of a variant to the version in a file."""


def may_become(scenario: Scenario, flow: FlowSpec, variants: Variants) -> frozenset[str]:
    """Return the congestion controls that a switch may set on a flow's sockets."""
    return frozenset(
        congestion_of(name, variants.by_switched.get(name))
        for switch in scenario.switches
        if switch.host == flow.sender
        for name in (switch.single, switch.shared)
    )


def flow_records(scenario: Scenario, variants: Variants) -> list[FlowRecord]:
    """Return the records of a scenario's flows before they start."""
    return [
        FlowRecord(
            flow.name,
            flow.algorithm,
            flow.sender,
            flow.receiver,
            congestion_of(flow.algorithm, variants.by_flow.get(flow.name)),
            may_become(scenario, flow, variants),
        )
        for flow in scenario.flows
    ]


def fire(
    event: Event, net: Network, agents: Mapping[Transport, Agent | None], variants: Variants
) -> dict[str, Any]:
    """Apply an event of a scenario; return its details for the recording.

    Raises:
        CcpError: If the event is refused.
    """
    if isinstance(event, SetLink):
        net.change(event.link, **event.fields)
        return {"link": event.link, "fields": event.fields}
    if isinstance(event, SetRoute):
        net.set_route(event.path, both=event.both)
        return {"path": list(event.path), "both": event.both}
    meant = variants.meant_by(event)
    flows = [name for name, one in variants.by_flow.items() if one in meant]
    if isinstance(event, Edit):
        for variant in meant:
            _of(variant, agents).edit(variant, Path(event.becomes))
        return {"algorithm": event.algorithm, "becomes": event.becomes, "flows": flows}
    for variant in meant:
        _of(variant, agents).set_param(variant, event.param, event.value)
    return {"param": event.param, "value": event.value, "algorithm": meant[0].algorithm, "flows": flows}


def _of(variant: Variant, agents: Mapping[Transport, Agent | None]) -> Agent:
    agent = agents[variant.transport]
    assert agent is not None, "the scenario was validated"
    return agent
