"""Messages that the agent publishes on the telemetry bus: its status, parameter changes, algorithm events."""

from __future__ import annotations

from importlib import metadata
from typing import TYPE_CHECKING, Any, Final

from ccplane.agent.events import Event
from ccplane.base.flows import FlowInfo
from telemetry.schema import AgentStatus, AlgorithmEvent, Body, FlowId, ParamChange

if TYPE_CHECKING:
    from ccplane.agent.agent_loop import AgentLoop
    from ccplane.agent.inbox import Inbox

UNPUBLISHED: Final = frozenset({"flow:created", "flow:closed", "telemetry:lost"})
"""Events that are not published, because a busy host has thousands of them per second."""

_TEXT: Final = 2000
_MAX: Final = (1 << 53) - 1


def status_of(agent_loop: AgentLoop, host: str) -> AgentStatus:
    """Return the status message that the agent publishes when it starts."""
    return AgentStatus(
        status="online",
        role="agent",
        software=f"ccplane {metadata.version('ccplane')}",
        host=host,
        algorithms=tuple(agent_loop.hosts)[:256],
    )


def emit(inbox: Inbox, event: Event) -> None:
    """Publish an event, unless it is in `UNPUBLISHED`."""
    if event.kind not in UNPUBLISHED:
        inbox.publish(body_of(event))


def body_of(event: Event) -> Body:
    """Return an event as a message for the bus."""
    flow = None if event.flow is None else flow_id(event.flow)
    algorithm = event.algorithm or "-"
    if event.kind == "param:set":
        return ParamChange(
            algorithm=algorithm,
            name=str(event.detail["name"]),
            value=_value(event.detail["value"]),
            flow=flow,
        )
    detail = {name: _value(value) for name, value in event.detail.items()}
    return AlgorithmEvent(algorithm=algorithm, event=event.kind, flow=flow, detail=detail)


def flow_id(info: FlowInfo) -> FlowId:
    """Return the identification of a flow in messages."""
    return FlowId(src=info.src_addr, src_port=info.src_port, dst=info.dst_addr, dst_port=info.dst_port)


def _value(value: Any) -> int | float | bool | str | None:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if abs(value) <= _MAX else str(value)
    if isinstance(value, float):
        return value if abs(value) <= 1e300 else str(value)
    return str(value)[:_TEXT]
