"""Wireshark reads the packets that the emulator's nodes have written into."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from experiments.netlab.emulated import emulated
from tests.interop.wireshark import complaints, fields, tshark
from tests.kernel.inband import chain, send

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: network namespaces and TUN devices")

SENT_BYTES = 300_000


@pytest.fixture(scope="module")
def captures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """By direction, the packets of a transfer and its ACKs on the last link of their way."""
    folder = tmp_path_factory.mktemp("inband")
    files = {"far>": folder / "data.pcapng", "near<": folder / "acks.pcapng"}
    with emulated(chain(), pcap=files) as net:
        send(net, SENT_BYTES)
    return files


def test_wireshark_finds_nothing_malformed(captures: dict[str, Path]) -> None:
    assert len(tshark(captures["far>"])) > SENT_BYTES / 1500
    assert tshark(captures["near<"])
    for file in captures.values():
        assert complaints(file) == []


def test_wireshark_finds_the_nodes_in_the_order_of_the_wire(captures: dict[str, Path]) -> None:
    names = ["node.id", "node.eif", "node.oss.scid", "flag.o"]
    data = fields(captures["far>"], [f"ipv6.opt.ioam.trace.{name}" for name in names])
    assert {tuple(row) for row in data} == {("0x000003,0x000002", "0x0005,0x0003", "0x636302,0x636302", "0")}
    acks = fields(captures["near<"], [f"ipv6.opt.ioam.trace.{name}" for name in names])
    assert {tuple(row) for row in acks} == {("0x000002,0x000003", "0x0002,0x0004", "0x636302,0x636302", "0")}


def test_wireshark_follows_the_headers_to_the_segment(captures: dict[str, Path]) -> None:
    rows = fields(
        captures["far>"], ["ipv6.hopopts.nxt", "ipv6.dstopts.nxt", "tcp.len", "tcp.checksum.status"]
    )
    assert {(hop_by_hop, destination) for hop_by_hop, destination, _, _ in rows} == {("60", "6")}
    assert sum(int(length) for _, _, length, _ in rows) == SENT_BYTES
