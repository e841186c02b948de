"""Figures of docs/papers/r-hybrid.md."""

from __future__ import annotations

from typing import Final

import pandas as pd
from matplotlib.patches import Patch

from experiments.papers.r_hybrid.series import BASELINE_MS, decided, figure_5
from experiments.plots import style
from scripts.figures.drawing import (
    BOUND,
    SIM,
    Figure,
    categories,
    datapaths,
    footnote,
    handle,
    legend,
    marks,
    note,
    papers_own,
    part,
    rows,
)
from telemetry.regime import SHARED, DetectorOptions

NAME: Final = "r-hybrid"
_MBIT: Final = 8e-6
_LINK_MBIT: Final = 193.1
"""Payload of the link of 200 Mbit/s."""
_CUBIC, _BBR = style.look("kernel/cubic"), style.look("kernel/bbr")
_HYBRID, _DCTCP = style.Look("#CC3311", "h"), style.look("kernel/dctcp")
_PAPERS_LINK_GBIT: Final = 4.65


def throughput() -> Figure:
    """Draw the paper's Figures 2 and 3 as shares of a baseline."""
    clean, real, simulated = part(NAME, f"fig2{SIM}"), part(NAME, "fig3"), part(NAME, f"fig3{SIM}")
    fig2 = (("CUBIC", "kernel/cubic", _CUBIC), ("BBR", "kernel/bbr", _BBR), ("R-Hybrid", "r_hybrid", _HYBRID))
    with style.styled():
        plot = style.new_plot(3.1)
        panels = plot.subplots(1, 3, sharey=True, width_ratios=(3, 3, 4))
        for axes, loss, title in zip(
            panels, (0.0, 0.01), ("Figure 2: clean", "Figure 2: 1 % loss"), strict=False
        ):
            base = rows(clean, rtt_us=1000, loss_ratio=0.0, variant="kernel/cubic")[
                "goodput_bytes_per_s"
            ].iloc[0]
            for place, (_, variant, look) in enumerate(fig2):
                found = rows(clean, rtt_us=1000, loss_ratio=loss, variant=variant)
                marks(
                    axes,
                    [place + 0.1],
                    found,
                    "goodput_bytes_per_s",
                    look,
                    simulated=True,
                    scale=100 / base,
                    line=False,
                )
            categories(axes, [name for name, *_ in fig2])
            axes.set_title(title)
        papers_own(
            panels[1], [0.25, 1.25, 2.25], [100 * one / _PAPERS_LINK_GBIT for one in (4.64, 4.59, 4.62)]
        )
        fig3 = (
            ("baseline", "kernel/cubic", "no marking", _CUBIC),
            ("DCTCP", "dctcp", "marking at 0.3 ms", _DCTCP),
            ("R-Hybrid", "r_hybrid", "marking at 0.3 ms", _HYBRID),
        )
        for kept in (real, simulated):
            base = rows(kept, marking="no marking", variant="kernel/cubic")["goodput_bytes_per_s"].iloc[0]
            for place, (_, variant, marking, look) in enumerate(fig3):
                found = rows(kept, marking=marking, variant=variant)
                marks(
                    panels[2],
                    [place - 0.1 + 0.2 * (kept is simulated)],
                    found,
                    "goodput_bytes_per_s",
                    look,
                    simulated=kept is simulated,
                    scale=100 / base,
                    line=False,
                )
        papers_own(
            panels[2], [0.25, 1.25, 2.25], [100 * one / _PAPERS_LINK_GBIT for one in (4.65, 4.12, 4.61)]
        )
        categories(panels[2], [name for name, *_ in fig3])
        panels[2].set_title("Figure 3: marks come too early")
        panels[0].set_ylim(0, 110)
        panels[0].set_ylabel("goodput [% of CUBIC's, clean]")
        legend(plot, datapaths(paper="the paper (of 4.65 Gbit/s)"))
        footnote(
            plot, f"{note(real, clean)}. Four streams over 200 Mbit/s, RTT 1 ms; the paper: AWS, 4.65 Gbit/s"
        )
    return Figure(
        plot,
        "Goodput as a share of the baseline: all are near 100 % without and with 1 % loss; with early "
        "marks DCTCP falls to 92 % on real sockets and 94 % simulated, R-Hybrid with ccplane's response to "
        "98 and 100 %",
        "**Figures 2 and 3.**",
    )


def retransmissions() -> Figure:
    """Draw the paper's Figure 4, as shares of sent packets."""
    kept = part(NAME, f"fig2{SIM}")
    sides = (("BBR", "kernel/bbr", _BBR), ("R-Hybrid", "r_hybrid", _HYBRID))
    paper = {("BBR", 0): 944_524, ("R-Hybrid", 0): 37_374, ("BBR", 1): 970_507, ("R-Hybrid", 1): 1_029_070}
    with style.styled():
        plot = style.new_plot(2.7)
        left, right = plot.subplots(1, 2)
        for place, (name, variant, look) in enumerate(sides):
            for number, loss in enumerate((0.0, 0.01)):
                found = rows(kept, rtt_us=1000, loss_ratio=loss, variant=variant)
                at = number + 0.3 * (place - 0.5)
                count = paper[name, number] / 1000
                left.bar(at, count, 0.26, color=look.colour, alpha=0.55)
                left.text(at, count + 15, f"{count:.0f}", ha="center", fontsize=7.5)
                marks(right, [at], found, "retrans_pkts", look, simulated=True, scale=1e-3, line=False)
                count = 1e-3 * found["retrans_pkts"].iloc[0]
                right.bar(at, count, 0.26, facecolor="white", edgecolor=look.colour)
                right.text(at, count + 1.7, f"{count:.1f}", ha="center", fontsize=7.5)
        for axes, title, top in (
            (left, "the paper [thousands]", 1200),
            (right, "ccplane, simulated [thousands]", 50),
        ):
            categories(axes, ["clean", "1 % loss"])
            axes.set_title(title)
            axes.set_ylim(0, top)
        plot.legend(
            handles=[Patch(color=look.colour, label=name) for name, _, look in sides],
            loc="outside upper left",
            ncols=2,
        )
        footnote(
            plot,
            f"Retransmissions per run; linear scale, the paper's is logarithmic. {note(kept)}. 200 Mbit/s",
        )
    return Figure(
        plot,
        "Retransmissions: in the paper BBR and R-Hybrid have a million each with 1 % loss; simulated, BBR "
        "has 40,000 with and without loss, R-Hybrid a few thousand with loss and none without",
        "**Figure 4.** The paper mentions no loss that explains BBR's retransmissions, a quarter of its "
        "packets; simulated, it is 14 %.",
    )


def decisions() -> Figure:
    """Draw the paper's Figure 5: the detector on a synthetic series."""
    options = DetectorOptions(baseline_ms=BASELINE_MS)
    table: pd.DataFrame = decided(figure_5(), options)
    changes = rows(part(NAME, "fig5"))
    with style.styled():
        plot = style.new_plot(3.3)
        top, middle, bottom = plot.subplots(3, 1, sharex=True, height_ratios=(2, 1.5, 1.2))
        top.step(table["t_s"], table["rtt_tail_ms"], color=_CUBIC.colour, where="mid")
        top.axhline(BASELINE_MS + options.delta_ms, **BOUND)
        top.text(2, BASELINE_MS + options.delta_ms + 0.3, "threshold", fontsize=7.5, color=style.FAINT)
        top.set_ylim(0, 15)
        top.set_ylabel("RTT\n[ms]")
        middle.bar(table["t_s"], table["retransmits"], 3.4, color=_DCTCP.colour)
        middle.set_ylabel("retransmitted\nper 5 s")
        middle.set_ylim(0, 5)
        shared = (table["regime"] == SHARED).astype(int)
        bottom.step(table["t_s"], shared, where="post", color=_HYBRID.colour)
        bottom.set_yticks([0, 1], ["SINGLE_OWNER", "SHARED"])
        bottom.set_ylim(-0.3, 1.5)
        known = changes.dropna(subset=["paper_s"])
        papers_own(bottom, known["paper_s"].tolist(), [1] * len(known))
        bottom.set_xlabel("time [s]")
        bottom.set_xlim(0, 300)
        legend(
            plot,
            [
                handle("decision (computed)", style.Look(_HYBRID.colour, "")),
                *datapaths(paper="changes in the paper", real=False, simulated=False),
            ],
        )
        footnote(
            plot,
            f"Computed, without a network. Intervals of 5 s, N = {options.window}, M = "
            f"{options.persistence}, cooldown {options.cooldown_s:g} s",
        )
    return Figure(
        plot,
        "RTT, retransmissions and the detector's decision over 300 s: SHARED from 70 to 170 s and from 220 "
        "to 265 s",
        "**Figure 5.**",
    )


FIGURES: Final = {
    "r-hybrid-throughput": throughput,
    "r-hybrid-retransmissions": retransmissions,
    "r-hybrid-decisions": decisions,
}
