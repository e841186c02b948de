from __future__ import annotations

import pytest

from ccplane.base.errors import CcpError, Several
from experiments.netlab.spec import Direction
from experiments.regimes import ReceiverAgent, SocketSwitch
from experiments.runs import metadata
from experiments.runs.session import flow_records
from experiments.runs.sim_traffic import Object, Outcome, plan, result, sockets
from experiments.runs.variants import variants_of
from experiments.scenario import FlowSpec, PointToPoint, Scenario
from experiments.sweep import PlannedRun, estimate_s
from experiments.traffic.pulses import durations
from experiments.traffic.spec import Dash, Http, Iperf3, OnOff, Quic, Traffic

SCENARIO = Scenario(
    name="a try",
    topology=PointToPoint(Direction(rate_bytes_per_s=12.5e6, delay_us=10_000)),
    flows=(FlowSpec("flow", "sender", "receiver", "kernel/cubic"),),
    duration_s=2,
    datapath="sim",
)


def problems(scenario: Scenario) -> list[tuple[str, str]]:
    with pytest.raises(CcpError) as caught:
        scenario.validate()
    error = caught.value
    return [(one.slug, one.where) for one in (error.errors if isinstance(error, Several) else [error])]


def test_all_that_cannot_be_simulated_is_reported_in_one_report() -> None:
    flows = tuple(
        FlowSpec(f"f{n}", "sender", "receiver", algorithm, traffic=traffic)
        for n, (algorithm, traffic) in enumerate(
            [
                ("kernel/dctcp", Iperf3()),
                ("kernel/vegas", Iperf3()),
                ("cubic", Dash()),
                ("kernel/reno", Http((1000,))),
                ("cubic", Quic((1000,))),
            ]
        )
    )
    scenario = SCENARIO.replace(flows=flows, switches=(SocketSwitch("sender"),), captures=("link>",))
    assert problems(scenario) == [
        ("scenario.unknown_algorithm", "flows[0].algorithm"),
        ("scenario.unknown_algorithm", "flows[1].algorithm"),
        ("scenario.bad_field", "flows[2].traffic"),
        ("scenario.bad_field", "flows[4].traffic"),
        ("scenario.bad_field", "switches[0]"),
        ("scenario.bad_field", "captures[0]"),
    ]
    scenario.replace(datapath="ebpf").validate()


def test_a_window_has_whole_intervals() -> None:
    receiver = ReceiverAgent("receiver", window_ms=250, interval_ms=100)
    found = problems(SCENARIO.replace(receivers=(receiver,)))
    assert found == [("scenario.bad_field", "receivers[0].interval_ms")]


def test_a_simulation_says_nothing_of_this_machines_kernel() -> None:
    facts = metadata.gathered(SCENARIO)
    assert facts["datapath"] == "sim"
    assert "sysctls" not in facts
    assert set(facts["machine"]) == {"architecture", "cpu", "python"}
    assert "kernel" in metadata.gathered(SCENARIO.replace(datapath="ebpf"))["machine"]


def test_simulations_need_not_take_turns() -> None:
    own = SCENARIO.replace(flows=(FlowSpec("flow", "sender", "receiver", "cubic"),))
    assert not PlannedRun("key", {}, 0, own).takes_turns
    real = PlannedRun("key", {}, 0, own.replace(datapath="ebpf"))
    assert real.takes_turns
    assert estimate_s([real], 1) == real.estimate_s
    assert estimate_s([real, PlannedRun("other", {}, 0, own)], 1) is None  # unknown


def planned(traffic: Traffic, seed: int = 1) -> dict[str, object]:
    flow = FlowSpec("flow", "sender", "receiver", "kernel/cubic", traffic=traffic, start_s=0.5)
    scenario = SCENARIO.replace(flows=(flow,), seed=seed)
    (record,) = flow_records(scenario, variants_of(scenario))
    record.start_us, record.stop_us = 1_500_000, 3_000_000
    return plan(scenario, 0, record)


def test_a_plan_is_what_the_scenario_says() -> None:
    found = planned(Iperf3(total_bytes=1000, parallel=2))
    assert found.pop("app") == {
        "kind": "bulk",
        "total_bytes": 1000,
        "parallel": 2,
        "rate_bytes_per_s": None,
    }
    assert found == {
        "name": "flow",
        "sender": "sender",
        "receiver": "receiver",
        "family": "ipv4",
        "congestion": "cubic",
        "ecn": False,
        "start_us": 1_500_000,
        "stop_us": 3_000_000,
        "sport": None,
        "dport": 5201,
    }


def test_downloads_are_asked_for_by_the_receiver() -> None:
    found = planned(Http((1000, 2000), gaps_s=(0.25,), connections=3))
    assert (found["sport"], found["dport"]) == (5201, None)
    assert found["app"] == {
        "kind": "http",
        "objects": (1000, 2000),
        "gaps_us": [250_000],
        "repeat": 1,
        "connections": 3,
        "persistent": True,
    }


@pytest.mark.parametrize("distribution", ["exponential", "fixed"])
def test_pulses_are_those_of_real_sockets(distribution: str) -> None:
    spec = OnOff(0.2, 0.1, distribution=distribution, rate_bytes_per_s=1e6)  # type: ignore[arg-type]
    app = planned(spec, seed=7)["app"]
    assert isinstance(app, dict)
    phases_us = app["phases_us"]
    drawn = durations(distribution, 0.2, 0.1, 7)
    assert phases_us == [
        (round(on_s * 1e6), round(off_s * 1e6)) for on_s, off_s in (next(drawn) for _ in phases_us)
    ]
    assert sum(map(sum, phases_us[:-1])) < 1_500_000 <= sum(map(sum, phases_us))
    assert app["rate_bytes_per_s"] == 1e6


def test_sockets_are_reported_apart_by_the_port_on_which_they_are_accepted() -> None:
    bulk, web = (
        FlowSpec("flow", "sender", "receiver", "kernel/cubic", traffic=traffic)
        for traffic in (Iperf3(), Http((1000,)))
    )
    assert sockets(bulk, 3, 7).has(7, 40_000, 5204)
    assert not sockets(bulk, 3, 7).has(7, 5204, 40_000)
    assert sockets(web, 3, 7).has(7, 5204, 40_000)
    assert not sockets(web, 3, 8).has(7, 5204, 40_000)


def test_an_outcome_is_a_result_of_traffic() -> None:
    one = Object(1, 2, 1000, start_us=100, first_byte_us=300, end_us=600, new_connection=True)
    found = result(Outcome("flow", 100, 1_000_100, True, 1000, 4, (one,)), Http((1000,)))
    assert found is not None
    assert (found.duration_s, found.complete, found.received_bytes, found.retrans_pkts) == (
        1.0,
        True,
        1000,
        4,
    )
    (download,) = found.objects
    assert (download.start_us, download.first_byte_s, download.completion_s) == (100, 2e-4, 5e-4)
    assert result(Outcome("flow", None, None, False, 0, 0), Iperf3()) is None
