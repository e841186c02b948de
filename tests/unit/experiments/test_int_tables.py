from __future__ import annotations

from pathlib import Path

import msgspec
import pandas as pd
import pyarrow as pa
import pytest

from experiments.runs import int_tables, tables
from experiments.runs.noted import DECISION_COLUMNS
from experiments.runs.recording import IntFiles, Recording
from telemetry.inband.records import COLUMNS as RECORD_COLUMNS
from telemetry.schema import FlowId, IntHop, IntSummary
from tests.unit.experiments.recorded import START_US, recording, steady

NEAR, FAR = "fd78::1", "fd78::2"
"""Columns added to the sinks' data."""

DATA = FlowId(src=NEAR, src_port=1000, dst=FAR, dst_port=5201)
ACKS = FlowId(src=FAR, src_port=5201, dst=NEAR, dst_port=1000)


def summary(flow: FlowId = DATA, end_us: int = 10_000, **fields: object) -> IntSummary:
    return IntSummary(flow=flow, interval_us=10_000, end_mono_us=START_US + end_us, **fields)  # type: ignore[arg-type]


def with_telemetry(directory: Path, *reported: IntSummary, decisions: str = "") -> Recording:
    kept = recording(*steady(1e6, 1), *steady(1e6, 1, cookie=2, sport=1001))
    kept.telemetry = IntFiles(
        summaries=directory / "summaries",
        records=directory / "records",
        decisions=directory / "decisions",
        nodes={1: "sta1", 2: "ap1"},
    )
    kept.addresses = {"sender": ("10.78.0.1", NEAR), "receiver": ("10.78.0.2", FAR)}
    kept.telemetry.summaries.write_bytes(b"".join(msgspec.json.encode(one) + b"\n" for one in reported))
    if decisions:
        kept.telemetry.decisions.write_text(f"{','.join(DECISION_COLUMNS)}\n{decisions}")
    return kept


def test_a_summary_is_of_a_flow_and_has_the_time_of_its_end(tmp_path: Path) -> None:
    one = summary(received_pkts=9, lost_pkts=1, loss_ratio=0.1, loss_cause="wireless", cwnd_bytes=14_480)
    (row,) = tables.made(with_telemetry(tmp_path, one))["int_summaries"].to_dict("records")
    assert (row["t_s"], row["flow"], row["connection"], row["backward"]) == (0.01, "flow", 0, False)
    assert (row["received_pkts"], row["lost_pkts"], row["cwnd_bytes"]) == (9, 1, 14_480)
    assert (row["loss_ratio"], row["loss_cause"]) == (0.1, "wireless")
    assert pd.isna(row["latency_us"])


def test_connections_and_directions_are_reported_apart(tmp_path: Path) -> None:
    second = FlowId(src=NEAR, src_port=1001, dst=FAR, dst_port=5201)
    unseen = FlowId(src=NEAR, src_port=1002, dst=FAR, dst_port=5201)  # the flow's, but never sampled
    made = tables.made(with_telemetry(tmp_path, *map(summary, (DATA, ACKS, second, unseen))))["int_summaries"]
    assert made["backward"].tolist() == [False, True, False, False]
    assert made["connection"][:3].tolist() == [0, 0, 1]
    assert pd.isna(made["connection"].iloc[3])


@pytest.mark.parametrize(
    "changed", [{"src": "fd78::3"}, {"dst": "fd78::3"}, {"src_port": 999}, {"dst_port": 80}], ids=str
)
def test_others_are_left_out(tmp_path: Path, changed: dict[str, object]) -> None:
    other = summary(msgspec.structs.replace(DATA, **changed), hops=(IntHop(node_id=1),))
    made = tables.made(with_telemetry(tmp_path, other, summary(ACKS, hops=(IntHop(node_id=2),))))
    assert made["int_summaries"]["backward"].tolist() == [True]
    assert made["int_hops"]["node"].tolist() == ["ap1"]


def test_every_node_on_the_way_has_a_row(tmp_path: Path) -> None:
    hops = (
        IntHop(node_id=1, queue_depth_pkts=0),
        IntHop(node_id=2, queue_free_pkts=80, rssi_dbm=-60.5),
        IntHop(),
    )
    made = tables.made(with_telemetry(tmp_path, summary(), summary(end_us=20_000, hops=hops)))["int_hops"]
    assert made["t_s"].tolist() == [0.02] * 3
    assert made["hop"].tolist() == [1, 2, 3]
    assert made["node"].tolist()[:2] == ["sta1", "ap1"]
    assert made["queue_depth_pkts"][0] == 0
    assert (made["queue_free_pkts"][1], made["rssi_dbm"][1]) == (80, -60.5)
    assert made[["node", "node_id", "queue_free_pkts"]].iloc[2].isna().all()


def test_a_decision_is_as_old_as_the_interval_that_it_is_about(tmp_path: Path) -> None:
    noted = f"{START_US + 12_500},{NEAR},1000,{FAR},5201,False,10000,{START_US + 10_000}\n"
    (row,) = tables.made(with_telemetry(tmp_path, decisions=noted))["int_decisions"].to_dict("records")
    assert (row["t_s"], row["flow"], row["backward"]) == (0.0125, "flow", False)
    assert (row["interval_us"], row["age_us"]) == (10_000, 2500)


def test_decisions_are_those_of_the_sender_also_on_what_its_acks_met(tmp_path: Path) -> None:
    sender, receiver = f"{NEAR},1000,{FAR},5201", f"{FAR},5201,{NEAR},1000"
    ends = ((sender, "True"), (receiver, "True"), (sender, "False"), (receiver, "False"))
    noted = "".join(f"{START_US + 1},{own},{of_acks},10000,{START_US}\n" for own, of_acks in ends)
    made = tables.made(with_telemetry(tmp_path, decisions=noted))["int_decisions"]
    assert made["backward"].tolist() == [True, False]


def test_records_are_rows_of_packets_and_nodes(tmp_path: Path) -> None:
    kept = with_telemetry(tmp_path)
    names = list(RECORD_COLUMNS)
    given = {"src": NEAR, "dst": FAR, "src_port": 1000, "dst_port": 5201, "node_id": 2, "rssi_dbm": -60.5}
    rows = [{**given, "t_us": START_US + 1000, "sequence": 7}, {**given, "t_us": START_US, "src_port": 999}]
    assert kept.telemetry is not None
    assert kept.telemetry.records is not None
    lines = [",".join(str(row.get(name, "")) for name in names) for row in rows]
    kept.telemetry.records.write_text("\n".join([",".join(names), *lines, ""]))
    tables.write(kept, tmp_path)
    (row,) = tables.read(tmp_path, "int_records").to_dict("records")
    assert (row["t_s"], row["flow"], row["node"], row["sequence"]) == (0.001, "flow", "ap1", 7)
    assert row["rssi_dbm"] == -60.5
    assert pd.isna(row["queue_depth"])


def test_telemetry_that_said_nothing_leaves_empty_tables(tmp_path: Path) -> None:
    kept = with_telemetry(tmp_path)
    assert kept.telemetry is not None
    kept.telemetry.summaries.unlink()
    tables.write(kept, tmp_path)
    for name in int_tables.COLUMNS:
        assert (tmp_path / f"{name}.parquet").exists()
        assert tables.read(tmp_path, name).empty


def test_numbers_are_numbers_in_the_files(tmp_path: Path) -> None:
    tables.write(with_telemetry(tmp_path, summary(hops=(IntHop(node_id=1), IntHop(rssi_dbm=1.5)))), tmp_path)
    hops = tables.read(tmp_path, "int_hops")
    assert tables.COLUMNS["int_hops"]["queue_depth_pkts"] == pa.float64()  # a mean
    assert tables.COLUMNS["int_hops"]["lost_pkts"] == pa.int64()
    assert tables.COLUMNS["int_summaries"]["loss_ratio"] == pa.float64()
    assert tables.COLUMNS["int_summaries"]["loss_cause"] == pa.string()
    assert hops["rssi_dbm"].tolist()[1] == 1.5
    assert hops["node_id"].tolist()[0] == 1
    assert hops["backward"].tolist() == [False, False]


def test_without_telemetry_there_are_no_files_and_empty_tables(tmp_path: Path) -> None:
    tables.write(recording(*steady(1e6, 1)), tmp_path)
    assert not list(tmp_path.glob("int_*"))
    assert tables.read(tmp_path, "int_hops").empty
