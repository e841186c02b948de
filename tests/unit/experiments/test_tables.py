from __future__ import annotations

import json
import re
from pathlib import Path

import pandas as pd
import pytest

from experiments.runs import columns, tables
from experiments.traffic import FlowSockets, Media, MediaPacket, ObjectResult, Played, TrafficResult
from tests.unit.experiments.recorded import (
    NETNS,
    START_US,
    flow_record,
    of_quic,
    quic_sample,
    recording,
    steady,
)

ROOT = Path(__file__).parents[3]


def test_a_steady_flow_has_its_rate_as_goodput() -> None:
    made = tables.made(recording(*steady(1e6, 2)))
    (flow,) = made["flows"].to_dict("records")
    assert flow["goodput_bytes_per_s"] == pytest.approx(1e6)
    assert flow["bytes_acked"] == 2_000_000
    assert flow["connections"] == 1
    assert (flow["start_s"], flow["end_s"], flow["completion_s"]) == (0, 2.05, 2.05)
    samples = made["flow_samples"]
    assert list(samples["t_s"][:3]) == [0, 0.1, 0.2]
    assert pd.isna(samples["goodput_bytes_per_s"][0])
    assert samples["goodput_bytes_per_s"][1:].tolist() == pytest.approx([1e6] * 20)


def test_what_the_kernel_does_not_know_is_null_and_not_zero() -> None:
    made = tables.made(recording({"t_us": START_US + 10, "rtt_us": 0, "srtt_us": 0}, {"t_us": START_US + 20}))
    unknown, known = made["flow_samples"].to_dict("records")
    for name in ("rtt_us", "srtt_us", "ssthresh_bytes", "pacing_rate_bytes_per_s"):
        assert pd.isna(unknown[name]), name
    assert known["rtt_us"] == 20_000
    assert known["bytes_acked"] == 0


def test_rows_of_other_sockets_are_not_the_flows() -> None:
    own = {"t_us": START_US + 1}
    made = tables.made(
        recording(own, {**own, "sport": 999}, {**own, "dport": 80}, {**own, "netns": NETNS + 1})
    )
    assert len(made["connection_samples"]) == 1


def test_several_connections_are_one_flow() -> None:
    first = steady(1e6, 1, cookie=7)
    second = [dict(row, cookie=8, sport=1001, t_us=row["t_us"] + 50_000) for row in steady(2e6, 2)]
    made = tables.made(recording(*first, *second))
    assert sorted(made["connection_samples"]["connection"].unique()) == [0, 1]
    samples = made["flow_samples"].set_index("t_s")
    assert samples["connections"][0.85] == 2
    assert samples["cwnd_bytes"][0.85] == 2 * 14_480
    assert samples["bytes_acked"][0.85] == 800_000 + 1_600_000
    assert samples["connections"][1.95] == 1  # the first one is closed: its bytes stay, its window does not
    assert samples["cwnd_bytes"][1.95] == 14_480
    assert samples["bytes_acked"][1.95] == 1_000_000 + 3_800_000
    assert samples["ssthresh_bytes"].isna().all()
    assert (samples["bytes_acked"].diff().dropna() >= 0).all()


def test_what_a_program_reports_of_its_connections_is_in_the_tables_and_the_rest_is_null() -> None:
    quic = of_quic(*(quic_sample(n / 10, 0) for n in range(21)))
    made = tables.made(recording(*steady(2e6, 2), flows=[flow_record(), quic]))
    tcp, flow = made["flows"].to_dict("records")
    assert flow["goodput_bytes_per_s"] == pytest.approx(1e6)
    assert (flow["connections"], flow["lost_pkts"], flow["srtt_mean_us"]) == (1, 2, 30_000)
    assert tcp["goodput_bytes_per_s"] == pytest.approx(2e6)
    unknown = ["retrans_pkts", "retrans_pct", "delivered_ce", "min_rtt_us", "rtt_p50_us", "rtt_p95_us"]
    assert all(pd.isna(flow[name]) for name in unknown)
    assert not any(pd.isna(tcp[name]) for name in unknown if name != "delivered_ce")
    samples = made["flow_samples"].query("flow == 'quic'")
    assert list(samples["cwnd_bytes"].unique()) == [20_000]
    for name in ("rtt_us", "retrans_pkts", "bytes_in_flight", "ca_state", "app_limited"):
        assert samples[name].isna().all(), name


def test_several_connections_of_a_program_are_one_flow() -> None:
    both = [quic_sample(n / 10, number) for n in range(11) for number in (0, 1)]
    quic = of_quic(*both, quic_sample(1.1, 1, open=False), quic_sample(1.2, 0))
    made = tables.made(recording(flows=[quic]))
    assert made["flows"]["connections"][0] == 2
    samples = made["flow_samples"].set_index("t_s")
    assert (samples["cwnd_bytes"][0.9], samples["bytes_acked"][0.9]) == (40_000, 1_800_000)
    assert (samples["connections"][1.2], samples["cwnd_bytes"][1.2]) == (1, 20_000)
    assert samples["retrans_pkts"].isna().all()
    assert samples["bytes_in_flight"].isna().all()


def test_samples_after_the_stop_of_a_flow_are_of_its_connections_only() -> None:
    late = {"t_us": START_US + 2_300_000, "bytes_acked": 2_500_000, "state": 7}
    made = tables.made(recording(*steady(1e6, 2), late))
    assert made["flow_samples"]["t_s"].max() == 2.0
    assert made["connection_samples"]["t_s"].max() == 2.3
    assert made["flows"]["bytes_acked"][0] == 2_000_000


def test_a_flow_that_never_started_has_a_row_of_nulls() -> None:
    never = flow_record("never", sockets=None, start_us=None, stop_us=None, end_us=None, traffic=None)
    made = tables.made(recording(*steady(1e6, 1), flows=[flow_record(), never]))
    row = made["flows"].set_index("flow").loc["never"]
    assert row["connections"] == 0
    for name in ("start_s", "goodput_bytes_per_s", "bytes_acked", "rtt_p50_us", "completion_s"):
        assert pd.isna(row[name]), name


def test_percentiles_and_retransmissions() -> None:
    given = [
        {"t_us": START_US + n * 100_000, "rtt_us": 1000 * n, "bytes_sent": 1000 * n, "bytes_retrans": 10 * n}
        for n in range(1, 102)
    ]
    (flow,) = tables.made(recording(*given, flows=[flow_record(stop_us=START_US + 20_000_000)]))[
        "flows"
    ].to_dict("records")
    assert (flow["rtt_p50_us"], flow["rtt_p95_us"]) == (51_000, 96_000)
    assert flow["retrans_pct"] == pytest.approx(1.0)


def test_a_transfer_that_was_stopped_has_no_completion() -> None:
    stopped = TrafficResult(received_bytes=None, duration_s=1.0, complete=False)
    made = tables.made(recording(*steady(1e6, 1), flows=[flow_record(traffic=stopped)]))
    assert made["flows"]["completion_s"].isna().all()
    assert made["flows"]["received_bytes"].isna().all()


def test_objects_and_events_are_in_order() -> None:
    one = ObjectResult(0, 3, 1000, START_US + 500_000, 0.02, 0.04, False)
    traffic = TrafficResult(1000, 1.0, True, objects=(one,))
    kept = recording(*steady(1e6, 1), flows=[flow_record(traffic=traffic)])
    kept.events = [(2.0, "flow_end", {}), (1.0, "set_link", {"link": "l>"})]
    made = tables.made(kept)
    assert made["objects"].to_dict("records") == [
        {
            "flow": "flow",
            "connection": 0,
            "number": 3,
            "size_bytes": 1000,
            "start_s": 0.5,
            "first_byte_s": 0.02,
            "completion_s": 0.04,
            "new_connection": False,
        }
    ]
    assert list(made["events"]["t_s"]) == [1.0, 2.0]
    assert json.loads(made["events"]["detail"].iloc[0]) == {"link": "l>"}


def test_what_was_played_has_a_row_each_and_null_where_nothing_begins() -> None:
    played = (Played(0, 93_750.0, 4.0, 1.25, 1, 0.5), Played(1, 150_000.0, 4.0, None, 0, 0.0))
    kept = recording(
        *steady(1e6, 1), flows=[flow_record(traffic=TrafficResult(1, 1.0, True, playback=played))]
    )
    found = tables.made(kept)["playback"]
    assert list(found["flow"]) == ["flow", "flow"]
    assert list(found["bitrate_bytes_per_s"]) == [93_750.0, 150_000.0]
    assert found["startup_s"][0] == 1.25
    assert pd.isna(found["startup_s"][1])
    assert found["stalled_s"].sum() == 0.5


def test_media_has_a_row_for_each_packet_and_one_for_its_flow() -> None:
    packets = (
        MediaPacket(0, 500, START_US + 1_000_000, START_US + 1_010_000),
        MediaPacket(0, 500, START_US + 1_000_000, START_US + 1_250_000),
        MediaPacket(1, 500, START_US + 1_040_000, None),
        MediaPacket(1, 500, START_US + 1_040_000, START_US + 1_070_000),
    )
    media = Media(packets, (), 0.04, 1.0, 150_000)
    kept = recording(
        *steady(1e6, 1), flows=[flow_record(traffic=TrafficResult(1500, 1.0, True, media=media))]
    )
    made = tables.made(kept)
    assert made["media_packets"]["delay_us"].tolist()[:2] == [10_000, 250_000]
    assert pd.isna(made["media_packets"]["delay_us"][2])
    assert made["media_packets"]["sent_s"].tolist() == [1.0, 1.0, 1.04, 1.04]
    (own,) = made["media"].to_dict("records")
    assert (own["sent_pkts"], own["lost_pct"], own["late_pct"]) == (4, 25, 25)
    assert (own["delay_p50_us"], own["delay_p95_us"]) == pytest.approx((30_000, 30_000 + 0.9 * 220_000))
    assert own["breaker"] is None


def test_link_samples_begin_with_the_run(tmp_path: Path) -> None:
    kept = recording(*steady(1e6, 1))
    kept.links_csv = tmp_path / "links.csv"
    kept.links_csv.write_text(
        "t_us,link,queue_bytes,delivered_pkts,marked_pkts\n"
        f"{START_US - 1},l>,1,2,3\n{START_US + 250_000},l>,4,5,\n"
    )
    (sample,) = tables.made(kept)["link_samples"].to_dict("records")
    assert (sample["t_s"], sample["link"], sample["queue_bytes"]) == (0.25, "l>", 4)
    assert pd.isna(sample["marked_pkts"])
    assert pd.isna(sample["sojourn_max_us"])  # the backend has no such column


@pytest.mark.parametrize("given", [[], steady(1e6, 1)], ids=["nothing", "a flow"])
def test_every_table_is_written_and_read_with_its_columns(tmp_path: Path, given: list[dict]) -> None:
    flows = [flow_record(sockets=FlowSockets(1))] if not given else None
    tables.write(recording(*given, flows=flows), tmp_path)
    for name, types in tables.COLUMNS.items():
        assert list(tables.read(tmp_path, name).columns) == list(types)


def test_unknown_counters_and_flags_are_null_in_the_files_too(tmp_path: Path) -> None:
    tables.write(recording(flows=[of_quic(quic_sample(0.1, 0), quic_sample(0.2, 0))]), tmp_path)
    samples = tables.read(tmp_path, "flow_samples")
    assert list(samples["bytes_acked"]) == [100_000, 200_000]
    assert samples[["app_limited", "delivered_pkts", "rtt_us"]].isna().all(axis=None)


def test_the_page_explains_only_tables_and_columns_that_exist() -> None:
    assert set(tables.COLUMNS) <= set(columns.TABLES)
    known = {f"{table}.{name}" for table, names in tables.COLUMNS.items() for name in names}
    known |= {name.partition(".")[2] for name in known}
    absent = tuple(
        f"{table}." for table in columns.TABLES if table not in tables.COLUMNS
    )  # of a left-out feature
    assert {name for name in columns.MEANINGS if name not in known and not name.startswith(absent)} == set()
    text = (ROOT / "docs/scenarios.md").read_text().partition("## Tables of a result")[2]
    for name, names in tables.COLUMNS.items():
        block = text.partition(f"# {name}: ")[2].partition("```")[0]
        assert {one for one in names if not re.search(rf"\b{one}\b", block)} == set(), name
