"""Figures of docs/papers/int-adaptive.md."""

from __future__ import annotations

from typing import Final

import numpy as np

from experiments.plots import style
from scripts.figures.drawing import (
    BOUND,
    SIM,
    Figure,
    categories,
    datapaths,
    footnote,
    handle,
    is_stale,
    legend,
    marks,
    note,
    papers_own,
    part,
    rows,
)

NAME: Final = "int-adaptive"
_MBIT: Final = 8e-6
_SIDES: Final = (
    ("kernel CUBIC", "kernel/cubic", style.look("kernel/cubic")),
    ("New L1", "CUBIC New L1", style.look("CUBIC New L1")),
    ("New L2", "CUBIC New L2", style.look("CUBIC New L2")),
)
_LOSSES: Final = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2)


def loss() -> Figure:
    """Draw the paper's Figure 6: throughput by loss, and its ratio to CUBIC's."""
    real, simulated = part(NAME, "fig6"), part(NAME, f"fig6{SIM}")
    ratios: dict[str, float] = {}
    with style.styled():
        plot = style.new_plot(3.0)
        left, right = plot.subplots(1, 2)
        for kept in (real, simulated):
            base = rows(kept, variant="kernel/cubic").set_index("loss_ratio")["goodput_bytes_per_s"]
            for place, (name, variant, look) in enumerate(_SIDES):
                found = rows(kept, variant=variant).sort_values("loss_ratio")
                at = np.array([_LOSSES.index(one) for one in found["loss_ratio"]])
                shift = 0.16 * (place - 1) + 0.07 * (kept is simulated)
                marks(
                    left,
                    at + shift,
                    found,
                    "goodput_bytes_per_s",
                    look,
                    simulated=kept is simulated,
                    scale=_MBIT,
                    line=False,
                )
                if place:
                    by = found["goodput_bytes_per_s"].to_numpy() / base[found["loss_ratio"]].to_numpy()
                    right.plot(
                        at + shift,
                        by,
                        ls="none",
                        marker=look.marker,
                        ms=5,
                        color=look.colour,
                        mfc="white" if kept is simulated else look.colour,
                    )
                    if kept is real:
                        ratios[name] = by[-1]
        papers_own(right, [0, 5], [1.12, 7])
        right.annotate("1.12", (0, 1.12), (6, 3), textcoords="offset points", fontsize=7.5)
        right.annotate("7", (5, 7), (7, -3), textcoords="offset points", fontsize=7.5)
        right.axhline(1, **BOUND)
        right.set_yscale("log")
        right.minorticks_off()
        right.set_yticks([1, 2, 5, 10, 20, 50, 100], ["1", "2", "5", "10", "20", "50", "100"])
        right.set_ylim(0.8, 120)
        right.set_title("ratio of the medians to kernel CUBIC's (log scale)")
        left.set_title("goodput [Mbit/s]")
        left.set_ylim(0, 18)
        for axes in (left, right):
            categories(axes, [f"{100 * one:g}" for one in _LOSSES])
            axes.set_xlabel("loss on the last hop [%]")
        legend(
            plot,
            [
                *(handle(name, look, line=False) for name, _, look in _SIDES),
                *datapaths(paper="the paper's text"),
            ],
        )
        footnote(plot, f"{note(real, simulated)}. Wired bottleneck of 20 Mbit/s")
    low, high = sorted(ratios.values())
    old = "; the result is stale" if is_stale(real) else ""
    return Figure(
        plot,
        "Goodput by loss: New L1 and New L2 keep most of the link at 20 % loss, kernel CUBIC almost none; "
        "without loss all fill the link",
        f"**Figure 6.** At 20 % loss, New L1 and New L2 have {low:.0f} to {high:.0f} times kernel CUBIC's "
        f"goodput on real sockets (the paper: 7{old}). The factor depends on the link's rate, which the "
        "paper does not give.",
    )


def growth() -> Figure:
    """Draw what the paper's Figure 7 shows: when windows fill the path, and whether they then stay."""
    real, simulated = part(NAME, "echo-growth"), part(NAME, f"fig7{SIM}")
    names = ("kernel/cubic", "CUBIC New 1", "CUBIC New 2", "CUBIC New 3")
    panels = (
        ("path_full_s", "time to fill the path [ms]", 1000.0, 400),
        ("cwnd_spread_ratio", "spread of the window [%]", 100.0, 12),
        ("retrans_pkts", "retransmissions [packets]", 1.0, 20),
    )
    look = style.look("kernel/cubic")
    with style.styled():
        plot = style.new_plot(2.7)
        for axes, (column, label, scale, top) in zip(plot.subplots(1, 3), panels, strict=True):
            for kept in (real, simulated):
                found = rows(kept).set_index("variant").loc[list(names)].reset_index()
                at = np.arange(4) - 0.1 + 0.2 * (kept is simulated)
                marks(axes, at, found, column, look, simulated=kept is simulated, scale=scale, line=False)
                axes.axhline(
                    scale * found[column].iloc[0],
                    lw=0.8,
                    color=look.colour,
                    ls="--" if kept is simulated else "-",
                )
            categories(axes, ["CUBIC", "1", "2", "3"])
            axes.set_xlabel("increment")
            axes.set_ylim(0, top)
            axes.set_title(label)
        legend(plot, datapaths())
        footnote(
            plot,
            f"{note(real, simulated)}. Lines: kernel CUBIC. Spread: standard deviation / mean once the path "
            "is full",
        )
    return Figure(
        plot,
        "Time to fill the path, spread of the window, and retransmissions for increments 1 to 3: increment "
        "1 is slower than CUBIC and 3 is faster; spreads equal CUBIC's",
        "**Figure 7**: windows set by telemetry.",
    )


FIGURES: Final = {"int-adaptive-loss": loss, "int-adaptive-growth": growth}
