"""The network lab: namespaces, emulated links and traffic. Re-exports names of `experiments.netlab`.

from ccplane.lab import Buffer, Direction, dumbbell, emulated, start_iperf3
"""

from experiments.netlab.emulated import emulated
from experiments.netlab.iperf import iperf3, start_iperf3
from experiments.netlab.spec import (
    Bernoulli,
    Buffer,
    Direction,
    Int,
    IntNode,
    Link,
    Radio,
    Topology,
)
from experiments.netlab.topologies import dumbbell, parking_lot, point_to_point
from experiments.netlab.topology import bottleneck, two_hosts
from experiments.traffic import Dash, Http, Iperf3, OnOff, Quic, Rtp, start_traffic

__all__ = [
    "Bernoulli",
    "Buffer",
    "Dash",
    "Direction",
    "Http",
    "Int",
    "IntNode",
    "Iperf3",
    "Link",
    "OnOff",
    "Quic",
    "Radio",
    "Rtp",
    "Topology",
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
