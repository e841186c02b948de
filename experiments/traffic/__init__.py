"""Traffic of flows: real programs that send real data between hosts of the lab.

Purpose: one description (`Iperf3`, `Http`, `OnOff`, `Dash`, `ShortVideo`: plain data, part of scenarios), one
way to start it (`start_traffic`), one kind of result (`TrafficResult`).

May import: `experiments.netlab`, msgspec. Never `agent` or `ccp_algs`: a flow's congestion control is a name.

Entry point: `start_traffic()`.
"""

from experiments.traffic.running import FlowSockets, ObjectResult, Played, RunningTraffic, TrafficResult
from experiments.traffic.spec import Dash, Http, Iperf3, OnOff, ShortVideo, Traffic
from experiments.traffic.start import start_traffic

__all__ = [
    "Dash",
    "FlowSockets",
    "Http",
    "Iperf3",
    "ObjectResult",
    "OnOff",
    "Played",
    "RunningTraffic",
    "ShortVideo",
    "Traffic",
    "TrafficResult",
    "start_traffic",
]
