"""Figures of docs/papers/hyvar.md."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from experiments.papers.kept import Kept
from experiments.plots import style
from scripts.figures.drawing import (
    SIM,
    Figure,
    categories,
    cross,
    datapaths,
    footnote,
    handle,
    legend,
    marks,
    note,
    part,
    rows,
)

NAME: Final = "hyvar"
_MBIT: Final = 8e-6
_HYVAR, _FIXED, _ALONE = style.look("reno"), style.look("flex_cubic"), style.look("kernel/dctcp")
_CUBIC, _BBR = style.look("kernel/cubic"), style.look("kernel/bbr")
_MTPS_MS: Final = (10.0, 20.0, 50.0, 100.0, 200.0)


def _both(name: str) -> tuple[Kept, Kept]:
    return part(NAME, name), part(NAME, f"{name}{SIM}")


def mtp() -> Figure:
    """Draw the slides' three plots on the MTP: throughput, delay and CPU time by the initial MTP."""
    real, simulated = _both("mtp")
    panels: tuple[tuple[str, str, float, float], ...] = (
        ("throughput_bytes_per_s", "throughput [Mbit/s]", _MBIT, 50),
        ("delay_us", "delay [ms]", 1e-3, 60),
        ("agent_cpu_pct", "agent's CPU time [% of a CPU]", 1, 9),
    )
    with style.styled():
        plot = style.new_plot(2.8)
        for axes, (column, label, scale, top) in zip(plot.subplots(1, 3), panels, strict=True):
            for kept in (real, simulated):
                is_simulated = kept is simulated
                if is_simulated and column == "agent_cpu_pct":
                    continue
                for side, (algorithm, look) in enumerate((("hybrid_mtp", _FIXED), ("hyvar", _HYVAR))):
                    found = rows(kept, algorithm=algorithm).sort_values("mtp_ms")
                    at = [
                        _MTPS_MS.index(one) + 0.16 * (side - 0.5) + 0.08 * is_simulated
                        for one in found["mtp_ms"]
                    ]
                    marks(axes, at, found, column, look, simulated=is_simulated, scale=scale)
            categories(axes, [f"{one:g}" for one in _MTPS_MS])
            axes.set_ylim(0, top)
            axes.set_title(label)
            axes.set_xlabel("initial MTP [ms]")
        legend(
            plot,
            [
                handle("fixed MTP", _FIXED),
                handle("Hyvar", _HYVAR),
                *datapaths(),
            ],
        )
        footnote(
            plot, f"{note(real, simulated)}. 48 Mbit/s, 30 ms, buffer 1 BDP; the slides print no numbers"
        )
    cpu = real.tables[0].rows.set_index(["algorithm", "mtp_ms"])["agent_cpu_pct"]
    return Figure(
        plot,
        "Throughput, delay and CPU time by initial MTP: Hyvar's lines are flat; with a fixed MTP, CPU time "
        "falls from 10 to 200 ms",
        f"**MTP insensitivity.** From 10 ms on, Hyvar's agent needs {cpu['hyvar', 10.0]:.1f} % of a CPU "
        f"instead of {cpu['hybrid_mtp', 10.0]:.1f} %; an idle agent needs {cpu['idle'].iloc[0]:.1f} %.",
    )


def paths() -> Figure:
    """Draw the slides' four plots of throughput by delay, relative to each competitor."""
    real, simulated = _both("paths")
    sides = (
        ("kernel CUBIC", "kernel/cubic", _CUBIC),
        ("kernel BBR", "kernel/bbr", _BBR),
        ("fixed MTP", "hybrid_mtp", _FIXED),
        ("policy alone", "policy", _ALONE),
    )
    with style.styled():
        plot = style.new_plot(3.0)
        panels = plot.subplots(1, 4, sharex=True, sharey=True)
        for axes, path in zip(panels, ("wired-1", "wired-2", "cellular-1", "cellular-2"), strict=True):
            axes.axhspan(1, 2, xmax=math.log(10) / math.log(15), color="#E8F1E4", lw=0, zorder=0)
            axes.axhline(1, color=style.FAINT, lw=0.9, zorder=1)
            axes.axvline(1, color=style.FAINT, lw=0.9, zorder=1)
            for kept in (real, simulated):
                found = {one.name: one.found for one in kept.checks}
                for _, algorithm, look in sides:
                    cross(
                        axes,
                        found[f"delay, {path}, {algorithm}"],
                        found[f"throughput, {path}, {algorithm}"],
                        look,
                        simulated=kept is simulated,
                    )
            axes.set_title(path)
            axes.set_xscale("log")
            axes.minorticks_off()
            axes.set_xticks([0.1, 0.2, 0.5, 1], ["0.1", "0.2", "0.5", "1"])
            axes.set_xlim(0.1, 1.5)
            axes.set_ylim(0.65, 1.3)
            axes.set_xlabel("delay ratio")
        panels[0].set_ylabel("throughput ratio")
        legend(plot, [*(handle(name, look, line=False) for name, _, look in sides), *datapaths()])
        footnote(
            plot,
            "Hyvar's value / the competitor's; shaded: more throughput and less delay, as claimed. "
            f"{note(real, simulated)}",
        )
    return Figure(
        plot,
        "Hyvar's throughput and delay relative to four competitors on four paths: delays are much shorter "
        "than those of kernel CUBIC, and a few per cent off those of the learned competitors; throughputs "
        "differ by a few per cent",
        "**The slides' four paths**, relative to each competitor.",
    )


def sharing() -> Figure:
    """Draw the share of a flow that starts after one of kernel CUBIC, by buffer."""
    real, simulated = _both("sharing")
    sides = (
        ("Hyvar", "hyvar", _HYVAR),
        ("Hyvar as in the slides", "hyvar, as the slides", _ALONE),
        ("a second kernel CUBIC", "kernel/cubic", _CUBIC),
    )
    with style.styled():
        plot = style.new_plot(2.8)
        axes = plot.subplots()
        axes.axhspan(70, 130, color="#F2F2F2", lw=0, zorder=0)
        axes.axhline(100, color=style.FAINT, lw=0.9, zorder=1)
        for kept in (real, simulated):
            for place, (_, variant, look) in enumerate(sides):
                found = rows(kept, 1, variant=variant).sort_values("buffer_bdp")
                at = np.arange(len(found)) + 0.16 * (place - 1) - 0.06 * (kept is real)
                if len(found):
                    marks(
                        axes,
                        at,
                        found,
                        "share_of_fair_ratio",
                        look,
                        simulated=kept is simulated,
                        scale=100,
                        line=False,
                    )
        categories(
            axes, [f"{one:g}" for one in found["buffer_bdp"]] if len(found) else ["0.5", "1", "2", "4"]
        )
        axes.set_ylim(0, 200)
        axes.set_xlabel("buffer [BDP]")
        axes.set_ylabel("goodput [% of a fair share]")
        legend(plot, [*(handle(name, look, line=False) for name, _, look in sides), *datapaths()])
        footnote(
            plot, f"{note(real, simulated)}. Shaded: 70 to 130 %; the flow starts 5 s after kernel CUBIC"
        )
    return Figure(
        plot,
        "Share of a flow next to kernel CUBIC: Hyvar is near its fair share in buffers of 0.5 to 4 BDP; as "
        "in the slides, about half of it",
        "**Not in the slides: sharing** with kernel CUBIC. CUBIC next to CUBIC shows how far shares vary "
        "at random.",
    )


FIGURES: Final = {"hyvar-mtp": mtp, "hyvar-paths": paths, "hyvar-sharing": sharing}
