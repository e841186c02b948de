"""Traffic of flows: real programs that send real data between hosts of the lab.

There is one description (`Iperf3`, `Http`, `Quic`, `OnOff`, `Dash`, `Rtp`: plain data, part of scenarios),
one way to start it (`start_traffic()`), and one kind of result (`TrafficResult`).

This package may import `experiments.netlab`, `experiments.examples`, msgspec and NumPy, but never
`ccplane.agent` or `ccp_algs`: here the congestion control of a flow is only a name.
"""

from typing import TYPE_CHECKING, Any

from experiments.traffic.running import (
    ConnectionSample,
    FlowSockets,
    Media,
    MediaPacket,
    MediaReport,
    ObjectResult,
    Played,
    RunningTraffic,
    TrafficResult,
)
from experiments.traffic.spec import Dash, Http, Iperf3, OnOff, Quic, Rtp, Traffic

if TYPE_CHECKING:
    from experiments.traffic.start import start_traffic

__all__ = [
    "ConnectionSample",
    "Dash",
    "FlowSockets",
    "Http",
    "Iperf3",
    "Media",
    "MediaPacket",
    "MediaReport",
    "ObjectResult",
    "OnOff",
    "Played",
    "Quic",
    "Rtp",
    "RunningTraffic",
    "Traffic",
    "TrafficResult",
    "start_traffic",
]


def __getattr__(name: str) -> Any:
    """Import lazily what starts programs, because they need namespaces, which only Linux has."""
    if name == "start_traffic":
        from experiments.traffic.start import start_traffic

        return start_traffic
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
