"""Flex-Cubic (Filho, Ribeiro, Martinello, Miguel): the paper's experiments.

The network is that of the paper's Figure 3: two flows of the same algorithm, H1 to H2 and H3 to H4,
through one bottleneck of 100 Mbit/s. Differences from the paper: ccplane's emulator and simulator instead
of Mininet, netem and htb; a BDP of rate x RTT instead of 83 packets at every delay; loss only of data,
and before the queue; runs of 15 to 80 s instead of 150 s, ten per point. `docs/papers/flex-cubic.md` has
the results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pandas as pd

from experiments import plots
from experiments.events import SetRoute
from experiments.metrics import NAN, goodput_bytes_per_s, goodput_over_time, within
from experiments.netlab.spec import Bernoulli, Buffer, Direction, Link, Topology
from experiments.papers.flex_cubic.claims import BETA, CLAIM_LOSS, CLAIMS, OWN
from experiments.papers.flex_cubic.overlap import OVERLAP
from experiments.papers.flex_cubic.parameters import LIVE_PART, PARAMETERS
from experiments.papers.paper import Findings, Paper, Part, Runs, Size
from experiments.papers.tables import Table, figures_of
from experiments.papers.two_flows import (
    BUFFER_BDP,
    LOSS,
    LOSS_RATIO,
    OWD,
    PAYLOAD_SHARE,
    RATE_BYTES_PER_S,
    against,
    bursts_of,
    conditions,
    dumbbell,
    shares,
)
from experiments.papers.variants import KERNEL, steered
from experiments.plots import Plot
from experiments.results import Result
from experiments.runs.shapes import Graph
from experiments.scenario import FlowSpec, Scenario
from experiments.sweep import Grid

BBR: Final = "kernel/bbr"

OWDS_US: Final = (10_000, 25_000, 50_000)
LOSSES: Final = (0.0, 0.005, 0.01, 0.015, 0.02)
BUFFERS_BDP: Final = (0.25, 0.5, 0.75, 1.0)
BETAS: Final = (0.3, 0.7, 0.9)

CLAIM_OWD_US: Final = 25_000
FIGURE_OF_BETA: Final = {0.3: "figure-4", 0.7: "figure-5", 0.9: "figure-6"}
"""The paper's figure, by beta."""

_SLOW_START_S: Final = 2.0
"""Start of the time in which the seconds of a run are compared [s]."""
QUEUE_FRACTION: Final = 0.5
MEMORY_MS: Final = 500
MIN_RTT_WINDOW_MS: Final = 5_000

_VALUES: Final = (
    "throughput_bytes_per_s",
    "goodput_bytes_per_s",
    "retrans_pct",
    "retrans_pkts",
    "variation_ratio",
)
_MORE_VALUES: Final = ("goodput_bytes_per_s", "retrans_pct", "rtt_p95_us", "dropped_queue_pkts")


# --- Figures 4 to 6 ----------------------------------------------------------------------------------------


def grid(
    name: str,
    duration_s: float,
    repeats: int,
    *,
    owds_us: Sequence[int] = OWDS_US,
    losses: Sequence[float] = LOSSES,
    buffers_bdp: Sequence[float] = BUFFERS_BDP,
    betas: Sequence[float] = BETAS,
    fractions: Sequence[float] = (),
    kernel: bool = True,
) -> Grid:
    """Return points of the paper's grid. Kernel CUBIC, whose beta is fixed, runs once for all values of beta.

    Args:
        name: Name of the grid.
        duration_s: Length of each run [s].
        repeats: Runs per point.
        owds_us: One-way delays [us].
        losses: Shares of packets lost at random.
        buffers_bdp: Buffers [BDP].
        betas: Values of beta, without `queue_fraction`.
        fractions: Values of `queue_fraction`, with beta 0.7.
        kernel: Whether to run kernel CUBIC.
    """
    variants: dict[str, Mapping[str, Any]] = {KERNEL: steered(KERNEL)} if kernel else {}
    variants |= {f"beta {beta}": steered(OWN, beta=beta) for beta in betas}
    variants |= {f"queue {fraction}": steered(OWN, queue_fraction=fraction) for fraction in fractions}
    return Grid(
        dumbbell(f"flex-cubic: {name}", duration_s),
        {OWD: list(owds_us), LOSS_RATIO: list(losses), BUFFER_BDP: list(buffers_bdp), "variant": variants},
        name,
        repeats,
    )


def _grids(size: Size) -> list[Grid]:
    here, few, claim = [CLAIM_OWD_US], [0.0, CLAIM_LOSS], [1.0]
    if not size.quick:
        length, times = size.seconds(0, 15), size.times(0, 10)
        only: dict[str, Any] = {"owds_us": here, "betas": (), "fractions": [QUEUE_FRACTION], "kernel": False}
        return [grid("full", length, times), grid("full-queue", length, times, **only)]
    cells: dict[str, dict[str, Any]] = {
        "claim": {"losses": few, "buffers_bdp": claim, "betas": [BETA]},
        "loss": {"losses": [0.01, 0.02], "buffers_bdp": claim, "betas": [BETA]},
        "buffer": {"losses": few, "buffers_bdp": [0.25, 0.5], "betas": [BETA]},
        "owd": {"owds_us": [10_000, 50_000], "losses": few, "buffers_bdp": claim, "betas": [BETA]},
        "beta": {"losses": few, "buffers_bdp": claim, "betas": [0.3, 0.9], "kernel": False},
        "queue": {
            "losses": few,
            "buffers_bdp": [0.25, 0.5, 1.0],
            "betas": (),
            "fractions": [QUEUE_FRACTION],
            "kernel": False,
        },
    }
    return [
        grid(
            f"quick-{name}",
            size.seconds(8 if name == "claim" else 6, 0),
            size.times(10 if name == "claim" else 6, 0),
            **{"owds_us": here, **chosen},
        )
        for name, chosen in cells.items()
    ]


def grid_row(result: Result) -> dict[str, Any]:
    """Return the conditions and figures of a run of the grid.

    `variation_ratio` is the coefficient of variation of a flow's goodput per second after `_SLOW_START_S`,
    averaged over the flows.
    """
    params = result.scenario.flows[0].params
    own = {"beta": params.get("beta", BETA), "queue_fraction": params.get("queue_fraction", 0.0)}
    seconds = goodput_over_time(within(result.flow_samples, _SLOW_START_S), 1.0)
    each = seconds.groupby("flow")["goodput_bytes_per_s"]
    return {**conditions(result), **own, "variation_ratio": (each.std() / each.mean()).mean()}


def _grid_findings(runs: Runs) -> Findings:
    table = runs.table
    by = ["owd_us", "buffer.bdp", "loss_ratio", "algorithm", "beta", "queue_fraction"]
    paper = table[table["queue_fraction"] == 0]
    figures = {
        f"{FIGURE_OF_BETA.get(beta, 'figure')}-{name}-beta-{beta}": figure
        for beta in sorted(paper["beta"].unique())
        for name, figure in figures_4_to_6(paper, beta).items()
    }
    return Findings(
        [Table.of(table.sort_values(by), "The paper's grid, both flows together", by, _VALUES)],
        figures | _queue_figures(table),
    )


def _queue_figures(table: pd.DataFrame) -> dict[str, Plot]:
    """Return figures of `queue_fraction` in buffers in which k x minRTT cannot be reached."""
    options = sorted(set(table["queue_fraction"]) - {0.0})
    if not options:
        return {}
    here = table[(table["owd_us"] == CLAIM_OWD_US) & (table["beta"] == BETA)]
    here = here[here["loss_ratio"].isin([0.0, CLAIM_LOSS])]
    name = here["algorithm"].where(here["queue_fraction"] == 0, f"{OWN}, queue_fraction {QUEUE_FRACTION}")
    return {
        f"queue-{what}": plots.panels(
            here.assign(variant=name),
            column,
            "buffer.bdp",
            "loss_ratio",
            by="variant",
            title="Shallow buffers: two flows over 100 Mbit/s, OWD 25 ms",
        )
        for what, column in (("goodput", "goodput_bytes_per_s"), ("retransmitted", "retrans_pct"))
    }


def figures_4_to_6(table: pd.DataFrame, beta: float) -> dict[str, Plot]:
    """Return the paper's figure for one beta: throughput, goodput and retransmissions."""
    chosen = table[(table["algorithm"] == KERNEL) | (table["beta"] == beta)]
    maximum = PAYLOAD_SHARE * RATE_BYTES_PER_S
    return {
        name: plots.panels(
            chosen,
            column,
            "loss_ratio",
            "owd_us",
            "buffer.bdp",
            limit=limit,
            title=f"Two flows over 100 Mbit/s: Flex-Cubic with beta {beta:g}, and kernel CUBIC",
        )
        for name, column, limit in (
            ("throughput", "throughput_bytes_per_s", maximum),
            ("goodput", "goodput_bytes_per_s", maximum),
            ("retransmitted", "retrans_pct", None),
        )
    }


# --- bursts ------------------------------------------------------------------------------------------------


def _bursts_grids(size: Size) -> list[Grid]:
    processes = {"none": None, "single": {"kind": "bernoulli", "ratio": CLAIM_LOSS}}
    lengths = (10,) if size.quick else (5, 10, 20)
    processes |= {f"bursts of {length}": bursts_of(length, CLAIM_LOSS) for length in lengths}
    memory = f"{OWN}, memory {MEMORY_MS} ms"
    return [
        Grid(
            dumbbell("flex-cubic: bursts", size.seconds(6, 15)),
            {
                BUFFER_BDP: [2.0] if size.quick else [1.0, 2.0],
                "loss": {name: {LOSS: process} for name, process in processes.items()},
                "variant": {
                    KERNEL: steered(KERNEL),
                    OWN: steered(OWN),
                    memory: steered(OWN, congestion_memory_ms=MEMORY_MS),
                },
            },
            size.name,
            size.times(2, 10),
        )
    ]


def _bursts_findings(runs: Runs) -> Findings:
    table = runs.table
    by = ["buffer.bdp", "loss", "variant"]
    drawn = table[table["buffer.bdp"] == table["buffer.bdp"].max()]
    title = "Loss of 0.5 % of all packets, singly or in bursts"
    return Findings(
        [Table.of(table, title, by, _MORE_VALUES)],
        {
            f"bursts-{name}": plots.bars(
                drawn,
                column,
                group="loss",
                by="variant",
                title=title,
                subtitle=f"OWD 25 ms, buffer {100 * drawn['buffer.bdp'].iloc[0]:g} % BDP",
            )
            for name, column in (("goodput", "goodput_bytes_per_s"), ("retransmitted", "retrans_pct"))
        },
    )


# --- fairness ----------------------------------------------------------------------------------------------


AGAINST_CUBIC: Final = "Flex-Cubic against kernel CUBIC"
BELOW_TWO: Final = 1.9
"""k that a full queue of one BDP exceeds, because it makes the RTT 2 x minRTT minus the time of one
packet.
"""
_WITH_CUBIC: Final = {
    AGAINST_CUBIC: against(OWN, KERNEL),
    f"with queue_fraction {QUEUE_FRACTION} against kernel CUBIC": against(
        OWN, KERNEL, queue_fraction=QUEUE_FRACTION
    ),
    f"with k {BELOW_TWO} against kernel CUBIC": against(OWN, KERNEL, rtt_multiplier=BELOW_TWO),
    "kernel CUBIC against kernel CUBIC": against(KERNEL, KERNEL),
}
_WITH_BBR: Final = {
    "Flex-Cubic against kernel BBR": against(OWN, BBR),
    "kernel CUBIC against kernel BBR": against(KERNEL, BBR),
}
_PAIRS: Final = _WITH_CUBIC | _WITH_BBR


def _fairness_grids(size: Size) -> list[Grid]:
    base = dumbbell("flex-cubic: fairness", size.seconds(30, 60))
    buffers = [0.25, 0.5, 2.0] if size.quick else [0.25, 0.5, 0.75, 1.5, 2.0]
    few = [0.25, 2.0] if size.quick else buffers
    claim = {AGAINST_CUBIC: _PAIRS[AGAINST_CUBIC]}
    others = {name: pair for name, pair in _PAIRS.items() if name != AGAINST_CUBIC}

    def against_each_other(
        name: str, quick: int, pairs: Mapping[str, Any], buffers_bdp: Sequence[float], losses: Sequence[float]
    ) -> Grid:
        axes: dict[str, Any] = {LOSS_RATIO: losses, BUFFER_BDP: buffers_bdp, "pair": pairs}
        return Grid(base, axes, f"{size.name}-{name}", size.times(quick, 10))

    return [
        against_each_other("claim", 10, _WITH_CUBIC, [1.0], [0.0]),
        against_each_other("bbr", 1, _WITH_BBR, [1.0], [0.0]),
        against_each_other("cubic", 1, claim, buffers, [0.0]),
        against_each_other("others", 1, others, few, [0.0]),
        against_each_other("loss", 1, claim, [0.25], [CLAIM_LOSS]),
    ]


def _fairness_findings(runs: Runs) -> Findings:
    table = runs.table.sort_values(["loss_ratio", "pair", "buffer.bdp"])
    values = ["jain_index", "quotient", "first_goodput_bytes_per_s", "second_goodput_bytes_per_s"]
    title = "Two flows of different algorithms"
    clean = table[table["loss_ratio"] == 0]
    drawn = clean[clean["pair"].isin(list(_PAIRS))]
    return Findings(
        [Table.of(table, title, ["pair", "loss_ratio", "buffer.bdp"], [*values, "retrans_pct"])],
        {
            f"fairness-{name}": plots.lines(
                drawn,
                column,
                "buffer.bdp",
                by="pair",
                title=title,
                subtitle="100 Mbit/s, OWD 25 ms, no random loss",
            )
            for name, column in (("jain", "jain_index"), ("share", "share_of_first_ratio"))
            if len(drawn)
        },
    )


# --- reconfigured paths ------------------------------------------------------------------------------------

NEAR_OWD_US: Final = 10_000
FAR_OWD_US: Final = 40_000
_CHANGE_AT: Final = 0.3
"""When the path changes, as a share of the run."""
_SETTLED_AT: Final = 0.75
"""Start of the time in which goodput over the new path counts, as a share of the run."""


def rerouted(duration_s: float) -> Scenario:
    """Return one flow whose path becomes four times as long; the buffer suffices for both paths."""

    def between(name: str, owd_us: int) -> Link:
        buffer = Buffer(bytes=round(RATE_BYTES_PER_S * 2 * FAR_OWD_US / 1e6))
        forward = Direction(
            rate_bytes_per_s=RATE_BYTES_PER_S, delay_us=owd_us, buffer=buffer, loss=Bernoulli(CLAIM_LOSS)
        )
        return Link(name, "left", "right", forward)

    ends = (Link("first", "s1", "left"), Link("last", "right", "r1"))
    links = (between("near", NEAR_OWD_US), between("far", FAR_OWD_US), *ends)
    topology = Graph.of(Topology(("s1", "r1"), links, ("left", "right")))
    return Scenario(
        name="flex-cubic: reconfigured path",
        topology=topology,
        flows=(FlowSpec("flow", "s1", "r1", KERNEL),),
        events=(
            SetRoute(0, ("s1", "left", "near", "right", "r1")),
            SetRoute(_CHANGE_AT * duration_s, ("s1", "left", "far", "right", "r1")),
        ),
        duration_s=duration_s,
    )


def _reroute_grids(size: Size) -> list[Grid]:
    window = f"{OWN}, min RTT of {MIN_RTT_WINDOW_MS / 1000:g} s"
    variants = {
        KERNEL: steered(KERNEL),
        OWN: steered(OWN),
        window: steered(OWN, min_rtt_window_ms=MIN_RTT_WINDOW_MS),
    }
    name = size.name
    return [Grid(rerouted(size.seconds(24, 40)), {"variant": variants}, name, size.times(2, 10))]


def _reroute_row(result: Result) -> dict[str, Any]:
    end_s = result.scenario.duration_s
    phases = {"near": (0.1, _CHANGE_AT), "far": (_SETTLED_AT, 1.0)}
    found: dict[str, Any] = figures_of(result)
    for name, (start, stop) in phases.items():
        samples = within(result.flow_samples, start * end_s, stop * end_s)
        found[f"{name}_goodput_bytes_per_s"] = goodput_bytes_per_s(samples).get("flow", NAN)
    return found


def _reroute_findings(runs: Runs) -> Findings:
    values = ["near_goodput_bytes_per_s", "far_goodput_bytes_per_s", "retrans_pct", "rtt_p95_us"]
    title = "The path becomes four times as long: RTT 20 ms, then 80 ms, 0.5 % random loss"
    first = runs.first_of_variants
    samples = [one.flow_samples.assign(flow=name) for name, one in first.items()]
    events = runs.results[0].events
    changed = (events["kind"] == "set_route") & (events["t_s"] > events["t_s"].max() / 4)
    figure = plots.time_series(
        pd.concat(samples, ignore_index=True),
        pd.DataFrame({"flow": list(first), "algorithm": list(first)}),
        events=events[changed],
        panels=("srtt_us", "cwnd_bytes", "goodput_bytes_per_s"),
        title=title,
        note="one run each with one flow; the dotted line marks the change",
    )
    return Findings([Table.of(runs.table, title, ["variant"], values)], {"reroute": figure})


_PARTS: Final = (
    Part("grid", "Figures 4 to 6: throughput, goodput, retransmissions", _grids, _grid_findings, grid_row),
    Part("bursts", "losses in bursts, with and without memory", _bursts_grids, _bursts_findings, conditions),
    Part("fairness", "competition with kernel CUBIC and BBR", _fairness_grids, _fairness_findings, shares),
    Part("reroute", "a path that becomes longer", _reroute_grids, _reroute_findings, _reroute_row),
    PARAMETERS,
    LIVE_PART,
    OVERLAP,
)

PAPER: Final = Paper.of(
    "flex-cubic", "Flex-Cubic: A Runtime-Adaptive Loss-Tolerant TCP Cubic", _PARTS, CLAIMS
)
