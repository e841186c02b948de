"""In-band telemetry of a network: validation, overhead, and the emulator's input."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from ccplane.base import _native
from ccplane.base.errors import CcpError
from ccplane.base.names import close_names
from experiments.netlab.errors import LabError, bad_value
from experiments.netlab.spec import Int, Topology
from telemetry.schema import IntSummary

if TYPE_CHECKING:
    from experiments.netlab.routes import Graph

MIN_IPV6_MTU_BYTES: Final = 1280
"""RFC 8200, section 5."""


def problems(topology: Topology) -> Iterator[LabError]:
    """Yield errors in a topology's telemetry, except wrong types of fields."""
    telemetry = topology.telemetry
    if telemetry is None:
        return
    nodes = (*topology.hosts, *topology.routers)
    for i, node in enumerate(telemetry.nodes):
        at = f"telemetry.nodes[{i}]"
        if node.name not in nodes:
            yield bad_value(
                f"unknown node `{node.name}`", f"{at}.name", close_names(node.name, nodes, "node")
            )
        if len(set(node.roles)) < len(node.roles):
            yield bad_value(f"`{node.name}` has a role twice", f"{at}.roles", "name each role once")
    for name, times in Counter(node.name for node in telemetry.nodes).items():
        if times > 1:
            yield bad_value(
                f"`{name}` is listed {times} times", "telemetry.nodes", "list it once, with all its roles"
            )
    for node_id, times in Counter(node_ids(telemetry)).items():
        if times > 1:
            fix = "give each node its own number, or omit node_id everywhere"
            yield bad_value(f"{times} nodes have the number {node_id}", "telemetry.nodes", fix)
    if _is_any(telemetry, "source") and not _is_any(telemetry, "sink"):
        fix = "make the node where packets leave a sink"
        yield bad_value("headers are added, but no node is a sink", "telemetry.nodes", fix)
    yield from _size_problems(topology, telemetry)


def _size_problems(topology: Topology, telemetry: Int) -> Iterator[LabError]:
    try:
        bytes_left = topology.mtu_bytes - overhead_bytes(telemetry, topology.hosts)
    except CcpError as error:
        yield LabError(
            "lab.bad_value", error.message, "telemetry", error.why, error.fix or "name fewer nodes"
        )
        return
    if bytes_left < MIN_IPV6_MTU_BYTES:
        yield bad_value(
            f"headers leave {bytes_left} of {topology.mtu_bytes} bytes; IPv6 needs {MIN_IPV6_MTU_BYTES}",
            "mtu_bytes",
            f"give at least {topology.mtu_bytes + MIN_IPV6_MTU_BYTES - bytes_left}, or room for fewer nodes "
            "(telemetry.max_nodes)",
        )


def overhead_bytes(telemetry: Int | None, hosts: Sequence[str]) -> int:
    """Return the size of the headers that telemetry adds to a packet [bytes].

    Raises:
        CcpError: If a packet has no room for this number of nodes.
    """
    if telemetry is None or not _is_any(telemetry, "source"):
        return 0
    return _native.int_overhead_bytes(msgspec.json.encode(_source(telemetry, hosts)))


def node_ids(telemetry: Int) -> list[int]:
    """Return the nodes' numbers, in the order of the nodes."""
    return [i if node.node_id is None else node.node_id for i, node in enumerate(telemetry.nodes, 1)]


def plain(
    graph: Graph, summaries_fd: int, records_path: str | os.PathLike[str] | None = None
) -> dict[str, Any]:
    """Return a network's telemetry as the emulator's input: `Int` in `native/ccp-emu/src/int/spec.rs`."""
    telemetry = graph.telemetry
    assert telemetry is not None
    pairs = list(zip(node_ids(telemetry), telemetry.nodes, strict=True))
    return {
        "source": _source(telemetry, graph.hosts),
        "sink": {
            "interval_us": telemetry.interval_us,
            "nodes": {str(node_id): {"name": node.name} for node_id, node in pairs},
            "records": telemetry.records,
            "echo": telemetry.echo,
        },
        "nodes": [
            {
                "node": graph.nodes.index(node.name),
                "roles": list(node.roles),
                "node_id": node_id,
                "radio": None if node.radio is None else msgspec.structs.asdict(node.radio),
            }
            for node_id, node in pairs
        ],
        "summaries_fd": summaries_fd,
        "records_path": records_path and str(Path(records_path).absolute()),
    }


def _source(telemetry: Int, hosts: Sequence[str]) -> dict[str, Any]:
    transit = {node.name for node in telemetry.nodes if "transit" in node.roles}
    at_hosts = min(1, len(transit.intersection(hosts)))  # the sending host; the receiving host adds nothing
    return {
        "namespace_id": telemetry.namespace_id,
        "max_nodes": telemetry.max_nodes or max(1, len(transit.difference(hosts)) + at_hosts),
        "every_pkts": telemetry.every_pkts,
        "wireless_nodes": any(node.radio is not None for node in telemetry.nodes),
        "tcp_state": telemetry.tcp_state,
        "echo": telemetry.echo,
    }


def _is_any(telemetry: Int, role: str) -> bool:
    return any(role in node.roles for node in telemetry.nodes)


class Summaries:
    """A temporary file for the summaries of sinks, read while it grows.

    Attributes:
        fd: The open file, to write to.
    """

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile("ab+", buffering=0)  # noqa: SIM115 - open until `close`
        self.fd = self._file.fileno()
        self._read_bytes = 0

    def new(self) -> list[IntSummary]:
        """Return the summaries since the last call."""
        data = os.pread(self.fd, os.fstat(self.fd).st_size - self._read_bytes, self._read_bytes)
        whole = data[: data.rfind(b"\n") + 1]
        self._read_bytes += len(whole)
        return [msgspec.json.decode(line, type=IntSummary) for line in whole.splitlines()]

    def close(self) -> None:
        """Close and remove it."""
        self._file.close()
