"""The network lab: namespaces, emulated links and traffic. Re-exports names of `experiments.netlab`.

from ccplane.lab import Buffer, Direction, dumbbell, emulated, start_iperf3
"""

from experiments.netlab.emulated import emulated
from experiments.netlab.iperf import iperf3, start_iperf3
from experiments.netlab.spec import (
    Bernoulli,
    Buffer,
    CoDel,
    Direction,
    DropTail,
    DualPI2,
    FqCoDel,
    GilbertElliott,
    Int,
    IntNode,
    Link,
    Misbehaving,
    Pattern,
    Pie,
    Radio,
    Red,
    Reorder,
    TokenBucket,
    Topology,
    Tunnel,
)
from experiments.netlab.topologies import dumbbell, parking_lot, point_to_point
from experiments.netlab.topology import bottleneck, two_hosts
from experiments.traffic import Dash, Http, Iperf3, OnOff, Quic, Rtp, start_traffic

__all__ = [
    "Bernoulli",
    "Buffer",
    "CoDel",
    "Dash",
    "Direction",
    "DropTail",
    "DualPI2",
    "FqCoDel",
    "GilbertElliott",
    "Http",
    "Int",
    "IntNode",
    "Iperf3",
    "Link",
    "Misbehaving",
    "OnOff",
    "Pattern",
    "Pie",
    "Quic",
    "Radio",
    "Red",
    "Reorder",
    "Rtp",
    "TokenBucket",
    "Topology",
    "Tunnel",
    "bottleneck",
    "dumbbell",
    "emulated",
    "iperf3",
    "parking_lot",
    "point_to_point",
    "start_iperf3",
    "start_traffic",
    "two_hosts",
]
