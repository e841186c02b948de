"""Media over RTP and receivers that misbehave, in the simulator."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from ccplane.base.errors import CcpError
from experiments import metrics
from experiments.commands import app
from experiments.events import SetLink
from experiments.netlab.spec import Buffer, Direction, Misbehaving
from experiments.run import run
from experiments.runs.tables import COLUMNS
from experiments.scenario import Dumbbell, FlowSpec, Scenario
from experiments.traffic.spec import UNCONTROLLED, Iperf3, Rtp, Traffic

RATE_BYTES_PER_S = 1.25e6
PATH = Direction(rate_bytes_per_s=RATE_BYTES_PER_S, delay_us=10_000, buffer=Buffer(bdp=2))
BULK = Iperf3()
VIDEO = Rtp(frames_per_s=25.0, frame_bytes=5000, playout_ms=25)


def flow(n: int, algorithm: str = "kernel/cubic", traffic: Traffic = BULK) -> FlowSpec:
    return FlowSpec(f"f{n}", f"s{n}", f"r{n}", algorithm, traffic=traffic)


def scenario(*flows: FlowSpec, duration_s: float = 5.0, misbehaving: Misbehaving | None = None) -> Scenario:
    liars = () if misbehaving is None else (misbehaving,)
    shape = Dumbbell(len(flows), PATH, misbehaving=liars)
    return Scenario(name="media", topology=shape, flows=flows, duration_s=duration_s, datapath="sim")


def test_media_alone_has_the_delay_of_the_path_and_loses_nothing(tmp_path: Path) -> None:
    result = run(scenario(flow(1, UNCONTROLLED, VIDEO)), tmp_path / "run")
    (own,) = result.media.to_dict("records")
    # Five packets of 1040 bytes, 832 us each; each frame's packets follow one another. 76 bytes of a report
    # are sometimes before them.
    assert own["sent_pkts"] == 5 * 25 * 5
    assert (own["lost_pct"], own["late_pct"]) == (0, 0)
    assert own["delay_p50_us"] == 10_000 + 3 * 832
    assert own["delay_p95_us"] == 10_000 + 5 * 832
    assert pd.isna(own["breaker"])
    assert pd.isna(own["breaker_s"])
    (row,) = result.flows.to_dict("records")
    assert (row["received_bytes"], row["end_s"], row["completion_s"]) == (5 * 25 * 5000, 5.0, 5.0)
    assert pd.isna(row["goodput_bytes_per_s"])
    packets = result.media_packets
    assert list(packets.columns) == list(COLUMNS["media_packets"])
    assert packets["sent_s"].iloc[-1] == 4.96


def test_a_long_flow_delays_media_beyond_its_playout(tmp_path: Path) -> None:
    result = run(scenario(flow(1), flow(2, UNCONTROLLED, VIDEO)), tmp_path / "run")
    (own,) = result.media.to_dict("records")
    assert own["delay_p95_us"] > 30_000
    assert 20 < own["late_pct"] < 100
    assert own["late_pct"] + own["lost_pct"] <= 100
    assert metrics.media(result.media_packets)["delay_p95_us"].iloc[0] == own["delay_p95_us"]


def test_an_outage_trips_the_breakers_of_media(tmp_path: Path) -> None:
    spec = Rtp(frames_per_s=25.0, frame_bytes=5000, report_s=0.5)
    loss = {"kind": "bernoulli", "ratio": 1.0}
    trips = (("bottleneck>", "media_timeout", 5.0), ("bottleneck<", "rtcp_timeout", 16.5))
    for direction, cause, after_s in trips:
        tried = scenario(flow(1, UNCONTROLLED, spec), duration_s=20.0)
        result = run(tried.replace(events=(SetLink(2.0, direction, {"loss": loss}),)), tmp_path / cause)
        (own,) = result.media.to_dict("records")
        assert own["breaker"] == cause
        assert own["breaker_s"] == pytest.approx(after_s, abs=0.1)


def test_the_summary_has_a_table_of_media(tmp_path: Path) -> None:
    loss = {"kind": "bernoulli", "ratio": 1.0}
    tried = scenario(flow(1, UNCONTROLLED, Rtp(report_s=0.5)), duration_s=6.0)
    file = tmp_path / "media.yaml"
    tried.replace(events=(SetLink(1.0, "bottleneck>", {"loss": loss}),)).save(file)
    command = ["run", str(file), "--out", str(tmp_path / "run")]
    shown = CliRunner().invoke(app, command, env={"COLUMNS": "120"})
    assert shown.exit_code == 0, shown.output
    cells = [cell.strip() for cell in shown.output.split("\u2502")]
    (row,) = run(Scenario.load(file)).media.to_dict("records")
    assert cells[cells.index("300") :][:6] == [
        "300",
        f"{row['lost_pct']:.2f}",
        "0.00",
        "10.2",
        "10.2",
        "media_timeout, 3.5 s",
    ]
    plain = CliRunner().invoke(app, [*command[:-1], str(tmp_path / "again"), "--json"])
    assert json.loads(plain.output)["media"][0]["breaker"] == "media_timeout"


def test_media_repeats_itself(tmp_path: Path) -> None:
    tried = scenario(flow(1), flow(2, UNCONTROLLED, VIDEO))
    first, second = (run(tried, tmp_path / name).media_packets for name in "ab")
    pd.testing.assert_frame_equal(first, second)


def test_a_receiver_that_is_optimistic_starves_others_and_itself(tmp_path: Path) -> None:
    received = {}
    for optimistic in (False, True):
        how = Misbehaving("r1", optimistic=optimistic)
        result = run(scenario(flow(1), flow(2), duration_s=15.0, misbehaving=how), tmp_path / str(optimistic))
        received[optimistic] = result.flows.set_index("flow")["received_bytes"]
    # The path carries what is lost or never in order.
    assert received[True]["f2"] < 0.7 * received[False]["f2"]
    assert received[True]["f1"] < 0.1 * received[False]["f1"]
    assert result.flows["bytes_acked"].iloc[0] > 15 * RATE_BYTES_PER_S
    assert result.flows["retrans_pkts"].iloc[0] == 0


def test_a_divided_ack_grows_no_window(tmp_path: Path) -> None:
    acked = []
    for division in (1, 10):
        how = Misbehaving("r1", ack_division=division)
        tried = scenario(flow(1), duration_s=0.5, misbehaving=how).replace(sample_interval_us=1000)
        samples = run(tried, tmp_path / str(division)).flow_samples
        acked.append(samples[samples["t_s"] < 0.2]["cwnd_bytes"].max())
    # Ten times as large, if ACKs were counted; alike, as their packets are.
    assert acked[1] == pytest.approx(acked[0], rel=0.2)


def test_hidden_marks_leave_the_queue_full(tmp_path: Path) -> None:
    marking = {"kind": "drop_tail", "ce_threshold_us": 5000}
    way = {"rate_bytes_per_s": 1.25e6, "delay_us": 10_000, "queue": marking, "buffer": {"packets": 100}}
    rtts = []
    for hides in (False, True):
        plain = scenario(flow(1)).plain()
        plain["topology"] = {"kind": "dumbbell", "pairs": 1, "bottleneck": way}
        plain["topology"]["misbehaving"] = [{"host": "r1", "hides_marks": hides}]
        plain["flows"][0]["ecn"] = True
        result = run(Scenario.parse(plain), tmp_path / str(hides))
        rtts.append(result.flows["rtt_p50_us"].iloc[0])
    assert rtts[0] < 35_000 < 80_000 < rtts[1]


@pytest.mark.parametrize(
    ("flows", "misbehaving", "where"),
    [
        ((flow(1, "kernel/cubic", Rtp()),), None, "flows[0].algorithm"),
        ((flow(1, "cubic", Rtp()),), None, "flows[0].algorithm"),
        ((flow(1, UNCONTROLLED),), None, "flows[0].algorithm"),
        ((flow(1),), Misbehaving("r9"), "topology.misbehaving[0].host"),
        ((flow(1),), Misbehaving("left"), "topology.misbehaving[0].host"),
    ],
)
def test_what_does_not_fit_is_reported_with_its_field(
    flows: tuple[FlowSpec, ...], misbehaving: Misbehaving | None, where: str
) -> None:
    with pytest.raises(CcpError) as caught:
        scenario(*flows, misbehaving=misbehaving).validate()
    assert caught.value.where == where
