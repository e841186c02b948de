"""The input of the emulator and the simulator: a network with names resolved to numbers."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address
from typing import Any, Final

import msgspec

from experiments.netlab.routes import Graph
from experiments.netlab.spec import Direction
from experiments.netlab.traces import read_trace

_FIRST_V4: Final = IPv4Address("10.78.0.0")
_FIRST_V6: Final = IPv6Address("fd78::")


def addresses(number: int) -> tuple[str, str]:
    """Return the IPv4 and the IPv6 address of a host by its number in its network, from 1."""
    return str(_FIRST_V4 + number), str(_FIRST_V6 + number)


def emulator_spec(graph: Graph, seed: int) -> dict[str, Any]:
    """Return a network as the emulator's input, without recordings: `Spec` in `native/ccp-emu/src/spec.rs`.

    Raises:
        LabError: `lab.bad_value`, if a trace cannot be read.
    """
    nodes: list[dict[str, Any]] = []
    for i, name in enumerate(graph.nodes):
        is_host = i < len(graph.hosts)
        nodes.append(
            {
                "name": name,
                "addresses": [*addresses(i + 1)] if is_host else [],
                "tun": i if is_host else None,
            }
            | _misbehaves(graph, name)
        )
    links = [
        {
            "name": arc.name,
            "from": arc.source,
            "to": arc.target,
            "direction": plain_direction(direction, arc.name),
        }
        for arc, direction in zip(graph.arcs, graph.directions, strict=True)
    ]
    return {
        "seed": seed,
        "mtu_bytes": graph.mtu_bytes,
        "nodes": nodes,
        "links": links,
        "routes": graph.table,
    }


def _misbehaves(graph: Graph, host: str) -> dict[str, Any]:
    for one in graph.misbehaving:
        if one.host == host:
            how = msgspec.structs.asdict(one)
            del how["host"]
            return {"misbehaves": how}
    return {}


def plain_direction(direction: Direction, name: str) -> dict[str, Any]:
    """Return one direction of a link as the emulator's input.

    Raises:
        LabError: `lab.bad_value`, if a trace cannot be read.
    """
    plain: dict[str, Any] = msgspec.to_builtins(direction)
    if (file := plain.pop("trace", None)) is not None:
        plain["trace_ms"] = read_trace(file, f"{name}.trace")
    return plain
