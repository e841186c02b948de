"""Maps samples to flows: pure look-ups, no I/O.

The most specific field of a body decides:

* `flow`: the flow with this 5-tuple, in either direction.
* `peer` and `address`: flows between these two addresses, in either direction.
* `peer` alone: flows with this address at either end. In a receiver's message, the peer is the sending host.
* `host`: all flows of the host with this name.

Addresses are compared in canonical form, and IPv4 in IPv6 (`::ffff:10.0.0.1`) is IPv4. A body without these
fields, or with a flow that is not TCP, belongs to no flow.
"""

from __future__ import annotations

from typing import Any

from telemetry.schema import About, Body, canonical

Ends = tuple[str, int, str, int]

Key = tuple[object, ...]
"""What selects the flows of a body, in canonical form and without a direction; see `key_of`."""


def key_of(body: Body) -> Key | None:
    """Return what selects the flows of a body; None if it belongs to no flow."""
    if not isinstance(body, About):
        return None
    flow = body.flow
    if flow is not None:
        if flow.protocol != "tcp":
            return None
        return _ends_key(canonical(flow.src), flow.src_port, canonical(flow.dst), flow.dst_port)
    if body.peer is not None:
        addresses = {canonical(body.peer), canonical(body.peer if body.address is None else body.address)}
        return ("address" if body.address is None else "pair", *sorted(addresses))
    return None if body.host is None else ("host", body.host)


def keys_of(host: str, src: str, src_port: int, dst: str, dst_port: int) -> list[Key]:
    """Return the keys of all bodies that a flow of a host matches.

    Raises:
        ValueError: If an address is invalid.
    """
    src, dst = canonical(src), canonical(dst)
    addresses = sorted({src, dst})
    return [
        ("host", host),
        *(("address", address) for address in addresses),
        ("pair", *addresses),
        _ends_key(src, src_port, dst, dst_port),
    ]


def _ends_key(src: str, src_port: int, dst: str, dst_port: int) -> Key:
    return ("flow", *sorted(((src, src_port), (dst, dst_port))))


class FlowIndex:
    """The flows of one host, indexed by 5-tuple and by addresses."""

    def __init__(self, host: str) -> None:
        """Create an empty index; `host` is the name of this host, for samples that name a host."""
        self._host = host
        self._ends: dict[int, Ends] = {}
        self._by_ends: dict[Ends, int] = {}
        self._by_pair: dict[tuple[str, str], dict[int, None]] = {}
        self._by_address: dict[str, dict[int, None]] = {}

    def __len__(self) -> int:
        return len(self._ends)

    def add(self, flow_id: int, src: str, src_port: int, dst: str, dst_port: int) -> None:
        """Add a flow, or change the addresses of a known one.

        Raises:
            ValueError: If an address is invalid.
        """
        self.remove(flow_id)
        ends = (canonical(src), src_port, canonical(dst), dst_port)
        self._ends[flow_id] = ends
        self._by_ends[ends] = flow_id
        self._by_pair.setdefault((ends[0], ends[2]), {})[flow_id] = None
        for address in {ends[0], ends[2]}:
            self._by_address.setdefault(address, {})[flow_id] = None

    def remove(self, flow_id: int) -> None:
        """Remove a flow, if it is known."""
        ends = self._ends.pop(flow_id, None)
        if ends is None:
            return
        # The kernel may reuse the ports for a new flow before it reports the end of the old one.
        if self._by_ends.get(ends) == flow_id:
            del self._by_ends[ends]
        _discard(self._by_pair, (ends[0], ends[2]), flow_id)
        for address in {ends[0], ends[2]}:
            _discard(self._by_address, address, flow_id)

    def find(self, body: Body) -> list[int]:
        """Return the flows that a body belongs to, in order of their creation."""
        if not isinstance(body, About):
            return []
        if body.flow is not None:
            return self._by_flow(body)
        if body.peer is not None:
            peer = canonical(body.peer)
            if body.address is None:
                return list(self._by_address.get(peer, ()))
            own = canonical(body.address)
            here = list(self._by_pair.get((peer, own), ()))
            return here if peer == own else here + list(self._by_pair.get((own, peer), ()))
        if body.host is not None and body.host == self._host:
            return list(self._ends)
        return []

    def _by_flow(self, body: About) -> list[int]:
        flow = body.flow
        if flow is None or flow.protocol != "tcp":
            return []
        src, dst = canonical(flow.src), canonical(flow.dst)
        ways = {(src, flow.src_port, dst, flow.dst_port), (dst, flow.dst_port, src, flow.src_port)}
        # Both directions are flows of this host if both ends are here.
        return sorted(self._by_ends[way] for way in ways if way in self._by_ends)


def _discard(groups: dict[Any, dict[int, None]], key: object, flow_id: int) -> None:
    group = groups.get(key)
    if group is not None:
        group.pop(flow_id, None)
        if not group:
            del groups[key]
