from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from ccplane.agent import cli
from experiments.commands import app
from experiments.events import Edit, SetLink, SetParam, SetRoute
from experiments.netlab.spec import (
    Bernoulli,
    Buffer,
    Direction,
    DropTail,
    Int,
    IntNode,
    Link,
    Topology,
)
from experiments.plots.results import origin
from experiments.printing import warnings
from experiments.regimes import ReceiverAgent
from experiments.results import Result
from experiments.run import run
from experiments.runs.tables import COLUMNS
from experiments.scenario import Dumbbell, FlowSpec, PointToPoint, Scenario
from experiments.traffic.spec import Http, Iperf3, OnOff
from tests.answering import answering

ROOT = Path(__file__).parents[3]

RATE_BYTES_PER_S = 1.25e6
PAYLOAD = 1448 / 1500
PATH = Direction(rate_bytes_per_s=RATE_BYTES_PER_S, delay_us=10_000, buffer=Buffer(bdp=1))
MSS_BYTES = 1448


def one(algorithm: str = "kernel/cubic", path: Direction = PATH, **changes: object) -> Scenario:
    flow = {name: changes.pop(name) for name in ("params", "traffic", "stop_s", "family") if name in changes}
    made = Scenario(
        name="simulated",
        topology=PointToPoint(path),
        flows=(FlowSpec("flow", "sender", "receiver", algorithm, **flow),),  # type: ignore[arg-type]
        duration_s=2,
        datapath="sim",
    )
    return made.replace(**changes)


def two(*algorithms: tuple[str, dict[str, object]], **changes: object) -> Scenario:
    flows = tuple(
        FlowSpec(f"f{n}", f"s{n}", f"r{n}", name, params)  # type: ignore[arg-type]
        for n, (name, params) in enumerate(algorithms, 1)
    )
    return one(topology=Dumbbell(len(flows), PATH), flows=flows, **changes)


def tables(result: Result) -> dict[str, pd.DataFrame]:
    return {name: result.table(name) for name in COLUMNS}


def cwnds(result: Result, flow: str, after_s: float, until_s: float) -> set[int]:
    rows = result.flow_samples.query("flow == @flow and @after_s < t_s < @until_s")
    return set(rows["cwnd_bytes"])


@pytest.mark.parametrize("algorithm", ["kernel/cubic", "kernel/reno", "kernel/bbr", "cubic"])
def test_a_flow_fills_its_path_and_leaves_a_result(algorithm: str, tmp_path: Path) -> None:
    reported: list[tuple[str, float]] = []
    result = run(one(algorithm), tmp_path / "here", progress=lambda *what: reported.append(what))
    (flow,) = result.flows.to_dict("records")
    assert flow["goodput_bytes_per_s"] == pytest.approx(RATE_BYTES_PER_S * PAYLOAD, rel=0.1)
    assert flow["base_rtt_us"] == 20_000
    assert 20_000 <= flow["min_rtt_us"] < 23_000
    assert flow["rtt_p95_us"] < 45_000  # a buffer of one RTT
    assert (flow["connections"], flow["start_s"], flow["completion_s"]) == (1, 0, 2)
    assert flow["received_bytes"] == pytest.approx(2 * RATE_BYTES_PER_S * PAYLOAD, rel=0.1)
    link = result.link_samples.query("link == 'link>'")
    assert link["delivered_bytes"].max() <= 2.1 * RATE_BYTES_PER_S
    assert link["queue_pkts"].max() > 0
    assert [one[1] for one in result.events[["t_s", "kind"]].to_numpy()] == ["flow_start", "flow_end"]
    closed = result.connection_samples.iloc[-1]
    assert not closed["open"]
    assert reported[-1][1] <= 2
    assert {file.suffix for file in (tmp_path / "here").iterdir()} <= {".parquet", ".json", ".yaml", ".log"}


def test_the_metadata_say_what_ran() -> None:
    result = run(one("cubic").replace(seed=7))
    known = result.metadata
    assert known["datapath"] == "sim"
    assert known["simulator"]["seed"] == 7
    assert known["simulator"]["version"]
    assert known["agent"]["flows_created"] == 1
    assert known["agent"]["flows_closed"] == 1
    assert known["agent"]["flows_failed"] == 0
    assert known["links"]["link>"]["delivered_pkts"] > 1000
    assert {"sysctls", "emulator"}.isdisjoint(known)
    assert origin(result) == "one run, seed 7; simulated"


def test_the_same_scenario_gives_the_same_tables_and_another_seed_others() -> None:
    lossy = Direction(rate_bytes_per_s=RATE_BYTES_PER_S, delay_us=10_000, loss=Bernoulli(0.01))
    flows = (
        FlowSpec("a", "s1", "r1", "cubic"),
        FlowSpec("b", "s2", "r2", "bbr3"),
        FlowSpec("c", "s3", "r3", "kernel/cubic", traffic=OnOff(0.2, 0.1)),
    )
    scenario = one(topology=Dumbbell(3, lossy), flows=flows)
    first, again, other = (
        tables(run(each)) for each in (scenario, scenario, scenario.replace(seed=scenario.seed + 1))
    )
    for name, table in first.items():
        pd.testing.assert_frame_equal(table, again[name])
    assert not first["flow_samples"].equals(other["flow_samples"])


def test_runs_of_several_threads_do_not_meet() -> None:
    alone = tables(run(one("cubic", params={"beta": 0.5})))["flow_samples"]
    found: list[pd.DataFrame] = []

    def simulate() -> None:
        found.append(tables(run(one("cubic", params={"beta": 0.5})))["flow_samples"])

    threads = [threading.Thread(target=simulate) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 3
    for table in found:
        pd.testing.assert_frame_equal(table, alone)


def test_an_interrupted_run_leaves_nothing(tmp_path: Path) -> None:
    def interrupt(what: str, _at_s: float) -> None:
        if what == "flows are sending":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(one("cubic"), tmp_path / "here", progress=interrupt)
    assert os.listdir(tmp_path) == []


def const(segments: int) -> tuple[str, dict[str, object]]:
    return "const", {"cwnd_bytes": segments * MSS_BYTES}


def test_flows_have_parameters_of_their_own_which_change_when_an_event_says_so() -> None:
    event = SetParam(1.0, "cwnd_bytes", 5 * MSS_BYTES, flow="f2")
    result = run(two(const(4), const(8), events=(event,)))
    assert list(result.flows["congestion"]) == ["ccp.const", "ccp.const_2"]
    assert cwnds(result, "f1", 0.3, 1.9) == {4 * MSS_BYTES}
    assert cwnds(result, "f2", 0.3, 0.95) == {8 * MSS_BYTES}
    assert cwnds(result, "f2", 1.2, 1.9) == {5 * MSS_BYTES}
    (noted,) = result.events.query("kind == 'set_param'").to_dict("records")
    assert noted["t_s"] == 1.0
    assert json.loads(noted["detail"])["flows"] == ["f2"]
    # One window per round trip: the path does not limit the flow.
    assert result.flows["goodput_bytes_per_s"][0] == pytest.approx(4 * MSS_BYTES / 0.0212, rel=0.1)


def test_an_algorithm_is_edited_under_its_flow_when_an_event_says_so(tmp_path: Path) -> None:
    versions = tmp_path / "mine.py", tmp_path / "edited.py"
    for file, segments in zip(versions, (4, 8), strict=True):
        file.write_text(MINE.format(cwnd_bytes=segments * MSS_BYTES))
    event = Edit(1.0, str(versions[0]), str(versions[1]))
    result = run(two((str(versions[0]), {}), const(4), events=(event,)))
    assert cwnds(result, "f1", 0.3, 0.95) == {4 * MSS_BYTES}
    assert cwnds(result, "f1", 1.2, 1.9) == {8 * MSS_BYTES}
    assert cwnds(result, "f2", 0.3, 1.9) == {4 * MSS_BYTES}
    (noted,) = result.events.query("kind == 'edit'").to_dict("records")
    assert json.loads(noted["detail"])["flows"] == ["f1"]


def test_an_algorithm_that_raises_costs_its_flow_only(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text(BAD)
    result = run(two((f"{tmp_path}/bad.py", {}), ("cubic", {})), tmp_path / "result")
    assert result.metadata["agent"]["flows_failed"] == 1
    (warning,) = warnings(result)
    assert "raised an exception on 1 connections" in warning
    log = (tmp_path / "result/agent.log").read_text()
    assert "ZeroDivisionError" in log
    assert (result.flows["goodput_bytes_per_s"] > 0.2 * RATE_BYTES_PER_S).all()  # the fallback took over


def test_a_transfer_of_so_many_bytes_ends_when_they_are_there() -> None:
    result = run(one(traffic=Iperf3(total_bytes=500_000, parallel=2)))
    (flow,) = result.flows.to_dict("records")
    assert (flow["connections"], flow["received_bytes"]) == (2, 500_000)
    assert 0.4 < flow["completion_s"] < 1
    assert flow["end_s"] == flow["completion_s"]


def test_downloads_are_objects_with_times() -> None:
    result = run(one(traffic=Http((20_000, 100_000), gaps_s=(0.2,), connections=2)))
    objects = result.objects
    assert sorted(zip(objects["connection"], objects["number"], objects["size_bytes"], strict=True)) == [
        (0, 0, 20_000),
        (0, 1, 100_000),
        (1, 0, 20_000),
        (1, 1, 100_000),
    ]
    assert objects["new_connection"].tolist() == [True, True, False, False]
    first, second = (objects.query("connection == 0 and number == @n").iloc[0] for n in (0, 1))
    assert first["first_byte_s"] == pytest.approx(0.04, rel=0.2)  # two round trips
    assert second["start_s"] == pytest.approx(first["start_s"] + first["completion_s"] + 0.2, abs=1e-3)
    assert result.flows["received_bytes"][0] == 240_000


def test_a_source_that_is_on_and_off_keeps_its_rate() -> None:
    traffic = OnOff(0.3, 0.2, distribution="fixed", rate_bytes_per_s=250_000)
    result = run(one(traffic=traffic, duration_s=2.0))
    (flow,) = result.flows.to_dict("records")
    assert flow["received_bytes"] == pytest.approx(4 * 0.3 * 250_000, rel=0.05)
    assert flow["completion_s"] == 2
    acked = result.flow_samples.set_index("t_s")["bytes_acked"]
    assert acked[acked.index < 1.3].max() < 0.3 * 3.1 * 250_000  # nothing arrives in pauses


def test_flows_start_and_stop_when_they_shall() -> None:
    flows = (
        FlowSpec("early", "s1", "r1", "kernel/cubic", stop_s=1),
        FlowSpec("late", "s2", "r2", "cubic", start_s=0.5, family="ipv6"),
    )
    result = run(one(topology=Dumbbell(2, PATH), flows=flows))
    assert list(result.flows["start_s"]) == [0, 0.5]
    assert list(result.flows["end_s"]) == [1, 2]
    late = result.flow_samples.query("flow == 'late'")
    assert late["t_s"].min() >= 0.5
    assert result.flow_samples.query("flow == 'early'")["t_s"].max() <= 1


def test_links_change_while_packets_are_on_their_way() -> None:
    event = SetLink(1.0, "link>", {"rate_bytes_per_s": RATE_BYTES_PER_S / 4})
    result = run(one("kernel/cubic", events=(event,)))
    link = result.link_samples.query("link == 'link>'").set_index("t_s")["delivered_bytes"]
    for begin_s, end_s, rate_bytes_per_s in ((0.5, 1.0, RATE_BYTES_PER_S), (1.2, 1.9, RATE_BYTES_PER_S / 4)):
        during = link[begin_s:end_s]
        carried_bytes_per_s = (during.iloc[-1] - during.iloc[0]) / (during.index[-1] - during.index[0])
        assert carried_bytes_per_s == pytest.approx(rate_bytes_per_s, rel=0.05)


def test_routes_change_while_packets_are_on_their_way() -> None:
    fast, slow = Direction(rate_bytes_per_s=RATE_BYTES_PER_S, delay_us=5_000), Direction(delay_us=30_000)
    links = (
        Link("in", "a", "left"),
        Link("short", "left", "right", fast),
        Link("long", "left", "right", slow),
        Link("out", "right", "b"),
    )
    topology = Topology(hosts=("a", "b"), routers=("left", "right"), links=links)
    event = SetRoute(1.0, ("a", "left", "long", "right", "b"))
    flow = FlowSpec("flow", "a", "b", *const(4))
    result = run(one(topology=topology, flows=(flow,), events=(event,)))
    rtt_us = result.flow_samples.set_index("t_s")["rtt_us"]
    assert rtt_us[0.2:0.9].max() < 20_000
    assert rtt_us[1.3:1.9].min() >= 60_000
    assert result.flows["base_rtt_us"][0] == 10_000


def chain() -> Topology:
    ends = ("source", "sink")
    wired = Direction(rate_bytes_per_s=RATE_BYTES_PER_S, delay_us=4_000, buffer=Buffer(packets=30))
    return Topology(
        hosts=("sta1", "sta2"),
        routers=("ap1", "ap2"),
        links=(
            Link("near", "sta1", "ap1", Direction(delay_us=500)),
            Link("wired", "ap1", "ap2", wired),
            Link("far", "ap2", "sta2", Direction(delay_us=500, loss=Bernoulli(0.01))),
        ),
        telemetry=Int(
            nodes=(
                IntNode("sta1", ends),
                IntNode("ap1", ("transit",)),
                IntNode("ap2", ("transit",)),
                IntNode("sta2", ends),
            ),
            records=True,
        ),
    )


def test_telemetry_goes_from_the_packets_over_sink_and_bus_to_the_window(tmp_path: Path) -> None:
    (tmp_path / "answering.py").write_text(answering(ASKED_BYTES))
    flow = FlowSpec("flow", "sta1", "sta2", f"{tmp_path}/answering.py", family="ipv6")
    result = run(one(topology=chain(), flows=(flow,)))
    summaries = result.int_summaries[~result.int_summaries["backward"]]
    decisions = result.int_decisions[~result.int_decisions["backward"]]
    (mss_bytes,) = result.connection_samples["mss_bytes"].unique()
    assert mss_bytes < 1428  # leaves room for the headers
    asked_bytes = ASKED_BYTES // mss_bytes * mss_bytes
    answered_s = decisions["t_s"].min() + 0.2
    samples = result.connection_samples[result.connection_samples["open"]]
    for table in (samples, summaries):
        assert set(table[table["t_s"] > answered_s]["cwnd_bytes"].dropna()) == {asked_bytes}
    ends_s = decisions["t_s"] - decisions["age_us"] / 1e6
    assert set(ends_s.round(6)) <= set(summaries["t_s"].round(6))
    assert decisions["age_us"].min() >= 0
    assert decisions["age_us"].median() < 1_000  # no network between sink and agent
    assert set(result.int_hops["node"]) == {"ap1", "ap2"}
    assert 0 < summaries["lost_pkts"].sum() <= result.link_samples["dropped_loss_pkts"].max()
    assert summaries["lost_link_pkts"].notna().any()
    assert len(result.int_records) > 100
    assert result.metadata["telemetry"]["published"] == len(result.int_summaries)


def test_telemetry_of_flows_without_an_agent_is_in_the_result() -> None:
    flow = FlowSpec("flow", "sta1", "sta2", "kernel/cubic", family="ipv6")
    result = run(one(topology=chain(), flows=(flow,)))
    assert set(result.int_summaries["backward"]) == {False, True}
    assert result.int_summaries["t_s"].between(0, 2.1).all()
    assert result.int_decisions.empty
    assert "agent" not in result.metadata


def test_receivers_report_regimes_apart_and_flows_follow(tmp_path: Path) -> None:
    marking = Direction(
        rate_bytes_per_s=RATE_BYTES_PER_S, delay_us=5_000, queue=DropTail(ce_threshold_us=4_000)
    )
    flows = (
        FlowSpec("flow", "s1", "r1", "r_hybrid", ecn=True),
        FlowSpec("other", "s2", "r2", "kernel/cubic", start_s=1.5),  # it fills the queue
    )
    receiver = ReceiverAgent("r1", detector={"delta_ms": 6, "noise_ce_marks": 1000})
    scenario = one(
        topology=Dumbbell(2, marking),
        flows=flows,
        receivers=(receiver,),
        duration_s=3.5,
    )
    result = run(scenario, tmp_path / "result")
    first = result.regimes.iloc[0]
    assert first["t_s"] == 0  # flows start after the receiver has measured the empty path
    assert first["baseline_ms"] == pytest.approx(10, abs=0.5)
    assert (first["host"], first["peer"]) == ("r1", "s1")
    assert result.regimes["regime"].iloc[:5].tolist() == [
        *4 * ["SHARED"],
        "SINGLE_OWNER",
    ]  # five RTTs establish it
    switched = result.regimes.query("switched")
    assert switched["regime"].tolist() == ["SHARED"]
    assert 1.6 < switched["t_s"].iloc[0] < 3
    events = result.regime_events.query("event == 'regime:switched'")
    assert events["after"].tolist() == ["dctcp", "cubic"]
    assert set(events["flow"]) == {"flow"}
    assert events["t_s"].iloc[1] == pytest.approx(switched["t_s"].iloc[0], abs=1e-3)
    signals = result.receiver_signals
    assert signals["rtt_samples"].median() == 10  # a probe every 10 ms, a window of 100 ms
    busy = signals[signals["t_s"].between(0.5, 1.4)]
    assert busy["goodput_bytes_per_s"].mean() == pytest.approx(RATE_BYTES_PER_S * PAYLOAD, rel=0.1)
    assert busy["ce_marks"].sum() > 0
    assert set(busy["flows"]) == {1}
    again = run(scenario)
    for name, table in tables(result).items():
        pd.testing.assert_frame_equal(table, tables(again)[name])


def call(app: object, *arguments: str, status: int = 0) -> str:
    result = CliRunner().invoke(app, arguments)  # type: ignore[arg-type]
    assert result.exit_code == status, (result.output, result.exception)
    return str(result.stdout)


def test_a_newcomer_runs_an_algorithm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = ("--rate", "10", "--rtt", "20", "--seconds", "2")
    said = call(cli.app, "simulate", "cubic", "kernel/cubic", *path)
    assert "10 Mbit/s, 20 ms, a buffer of 1 BDP (simulated)" in said
    assert os.listdir(tmp_path) == []
    (reported,) = json.loads(
        call(cli.app, "simulate", "cubic", "-p", "beta=0.5", *path, "--out", "kept", "--json")
    )
    assert reported["flows"][0]["goodput_bytes_per_s"] == pytest.approx(RATE_BYTES_PER_S * PAYLOAD, rel=0.1)
    assert reported["warnings"] == []
    assert Result.load("kept").scenario.flows[0].params == {"beta": 0.5}


def test_scenarios_and_sweeps_run_there_if_the_command_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    one("cubic").replace(datapath="ebpf").save("scenario.yaml")
    said = call(app, "run", "scenario.yaml", "--datapath", "sim", "--out", "one")
    assert "simulated (simulated)" in said
    Path("grid.yaml").write_text("base: scenario.yaml\naxes: {flows.flow.algorithm: [cubic, kernel/reno]}\n")
    done = json.loads(call(app, "sweep", "grid.yaml", "--datapath", "sim", "--jobs", "2", "--json"))
    assert (done["planned"], done["done"], done["failed"]) == (2, 2, [])
    both = json.loads(call(cli.app, "simulate", "reno", "--scenario", "scenario.yaml", "--json"))
    assert [flow["algorithm"] for flow in both[0]["flows"]] == ["reno"]


def test_it_needs_nothing_of_the_kernels_part() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_KERNEL],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=60,
        check=True,
    )
    assert float(done.stdout) == pytest.approx(RATE_BYTES_PER_S * PAYLOAD, rel=0.15)


MINE = """
from ccp_algs import Algorithm, register
from ccp_algs.fold import Ack, Flow, FoldProgram, every, total


class Fold(FoldProgram):
    acked = total(Ack.bytes_acked)
    when = every(Flow.srtt_us)


@register("mine")
class Mine(Algorithm):
    program = Fold

    def on_report(self, report):
        self.flow.set(cwnd_bytes={cwnd_bytes})
"""
BAD = """
from ccp_algs import Algorithm
from ccp_algs.example_aimd import AimdFold


class Bad(Algorithm):
    program = AimdFold
    def on_report(self, report):
        if self.flow.info.src_addr.startswith("10.78."):  # not in the check before
            1 / 0
"""

ASKED_BYTES = 16_000

WITHOUT_KERNEL = """
import sys

from ccplane.base import _native

for name in ("EbpfDatapath", "EbpfView", "TcpTrace", "TcpArrivals", "IntNode", "SocketSwitch"):
    vars(_native).pop(name, None)
sys.modules["pyroute2"] = None
from tests.unit.experiments.test_sim import one, run

print(run(one("cubic")).flows["goodput_bytes_per_s"][0])
"""
