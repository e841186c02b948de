"""R-Hybrid: time from a change on the path until the flow has switched its congestion control.

A run has several paths to one receiver, so that changes come at different phases of the detectors' windows.
Half of the paths carry a ccplane flow, the other half an ordinary socket on kernel CUBIC; one path of each
kind changes at the same time. Senders stay below the rate of their path and only delays change, so that the
rules alone decide.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import pandas as pd

from experiments import plots
from experiments.metrics import NAN
from experiments.netlab.spec import Direction, Link, Topology
from experiments.papers.estimates import over_runs
from experiments.papers.paper import Findings, Part, Runs, Size
from experiments.papers.tables import Check, Table
from experiments.papers.variants import KERNEL, steady
from experiments.results import Result
from experiments.runs.shapes import Graph
from experiments.scenario import Event, FlowSpec, ReceiverAgent, Scenario, SetLink, SocketSwitch
from experiments.sweep import Grid
from telemetry.regime import SHARED, SINGLE_OWNER
from telemetry.regime.modes import MODES

OWN: Final = "ccplane flow"
ORDINARY: Final = "ordinary socket"
PAIRS: Final = 4
"""Number of paths of each kind."""

DELAY_US: Final = 5_000
QUEUE_US: Final = 40_000
"""Added delay, as by a queue of competing flows [us]."""
DELTA_MS: Final = 20.0
"""Delta, above the delays that a busy machine causes [ms]; the paper has 5."""
SEND_BYTES_PER_S: Final = 250_000
SIGNALLING_S: Final = 0.1
"""Maximum time from the decision to the socket [s]."""
CONFIRMED_S: Final = (15.0, 25.0)
"""Shortest and longest time until a change is confirmed, according to the paper (section 6) [s]."""


@dataclass(frozen=True)
class _Plan:
    """When paths change.

    Attributes:
        first_s: First change; all flows follow their first decision [s].
        stay_s: Time between changes, enough for switches and the cooldown [s].
    """

    first_s: float
    stay_s: float


PLANS: Final = {"paper": _Plan(12.0, 40.0), "fast": _Plan(8.0, 2.0)}


def changes(mode: str, cycles: int) -> tuple[Event, ...]:
    """Return the changes of a run, evenly spread over the phases of the detector's window."""
    plan, window_s = PLANS[mode], MODES[mode].window_ms / 1000
    found = []
    for cycle in range(cycles):
        for pair in range(PAIRS):
            phase = (pair + cycle / cycles) / PAIRS
            at_s = plan.first_s + 2 * cycle * plan.stay_s + phase * window_s
            for kind in ("ours", "socket"):
                for n, delay_us in enumerate((DELAY_US + QUEUE_US, DELAY_US)):
                    link = f"path-{kind}{pair + 1}>"
                    found.append(SetLink(round(at_s + n * plan.stay_s, 3), link, {"delay_us": delay_us}))
    return tuple(sorted(found, key=lambda event: event.at_s))


def scenario(mode: str, cycles: int) -> Scenario:
    """Return a run of one mode; arguments as in `changes`."""
    names = [f"{kind}{pair + 1}" for pair in range(PAIRS) for kind in ("ours", "socket")]
    path = Direction(delay_us=DELAY_US)
    links = (*(Link(f"path-{name}", name, "router", path) for name in names), _EXIT)
    plan = PLANS[mode]
    return Scenario(
        name=f"r-hybrid: timing, {mode}",
        topology=Graph.of(Topology((*names, "receiver"), links, ("router",))),
        flows=tuple(_flow(name) for name in names),
        duration_s=plan.first_s + 2 * cycles * plan.stay_s + MODES[mode].window_ms / 1000,
        events=changes(mode, cycles),
        receivers=(ReceiverAgent("receiver", mode=mode, detector=_KNOWN),),  # type: ignore[arg-type]
        switches=tuple(SocketSwitch(name) for name in names if name.startswith("socket")),
    )


_EXIT: Final = Link("exit", "router", "receiver", Direction())
_KNOWN: Final = {"baseline_ms": 2 * DELAY_US / 1000, "delta_ms": DELTA_MS}


def _flow(name: str) -> FlowSpec:
    algorithm = "r_hybrid" if name.startswith("ours") else KERNEL
    return FlowSpec(name, name, "receiver", algorithm, traffic=steady(SEND_BYTES_PER_S), ecn=True)


def switched(result: Result) -> pd.DataFrame:
    """Return the switches after each change on a path.

    Returns:
        A row for each change: `mode`, `flow`, `kind`, `to` (the path's new regime), `phase_ratio` (phase of
        the detector's window), and the time until the receiver decided (`decided_s`), until the flow switched
        (`switched_s`), and between the two (`acted_us`). NaN if the path changed again before.
    """
    mode = result.scenario.receivers[0].mode
    window_s = MODES[mode].window_ms / 1000
    decisions = result.regimes[result.regimes["switched"]]
    switches = result.regime_events[result.regime_events["event"] == "regime:switched"]
    rows = []
    for t_s, until_s, flow, regime in _changes(result):
        windows_s = result.regimes.loc[result.regimes["peer"] == flow, "t_s"]
        before_s = windows_s[windows_s <= t_s].max()
        decided_s = _first(decisions[decisions["peer"] == flow], regime, t_s, until_s)
        switched_s = _first(switches[switches["flow"] == flow], regime, t_s, until_s)
        rows.append(
            {
                "mode": mode,
                "flow": flow,
                "kind": OWN if flow.startswith("ours") else ORDINARY,
                "to": regime,
                "phase_ratio": (t_s - before_s) / window_s,
                "decided_s": decided_s - t_s,
                "switched_s": switched_s - t_s,
                "acted_us": (switched_s - decided_s) * 1e6,
            }
        )
    return pd.DataFrame(rows)


def _changes(result: Result) -> Iterator[tuple[float, float, str, str]]:
    """Yield the time of each change, the end of the new state, the flow, and the regime."""
    events = result.events[result.events["kind"] == "set_link"]
    reported = [
        (t_s, json.loads(detail)) for t_s, detail in zip(events["t_s"], events["detail"], strict=True)
    ]
    for i, (t_s, detail) in enumerate(reported):
        later = (at_s for at_s, other in reported[i + 1 :] if other["link"] == detail["link"])
        flow = detail["link"].removeprefix("path-").removesuffix(">")
        regime = SHARED if detail["fields"]["delay_us"] > DELAY_US else SINGLE_OWNER
        yield t_s, next(later, result.scenario.duration_s), flow, regime


def _first(reported: pd.DataFrame, regime: str, after_s: float, until_s: float) -> float:
    """Return when a regime was first reported within a time [s]; NaN if it was not."""
    own = reported[(reported["regime"] == regime) & reported["t_s"].between(after_s, until_s)]
    return float(own["t_s"].min()) if len(own) else NAN


# --- the part ----------------------------------------------------------------------------------------------


def _grids(size: Size) -> list[Grid]:
    return [
        Grid(scenario("paper", 1), {}, f"{size.name}-paper", size.times(1, 10)),
        Grid(scenario("fast", 3 if size.quick else 10), {}, f"{size.name}-fast", size.times(1, 10)),
    ]


def _row(result: Result) -> dict[str, Any]:
    found = switched(result)
    return {
        "mode": result.scenario.receivers[0].mode,
        "changes": len(found),
        "missed": int(found["switched_s"].isna().sum()),
        "switched_p50_s": found["switched_s"].median(),
        "acted_p50_us": found["acted_us"].median(),
        "acted_p99_us": found["acted_us"].quantile(0.99),
        "emulator_late_p99_us": result.metadata["emulator"]["lateness_us"]["p99"],
    }


_OF_RUNS: Final = ["changes", "missed", "acted_p50_us", "acted_p99_us", "emulator_late_p99_us"]
"""The emulator's lateness is part of every delay that receivers observe."""


def _findings(runs: Runs) -> Findings:
    found = runs.rows(switched)
    found["change"] = found["kind"] + " to " + found["to"]
    values = ["switched_s", "decided_s", "acted_us"]
    figures = {}
    for mode, own in found.groupby("mode", sort=False):
        figures[f"timing-{mode}"] = plots.cdf(
            own,
            "switched_s",
            by="change",
            title=f"From a change on the path to a switched flow, {mode} mode",
            subtitle=f"window {MODES[str(mode)].window_ms} ms, changes at all its phases",
        )
    figures["timing-acted"] = plots.cdf(
        found, "acted_us", by="kind", log=True, title="From the receiver's decision to the switched flow"
    )
    title = "From a change on the path to a switched flow"
    return Findings(
        [
            Table.of(found, title, ["mode", "kind", "to"], values),
            Table.of(runs.table, "Missed changes and delays", ["mode"], _OF_RUNS),
        ],
        figures,
        claims(found),
    )


def claims(found: pd.DataFrame) -> list[Check]:
    """Check that every change switches the flow, in the time that the rules give."""
    checks = [
        Check(
            f"{kind}: share of path changes that switched it",
            over_runs(own.assign(true=own["switched_s"].notna()), "true"),
            low=1.0,
            name=f"switched, {kind}",
        )
        for kind, own in found.groupby("kind", sort=False)
    ]
    for mode in found["mode"].unique():
        own = found[(found["mode"] == mode) & found["switched_s"].notna()]
        min_s, max_s = bounds_s(mode)
        claim = f"{mode} mode: share of switches that take {min_s:g} to {max_s:g} s"
        known = own.assign(true=own["switched_s"].between(min_s, max_s))
        checks.append(Check(claim, over_runs(known, "true"), low=1.0))
    shared = found[(found["mode"] == "paper") & (found["to"] == SHARED)]
    claim = "paper's constants: time until the flow on a shared path has switched [s]"
    return [*checks, Check(claim, over_runs(shared, "switched_s"), *CONFIRMED_S, "confirmed")]


def bounds_s(mode: str) -> tuple[float, float]:
    """Return the earliest and latest time at which the rules switch a flow [s].

    To SHARED: the window of the change looks congested unless the change comes at its end; then congested
    windows must follow until they are the majority for the whole persistence. Back to SINGLE_OWNER: the
    window of the change still looks congested; then quiet windows must follow until congested windows are no
    longer the majority.
    """
    options, window_s = MODES[mode].options, MODES[mode].window_ms / 1000
    up = options.needed + options.persistence - 1
    down = options.window - options.needed + 1 + options.persistence - 1
    return (min(up, down) - 1) * window_s, (max(up, down) + 1) * window_s + SIGNALLING_S


TIMING: Final = Part("timing", "from a change on the path to a switched flow", _grids, _findings, _row)
