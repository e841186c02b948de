"""Figures of docs/papers/published.md."""

from __future__ import annotations

from typing import Final

import numpy as np

from experiments.plots import style
from scripts.figures.drawing import (
    BOUND,
    SIM,
    Figure,
    datapaths,
    footnote,
    handle,
    legend,
    marks,
    note,
    part,
    rows,
)

NAME: Final = "published"
_MBIT: Final = 8e-6
_CUBIC, _BBR, _RENO = style.look("kernel/cubic"), style.look("kernel/bbr"), style.look("kernel/reno")
_LINK_MBIT: Final = 96.53
"""Payload of 100 Mbit/s: 1448 of 1500 bytes."""


def loss() -> Figure:
    """Draw Cardwell et al.'s Figure 8: throughput by loss."""
    real, simulated = part(NAME, "loss"), part(NAME, f"loss{SIM}")
    with style.styled():
        plot = style.new_plot(3.0)
        axes = plot.subplots()
        for kept in (real, simulated):
            for algorithm, look in (("kernel/cubic", _CUBIC), ("kernel/bbr", _BBR)):
                found = rows(kept, variant=algorithm).sort_values("loss_ratio")
                at = 100 * found["loss_ratio"].to_numpy() * (1.05 if kept is simulated else 0.95)
                marks(
                    axes,
                    at,
                    found,
                    "goodput_bytes_per_s",
                    look,
                    simulated=kept is simulated,
                    scale=_MBIT,
                )
        lost = np.geomspace(0.01, 15, 60)
        axes.plot(lost, _LINK_MBIT * (1 - lost / 100), **BOUND)
        axes.text(0.011, 98.5, "what the link delivers", fontsize=7.5, color=style.FAINT)
        axes.set_xscale("log")
        axes.minorticks_off()
        axes.set_xticks([0.01, 0.1, 1, 2, 5, 15], ["0.01", "0.1", "1", "2", "5", "15"])
        axes.set_ylim(0, 110)
        axes.set_xlabel("random loss [%]")
        axes.set_ylabel("goodput [Mbit/s]")
        legend(plot, [handle("kernel CUBIC", _CUBIC), handle("kernel BBR", _BBR), *datapaths()])
        footnote(
            plot, note(real, simulated) + ". 60 s over 100 Mbit/s, RTT 100 ms; the article prints no numbers"
        )
    return Figure(
        plot,
        "Goodput by random loss: kernel CUBIC falls to a tenth at 0.1 % loss; kernel BBR stays close to "
        "the link up to 1 %, and falls below it from 2 % on",
        "**Cardwell et al., Figure 8.**",
    )


def share() -> Figure:
    """Draw Ware et al.'s Figure 8: BBR's share next to CUBIC, by buffer, with the model."""
    kept = part(NAME, f"share{SIM}")
    found = rows(kept, others=1).sort_values("buffer.bdp")
    with style.styled():
        plot = style.new_plot(2.7)
        axes = plot.subplots()
        marks(
            axes,
            found["buffer.bdp"].to_numpy(),
            found,
            "share_of_link_ratio",
            _BBR,
            simulated=True,
            scale=100,
        )
        axes.plot(
            found["buffer.bdp"], 100 * found["model_ratio"], color="black", marker="x", ms=6, mew=1.6, lw=1
        )
        axes.set_xscale("log", base=2)
        axes.set_xticks([2, 4, 8, 16, 32], ["2", "4", "8", "16", "32"])
        axes.set_ylim(0, 100)
        axes.set_xlabel("buffer [BDP]")
        axes.set_ylabel("BBR's share of the link [%]")
        model = handle("the paper's model", style.Look("black", "x"))
        model.set(markeredgecolor="black", markeredgewidth=1.6)
        legend(plot, [model, handle("kernel BBR (simulated)", _BBR, simulated=True)])
        footnote(plot, note(kept) + ". One BBR and one CUBIC flow over 10 Mbit/s, RTT 40 ms")
    return Figure(
        plot,
        "BBR's share of the link by buffer: it falls with the buffer like the model, and stays below the "
        "model",
        "**Ware et al., Figure 8.**",
    )


def formulas() -> Figure:
    """Draw goodput relative to three formulas, by loss."""
    kept = part(NAME, f"formulas{SIM}")
    sides = (
        ("Reno / Mathis et al.", "kernel/reno", "by_mathis_ratio", _RENO),
        ("Reno / Padhye et al.", "kernel/reno", "by_padhye_ratio", style.look("reno")),
        ("CUBIC / RFC 9438", "kernel/cubic", "by_rfc9438_ratio", _CUBIC),
    )
    with style.styled():
        plot = style.new_plot(2.7)
        axes = plot.subplots()
        axes.axhspan(0.85, 1.15, color="#F2F2F2", lw=0, zorder=0)
        axes.axhline(1, color=style.FAINT, lw=0.9, zorder=1)
        for place, (_, algorithm, column, look) in enumerate(sides):
            found = rows(kept, variant=algorithm).sort_values("loss_ratio")
            at = 100 * found["loss_ratio"].to_numpy() * (1 + 0.04 * (place - 1))
            marks(axes, at, found, column, look, simulated=True)
        axes.set_xscale("log")
        axes.minorticks_off()
        axes.set_xticks([0.1, 0.5, 1, 2, 5], ["0.1", "0.5", "1", "2", "5"])
        axes.set_ylim(0, 1.5)
        axes.set_xlabel("random loss [%]")
        axes.set_ylabel("goodput / formula")
        legend(plot, [handle(f"{name} (simulated)", look, simulated=True) for name, _, _, look in sides])
        footnote(plot, note(kept) + ". Shaded: within 15 %. 100 Mbit/s, RTT 50 ms")
    return Figure(
        plot,
        "Goodput relative to formulas by loss: within 15 % at small losses; above Padhye's formula at 5 %, "
        "below the other two",
        "**Formulas** against the simulated kernel.",
    )


FIGURES: Final = {"published-loss": loss, "published-share": share, "published-formulas": formulas}
