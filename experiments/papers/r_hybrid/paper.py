"""R-Hybrid (Nguyen): the paper's figures, and questions that it leaves open.

Figures 2 to 4 have one path (`path.py`), with changes of loss and marking threshold. Figure 5 is computed
(`series.py`). Beyond the paper: how long a switch takes (`timing.py`), a host with two kinds of peers
(`peers.py`), what is mistaken for sharing (`false.py`), and shares next to kernel CUBIC
(`next_to_cubic.py`). `docs/papers/r-hybrid.md` has the results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pandas as pd

from ccp_algs.r_hybrid import ECN_BETA
from experiments import plots
from experiments.papers.paper import Findings, Paper, Part, Runs, Size
from experiments.papers.r_hybrid.claims import CLAIMS, LITERAL, OWN_ONLY, STRICT
from experiments.papers.r_hybrid.false import FALSE_SWITCHES
from experiments.papers.r_hybrid.next_to_cubic import NEXT_TO_CUBIC
from experiments.papers.r_hybrid.path import (
    AGGRESSIVE_US,
    BBR,
    CE_THRESHOLD,
    DCTCP,
    LOSS_RATIO,
    MODE,
    NOISE,
    OWN,
    PAPER_NOISE,
    RTT_US,
    conditions,
    delayed,
    marked,
    path,
)
from experiments.papers.r_hybrid.peers import TWO_PEERS
from experiments.papers.r_hybrid.series import FIG5
from experiments.papers.r_hybrid.timing import TIMING
from experiments.papers.tables import Table
from experiments.papers.variants import KERNEL, rounds, steered
from experiments.plots import Plot
from experiments.results import Result
from experiments.runs.grid import changed
from experiments.sweep import Grid

LOSS: Final = 0.01
FAR_US: Final = 10_000
"""RTT at which 1 % loss costs CUBIC most of the link [us]."""

ON_PATH: Final = "four streams over 200 Mbit/s, RTT 1 ms, buffer of 100 packets"


# --- Figures 2 and 4: clean, and 1 % loss -------------------------------------------------------------------

VARIANTS: Final[Mapping[str, Mapping[str, Any]]] = {
    KERNEL: steered(KERNEL),
    BBR: steered(BBR),
    OWN: marked(OWN),
}
BY_THRESHOLD: Final[Mapping[str, Mapping[str, Any]]] = {
    STRICT: {**marked(OWN, shared_ecn="loss"), NOISE: PAPER_NOISE}
}
WITH_BBR: Final[Mapping[str, Mapping[str, Any]]] = {f"{OWN}, BBR while shared": marked(OWN, shared="bbr3")}


def losses(
    name: str,
    duration_s: float,
    repeats: int,
    ratios: Sequence[float],
    variants: Mapping[str, Mapping[str, Any]] = VARIANTS,
    rtt_us: int = RTT_US,
) -> Grid:
    """Return runs of Figures 2 and 4."""
    base = changed(path("Figures 2 and 4", duration_s), delayed(rtt_us))
    return Grid(base, {LOSS_RATIO: list(ratios), "variant": variants}, name, repeats)


def _fig2_grids(size: Size) -> list[Grid]:
    seconds, few, lossy = size.seconds(5, 15), size.times(1, 10), [LOSS]
    return [
        losses(size.name, seconds, size.times(6, 10), [0.0, LOSS], {**VARIANTS, **BY_THRESHOLD}),
        losses(f"{size.name}-bbr", seconds, few, lossy, WITH_BBR),
        losses(f"{size.name}-far", seconds, few, lossy, {**VARIANTS, **WITH_BBR}, FAR_US),
    ]


def _fig2_findings(runs: Runs) -> Findings:
    table = runs.table
    values = [
        "goodput_bytes_per_s",
        "retrans_pkts",
        "retrans_pct",
        "dropped_queue_pkts",
        "queueing_delay_p50_us",
        "shared_ratio",
    ]
    return Findings(
        [Table.of(table, "Clean, and with 1 % loss", ["rtt_us", "loss_ratio", "variant"], values)],
        figures_2_and_4(table),
    )


def figures_2_and_4(table: pd.DataFrame) -> dict[str, Plot]:
    """Return the paper's Figures 2 and 4, with the longer RTT if there is one."""
    table = table.sort_values(["rtt_us", "loss_ratio"], kind="stable")
    loss = table["loss_ratio"].map(lambda ratio: f"{100 * ratio:g} % loss" if ratio else "clean")
    far = table["rtt_us"].map(lambda rtt_us: "" if rtt_us == RTT_US else f", RTT {rtt_us / 1000:g} ms")
    named = table.assign(path=loss + far)
    words: dict[str, Any] = {"group": "path", "by": "variant", "subtitle": ON_PATH}
    return {
        "figure-2": plots.bars(named, "goodput_bytes_per_s", title="Throughput resilience", **words),
        "figure-4": plots.bars(named, "retrans_pkts", log=True, title="Retransmission signature", **words),
    }


# --- Figure 2 at a higher rate ------------------------------------------------------------------------------

FAST_BYTES_PER_S: Final = 125e6
FAST_BUFFER_PKTS: Final = 500
"""The link between two hosts of one zone in the authors' script, with the paper's threshold for marks."""


def fast(name: str, duration_s: float, repeats: int) -> Grid:
    """Return Figure 2 at 1 Gbit/s, where 83 packets fill the path. The link does not mark."""
    forward = "topology.forward"
    link: dict[str, Any] = {
        f"{forward}.rate_bytes_per_s": FAST_BYTES_PER_S,
        f"{forward}.buffer.packets": FAST_BUFFER_PKTS,
        "topology.backward.rate_bytes_per_s": FAST_BYTES_PER_S,
        CE_THRESHOLD: None,
        NOISE: PAPER_NOISE,
    }
    variants = {KERNEL: steered(KERNEL), BBR: steered(BBR), OWN: steered(OWN) | {"flows.*.ecn": True}}
    base = changed(path("Figure 2, 1 Gbit/s", duration_s), link)
    return Grid(base, {LOSS_RATIO: [0.0, LOSS], "variant": variants}, name, repeats)


def _fast_grids(size: Size) -> list[Grid]:
    return [fast(size.name, size.seconds(6, 10), size.times(6, 10))]


def _fast_findings(runs: Runs) -> Findings:
    values = ["goodput_bytes_per_s", "retrans_pkts", "rtt_p50_us", "shared_ratio"]
    title = "Clean, and with 1 % loss, over 1 Gbit/s"
    return Findings([Table.of(runs.table, title, ["loss_ratio", "variant"], values)])


# --- Figure 3: aggressive marking ---------------------------------------------------------------------------

BASELINE: Final = "no marking"
AGGRESSIVE: Final = "marking at 0.3 ms"


def _case(variant: str, marking: str, sets: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    threshold_us = {BASELINE: None, AGGRESSIVE: AGGRESSIVE_US}[marking]
    return {f"{variant}{_UNDER}{marking}": {**sets, CE_THRESHOLD: threshold_us}}


_UNDER: Final = " | "
"""Separator of variant and marking in the names of cases."""
CLAIMED: Final[Mapping[str, Mapping[str, Any]]] = {
    **_case(KERNEL, BASELINE, steered(KERNEL)),
    **_case(DCTCP, AGGRESSIVE, marked(DCTCP)),
    **_case(OWN, AGGRESSIVE, marked(OWN)),
    **_case(LITERAL, AGGRESSIVE, marked(OWN, shared_ecn="loss")),
}
"""Cases of the claims."""
CASES: Final[Mapping[str, Mapping[str, Any]]] = {
    **CLAIMED,
    **_case(DCTCP, BASELINE, marked(DCTCP)),
    **_case(OWN, BASELINE, marked(OWN)),
    **_case(f"{OWN}, RFC 8511 alone", AGGRESSIVE, marked(OWN, early_ecn_beta=ECN_BETA)),
    **_case(f"{OWN}, marks with a queue", AGGRESSIVE, marked(OWN, shared_ecn="queue")),
    **_case(f"{OWN}, marks ignored", AGGRESSIVE, marked(OWN, shared_ecn="ignore")),
    **_case(f"{OWN}, BBR while shared", AGGRESSIVE, marked(OWN, shared="bbr3")),
    **_case(OWN_ONLY, AGGRESSIVE, {**marked(OWN), MODE: "own"}),
}
"""The cases of `CLAIMED`, and cases without marking, with other responses to marks, and in the mode `own`."""


def aggressive(name: str, duration_s: float, times: int, times_all: int) -> list[Grid]:
    """Return the rounds of Figure 3, with the paper's threshold for marks."""
    base = changed(path("Figure 3", duration_s), {NOISE: PAPER_NOISE})
    return rounds(
        base, name, times, "case", CASES, of_round=lambda number, case: number < times_all or case in CLAIMED
    )


def _fig3_grids(size: Size) -> list[Grid]:
    return aggressive(size.name, size.seconds(6, 15), size.times(6, 10), size.times(1, 5))


def fig3_row(result: Result) -> dict[str, Any]:
    """Return the conditions and figures of a run of Figure 3."""
    variant, _, marking = str(result.axes["case"]).partition(_UNDER)
    return {"variant": variant, "marking": marking, **conditions(result)}


def _fig3_findings(runs: Runs) -> Findings:
    table = runs.table.sort_values("marking", key=lambda names: names == AGGRESSIVE, kind="stable")
    values = ["goodput_bytes_per_s", "queueing_delay_p50_us", "rtt_p95_us", "marked_ratio", "retrans_pct"]
    return Findings(
        [Table.of(table, "Aggressive marking", ["marking", "variant"], [*values, "shared_ratio"])],
        {"figure-3": figure_3(table), **decisions(runs.results)},
    )


def figure_3(table: pd.DataFrame) -> Plot:
    """Return the paper's figure."""
    return plots.bars(
        table,
        "goodput_bytes_per_s",
        group="marking",
        by="variant",
        title="Goodput under aggressive marking",
        subtitle=ON_PATH,
    )


def decisions(results: Sequence[Result]) -> dict[str, Plot]:
    """Return the receiver's observations and decisions in the first run of R-Hybrid in figure 3."""
    case = f"{OWN}{_UNDER}{AGGRESSIVE}"
    chosen = next((one for one in results if one.axes["case"] == case and len(one.regimes)), None)
    if chosen is None:
        return {}
    return {
        "figure-3-decisions": plots.regime_series(
            chosen.regimes,
            title="The receiver's observations and decisions",
            subtitle="marking at 0.3 ms, R-Hybrid; intervals of 100 ms",
            note=f"one run, seed {chosen.scenario.seed}",
        )
    }


# --- the clean case -----------------------------------------------------------------------------------------

OWNERS: Final[Mapping[str, Mapping[str, Any]]] = {
    DCTCP: marked(DCTCP),
    OWN: marked(OWN),
    OWN_ONLY: {**marked(OWN), NOISE: PAPER_NOISE, MODE: "own"},
    **BY_THRESHOLD,
}


def clean(name: str, duration_s: float, times: int) -> list[Grid]:
    """Return the rounds over the link that marks as DCTCP needs."""
    base = path("clean", duration_s)
    return rounds(base, name, times, "variant", OWNERS)


def _clean_grids(size: Size) -> list[Grid]:
    return clean(size.name, size.seconds(8, 15), size.times(6, 10))


def _clean_findings(runs: Runs) -> Findings:
    table = runs.table.sort_values("variant", key=lambda names: names.map([*OWNERS].index))
    values = ["goodput_bytes_per_s", "queueing_delay_p50_us", "rtt_p95_us", "marked_ratio", "ce_marks_p95"]
    words: dict[str, Any] = {"by": "variant", "subtitle": ON_PATH}
    return Findings(
        [Table.of(table, "Clean, with marks as DCTCP needs them", ["variant"], [*values, "shared_ratio"])],
        {
            f"clean-{name}": plots.bars(table, column, title=f"Clean, marking at 1 ms: {what}", **words)
            for name, column, what in (
                ("goodput", "goodput_bytes_per_s", "goodput"),
                ("delay", "queueing_delay_p50_us", "queueing delay"),
            )
        },
    )


_PARTS: Final = (
    Part("fig2", "Figures 2 and 4: throughput and retransmissions", _fig2_grids, _fig2_findings, conditions),
    Part("fast", "Figure 2 over 1 Gbit/s", _fast_grids, _fast_findings, conditions),
    Part("fig3", "Figure 3: aggressive marking", _fig3_grids, _fig3_findings, fig3_row),
    Part("clean", "R-Hybrid compared with DCTCP, alone on a link", _clean_grids, _clean_findings, conditions),
    FIG5,
    TIMING,
    TWO_PEERS,
    FALSE_SWITCHES,
    NEXT_TO_CUBIC,
)

PAPER: Final = Paper.of(
    "r-hybrid",
    "R-Hybrid: Fast Receiver-Driven Congestion Regime Detection for Adaptive Congestion Control Switching",
    _PARTS,
    CLAIMS,
)
