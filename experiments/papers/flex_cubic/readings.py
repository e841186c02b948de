"""What the paper leaves open, read in all ways: the window while a loss is repaired, "persist", minRTT.

Section 3.3 wants inflation to persist over several feedback cycles before it counts; nothing says what the
window does while the kernel repairs what was spared, nor how old minRTT may be. All combinations run over
the paper's network, also with buffers that the paper does not have.
"""

from __future__ import annotations

from itertools import product
from typing import Any, Final

from ccp_algs.spared_recovery import GROWS, HELD, PRR
from experiments import plots
from experiments.papers.flex_cubic.claims import OURS
from experiments.papers.paper import Findings, Part, Runs, Size
from experiments.papers.tables import Table
from experiments.papers.two_flows import BUFFER_BDP, LOSS_RATIO, OWD, conditions, dumbbell
from experiments.papers.variants import KERNEL, steered
from experiments.sweep import Grid

WINDOWS: Final = {"grows": GROWS, "held": HELD, "PRR": PRR}
PERSISTS: Final = {"at once": 0, "persists": 2}
"""Rounds for which inflation has to last."""
OTHER_MIN_RTT: Final = "minRTT of 5 s"
MIN_RTTS: Final = {"minRTT of all times": 0.0, OTHER_MIN_RTT: 5_000.0}
READINGS: Final = {
    ", ".join(names): {"spared_window": window, "persist_rounds": rounds, "min_rtt_window_ms": min_rtt_ms}
    for names, (window, rounds, min_rtt_ms) in zip(
        product(WINDOWS, PERSISTS, MIN_RTTS),
        product(WINDOWS.values(), PERSISTS.values(), MIN_RTTS.values()),
        strict=True,
    )
}
SHALLOW_BDP: Final = (0.025, 0.05, 0.1, 0.25)
PAPER_BDP: Final = (0.5, 0.75, 1.0)
OWDS_US: Final = (10_000, 25_000, 50_000)
LOSSES: Final = (0.0, 0.005, 0.01, 0.015, 0.02)
_VALUES: Final = ("goodput_bytes_per_s", "retrans_pct", "rtt_p95_us", "jain_index")


def _grids(size: Size) -> list[Grid]:
    variants: dict[str, Any] = {name: steered(OURS, **params) for name, params in READINGS.items()}
    base = dumbbell("flex-cubic: readings", size.seconds(6, 15))
    owds_us, losses = ((25_000,), (0.0, 0.005, 0.02)) if size.quick else (OWDS_US, LOSSES)
    axes: dict[str, Any] = {
        OWD: list(owds_us),
        LOSS_RATIO: list(losses),
        BUFFER_BDP: [*SHALLOW_BDP, *PAPER_BDP],
        "variant": {KERNEL: steered(KERNEL), **variants},
    }
    return [Grid(base, axes, size.name, size.times(1, 10))]


def _findings(runs: Runs) -> Findings:
    table = runs.table
    others = table["variant"].str.endswith(OTHER_MIN_RTT)
    here = table[table["buffer.bdp"].isin([0.05, 0.25, 1.0]) & ~others]
    title = "Readings of the paper: two flows over 100 Mbit/s"
    by = ["loss_ratio", "buffer.bdp", "variant"]
    figure = plots.lines(
        table[table["loss_ratio"] == 0],
        "retrans_pct",
        "buffer.bdp",
        by="variant",
        title=title,
        subtitle="no random loss",
    )
    return Findings(
        [
            Table.of(table, f"{title}, over all buffers and delays", ["loss_ratio", "variant"], _VALUES),
            Table.of(here, title, by, _VALUES),
        ],
        {"readings-retransmitted": figure},
    )


READINGS_PART: Final = Part(
    "readings", "what the paper leaves open, read in all ways", _grids, _findings, conditions
)
