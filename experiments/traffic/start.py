"""Starts the traffic of a flow, of any kind."""

from __future__ import annotations

from typing import TypedDict

from experiments.netlab.host import Host
from experiments.netlab.spec import Family
from experiments.traffic.bulk import BulkTraffic
from experiments.traffic.dash import DashTraffic
from experiments.traffic.on_off import OnOffTraffic
from experiments.traffic.quic import QuicOptions, QuicTraffic
from experiments.traffic.rtp import RtpTraffic
from experiments.traffic.running import RunningTraffic
from experiments.traffic.spec import Dash, Http, Iperf3, OnOff, Quic, Rtp, Traffic
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
    """Start traffic from one host to another.

    Args:
        spec: The traffic.
        sender: Host that sends the data.
        receiver: Host that receives the data.
        congestion: Congestion control of the sender's sockets, such as `cubic`; for `Quic`, `quinn/cubic`, or
            one of an agent, such as `ccp.cubic`; ignored for `Rtp`.
        family: Address family.
        duration_s: Duration of the flow [s]; the traffic is stopped then.
        seed: Random seed.
        port: Port of the server, on whichever side that is; an unused one by default. `sockets` of the result
            identifies the flow's sockets.
        quic: Additional options of `Quic`; None for no agent.

    Returns:
        The running traffic.

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
        case Rtp():
            return RtpTraffic(spec, sender, receiver, family=family, duration_s=duration_s, port=port)
