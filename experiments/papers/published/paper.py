"""Published figures of Linux' CUBIC and BBR, under the conditions that their authors state.

The experiments show whether emulator and simulator reproduce what others have measured.
`docs/papers/published.md` has the results.
"""

from __future__ import annotations

from typing import Any, Final

from experiments import plots
from experiments.metrics import NAN, goodput_bytes_per_s, jain_index, within
from experiments.papers.paper import Findings, Paper, Part, Runs, Size
from experiments.papers.published.claims import BBR, BUFFERS_BDP, CLAIMS, OTHERS, OTHERS_BDP
from experiments.papers.published.formulas import FORMULAS
from experiments.papers.published.network import MTU_BYTES, network
from experiments.papers.tables import Table
from experiments.papers.two_flows import BUFFER_BDP, LOSS_RATIO, PAYLOAD_SHARE
from experiments.papers.variants import KERNEL, steered
from experiments.results import Result
from experiments.runs.shapes import Dumbbell
from experiments.sweep import Grid
from experiments.theory import bbr_share
from experiments.units import MBIT


def _payload_bytes_per_s(result: Result) -> float:
    """Return the payload limit of the bottleneck [bytes/s]."""
    topology = result.scenario.topology
    assert isinstance(topology, Dumbbell)
    return PAYLOAD_SHARE * (topology.bottleneck.rate_bytes_per_s or NAN)


# --- Cardwell et al., Figure 8 -----------------------------------------------------------------------------

LOSSES: Final = (0.0001, 0.001, 0.01, 0.02, 0.05, 0.1, 0.15)
LOSS_BUFFER_BDP: Final = 1.0
"""Buffer that ccplane chose, because the article does not give it."""


def _loss_grids(size: Size) -> list[Grid]:
    base = network("loss", 100, 100_000, LOSS_BUFFER_BDP, [KERNEL], size.seconds(60, 60))
    axes: dict[str, Any] = {
        LOSS_RATIO: list(LOSSES),
        "variant": {name: steered(name) for name in (KERNEL, BBR)},
    }
    return [Grid(base, axes, size.name, size.times(6, 10))]


def _loss_row(result: Result) -> dict[str, Any]:
    loss = result.axes[LOSS_RATIO]
    goodput = goodput_bytes_per_s(result.flow_samples).sum()
    share = goodput / _payload_bytes_per_s(result)
    return {
        "loss_ratio": loss,
        "goodput_bytes_per_s": goodput,
        "share_of_link_ratio": share,
        "share_of_delivered_ratio": share / (1 - loss),
    }


def _loss_findings(runs: Runs) -> Findings:
    title = "One flow over 100 Mbit/s, RTT 100 ms, for 60 s"
    values = ["goodput_bytes_per_s", "share_of_link_ratio", "share_of_delivered_ratio"]
    table = runs.table.sort_values("loss_ratio", kind="stable")
    figure = plots.lines(
        table,
        "goodput_bytes_per_s",
        "loss_ratio",
        by="variant",
        log=True,
        title="Goodput under random loss",
        subtitle=title,
    )
    return Findings([Table.of(table, title, ["loss_ratio", "variant"], values)], {"loss": figure})


# --- Cardwell et al., Figure 7 -----------------------------------------------------------------------------

FLOWS: Final = 5
APART_S: Final = 2.0
CONVERGED_S: Final = 20.0
"""Start of the evaluated time [s]: by then all flows have probed for the RTT."""


def _converge_grids(size: Size) -> list[Grid]:
    base = network("five flows", 100, 10_000, 1.0, [BBR] * FLOWS, size.seconds(40, 60))
    starts = {f"flows.flow{number}.start_s": APART_S * (number - 1) for number in range(1, FLOWS + 1)}
    return [Grid(base, {"part": {"all": starts}}, size.name, size.times(6, 10))]


def _converge_row(result: Result) -> dict[str, Any]:
    goodput = goodput_bytes_per_s(within(result.flow_samples, CONVERGED_S))
    shares = goodput.reindex([flow.name for flow in result.scenario.flows])
    return {
        "jain_index": jain_index(shares),
        "share_of_link_ratio": shares.sum() / _payload_bytes_per_s(result),
    }


def _converge_findings(runs: Runs) -> Findings:
    title = "Five BBR flows, 2 s apart, over 100 Mbit/s, RTT 10 ms"
    figures = {}
    if runs.results:
        first = runs.results[0]
        figures["converge"] = plots.time_series(
            first.flow_samples,
            first.flows,
            panels=("goodput_bytes_per_s",),
            goodput_interval_s=0.5,
            title=title,
            note=f"one run, seed {first.scenario.seed}",
        )
    return Findings([Table.of(runs.table, title, ["part"], ["jain_index", "share_of_link_ratio"])], figures)


# --- Ware et al., Figure 8 ---------------------------------------------------------------------------------

SHARE_MBIT: Final = 10
SHARE_RTT_US: Final = 40_000
SETTLED_AT: Final = 0.5
"""Start of the evaluated time, as a share of the run: with 32 BDP, shares need 300 s to settle."""
QUICK_BDP: Final = (2, 4, 8)
"""Buffers for which 100 s suffice."""


def _share_grids(size: Size) -> list[Grid]:
    seconds, times = size.seconds(240, 800), size.times(6, 10)
    buffers = QUICK_BDP if size.quick else BUFFERS_BDP
    grids = []
    for others in OTHERS:
        base = network("shares", SHARE_MBIT, SHARE_RTT_US, 1.0, [BBR] + [KERNEL] * others, seconds)
        bdps = [float(one) for one in (buffers if others == 1 else (OTHERS_BDP,))]
        name = f"{size.name}-{others}"
        grids.append(Grid(base, {BUFFER_BDP: bdps}, name, times))
    return grids


def _share_row(result: Result) -> dict[str, Any]:
    goodput = goodput_bytes_per_s(within(result.flow_samples, SETTLED_AT * result.scenario.duration_s))
    share = goodput.get("flow1", NAN) / goodput.sum()
    bdp = float(result.axes[BUFFER_BDP])
    bdp_pkts = SHARE_MBIT * MBIT * SHARE_RTT_US / 1e6 / MTU_BYTES
    model = bbr_share(bdp, bdp_pkts, SHARE_RTT_US / 1e6)
    return {
        "buffer.bdp": bdp,
        "others": len(result.scenario.flows) - 1,
        "share_of_link_ratio": share,
        "model_ratio": model,
        "by_model_ratio": share / model,
    }


def _share_findings(runs: Runs) -> Findings:
    title = "One BBR flow competing with CUBIC flows over 10 Mbit/s, RTT 40 ms"
    values = ["share_of_link_ratio", "model_ratio", "by_model_ratio"]
    table = runs.table.sort_values(["others", "buffer.bdp"], kind="stable")
    return Findings([Table.of(table, title, ["others", "buffer.bdp"], values)])


_PARTS: Final = (
    FORMULAS,
    Part("loss", "Cardwell et al., Figure 8: random loss", _loss_grids, _loss_findings, _loss_row),
    Part(
        "converge",
        "Cardwell et al., Figure 7: five BBR flows",
        _converge_grids,
        _converge_findings,
        _converge_row,
    ),
    Part(
        "share", "Ware et al., Figure 8: BBR competing with CUBIC", _share_grids, _share_findings, _share_row
    ),
)

PAPER: Final = Paper.of("published", "Published figures of Linux' CUBIC and BBR", _PARTS, CLAIMS)
