"""Remote ends of connections that count as one client and share its limit.

    Remote.from_bytes(octets).name     # 2001:db8::/64

native/ccp-rtcp/src/core/remote.h has the rule.
"""

from __future__ import annotations

import ipaddress
import struct
from typing import Final, NamedTuple

LAST_PORT: Final = 65_535
ADDRESS_BITS: Final = 128
MAPPED_BITS: Final = 96
"""Prefix of an IPv4-mapped IPv6 address."""

_C = struct.Struct("=16sHHB3x")


class Remote(NamedTuple):
    """The remote ends that are one client: `struct rtcp_remote` of native/ccp-rtcp.

    Attributes:
        address: 16 bytes, IPv4-mapped if IPv4, zero beyond the prefix.
        first_port: First port.
        last_port: Last port.
        prefix_bits: Length of the prefix, in bits of the 16-byte address.
    """

    address: bytes
    first_port: int
    last_port: int
    prefix_bits: int

    @classmethod
    def from_bytes(cls, raw: bytes) -> Remote:
        """Parse a `struct rtcp_remote`."""
        return cls(*_C.unpack(raw))

    @classmethod
    def named(cls, name: str) -> Remote:
        """Parse a name."""
        if name.startswith("["):
            text, _, ports = name[1:].partition("]:")
        else:
            text, _, ports = name.partition(":") if "." in name else (name, "", "")
        network = ipaddress.ip_network(text)
        bits = ADDRESS_BITS - network.max_prefixlen + network.prefixlen
        first, _, last = (ports or f"0-{LAST_PORT}").partition("-")
        return cls(packed(network.network_address), int(first), int(last or first), bits)

    def to_bytes(self) -> bytes:
        """Return the client as a `struct rtcp_remote`."""
        return _C.pack(*self)

    @property
    def name(self) -> str:
        """Address or prefix, with the port or range of ports unless it covers all ports."""
        address = ipaddress.IPv6Address(self.address)
        mapped = address.ipv4_mapped
        bits = self.prefix_bits if mapped is None else self.prefix_bits - MAPPED_BITS
        shown: ipaddress.IPv4Address | ipaddress.IPv6Address = address if mapped is None else mapped
        text = str(shown) if bits == shown.max_prefixlen else f"{shown}/{bits}"
        first, last = self.first_port, self.last_port
        if (first, last) == (0, LAST_PORT):
            return text
        ports = str(first) if first == last else f"{first}-{last}"
        return f"{text}:{ports}" if mapped is not None else f"[{text}]:{ports}"

    def is_at(self, address: str) -> bool:
        """Return whether this client includes ports of an address."""
        unlike = int.from_bytes(packed(address)) ^ int.from_bytes(self.address)
        return unlike >> (ADDRESS_BITS - self.prefix_bits) == 0


def packed(address: str | ipaddress.IPv4Address | ipaddress.IPv6Address) -> bytes:
    """Return the 16 bytes of an address; an IPv4 address becomes an IPv4-mapped one."""
    found = ipaddress.ip_address(address)
    return found.packed if found.version == 6 else b"\0" * 10 + b"\xff\xff" + found.packed
