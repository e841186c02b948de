"""R-Hybrid: what the detector mistakes for a shared bottleneck, and the effect of its options.

A flow that needs a fifth of its bottleneck is disturbed: by a longer route, by jitter like that of a busy
host, or by short bursts of its own or of other flows. Only a competing bulk transfer makes the bottleneck
shared. The detector is a pure function of the receiver's observations, so the observations of a run are
replayed with several options.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
import pandas as pd

from experiments import plots
from experiments.netlab.spec import Buffer, Direction, Link, Topology
from experiments.papers.estimates import over_runs
from experiments.papers.paper import Findings, Part, Runs, Size
from experiments.papers.tables import Check, Table
from experiments.papers.variants import KERNEL, steady
from experiments.results import Result
from experiments.runs import reading
from experiments.runs.shapes import Graph
from experiments.scenario import Event, FlowSpec, ReceiverAgent, Scenario, SetLink
from experiments.statistics import Estimate
from experiments.sweep import Grid
from experiments.traffic.spec import Iperf3, OnOff
from telemetry.regime import SHARED, Detector, DetectorOptions, Observation, Verdict
from telemetry.regime.modes import MODES

RATE_BYTES_PER_S: Final = 2.5e6
SEND_BYTES_PER_S: Final = 0.5e6
DELAY_US: Final = 5_000
BUFFER_PKTS: Final = 60
BEGIN_S: Final = 10.0
"""When a disturbance begins [s]."""

LONGER_US: Final = 8_000
JITTER_US: Final = 8_000
BURST_S: Final = 0.04
APART_S: Final = 0.5
"""Mean length of bursts and of gaps [s]."""

FIXED: Final = "fixed baseline"
HORIZON: Final = "horizon 5 s"
ROUTE: Final = "longer route"
BULK: Final = "bulk transfer"

_FAST: Final = MODES["fast"].options
DETECTORS: Final[Mapping[str, DetectorOptions]] = {
    FIXED: _FAST,
    HORIZON: msgspec.structs.replace(_FAST, baseline_horizon_s=5.0),
    **{
        f"delta {delta_ms:g} ms": msgspec.structs.replace(_FAST, delta_ms=delta_ms)
        for delta_ms in (2.5, 10.0, 20.0)
    },
    "window 10": msgspec.structs.replace(_FAST, window=10),
    "minimum tail, horizon 5 s": msgspec.structs.replace(_FAST, baseline_of="tail", baseline_horizon_s=5.0),
    "own queues": MODES["own"].options,
}
"""The mode `fast` with changed options, and the mode `own`."""

_OWN: Final = FlowSpec("own", "sender", "receiver", KERNEL, traffic=steady(SEND_BYTES_PER_S))
_BLOCKS: Final = FlowSpec(
    "own", "sender", "receiver", KERNEL, traffic=Iperf3(rate_bytes_per_s=SEND_BYTES_PER_S)
)
"""iperf3 keeps a rate by bursts of 128 KiB."""

_BURSTS: Final = FlowSpec(
    "bursts", "other", "receiver", KERNEL, traffic=OnOff(BURST_S, APART_S), start_s=BEGIN_S
)
_BULK: Final = FlowSpec("bulk", "other", "receiver", KERNEL, start_s=BEGIN_S)


def disturbed(*others: FlowSpec, own: FlowSpec = _OWN, event: Event | None = None) -> dict[str, Any]:
    """Return the fields for other flows, for the flow itself, or for an event that disturbs it."""
    events = [] if event is None else [event]
    return {"flows": reading.full([own, *others]), "events": reading.full(events)}


DISTURBANCES: Final[Mapping[str, Mapping[str, Any]]] = {
    "nothing": disturbed(),
    ROUTE: disturbed(event=SetLink(BEGIN_S, "bottleneck>", {"delay_us": DELAY_US + LONGER_US})),
    "jitter": disturbed(event=SetLink(BEGIN_S, "bottleneck>", {"jitter_us": JITTER_US})),
    "bursts of others": disturbed(_BURSTS),
    "bursts of its own": disturbed(own=_BLOCKS),
    BULK: disturbed(_BULK),
}


def scenario(duration_s: float) -> Scenario:
    """Return the run that is disturbed."""
    bottleneck = Direction(
        rate_bytes_per_s=RATE_BYTES_PER_S, delay_us=DELAY_US, buffer=Buffer(packets=BUFFER_PKTS)
    )
    links = (
        Link("access-sender", "sender", "router", Direction()),
        Link("access-other", "other", "router", Direction()),
        Link("bottleneck", "router", "receiver", bottleneck),
    )
    return Scenario(
        name="r-hybrid: false switches",
        topology=Graph.of(Topology(("sender", "other", "receiver"), links, ("router",))),
        flows=(_OWN,),
        duration_s=duration_s,
        receivers=(ReceiverAgent("receiver", peers=("sender",), mode="fast"),),
    )


def replayed(result: Result, options: DetectorOptions) -> pd.DataFrame:
    """Return a detector's decisions on the observations of a run: a row per interval, fields of `Verdict`."""
    detector = Detector(options)
    seen = result.regimes.reindex(columns=list(Observation.__struct_fields__)).astype(object)
    rows = [
        msgspec.structs.astuple(detector.observe(msgspec.convert(row, Observation)))
        for row in seen.where(seen.notna(), None).to_dict("records")
    ]
    return pd.DataFrame(rows, columns=list(Verdict.__struct_fields__))


def verdicts(result: Result) -> pd.DataFrame:
    """Return the decisions of each of `DETECTORS` from the beginning of the disturbance on.

    Returns:
        A row for each: `disturbance`, `detector`, `shared_ratio` of the time, `switches`, and
        `first_shared_s` after the disturbance began (NaN: never).
    """
    rows = []
    for name, options in DETECTORS.items():
        found = replayed(result, options)
        found = found[found["t_s"] >= BEGIN_S]
        shared = found["regime"] == SHARED
        rows.append(
            {
                "disturbance": result.axes["disturbance"],
                "detector": name,
                "shared_ratio": shared.mean(),
                "switches": int(found["switched"].sum()),
                "first_shared_s": found.loc[shared, "t_s"].min() - BEGIN_S,
            }
        )
    return pd.DataFrame(rows)


# --- the part ----------------------------------------------------------------------------------------------


def _grids(size: Size) -> list[Grid]:
    seconds = BEGIN_S + size.seconds(12, 30)
    return [Grid(scenario(seconds), {"disturbance": DISTURBANCES}, size.name, size.times(1, 10))]


def _row(result: Result) -> dict[str, Any]:
    seen = result.regimes
    before, since = (seen.loc[own, "rtt_tail_ms"] for own in (seen["t_s"] < BEGIN_S, seen["t_s"] >= BEGIN_S))
    return {"tail_before_us": before.median() * 1000, "tail_since_us": since.median() * 1000}


def _findings(runs: Runs) -> Findings:
    found = runs.rows(verdicts)
    by = ["disturbance", "detector"]
    title = "Time in SHARED, and changes of the regime, after the disturbance began"
    return Findings(
        [
            Table.of(found, title, by, ["shared_ratio", "switches", "first_shared_s"]),
            Table.of(runs.table, "Tail of the RTTs", ["disturbance"], ["tail_before_us", "tail_since_us"]),
        ],
        {
            "false-switches": plots.bars(
                found,
                "shared_ratio",
                group="disturbance",
                by="detector",
                title="Time in SHARED: correct only with a bulk transfer",
                subtitle="windows of 100 ms, N = 5, M = 3, cooldown 1 s",
            )
        },
        claims(found),
    )


def claims(found: pd.DataFrame) -> list[Check]:
    """Check which disturbances mislead the paper's baseline, and that a horizon corrects the baseline."""

    def time(disturbance: str, detector: str) -> Estimate:
        own = found[(found["disturbance"] == disturbance) & (found["detector"] == detector)]
        return over_runs(own, "shared_ratio")

    return [
        Check(
            f"share of time in SHARED without a disturbance, {FIXED},",
            time("nothing", FIXED),
            high=0.0,
            name="quiet",
        ),
        Check(f"share of time in SHARED on a {ROUTE}, {FIXED},", time(ROUTE, FIXED), low=0.9, name="route"),
        Check(
            f"share of time in SHARED on a {ROUTE}, {HORIZON},",
            time(ROUTE, HORIZON),
            high=0.6,
            name="horizon",
        ),
        Check(f"share of time in SHARED with a {BULK}, {FIXED},", time(BULK, FIXED), low=0.8, name="bulk"),
    ]


FALSE_SWITCHES: Final = Part(
    "false-switches", "what the detector mistakes for a shared bottleneck", _grids, _findings, _row
)
