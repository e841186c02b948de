"""Flex-Cubic: C (section 5), k (section 3.4), and k changed while a flow runs (title)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pandas as pd

from experiments import plots
from experiments.events import SetParam
from experiments.metrics import NAN, goodput_bytes_per_s, retrans_pct, within
from experiments.papers.flex_cubic.claims import ALWAYS_K, C_PER_S3, CLAIM_LOSS, LIVE_PHASES, OWN, TOLERANT_K
from experiments.papers.paper import Findings, Part, Runs, Size
from experiments.papers.tables import Table
from experiments.papers.two_flows import BUFFER_BDP, LOSS_RATIO, conditions, dumbbell
from experiments.papers.variants import KERNEL, steered
from experiments.results import Result
from experiments.scenario import Scenario
from experiments.sweep import Grid

CS_PER_S3: Final = (0.1, C_PER_S3, 1.6)
"""C of RFC 9438, and a quarter and four times of that value."""
KS: Final = (TOLERANT_K, 3.0, 4.0, 5.0)
"""Values of k in section 3.4."""
DEEP_BDP: Final = 5.0
"""Buffer that is large enough for the RTT to reach each multiple in `KS`."""

_VALUES: Final = ("throughput_bytes_per_s", "goodput_bytes_per_s", "retrans_pct", "rtt_p95_us")


def _grids(size: Size) -> list[Grid]:
    base = dumbbell("flex-cubic: parameters", size.seconds(8, 30))
    losses = [0.0, CLAIM_LOSS]
    cs = {f"C {one:g}": steered(OWN, c_per_s3=one) for one in CS_PER_S3}
    ks = {f"k {one:g}": steered(OWN, rtt_multiplier=one) for one in KS}
    axes: dict[str, dict[str, Any]] = {
        "c": {LOSS_RATIO: losses, BUFFER_BDP: [1.0], "variant": cs},
        "k": {LOSS_RATIO: losses, BUFFER_BDP: [DEEP_BDP], "variant": {KERNEL: steered(KERNEL), **ks}},
    }
    return [Grid(base, one, f"{size.name}-{name}", size.times(6, 10)) for name, one in axes.items()]


def _findings(runs: Runs) -> Findings:
    by = ["buffer.bdp", "loss_ratio", "variant"]
    title = "Values of C, and of k in a deep buffer: two flows over 100 Mbit/s, OWD 25 ms"
    return Findings([Table.of(runs.table, title, by, _VALUES)])


# --- changed while a flow runs -----------------------------------------------------------------------------


def _k_of(first: float, then: float) -> dict[str, Any]:
    return {"flows.flow.params": {"rtt_multiplier": first}, "events.0.value": then}


LIVE: Final[Mapping[str, Mapping[str, Any]]] = {
    name: _k_of(*ks)
    for name, ks in {
        "k 1": (ALWAYS_K, ALWAYS_K),
        "k 2": (TOLERANT_K, TOLERANT_K),
        "k 1, then 2": (ALWAYS_K, TOLERANT_K),
        "k 2, then 1": (TOLERANT_K, ALWAYS_K),
    }.items()
}
"""Name of the run -> fields that set k at the start and halfway; two runs keep the same k throughout."""


def live(duration_s: float) -> Scenario:
    """Return one flow over the grid's network, with 0.5 % loss, whose k is set halfway through the run."""
    one = dumbbell("flex-cubic: k is changed", duration_s, loss_ratio=CLAIM_LOSS)
    first, _ = one.flows
    flow = type(first)("flow", first.sender, first.receiver, OWN)
    change = SetParam(duration_s / 2, "rtt_multiplier", TOLERANT_K, flow="flow")
    return one.replace(flows=(flow,), events=(change,))


def _live_grids(size: Size) -> list[Grid]:
    return [Grid(live(size.seconds(40, 60)), {"variant": LIVE}, size.name, size.times(6, 10))]


def live_row(result: Result) -> dict[str, Any]:
    """Return `goodput_bytes_per_s` and `retrans_pct`, prefixed with each of `LIVE_PHASES`."""
    end_s = result.scenario.duration_s
    found: dict[str, Any] = {}
    for name, (start, stop) in LIVE_PHASES.items():
        samples = within(result.flow_samples, start * end_s, stop * end_s)
        found[f"{name}_goodput_bytes_per_s"] = goodput_bytes_per_s(samples).get("flow", NAN)
        found[f"{name}_retrans_pct"] = retrans_pct(samples).get("flow", NAN)
    return found


def _live_findings(runs: Runs) -> Findings:
    values = [f"{phase}_{what}" for phase in LIVE_PHASES for what in ("goodput_bytes_per_s", "retrans_pct")]
    title = "k changes while the flow runs: 100 Mbit/s, OWD 25 ms, one BDP, 0.5 % loss"
    first = runs.first_of_variants
    figures = {}
    if first:
        samples = [one.flow_samples.assign(flow=name) for name, one in first.items()]
        events = runs.results[0].events
        figures["live"] = plots.time_series(
            pd.concat(samples, ignore_index=True),
            pd.DataFrame({"flow": list(first), "algorithm": list(first)}),
            events=events[events["kind"] == "set_param"],
            panels=("cwnd_bytes", "goodput_bytes_per_s"),
            goodput_interval_s=0.5,
            title=title,
            note="one run each with one flow; the dotted line marks the change",
        )
    return Findings([Table.of(runs.table, title, ["variant"], values)], figures)


PARAMETERS: Final = Part(
    "parameters", "other values of C and k (sections 3.4 and 5)", _grids, _findings, conditions
)
LIVE_PART: Final = Part("live", "k changes while a flow runs", _live_grids, _live_findings, live_row)
