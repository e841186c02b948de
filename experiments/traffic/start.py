"""Starting the traffic of a flow, whatever kind it is."""

from __future__ import annotations

from typing import TypedDict

from experiments.netlab.host import Host
from experiments.netlab.spec import Family
from experiments.traffic.bulk import BulkTraffic
from experiments.traffic.dash import DashTraffic
from experiments.traffic.on_off import OnOffTraffic
from experiments.traffic.quic import QuicOptions, QuicTraffic
from experiments.traffic.running import RunningTraffic
from experiments.traffic.spec import Dash, Http, Iperf3, OnOff, Quic, Traffic
from experiments.traffic.web import HttpTraffic


class _Common(TypedDict):
    congestion: str
    family: Family
    duration_s: float
    port: int | None


def start_traffic(
    spec: Traffic,
    sender: Host,
    receiver: Host,
    *,
    congestion: str,
    family: Family = "ipv4",
    duration_s: float,
    seed: int = 1,
    port: int | None = None,
    quic: QuicOptions | None = None,
) -> RunningTraffic:
    """Start traffic that sends from one host to another.

    Args:
        spec: What kind, and how much.
        sender: Who sends the data.
        receiver: Who gets it.
        congestion: Congestion control of the sender's sockets, such as `cubic`; of `Quic`, `quinn/cubic`, or
            one of an agent, such as `ccp.cubic`.
        family: Of addresses.
        duration_s: How long the flow lasts [s]; what runs then is stopped.
        seed: For what is random in it.
        port: Port of the server, whichever side that is; by default one that the host gave to nobody
            else. `sockets` of the result tells which sockets are the flow's.
        quic: What `Quic` takes besides; no agent, if None.

    Returns:
        The traffic under way.

    Raises:
        LabError: `lab.no_command`, `lab.not_listening`, `lab.no_congestion_control`, `lab.bad_value` or
            `lab.closed`.
    """
    at: _Common = {"congestion": congestion, "family": family, "duration_s": duration_s, "port": port}
    match spec:
        case Iperf3():
            return BulkTraffic(spec, sender, receiver, **at)
        case Http():
            return HttpTraffic(spec, sender, receiver, **at)
        case Quic():
            return QuicTraffic(spec, sender, receiver, options=quic or QuicOptions(), **at)
        case OnOff():
            return OnOffTraffic(spec, sender, receiver, seed=seed, **at)
        case Dash():
            return DashTraffic(spec, sender, receiver, **at)
