"""Which remote ends are one client, and share its limit.

    Remote.of("2001:db8::7", 443, Options()).name     # 2001:db8::/64

Operators limit subscribers, not addresses. In IPv6 a subscriber has a prefix, /64 at least (RFC 6177), and
its hosts change addresses in it (RFC 8981). In IPv4 it may have a block of an address' ports, if
carrier-grade NAT maps so (RFC 7422, RFC 7753). Ports below 1024 are one block: NAT leaves the system ports
out, and counts from there.

Not told apart: sets of ports that are no block (MAP-E, RFC 7597), and subscribers who get ports at random.
"""

from __future__ import annotations

import ipaddress
import struct
from typing import Final, NamedTuple

from ccp_algs.rtcp.options import Options

FIRST_USER_PORT: Final = 1024
LAST_PORT: Final = 65_535
ADDRESS_BITS: Final = 128
MAPPED_BITS: Final = 96
"""Of an IPv6 address that stand before an IPv4 one."""

_C = struct.Struct("=16sHHB3x")


class Remote(NamedTuple):
    """Ends of connections that are one client's: `struct rtcp_remote` of native/ccp-rtcp.

    Attributes:
        address: 16 bytes, IPv4 mapped, zero beyond the prefix.
        first_port: First of its ports.
        last_port: Last of them.
        prefix_bits: Of the IPv6 address, mapped or not, that count.
    """

    address: bytes
    first_port: int
    last_port: int
    prefix_bits: int

    @classmethod
    def of(cls, address: str, port: int, options: Options) -> Remote:
        """Return the client that a port of an address belongs to."""
        octets = packed(address)
        mapped = ipaddress.IPv6Address(octets).ipv4_mapped is not None
        bits = MAPPED_BITS + options.ipv4_prefix_bits if mapped else options.ipv6_prefix_bits
        kept = ((1 << bits) - 1) << (ADDRESS_BITS - bits)
        prefix = (int.from_bytes(octets) & kept).to_bytes(len(octets))
        return cls(prefix, *_block(port, options.ports_per_client), bits)

    @classmethod
    def single(cls, address: str, port: int) -> Remote:
        """Return the client that is nothing but a port of an address."""
        return cls(packed(address), port, port, ADDRESS_BITS)

    @property
    def is_single(self) -> bool:
        """Whether it is one port of one address."""
        return self.prefix_bits == ADDRESS_BITS and self.first_port == self.last_port

    @classmethod
    def from_bytes(cls, octets: bytes) -> Remote:
        """Return it from the octets of `struct rtcp_remote`."""
        return cls(*_C.unpack(octets))

    @classmethod
    def named(cls, name: str) -> Remote:
        """Return the one with a name."""
        if name.startswith("["):
            text, _, ports = name[1:].partition("]:")
        else:
            text, _, ports = name.partition(":") if "." in name else (name, "", "")
        network = ipaddress.ip_network(text)
        bits = ADDRESS_BITS - network.max_prefixlen + network.prefixlen
        first, _, last = (ports or f"0-{LAST_PORT}").partition("-")
        return cls(packed(network.network_address), int(first), int(last or first), bits)

    def to_bytes(self) -> bytes:
        """Return it as the octets of `struct rtcp_remote`."""
        return _C.pack(*self)

    @property
    def name(self) -> str:
        """Address or prefix, and port or range of ports if that is not all of them."""
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
        """Return whether ports of an address belong to it."""
        unlike = int.from_bytes(packed(address)) ^ int.from_bytes(self.address)
        return unlike >> (ADDRESS_BITS - self.prefix_bits) == 0


def packed(address: str | ipaddress.IPv4Address | ipaddress.IPv6Address) -> bytes:
    """Return the 16 bytes of an address, IPv4 mapped."""
    found = ipaddress.ip_address(address)
    return found.packed if found.version == 6 else b"\0" * 10 + b"\xff\xff" + found.packed


def _block(port: int, ports_per_client: int) -> tuple[int, int]:
    if ports_per_client == 0:
        return 0, LAST_PORT
    if port < FIRST_USER_PORT:
        return 0, FIRST_USER_PORT - 1
    first = port - (port - FIRST_USER_PORT) % ports_per_client
    return first, min(first + ports_per_client - 1, LAST_PORT)
