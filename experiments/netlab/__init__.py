"""The network lab: networks of Linux namespaces on this machine, with real sockets in them.

The package provides hosts and links, emulated or plain, that exist for a `with` block; commands, sockets and
iperf3 transfers in the hosts; and the CPU time of the machine.

The lab may import `ccplane.base.errors`, `ccplane.base._native` (the emulator), `telemetry.schema`, msgspec,
pyroute2, rich, typer and the standard library, but never `ccplane.agent` or `ccp_algs`: the lab does not know
what runs in it.

Entry points: `emulated.emulated()` makes a network whose links have rates, delays, buffers and losses; `spec`
describes such networks, and `topologies` has common shapes. `two_hosts()` and `bottleneck()` make a path of
veth pairs, `Lab` builds any other network of veth pairs. `iperf3()` transfers, `TcpWatch` reads a
connection's window and RTT, `CpuMeter` measures CPU time; on the command line `ccp lab list` and `ccp lab
clean`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from experiments.netlab.cpu import CpuCounts, CpuMeter, CpuSeconds, cpu_counts
    from experiments.netlab.errors import LabError
    from experiments.netlab.host import Host
    from experiments.netlab.iperf import IperfRun, IperfServer, iperf3, start_iperf3
    from experiments.netlab.iperf_result import IperfInterval, IperfResult
    from experiments.netlab.lab import Lab, clean_leftovers
    from experiments.netlab.links import Interface, QueueStats
    from experiments.netlab.sockets import available_congestion_controls, congestion_of, set_congestion
    from experiments.netlab.tcp_info import TcpInfo, TcpWatch
    from experiments.netlab.topology import Path, Shaper, bottleneck, two_hosts

__all__ = [
    "CpuCounts",
    "CpuMeter",
    "CpuSeconds",
    "Host",
    "Interface",
    "IperfInterval",
    "IperfResult",
    "IperfRun",
    "IperfServer",
    "Lab",
    "LabError",
    "Path",
    "QueueStats",
    "Shaper",
    "TcpInfo",
    "TcpWatch",
    "available_congestion_controls",
    "bottleneck",
    "clean_leftovers",
    "congestion_of",
    "cpu_counts",
    "iperf3",
    "set_congestion",
    "start_iperf3",
    "two_hosts",
]

_HOMES: Final = {
    "CpuCounts": "cpu",
    "CpuMeter": "cpu",
    "CpuSeconds": "cpu",
    "Host": "host",
    "Interface": "links",
    "IperfInterval": "iperf_result",
    "IperfResult": "iperf_result",
    "IperfRun": "iperf",
    "IperfServer": "iperf",
    "Lab": "lab",
    "LabError": "errors",
    "Path": "topology",
    "QueueStats": "links",
    "Shaper": "topology",
    "TcpInfo": "tcp_info",
    "TcpWatch": "tcp_info",
    "available_congestion_controls": "sockets",
    "bottleneck": "topology",
    "clean_leftovers": "lab",
    "congestion_of": "sockets",
    "cpu_counts": "cpu",
    "iperf3": "iperf",
    "set_congestion": "sockets",
    "start_iperf3": "iperf",
    "two_hosts": "topology",
}


def __getattr__(name: str) -> Any:
    """Import lazily: namespaces exist only on Linux, but network descriptions work everywhere."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
