from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ccp_algs.cubic import Cubic
from ccplane.agent import cli
from ccplane.base.errors import CcpError
from experiments.netlab.spec import Bernoulli
from experiments.runs import sim_command
from experiments.runs.sim_command import scenarios_of, variants_of
from experiments.runs.sim_order import SimOrder
from experiments.scenario import Dumbbell, FlowSpec, PointToPoint
from tests.unit.experiments.test_run import SCENARIO


def test_one_algorithm_has_a_path_for_itself() -> None:
    order = SimOrder(
        ["cubic"], ["beta=0.5"], rate_mbit=8, rtt_ms=30, buffer_bdp=2, loss=0.01, seconds=3, seed=4
    )
    (scenario,) = scenarios_of(order)
    scenario.validate()
    assert isinstance(scenario.topology, PointToPoint)
    path = scenario.topology.forward
    assert (path.rate_bytes_per_s, path.delay_us, path.loss) == (1e6, 15_000, Bernoulli(0.01))
    assert path.buffer is not None
    assert path.buffer.bdp == 2
    (flow,) = scenario.flows
    assert (flow.algorithm, flow.params) == ("cubic", {"beta": 0.5})
    assert (scenario.datapath, scenario.duration_s, scenario.seed) == ("sim", 3, 4)


def test_several_share_a_bottleneck() -> None:
    (scenario,) = scenarios_of(SimOrder(["dctcp", "kernel/cubic"], ["dctcp.g=0.1"], flows=2))
    scenario.validate()
    assert isinstance(scenario.topology, Dumbbell)
    assert [(one.sender, one.algorithm, one.params, one.ecn) for one in scenario.flows] == [
        ("s1", "dctcp", {"g": 0.1}, True),
        ("s2", "dctcp", {"g": 0.1}, True),
        ("s3", "kernel/cubic", {}, False),
        ("s4", "kernel/cubic", {}, False),
    ]


def test_in_a_scenario_the_flows_of_ccplane_run_them_in_turn(tmp_path: Path) -> None:
    names = ("kernel/cubic", "reno", "reno", "const")
    flows = tuple(FlowSpec(f"f{n}", "sender", "receiver", name) for n, name in enumerate(names))
    SCENARIO.replace(flows=flows, seed=5).save(tmp_path / "ours.yaml")
    SCENARIO.save(tmp_path / "theirs.yaml")
    files = [tmp_path / "ours.yaml", tmp_path / "theirs.yaml"]
    own, other = scenarios_of(SimOrder(["cubic", "bbr3"], ["cubic.beta=0.5"], files))
    assert [(one.algorithm, one.params) for one in own.flows] == [
        ("kernel/cubic", {}),
        ("cubic", {"beta": 0.5}),
        ("bbr3", {}),
        ("cubic", {"beta": 0.5}),
    ]
    assert [one.algorithm for one in other.flows] == ["cubic"]  # only kernel algorithms were given
    assert (own.datapath, own.seed) == ("sim", 5)


def test_seeds_vary_starts_and_delays_and_the_default_does_not() -> None:
    (plain,) = scenarios_of(SimOrder(["cubic", "cubic"]))
    assert variants_of(plain, SimOrder([])) == [plain]
    assert [flow.start_s for flow in plain.flows] == [0, 0]
    order = SimOrder(["cubic", "cubic"], seed=7, repeat=3, seconds=2)
    (scenario,) = scenarios_of(order)
    variants = variants_of(scenario, order)
    assert [one.seed for one in variants] == [7, 8, 9]
    starts = {tuple(flow.start_s for flow in one.flows) for one in variants}
    assert len(starts) == 3
    assert all(one != other for one, other in starts)
    again = variants_of(scenario.replace(seed=8), SimOrder(["cubic"], seed=8))
    assert again == variants[1:2]


def test_repeats_print_intervals() -> None:
    command = ["simulate", "cubic", "cubic", "-t", "2s", "--rate", "5mbit", "--repeat"]
    text = CliRunner().invoke(cli.app, [*command, "6"], env={"COLUMNS": "200"}).output
    assert "medians of 6 runs" in text
    low, median, high = (
        float(re.search(rf"flow1 .*?{pattern}", text)[1])  # type: ignore[index]
        for pattern in (r"\[([\d.]+),", r" ([\d.]+) \[", r", ([\d.]+)\]")
    )
    assert low < median < high
    assert "an interval needs 6 runs" in CliRunner().invoke(cli.app, [*command, "2"]).output
    runs = json.loads(CliRunner().invoke(cli.app, [*command, "2", "--seed", "5", "--json"]).output)
    assert [one["seed"] for one in runs] == [5, 6]
    assert runs[0]["flows"] != runs[1]["flows"]


def test_what_cannot_be_is_reported() -> None:
    for order, slug in (
        (SimOrder(["cubik"]), "registry.unknown"),
        (SimOrder(["cubic"], ["bta=1"]), "param.unknown_params"),
        (SimOrder(["cubic"], ["beta=7"]), "param.out_of_range"),
        (SimOrder(["cubic"], scenarios=[Path("none.yaml")]), "scenario.no_file"),
    ):
        with pytest.raises(CcpError) as caught:
            scenarios_of(order)
        assert caught.value.slug == slug
    assert Cubic.beta == Cubic().beta


def test_a_scenario_leaves_no_room_for_a_path(monkeypatch: pytest.MonkeyPatch) -> None:
    orders: list[SimOrder] = []
    monkeypatch.setattr(sim_command, "run", orders.append)
    refused = CliRunner().invoke(
        cli.app, ["simulate", "cubic", "--scenario", "x.yaml", "--loss", "0.1", "--rtt", "9"]
    )
    reported = [line for line in refused.stderr.splitlines() if line.startswith("scenario.two_paths")]
    assert [line.split()[1] for line in reported] == ["--rtt", "--loss"]
    assert orders == []
    done = CliRunner().invoke(
        cli.app, ["simulate", "cubic", "--loss", "0.1", "-p", "beta=0.5", "--flows", "2"]
    )
    assert done.exit_code == 0
    assert orders == [SimOrder(["cubic"], ["beta=0.5"], loss=0.1, flows=2)]
