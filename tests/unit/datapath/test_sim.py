"""The simulated datapath, used by an agent and an experiment."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ccplane.base import _native
from ccplane.base.errors import CcpError, LoadError
from ccplane.base.flows import FlowInfo
from ccplane.datapath import ebpf, protocol, sim
from ccplane.datapath.protocol import CLOSED, CREATED

PROGRAM = """
(def (cap 0) (Report (volatile acked 0) (cap 0)))
(when true
    (:= Report.acked (+ Report.acked Ack.bytes_acked))
    (:= Report.cap cap)
    (fallthrough))
(when (> Micros 50000)
    (:= Micros 0)
    (report))
"""
START_US = 1_000_000
WINDOW_BYTES = 20 * 1448
SECOND_US = 1_000_000


def spec(**more: Any) -> dict[str, Any]:
    """Return two hosts, with 10 Mbit/s and an RTT of 20 ms."""
    there = {"rate_bytes_per_s": 1.25e6, "delay_us": 10_000, "buffer": {"packets": 40}}
    return {
        "seed": 1,
        "mtu_bytes": 1500,
        "sample_interval_us": 100_000,
        "nodes": [
            {"name": "a", "addresses": ["10.0.0.1", "fd00::1"]},
            {"name": "b", "addresses": ["10.0.0.2", "fd00::2"]},
        ],
        "links": [
            {"name": "l>", "from": 0, "to": 1, "direction": there},
            {"name": "l<", "from": 1, "to": 0, "direction": {"delay_us": 10_000}},
        ],
        "routes": [[-1, 0], [1, -1]],
        **more,
    }


def plan(**more: Any) -> bytes:
    given = {"name": "flow", "sender": "a", "receiver": "b", "congestion": "ccp", "app": {"kind": "bulk"}}
    return json.dumps(given | more).encode()


def world(**more: Any) -> _native.SimDatapath:
    return sim.open_world(spec(), **more)


def begun(datapath: _native.SimDatapath) -> FlowInfo:
    (created,) = datapath.poll(10_000)
    assert created.EVENT_KIND == CREATED
    return created.info


def test_it_has_what_the_protocol_asks_for() -> None:
    names = {name for name in vars(protocol.Datapath) if not name.startswith("_")}
    assert names
    assert not {name for name in names if not hasattr(_native.SimDatapath, name)}


def test_a_flow_of_a_registered_name_is_created_steered_and_closed() -> None:
    datapath = world()
    datapath.register("ccp.mine")
    assert datapath.registered() == ["ccp", "ccp.mine"]
    assert not datapath.adopted
    handle = datapath.install(ebpf.compile_program(PROGRAM))
    datapath.connect(plan(congestion="ccp.mine", sport=4000, dport=5001, stop_us=3 * SECOND_US))
    info = begun(datapath)
    assert (info.src_addr, info.src_port, info.dst_addr, info.dst_port) == (
        "10.0.0.1",
        4000,
        "10.0.0.2",
        5001,
    )
    assert (info.cc_name, info.mss_bytes, info.init_cwnd_bytes, info.netns_inum) == (
        "ccp.mine",
        1448,
        14_480,
        1,
    )
    assert [flow.flow_id for flow in datapath.flows()] == [info.flow_id]

    assert datapath.update(info.flow_id, cwnd_bytes=WINDOW_BYTES, program=handle)
    reports = []
    while not datapath.finished:
        for event in datapath.poll(1000):
            if isinstance(event, _native.Report):
                reports.append(event)
                assert datapath.update(info.flow_id, registers={"cap": 7})
            else:
                closed = event
    assert [report.cap for report in reports[:3]] == [0, 7, 7]
    assert reports[-1].cwnd_bytes == WINDOW_BYTES
    assert {report.program_handle for report in reports} == {handle}
    # 20 packets of 1,500 bytes take 24 ms, more than the RTT: they fill the bottleneck.
    assert sum(report.acked for report in reports[2:12]) == pytest.approx(
        WINDOW_BYTES * (reports[11].now_us - reports[1].now_us) / 24_000, rel=0.05
    )
    assert closed.EVENT_KIND == CLOSED
    assert closed.stats.bytes_acked > 2e6
    assert datapath.flows() == []
    assert datapath.stats(info.flow_id) is None
    assert not datapath.update(info.flow_id, cwnd_bytes=1)
    assert datapath.counters()["flows_created"] == 1


def test_reports_come_as_arrays_and_many_flows_are_written_to_at_once() -> None:
    datapath = world()
    handle = datapath.install(ebpf.compile_program(PROGRAM))
    for _ in range(3):
        datapath.connect(plan())
    ids: list[int] = []
    while len(ids) < 3:
        ids += [event.info.flow_id for event in datapath.poll(1000).events()]
    for flow_id in ids:
        datapath.update(flow_id, program=handle)
    datapath.poll(1000)
    flow_ids, windows = np.array(ids, np.uint64), np.array([5, 6, 7], np.uint64) * np.uint64(1448)
    written = datapath.update_many(
        flow_ids, windows, np.zeros(3, np.uint64), {"cap": np.arange(3, dtype=np.uint64)}
    )
    assert written == 3
    datapath.run_until(datapath.now_us + SECOND_US)
    ((of, reports),) = datapath.poll(0).arrays()
    assert of == handle
    last = {row["flow_id"]: (row["cwnd_bytes"], row["cap"]) for row in reports}
    assert last == {ids[n]: ((5 + n) * 1448, n) for n in range(3)}
    stats = {one.flow_id: one for one in datapath.all_stats()}
    assert {flow_id: one.cwnd_bytes for flow_id, one in stats.items()} == dict(zip(ids, windows, strict=True))
    assert not any(one.fallback for one in stats.values())


def test_an_agent_receives_and_answers_as_late_as_was_asked_for() -> None:
    datapath = world(latency_us=700)
    datapath.connect(plan())
    info = begun(datapath)
    assert datapath.now_us == info.created_us + 700


def test_poll_returns_at_its_timeout_at_the_horizon_and_when_woken() -> None:
    datapath = world()
    assert len(datapath.poll(250)) == 0
    assert datapath.now_us == START_US + 250_000
    datapath.horizon_us = START_US + 300_000
    datapath.poll(250)
    datapath.run_until(START_US + 900_000)
    assert datapath.now_us == datapath.horizon_us == START_US + 300_000
    datapath.horizon_us = START_US + SECOND_US
    datapath.wake()
    datapath.poll(250)
    assert datapath.now_us == START_US + 300_000
    datapath.poll(250)
    assert datapath.now_us == START_US + 550_000


def test_a_closed_datapath_leaves_flows_to_the_fallback_until_an_agent_is_back() -> None:
    datapath = world()
    handle = datapath.install(ebpf.compile_program(PROGRAM))
    datapath.connect(plan())
    flow_id = begun(datapath).flow_id
    datapath.update(flow_id, program=handle, cwnd_bytes=2896)
    laws = []
    for act in (lambda: None, datapath.close, datapath.heartbeat):
        act()
        datapath.run_until(datapath.now_us + SECOND_US)
        laws.append(datapath.all_stats()[0].fallback)
    assert laws == [False, True, False]
    assert datapath.counters()["fallback_entries"] == 1


def test_a_program_that_is_gone_cannot_be_given() -> None:
    datapath = world()
    handle = datapath.install(ebpf.compile_program(PROGRAM))
    datapath.connect(plan())
    flow_id = begun(datapath).flow_id
    datapath.uninstall(handle)
    with pytest.raises(CcpError) as caught:
        datapath.update(flow_id, program=handle)
    assert caught.value.slug == "program.unknown"
    with pytest.raises(CcpError) as caught:
        datapath.update(flow_id, registers={"cap": 1})
    assert caught.value.slug == "register.no_program"


def test_applications_report_what_they_saw() -> None:
    datapath = world()
    objects = [10_000, 20_000]
    app = {"kind": "http", "objects": objects, "gaps_us": [100_000], "connections": 2, "persistent": False}
    datapath.connect(plan(name="web", congestion="cubic", app=app))
    datapath.connect(plan(name="all", congestion="reno", app={"kind": "bulk", "total_bytes": 100_000}))
    datapath.connect(plan(name="late", congestion="cubic", start_us=90 * SECOND_US))
    datapath.run_until(START_US + 10 * SECOND_US)
    web, everything, late = json.loads(datapath.outcomes())
    assert (web["name"], web["complete"], web["received_bytes"]) == ("web", True, 2 * sum(objects))
    assert sorted((one["connection"], one["number"]) for one in web["objects"]) == [
        (0, 0),
        (0, 1),
        (1, 0),
        (1, 1),
    ]
    assert all(one["start_us"] < one["first_byte_us"] <= one["end_us"] for one in web["objects"])
    assert (everything["complete"], everything["received_bytes"]) == (True, 100_000)
    assert (late["start_us"], late["end_us"], late["complete"]) == (None, None, False)
    assert not datapath.finished


def test_rows_are_those_of_the_kernels_sockets() -> None:
    datapath = world()
    datapath.connect(plan(congestion="cubic", sport=4000, dport=5001, stop_us=2 * SECOND_US))
    datapath.run_until(3 * SECOND_US)
    rows = datapath.rows()
    assert set(rows.dtype.names) >= {
        "t_us",
        "cookie",
        "netns",
        "cwnd_bytes",
        "srtt_us",
        "bytes_acked",
        "state",
    }
    assert list(np.unique(rows["congestion"])) == [b"cubic"]
    gaps_us = np.diff(rows["t_us"])[:-1]  # the next segment behind the interval
    assert ((gaps_us >= 100_000) & (gaps_us < 110_000)).sum() >= len(gaps_us) - 1
    assert list(rows["state"]) == [1] * (len(rows) - 1) + [7]
    assert rows["bytes_acked"][-1] <= json.loads(datapath.outcomes())[0]["received_bytes"]
    assert len(datapath.rows()) == 0
    quiet = world(samples=False)
    quiet.connect(plan(congestion="cubic"))
    quiet.run_until(3 * SECOND_US)
    assert len(quiet.rows()) == 0


def test_arrivals_are_those_of_the_kernels_probe_and_more() -> None:
    datapath = world(arrivals=True)
    datapath.connect(plan(congestion="cubic", sport=4000, dport=5001))
    datapath.run_until(START_US + 5 * SECOND_US)
    (row,) = datapath.arrivals()
    assert (row["sport"], row["dport"], row["netns"], row["closed"]) == (5001, 4000, 2, 0)
    assert row["bins"].sum() == row["segs"] == row["data_in"]
    # iperf3 does not count its first 37 bytes.
    assert row["bytes_received"] == json.loads(datapath.outcomes())[0]["received_bytes"] + 37
    bounds = sim.arrival_bins_us()
    assert len(bounds) == len(row["bins"])
    # The buffer holds 48 ms, and CUBIC fills it.
    latest_us = bounds[int(np.flatnonzero(row["bins"])[-1])]
    assert 40_000 <= latest_us <= 50_000


def test_links_change_and_report_what_became_of_packets(tmp_path: Path) -> None:
    path = tmp_path / "links.csv"
    datapath = sim.open_world(spec(samples_path=path))
    datapath.connect(plan(congestion="cubic"))
    datapath.run_until(START_US + 2 * SECOND_US)
    datapath.set_link("l>", b'{"rate_bytes_per_s": 1e5, "buffer": {"packets": 40}}')
    datapath.run_until(START_US + 4 * SECOND_US)
    before = json.loads(datapath.links())["l>"]
    datapath.set_routes(b"[[-1, -1], [1, -1]]")
    datapath.run_until(START_US + 6 * SECOND_US)
    links = json.loads(datapath.links())
    assert links["l>"]["arrived_pkts"] == before["arrived_pkts"]
    assert datapath.packet_events > 3 * before["delivered_pkts"]
    datapath.close()
    assert sum(",l>," in line for line in path.read_text().splitlines()) == 60
    for bad in (b"{", b'{"rate_bytes_per_s": 0}'):
        with pytest.raises(CcpError) as caught:
            datapath.set_link("l>", bad)
        assert caught.value.slug == "emulator.bad_spec"
    with pytest.raises(CcpError) as caught:
        datapath.set_routes(b"[[0]]")
    assert caught.value.slug == "emulator.bad_spec"
    with pytest.raises(CcpError) as caught:
        datapath.set_link("m>", b"{}")
    assert caught.value.slug == "emulator.no_link"


def test_sinks_of_telemetry_are_received() -> None:
    nodes = [
        {"node": 0, "roles": ["source", "transit"], "node_id": 1},
        {"node": 1, "roles": ["sink"], "node_id": 2},
    ]
    inband = {"source": {}, "sink": {"interval_us": 100_000}, "nodes": nodes}
    datapath = sim.open_world(spec(int=inband), host_mtu_bytes=1300)
    datapath.connect(plan(congestion="cubic", family="ipv6"))
    assert len(datapath.poll(5000)) == 0
    (summary,) = map(json.loads, datapath.summaries())
    assert summary["kind"] == "int_summary"
    assert summary["end_mono_us"] <= datapath.now_us < START_US + 200_000
    assert datapath.summaries() == []


PATH_PROGRAM = """
(def (Report (age 0) (fresh false) (rtt 0) (hop 0) (node 0) (known false) (link 0) (reported 0) (lost 0)))
(when true
    (:= Report.age Int.age_us)
    (:= Report.fresh Int.fresh)
    (:= Report.rtt Flow.rtt_sample_us)
    (:= Report.hop Int.hop)
    (:= Report.node Int.node)
    (:= Report.known Int.all_known)
    (:= Report.link Int.link_bytes_per_s)
    (:= Report.reported (+ Int.losses_congestion (+ Int.losses_link Int.losses_unknown)))
    (:= Report.lost Flow.lost)
    (report))
"""


@pytest.mark.parametrize("echo", [True, False])
def test_the_ack_that_shows_a_loss_has_brought_what_the_path_says_of_it(echo: bool) -> None:
    nodes = [
        {"node": 0, "roles": ["source", "transit"], "node_id": 7},
        {"node": 1, "roles": ["sink"], "node_id": 8},
    ]
    inband = {"source": {"echo": echo}, "sink": {"echo": echo}, "nodes": nodes}
    lossy = spec(int=inband)
    lossy["links"][0]["direction"]["loss"] = {"kind": "bernoulli", "ratio": 0.02}
    datapath = sim.open_world(lossy, host_mtu_bytes=1200)
    handle = datapath.install(ebpf.compile_program(PATH_PROGRAM))
    datapath.connect(plan(family="ipv6", stop_us=5 * SECOND_US))
    assert datapath.update(begun(datapath).flow_id, cwnd_bytes=WINDOW_BYTES, program=handle)
    reports = []
    while not datapath.finished:
        datapath.summaries()
        reports += [event for event in datapath.poll(1000) if isinstance(event, _native.Report)]
    assert reports[-1].lost > 20
    if not echo:
        assert {(one.age, one.fresh, one.hop, one.reported) for one in reports} == {((1 << 64) - 1, 0, 0, 0)}
        return
    received = [one for one in reports if one.fresh]
    assert len(received) > 0.9 * len(reports)
    assert {(one.hop, one.node, one.known) for one in received} == {(1, 7, 1)}
    assert {one.link for one in received} == {1_250_000}
    assert all(one.reported >= one.lost for one in received)
    assert reports[-1].reported - reports[-1].lost < 5, "the last ones are not marked yet"
    rtts_us = [one.rtt for one in received if one.rtt < 0xFFFF_FFFF]
    assert min(one.age for one in received) >= min(rtts_us) >= 20_000
    assert np.median([one.age for one in received]) == pytest.approx(np.median(rtts_us), rel=0.05)


def test_probes_meet_the_queue() -> None:
    datapath = world()
    datapath.probe("b", "a", 500_000)
    datapath.run_until(START_US + SECOND_US - 1)
    assert datapath.probes() == [
        ("b", "10.0.0.1", START_US + 20_067, 20_067),
        ("b", "10.0.0.1", START_US + 520_067, 20_067),
    ]
    assert datapath.probes() == []
    with pytest.raises(CcpError) as caught:
        datapath.probe("b", "c", 500_000)
    assert caught.value.slug == "sim.no_host"
    with pytest.raises(ValueError, match="ipx"):
        datapath.probe("b", "a", 500_000, "ipx")


@pytest.mark.parametrize(
    ("given", "slug"),
    [
        (plan(app={"kind": "dance"}), "sim.bad_plan"),
        (plan(receiver="c"), "sim.no_host"),
        (plan(congestion="ccp.unheard"), "sim.no_congestion_control"),
    ],
)
def test_flows_that_cannot_be_are_refused(given: bytes, slug: str) -> None:
    with pytest.raises(CcpError) as caught:
        world().connect(given)
    assert caught.value.slug == slug


def test_names_that_cannot_be_are_refused() -> None:
    datapath = world()
    with pytest.raises(CcpError) as caught:
        datapath.register("cubic")
    assert caught.value.slug == "register.bad_name"
    with pytest.raises(CcpError) as caught:
        datapath.unregister("ccp.unheard")
    assert caught.value.slug == "register.unknown"


def test_a_network_that_cannot_be_is_refused() -> None:
    with pytest.raises(CcpError) as caught:
        sim.open_world(spec(routes=[]))
    assert caught.value.slug == "emulator.bad_spec"


@pytest.mark.parametrize("call", [world, sim.arrival_bins_us])
def test_every_function_says_so_when_the_native_part_is_missing(
    call: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ccplane.base._native", None)
    monkeypatch.delattr("ccplane.base._native", raising=False)
    with pytest.raises(LoadError) as caught:
        call()
    assert caught.value.slug == "load.no_native_module"


def test_an_error_is_raised_after_the_world_is_unlocked() -> None:
    script = """
import ccplane.base.errors as errors
from tests.unit.datapath.test_sim import plan, world
datapath = world()

class Looks(errors.CcpError):
    def __init__(self, *arguments):
        datapath.now_us
        super().__init__(*arguments)

errors.CcpError = errors.RegisterError = errors.ProgramError = errors.LoadError = Looks
for call in (
    lambda: datapath.set_link("none", b'{"rate_bytes_per_s": 1}'),
    lambda: datapath.set_routes(b"[[7, 7, 7]]"),
    lambda: datapath.probe("none", "none", 1),
    lambda: datapath.connect(plan(sender="none")),
    lambda: datapath.register("", False),
    lambda: datapath.unregister("none"),
    lambda: datapath.extend("none"),
    lambda: datapath.uninstall(77),
    lambda: datapath.update(1, messages={"none": b"x"}),
):
    try:
        call()
    except Looks:
        print("raised")
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split() == ["raised"] * 9
