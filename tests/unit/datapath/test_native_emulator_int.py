"""The compiled emulator with in-band telemetry, without devices: its input and output."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ccplane.base import _native
from experiments.netlab import inband
from experiments.netlab.linkstats import IntStats
from experiments.netlab.network_spec import emulator_spec
from experiments.netlab.routes import graph_of
from experiments.netlab.spec import Direction, Int, IntNode, Link, Radio, Topology
from tests.unit.datapath.test_native_emulator import refused, running

pytestmark = pytest.mark.kernel_part

RADIO = Radio(rssi_dbm=-61.5, snr_db=33.25, mcs=7, data_rate_bytes_per_s=8_125_000)
# Senders' windows come from the kernel, which needs root.
TELEMETRY = Int(
    nodes=(
        IntNode("a", ("source", "transit")),
        IntNode("r", ("source", "transit", "sink"), node_id=7, radio=RADIO),
        IntNode("b", ("sink",)),
    ),
    every_pkts=2,
    interval_us=20_000,
    namespace_id=5,
    tcp_state=False,
    records=True,
)


def network(records: Path, summaries_fd: int) -> dict[str, Any]:
    """Describe a -- r -- b without devices, with telemetry at each node."""
    links = (Link("near", "a", "r", Direction()), Link("far", "r", "b", Direction()))
    graph = graph_of(Topology(("a", "b"), links, routers=("r",), mtu_bytes=1600, telemetry=TELEMETRY))
    spec = emulator_spec(graph, seed=1)
    for node in spec["nodes"]:
        node["tun"] = None
    recording = {"sample_interval_us": 1000, "samples_path": None, "pcap": None}
    return spec | recording | {"int": inband.plain(graph, summaries_fd, records)}


def test_everything_that_telemetry_can_be_is_read_and_counted(tmp_path: Path) -> None:
    records = tmp_path / "records.csv"
    reading, writing = os.pipe()
    with running(network(records, writing)) as emulator:
        stats = emulator.ask(id=1, do="stats")["ok"]
        assert stats["int"] == msgspec.to_builtins(IntStats(*[0] * len(IntStats.__struct_fields__)))
        assert stats["int_summaries_dropped"] == 0
        emulator.ask(id=2, do="stop")
        assert emulator.join() is None
    os.close(writing)
    with os.fdopen(reading) as summaries:
        assert summaries.read() == ""
    (header,) = records.read_text().splitlines()
    assert header.startswith("t_us,src,dst,")


def test_telemetry_that_cannot_be_is_refused(tmp_path: Path) -> None:
    def error(change: dict[str, Any]) -> Any:
        spec = network(tmp_path / "records.csv", 1)
        spec["int"] |= change
        return refused(msgspec.json.encode(spec))

    assert error({"colour": 1}).slug == "emulator.bad_spec"
    nowhere = error({"nodes": [{"node": 3, "roles": ["sink"], "node_id": 1}]})
    assert (nowhere.slug, nowhere.where) == ("emulator.bad_spec", "int.nodes[0]")
    assert error({"records_path": None}).where == "int.records_path"
    assert error({"source": {"max_nodes": 0}}).slug == "ioam.cannot_write"
    assert error({"sink": {"interval_us": 0, "records": True}}).slug == "ioam.cannot_write"


def test_files_that_cannot_be_written_are_errors(tmp_path: Path) -> None:
    no_file = os.sysconf("SC_OPEN_MAX")
    error = refused(msgspec.json.encode(network(tmp_path / "records.csv", no_file)))
    assert (error.slug, error.where) == ("emulator.cannot_write", "int.summaries_fd")
    error = refused(msgspec.json.encode(network(Path("/nowhere/records.csv"), 1)))
    assert (error.slug, error.where) == ("emulator.cannot_write", "/nowhere/records.csv")
    with pytest.raises(ValueError, match="-1 is not a file descriptor"):
        _native.emulate(msgspec.json.encode(network(tmp_path / "records.csv", -1)), [], 0)
