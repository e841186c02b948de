"""R-Hybrid beyond the paper: how long a switch takes, two peers, false switches; with made-up runs."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest

from experiments.papers.estimates import IN_RUN
from experiments.papers.paper import Part, Runs, Size, findings, table_of
from experiments.papers.r_hybrid import false as misled
from experiments.papers.r_hybrid import peers, timing
from experiments.papers.variants import KERNEL
from experiments.results import Result
from experiments.runs.variants import variants_of
from experiments.scenario import Scenario, SetLink
from experiments.sweep import planned
from experiments.traffic.spec import Iperf3
from telemetry.regime import Observation
from telemetry.regime.modes import MODES
from tests.unit.experiments.papers import fakes

QUICK = Size(quick=True)
PROGRAMS = {"SINGLE_OWNER": "dctcp", "SHARED": "cubic"}


def result_of(scenario: Scenario, **tables: pd.DataFrame) -> Result:
    """A made-up result with these tables."""
    facts = {"seed": 1, "emulator": {"lateness_us": {"p99": 100.0}}}
    return Result(None, facts, tables.__getitem__, scenario.to_yaml())


def events_of(*rows: tuple[float, str, str]) -> pd.DataFrame:
    """Switches of flows: when, whose, to which regime."""
    made = pd.DataFrame(
        [(t_s, flow, regime) for t_s, flow, regime in rows], columns=["t_s", "flow", "regime"]
    )
    return made.assign(event="regime:switched", after=made["regime"].map(PROGRAMS), backward=False)


@pytest.mark.parametrize("mode", ["paper", "fast"])
def test_changes_come_at_phases_all_over_the_window(mode: str) -> None:
    cycles = 3
    window_s = MODES[mode].window_ms / 1000
    times_s = {
        event.at_s for event in timing.changes(mode, cycles) if isinstance(event, SetLink) and event.fields
    }
    phases = sorted(
        (at_s - timing.PLANS[mode].first_s) % timing.PLANS[mode].stay_s / window_s for at_s in times_s
    )
    steps = np.unique(np.round(phases, 2))
    assert len(steps) == timing.PAIRS * cycles
    assert np.diff(steps).max() < 1.01 / (timing.PAIRS * cycles) + 0.01


@pytest.mark.parametrize("mode", ["paper", "fast"])
def test_every_path_goes_there_and_back_and_has_time_for_it(mode: str) -> None:
    scenario = timing.scenario(mode, 2)
    scenario.validate()
    for flow in scenario.flows:
        own = [
            one for one in scenario.events if isinstance(one, SetLink) and one.link == f"path-{flow.name}>"
        ]
        assert [one.fields["delay_us"] > timing.DELAY_US for one in own] == [True, False] * 2
        between_s = np.diff([*(one.at_s for one in own), scenario.duration_s])
        assert between_s.min() > timing.bounds_s(mode)[1] - MODES[mode].window_ms / 1000
    assert {one.algorithm for one in variants_of(scenario).all} == {"r_hybrid", "dctcp"}
    assert {one.host for one in scenario.switches} == {f"socket{n + 1}" for n in range(timing.PAIRS)}


def timed(late_s: float = 0.0) -> Result:
    """All flows were switched 21 s after a change, but the first socket only there, and not back."""
    scenario = timing.scenario("paper", 1)
    changed = [event for event in scenario.events if isinstance(event, SetLink)]
    reported, decisions, switches = [], [], []
    for event in changed:
        flow = event.link.removeprefix("path-").removesuffix(">")
        regime = "SHARED" if event.fields["delay_us"] > timing.DELAY_US else "SINGLE_OWNER"
        reported.append((event.at_s, "set_link", json.dumps({"link": event.link, "fields": event.fields})))
        decisions.append((event.at_s + 21.0, flow, regime, True))
        if (flow, regime) != ("socket1", "SINGLE_OWNER"):
            switches.append((event.at_s + 21.005 + late_s, flow, regime))
    decisions += [
        (timing.PLANS["paper"].first_s - 1.0, flow.name, "SINGLE_OWNER", False) for flow in scenario.flows
    ]
    return result_of(
        scenario,
        events=pd.DataFrame(reported, columns=["t_s", "kind", "detail"]),
        regimes=pd.DataFrame(decisions, columns=["t_s", "peer", "regime", "switched"]).sort_values("t_s"),
        regime_events=events_of(*switches),
    )


def test_a_switch_is_timed_from_the_change_of_its_path() -> None:
    found = timing.switched(timed())
    assert len(found) == 2 * 2 * timing.PAIRS
    assert found["decided_s"].to_numpy() == pytest.approx(21.0)
    done = found["switched_s"].notna()
    assert found.loc[done, "switched_s"].to_numpy() == pytest.approx(21.005)
    assert found.loc[done, "acted_us"].to_numpy() == pytest.approx(5_000)
    assert found.loc[~done, ["flow", "to"]].to_numpy().tolist() == [["socket1", "SINGLE_OWNER"]]
    assert set(found["kind"]) == {timing.OWN, timing.ORDINARY}
    assert found["phase_ratio"].iloc[0] == pytest.approx(0.2, abs=0.01)  # a second of five


def held(result: Result) -> list[str | None]:
    """Six runs alike."""
    found = [timing.switched(result).assign(**{IN_RUN: number}) for number in range(6)]
    return [one.verdict for one in timing.claims(pd.concat(found, ignore_index=True))]


def test_switches_that_are_missing_or_late_are_found() -> None:
    assert held(timed()) == ["holds", "fails", "holds", "holds"]
    assert held(timed(late_s=10.0)) == ["holds", "fails", "fails", "fails"]


def test_the_rules_bound_the_time() -> None:
    assert timing.bounds_s("paper") == (20.0, pytest.approx(30.1))
    assert timing.bounds_s("fast") == (pytest.approx(0.4), pytest.approx(0.7))


def served(variant: str = peers.OWN) -> Result:
    """The near flow had DCTCP from 3 s to 10 s, the far one never."""
    (run,) = (one for one in planned(peers._grids(QUICK)[0]) if one.axes["variant"] == variant)
    made = fakes.result_of(run.scenario, {flow.name: 1e6 for flow in run.scenario.flows})
    events = events_of((3.0, peers.NEAR, "SINGLE_OWNER"), (10.0, peers.NEAR, "SHARED"))
    samples = made.connection_samples
    samples["congestion"] = f"ccp.{peers.OWN}"
    if variant == peers.SWITCHED:
        switched = (samples["flow"] == peers.NEAR) & samples["t_s"].between(3.0, 10.0)
        samples["congestion"] = switched.map({True: "ccp.dctcp", False: "cubic"})
    tables = {name: getattr(made, name) for name in ("flows", "flow_samples")}
    result = result_of(run.scenario, regime_events=events, connection_samples=samples, **tables)
    result.axes = run.axes
    return result


@pytest.mark.parametrize("variant", peers.BY_FLOW)
def test_sockets_or_programs_report_for_how_long_a_flow_had_dctcp(variant: str) -> None:
    found = peers.peers(served(variant))
    assert found["peer"].tolist() == [peers.NEAR, peers.FAR]
    assert found["dctcp_ratio"].tolist() == pytest.approx([0.7, 0.0], abs=0.01)  # 7 of 10 s
    assert found["switches"].tolist() == [2, 0]


def test_switches_of_the_receiving_sockets_are_not_the_flows() -> None:
    result = served()
    result.regime_events["backward"] = True
    assert peers.peers(result)["switches"].tolist() == [0, 0]


def test_peers_are_served_by_flow_by_socket_or_by_host() -> None:
    runs = {one.axes["variant"]: one.scenario for one in planned(peers._grids(QUICK)[0])}
    algorithms = {name: {flow.algorithm for flow in of.flows[:2]} for name, of in runs.items()}
    assert algorithms == {
        peers.OWN: {"r_hybrid"},
        peers.SWITCHED: {KERNEL},
        peers.ON_CUBIC: {KERNEL},
        peers.ON_DCTCP: {"dctcp"},
    }
    assert {name: len(of.switches) for name, of in runs.items() if of.switches} == {peers.SWITCHED: 2}
    assert {of.flows[2].algorithm for of in runs.values()} == {KERNEL}


def observed(disturbance: str, tails_ms: list[float]) -> Result:
    """A receiver saw the empty path for ten seconds, and then these tails, one every 100 ms."""
    (run,) = (one for one in planned(misled._grids(QUICK)[0]) if one.axes["disturbance"] == disturbance)
    all_ms = [10.0] * 100 + tails_ms
    regimes = pd.DataFrame(
        {"t_s": 0.1 * np.arange(1, len(all_ms) + 1), "rtt_tail_ms": all_ms, "ce_marks": 0.0},
        columns=list(Observation.__struct_fields__),
    )
    result = result_of(run.scenario, regimes=regimes)
    result.axes = run.axes
    return result


def test_a_longer_route_misleads_a_fixed_baseline_for_ever() -> None:
    found = misled.verdicts(observed(misled.ROUTE, [18.0] * 100)).set_index("detector")
    assert found.loc[misled.FIXED, "shared_ratio"] == pytest.approx(0.96, abs=0.02)
    assert found.loc[misled.FIXED, "switches"] == 1
    assert found.loc[misled.FIXED, "first_shared_s"] == pytest.approx(0.5)
    assert found.loc[misled.HORIZON, "shared_ratio"] == pytest.approx(0.5, abs=0.03)
    assert found.loc[misled.HORIZON, "switches"] == 2
    assert found.loc["delta 10 ms", "shared_ratio"] == 0
    assert np.isnan(found.loc["delta 10 ms", "first_shared_s"])


def test_short_bursts_are_outvoted() -> None:
    found = misled.verdicts(observed("bursts of others", ([30.0] + [10.0] * 4) * 20))
    assert (found["shared_ratio"] == 0).all()


def test_what_disturbs_is_in_the_scenario() -> None:
    runs = {one.axes["disturbance"]: one.scenario for one in planned(misled._grids(QUICK)[0])}
    assert {name: len(of.flows) for name, of in runs.items() if len(of.flows) > 1} == {
        "bursts of others": 2,
        misled.BULK: 2,
    }
    assert [name for name, of in runs.items() if of.events] == [misled.ROUTE, "jitter"]
    blocks = [name for name, of in runs.items() if isinstance(of.flows[0].traffic, Iperf3)]
    assert blocks == ["bursts of its own"]


PARTS: dict[str, tuple[Part, list[Any]]] = {
    "timing": (timing.TIMING, [timed]),
    "two-peers": (peers.TWO_PEERS, [lambda name=name: served(name) for name in peers.VARIANTS]),
    "false-switches": (
        misled.FALSE_SWITCHES,
        [lambda name=name: observed(name, [18.0] * 40) for name in misled.DISTURBANCES],
    ),
}


@pytest.mark.parametrize("name", PARTS)
def test_parts_have_tables_figures_and_claims(name: str) -> None:
    part, makers = PARTS[name]
    results = [make() for make in makers]
    rows = table_of(results, part.row)
    found = findings(part, Runs(results, rows, len(rows)))
    assert [len(one.rows) for one in found.tables]
    assert found.figures
    assert len(found.checks) >= 4
    assert sum(one.estimate_s for grid in part.grids(QUICK) for one in planned(grid)) <= 180
