"""Traffic of flows: real programs that send real data between hosts of the lab.

Purpose: one description (`Iperf3`, `Http`, `Quic`, `OnOff`, `Dash`: plain data, part of
scenarios), one way to start it (`start_traffic`), one kind of result (`TrafficResult`).

May import: `experiments.netlab`, `experiments.examples`, msgspec, NumPy. Never `ccplane.agent` or `ccp_algs`:
the congestion control of a flow is a name.

Entry point: `start_traffic()`.
"""

from typing import TYPE_CHECKING, Any

from experiments.traffic.running import (
    ConnectionSample,
    FlowSockets,
    ObjectResult,
    Played,
    RunningTraffic,
    TrafficResult,
)
from experiments.traffic.spec import Dash, Http, Iperf3, OnOff, Quic, Traffic

if TYPE_CHECKING:
    from experiments.traffic.start import start_traffic

__all__ = [
    "ConnectionSample",
    "Dash",
    "FlowSockets",
    "Http",
    "Iperf3",
    "ObjectResult",
    "OnOff",
    "Played",
    "Quic",
    "RunningTraffic",
    "Traffic",
    "TrafficResult",
    "start_traffic",
]


def __getattr__(name: str) -> Any:
    """Import what starts programs when it is asked for: they run in namespaces, which only Linux has."""
    if name == "start_traffic":
        from experiments.traffic.start import start_traffic

        return start_traffic
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
