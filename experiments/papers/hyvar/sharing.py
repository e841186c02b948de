"""Hyvar: shares of several flows, and of a flow that competes with CUBIC; not in the slides.

Flows start one after the other, and only the end of the run is evaluated (`shares`).
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
import pandas as pd

from experiments import plots
from experiments.events import ParamValue
from experiments.metrics import NAN, goodput_bytes_per_s, jain_index, within
from experiments.netlab.spec import Buffer
from experiments.papers.estimates import over_runs
from experiments.papers.hyvar.claims import HYVAR
from experiments.papers.hyvar.runs import CLAIMED, came_to
from experiments.papers.paper import Findings, Part, Runs, Size
from experiments.papers.tables import Check, Table
from experiments.papers.two_flows import BUFFER_BDP
from experiments.papers.variants import KERNEL, rounds, steered
from experiments.results import Result
from experiments.runs.shapes import Dumbbell
from experiments.scenario import FlowSpec, Scenario
from experiments.sweep import Grid

FLOWS: Final = (2, 4, 8)
BUFFERS_BDP: Final = (0.5, 1.0, 2.0, 4.0)
APART_S: Final = 5.0
"""Time between the starts of two flows [s]."""
TOGETHER_S: Final = 30.0
"""Time in which all flows send, in a full run [s]."""
JUDGED_SHARE: Final = 0.5
"""Evaluated share of `TOGETHER_S`, at the end of that time."""

OWN: Final = "own"
OTHER: Final = "cubic"
WITHOUT_PRICE: Final = "hyvar, loss_price=0"
AS_THE_SLIDES: Final = "hyvar, as the slides"
ALONE: Final = "hyvar, case4_alone=true"
VARIANTS: Final[dict[str, tuple[str, dict[str, ParamValue]]]] = {
    HYVAR: (HYVAR, {}),
    WITHOUT_PRICE: (HYVAR, {"loss_price": 0.0}),
    AS_THE_SLIDES: (HYVAR, {"loss_price": 0.0, "trains": False}),
    ALONE: (HYVAR, {"case4_alone": True}),
    KERNEL: (KERNEL, {}),
}
"""Variant -> algorithm and parameters: the default; losses without a price; the slides' (each flow knows only
its own best throughput); only the policy in case 4; CUBIC."""

FAIR_JAIN: Final = 0.9
FAIR_SHARE: Final = 0.7
"""Minimum goodput of each of two flows, as a ratio to its fair share."""


def _flow(number: int, name: str) -> FlowSpec:
    return FlowSpec(name, f"s{number + 1}", f"r{number + 1}", KERNEL, start_s=APART_S * number)


def alike(n: int, together_s: float) -> Scenario:
    """Return n flows that start one after the other over the slides' path, and all send for a time."""
    return Scenario(
        name=f"hyvar: {n} flows",
        topology=Dumbbell(n, CLAIMED),
        flows=tuple(_flow(number, f"own{number + 1}") for number in range(n)),
        duration_s=APART_S * (n - 1) + together_s,
    )


def alongside_cubic(buffer_bdp: float, together_s: float) -> Scenario:
    """Return a flow that starts after a flow of kernel CUBIC over the slides' path."""
    path = msgspec.structs.replace(CLAIMED, buffer=Buffer(bdp=buffer_bdp))
    return Scenario(
        name="hyvar: beside CUBIC",
        topology=Dumbbell(2, path),
        flows=tuple(_flow(number, name) for number, name in enumerate((OTHER, OWN))),
        duration_s=APART_S + together_s,
    )


def _grids(size: Size) -> list[Grid]:
    together_s, times = size.seconds(10, TOGETHER_S), size.times(2, 10)
    variants = {HYVAR: VARIANTS[HYVAR]} if size.quick else VARIANTS
    found = []
    for n in FLOWS:
        points = {name: steered(algorithm, **params) for name, (algorithm, params) in variants.items()}
        found += rounds(alike(n, together_s), f"{size.name}-{n}-flows", times, "variant", points)
    alongside = {name: steered(algorithm, OWN, **params) for name, (algorithm, params) in variants.items()}
    return found + rounds(
        alongside_cubic(BUFFERS_BDP[0], together_s),
        f"{size.name}-beside-cubic",
        times,
        "variant",
        alongside,
        more_axes={BUFFER_BDP: list(BUFFERS_BDP)},
    )


def shares(result: Result) -> dict[str, Any]:
    """Return the conditions and shares of a run.

    Returns:
        The columns of `came_to`; `flows`; `buffer_bdp`, NaN without CUBIC; over the time that counts:
        `jain_index` of the goodputs, `share_of_fair_ratio` (goodput of the flow next to CUBIC, or the minimum
        over the flows, as a ratio to an equal share), `goodput_bytes_per_s` of all flows, `delay_us`
        (smoothed RTT, mean over the flows).
    """
    scenario = result.scenario
    since_s = max(flow.start_s for flow in scenario.flows)
    judged_s = since_s + (1 - JUDGED_SHARE) * (scenario.duration_s - since_s)
    samples = within(result.flow_samples, judged_s)
    goodput = goodput_bytes_per_s(samples).reindex([flow.name for flow in scenario.flows])
    alongside = OWN in goodput.index
    judged = goodput[OWN] if alongside else goodput.min(skipna=False)
    found: dict[str, Any] = {
        **came_to(result),
        "flows": len(goodput),
        "jain_index": jain_index(goodput),
        "share_of_fair_ratio": judged * len(goodput) / goodput.sum(skipna=False),
        "goodput_bytes_per_s": goodput.sum(skipna=False),
        "delay_us": float(samples.groupby("flow")["srtt_us"].mean().mean()),
        "buffer_bdp": NAN,
    }
    if alongside and isinstance(scenario.topology, Dumbbell) and scenario.topology.bottleneck.buffer:
        found["buffer_bdp"] = scenario.topology.bottleneck.buffer.bdp
    return found


def _findings(runs: Runs) -> Findings:
    order = {name: place for place, name in enumerate(VARIANTS)}
    table = runs.table.sort_values(
        ["flows", "buffer_bdp", "variant"],
        key=lambda values: values.map(order) if values.name == "variant" else values,
        kind="stable",
    )
    values = ["share_of_fair_ratio", "goodput_bytes_per_s", "delay_us", "retrans_pct"]
    alongside = table["buffer_bdp"].notna()
    return Findings(
        [
            Table.of(
                table[~alongside],
                "Flows of one kind that start 5 s apart",
                ["flows", "variant"],
                ["jain_index", *values],
            ),
            Table.of(
                table[alongside],
                "A flow that starts 5 s after one of kernel CUBIC",
                ["buffer_bdp", "variant"],
                values,
            ),
        ],
        {
            "sharing-jain": plots.lines(
                table[~alongside], "jain_index", "flows", by="variant", title="Flows of one kind: fairness"
            ),
            "sharing-cubic": plots.lines(
                table[alongside],
                "share_of_fair_ratio",
                "buffer_bdp",
                by="variant",
                title="Share when competing with CUBIC",
            ),
        },
        checks(table),
    )


def checks(table: pd.DataFrame) -> list[Check]:
    """Check the shares of Hyvar's default."""
    own = table[table["variant"] == HYVAR]
    found = [
        Check(
            f"{HYVAR}: Jain index of {n} flows",
            over_runs(own[own["buffer_bdp"].isna() & (own["flows"] == n)], "jain_index"),
            low=FAIR_JAIN,
            name=f"jain-{n}",
        )
        for n in FLOWS
    ]
    found += [
        Check(
            f"{HYVAR}: ratio of its goodput to a fair share, competing with CUBIC, {buffer_bdp:g} BDP",
            over_runs(own[own["buffer_bdp"] == buffer_bdp], "share_of_fair_ratio"),
            low=FAIR_SHARE,
            high=2 - FAIR_SHARE,
            name=f"share-{buffer_bdp:g}",
        )
        for buffer_bdp in BUFFERS_BDP
    ]
    return [check for check in found if check.known]


SHARING: Final = Part(
    "sharing", "shares of 2 to 8 flows, and of a flow that competes with CUBIC", _grids, _findings, shares
)
