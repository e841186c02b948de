"""Which remote ends are one client: prefixes of addresses, blocks of ports."""

from __future__ import annotations

import pytest

from ccp_algs.rtcp.options import Options
from ccp_algs.rtcp.remote import Remote, packed
from ccplane.base._native import rtcp_remote_of

PORT = 40_000


def of(address: str, port: int, options: Options) -> Remote:
    return Remote.from_bytes(rtcp_remote_of(options.to_bytes(), packed(address), port))


@pytest.mark.parametrize(
    ("address", "port", "options", "name"),
    [
        ("192.0.2.7", PORT, Options(), "192.0.2.7"),
        ("192.0.2.7", PORT, Options(ipv4_prefix_bits=24), "192.0.2.0/24"),
        ("192.0.2.7", PORT, Options(ipv4_prefix_bits=0), "0.0.0.0/0"),
        ("::ffff:192.0.2.7", PORT, Options(), "192.0.2.7"),  # of a socket of IPv6
        ("2001:db8::7", PORT, Options(), "2001:db8::/64"),
        ("2001:db8:1:2ff::7", PORT, Options(ipv6_prefix_bits=56), "2001:db8:1:200::/56"),
        ("2001:db8::7", PORT, Options(ipv6_prefix_bits=128), "2001:db8::7"),
        ("64:ff9b::192.0.2.7", PORT, Options(), "64:ff9b::c000:207"),  # IPv4 behind NAT64
        ("64:ff9b::192.0.2.7", PORT, Options(ipv4_prefix_bits=24), "64:ff9b::c000:200/120"),
        ("64:ff9b::192.0.2.7", 2047, Options(ports_per_client=1024), "[64:ff9b::c000:207]:1024-2047"),
        ("64:ff9b:1::192.0.2.7", PORT, Options(), "64:ff9b:1::c000:207"),  # of RFC 8215
        ("64:ff9b:1:c000:2:700::", PORT, Options(), "64:ff9b:1:c000:2:700::"),
        ("64:ff9b:2::7", PORT, Options(), "64:ff9b:2::/64"),
        ("64:ff9b::1:192.0.2.7", PORT, Options(), "64:ff9b::/64"),
        ("192.0.2.7", 2047, Options(ports_per_client=1024), "192.0.2.7:1024-2047"),
        ("192.0.2.7", 2048, Options(ports_per_client=1024), "192.0.2.7:2048-3071"),
        ("192.0.2.7", 1023, Options(ports_per_client=1024), "192.0.2.7:0-1023"),
        ("192.0.2.7", 65_535, Options(ports_per_client=2_000), "192.0.2.7:65024-65535"),
        ("192.0.2.7", PORT, Options(ports_per_client=1), "192.0.2.7:40000"),
        ("2001:db8::7", 1024, Options(ports_per_client=512), "[2001:db8::/64]:1024-1535"),
    ],
)
def test_who_is_one_client_has_one_name(address: str, port: int, options: Options, name: str) -> None:
    remote = of(address, port, options)
    assert remote.name == name
    assert Remote.named(name) == remote
    assert Remote.from_bytes(remote.to_bytes()) == remote
    assert remote.is_at(address)


def test_an_address_is_at_its_own_prefix_only() -> None:
    remote = of("2001:db8::7", PORT, Options())
    assert [remote.is_at(one) for one in ("2001:db8::8", "2001:db8:0:1::7", "192.0.2.7")] == [
        True,
        False,
        False,
    ]
