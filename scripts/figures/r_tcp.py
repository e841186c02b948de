"""Figures of docs/papers/r-tcp.md."""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd

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

NAME: Final = "r-tcp"
_CCAS: Final = (
    ("CUBIC", "kernel/cubic", "rtcp/cubic", style.look("kernel/cubic")),
    ("BBRv1", "kernel/bbr", "rtcp/bbr", style.look("kernel/bbr")),
    ("BBRv3", "bbr3", "r_tcp_bbr3", style.look("reno")),
)
_AVOIDED: Final = (57, 80, 76)
"""Retransmissions that R-TCP avoids [%], section 6.1."""
_OPERATORS: Final = ("op1", "op2", "op3")


def downloads() -> Figure:
    """Draw the paper's Figure 6 for 32 MB, and the share of retransmissions that R-TCP avoids."""
    real, simulated = (part(NAME, f"download-32mb{end}") for end in ("", SIM))
    with style.styled():
        plot = style.new_plot(3.1)
        panels = plot.subplots(1, 4, width_ratios=(1, 1, 1, 1.1))
        for axes, operator in zip(panels, _OPERATORS, strict=False):
            for kept in (real, simulated):
                for place, (_, without, under, look) in enumerate(_CCAS):
                    for side, algorithm in enumerate((without, under)):
                        found = rows(kept, operator=operator, algorithm=algorithm)
                        marks(
                            axes,
                            [side + 0.2 * (place - 1) + 0.07 * (kept is simulated)],
                            found,
                            "retrans_pct",
                            look,
                            simulated=kept is simulated,
                            line=False,
                        )
            categories(axes, ["without", "R-TCP"])
            axes.set_ylim(0, 35)
            axes.set_title(f"operator {operator[-1]}")
        panels[0].set_ylabel("retransmitted [% of sent bytes]")
        last = panels[3]
        for place, (_, without, _, look) in enumerate(_CCAS):
            for kept in (real, simulated):
                avoided = next(one.found for one in kept.checks if one.name == f"fewer, {without}")
                at = place - 0.1 + 0.2 * (kept is simulated)
                last.errorbar(
                    [at],
                    [100 * avoided.value],
                    yerr=[[100 * (avoided.value - avoided.low)], [100 * (avoided.high - avoided.value)]],
                    color=look.colour,
                    marker=look.marker,
                    ms=5,
                    mfc="white" if kept is simulated else look.colour,
                    elinewidth=1.1,
                )
        papers_own(last, range(3), _AVOIDED)
        categories(last, [name for name, *_ in _CCAS])
        last.set_ylim(0, 100)
        last.set_title("avoided [%]")
        legend(
            plot,
            [*(handle(name, look, line=False) for name, _, _, look in _CCAS), *datapaths(paper="the paper")],
        )
        footnote(plot, f"{note(real, simulated)}. 32 MB per download; avoided: mean of the three operators")
    avoided = {
        one.name.removeprefix("fewer, "): 100 * one.found.value
        for one in real.checks
        if one.name.startswith("fewer, ")
    }
    said = ", ".join(
        f"{avoided[without]:.0f} % ({name}; the paper {paper} %)"
        for (name, without, _, _), paper in zip(_CCAS, _AVOIDED, strict=True)
    )
    old = " (some results are stale)" if is_stale(real) else ""
    return Figure(
        plot,
        "Retransmitted share of 32 MB without and with R-TCP over three operators, and the avoided share "
        "next to the paper's: about 80 % for all three congestion controls",
        f"**Figure 6, 32 MB.** On real sockets R-TCP avoids {said} of the retransmissions{old}.",
    )


def sizes() -> Figure:
    """Draw the paper's Figure 2: retransmissions by file size over operator 1."""
    simulated, real = part(NAME, f"download{SIM}"), part(NAME, "download-32mb")
    whole = part(NAME, f"download-32mb{SIM}")
    sizes_mb = (0.5, 1, 2, 4, 8, 16, 32)
    with style.styled():
        plot = style.new_plot(2.9)
        panels = plot.subplots(1, 2, sharey=True)
        for side, axes in enumerate(panels):
            for _, *algorithms, look in _CCAS:
                for parts in ((simulated, whole), (real,)):
                    found = pd.concat(
                        rows(kept, operator="op1", algorithm=algorithms[side]).sort_values("size_bytes")
                        for kept in parts
                    )
                    at = [sizes_mb.index(one / 1e6) + 0.2 * (parts[0] is real) for one in found["size_bytes"]]
                    marks(axes, at, found, "retrans_pct", look, simulated=parts[0] is not real)
            categories(axes, [f"{one:g}" for one in sizes_mb])
            axes.set_xlabel("file [MB]")
            axes.set_title("with R-TCP (Figure 6)" if side else "without R-TCP (Figure 2)")
        papers_own(panels[0], [1, 1], [15, 50])
        panels[0].annotate("CUBIC", (1, 15), (6, -9), textcoords="offset points", fontsize=7)
        panels[0].annotate("BBRv3: over 50", (1, 50), (6, -9), textcoords="offset points", fontsize=7)
        panels[0].set_ylim(0, 60)
        panels[0].set_ylabel("retransmitted [% of sent bytes]")
        legend(
            plot,
            [*(handle(name, look) for name, _, _, look in _CCAS), *datapaths(paper="the paper's text")],
        )
        footnote(plot, f"{note(real, simulated)}. Operator 1: 2 Mbit/s, bucket of 733 KB, RTT 36 ms")
    return Figure(
        plot,
        "Retransmitted share by file size over operator 1: none at 0.5 MB, most at 1 and 2 MB, then "
        "falling; with R-TCP it falls faster",
        "**Figures 2 and 6, operator 1.** When the bucket runs dry, a burst is lost, which no detector "
        "avoids on a first connection.",
    )


def limits() -> Figure:
    """Draw the paper's Figure 19: limits found, by bucket and rate."""
    kept = part(NAME, f"grid{SIM}")
    sides = (("CUBIC, capped", "R-TCP CUBIC"), ("BBRv1, capped", "R-TCP BBRv1"))
    with style.styled():
        plot = style.new_plot(3.2)
        panels = plot.subplots(1, 2, sharey=True)
        for axes, (variant, title) in zip(panels, sides, strict=True):
            found = rows(kept, variant=variant)
            grid = found.pivot(index="rate_bytes_per_s", columns="bucket_bytes", values="wrong_ratio")
            errors = found.pivot(index="rate_bytes_per_s", columns="bucket_bytes", values="rate_error_ratio")
            axes.imshow(grid.to_numpy(), cmap="Greys", vmin=0, vmax=3, origin="lower", aspect="auto")
            for y in range(grid.shape[0]):
                for x in range(grid.shape[1]):
                    missed, error = grid.iloc[y, x], 100 * errors.iloc[y, x]
                    text = "missed" if missed > 0.5 else f"{error:.1f}"
                    axes.text(x, y, text, ha="center", va="center", fontsize=6)
            axes.set_xticks(range(grid.shape[1]), [f"{one / 1000:g}" for one in grid.columns])
            axes.set_yticks(range(grid.shape[0]), [f"{8e-6 * one:g}" for one in grid.index])
            axes.axvline(np.searchsorted(grid.columns, 260_000) - 0.5, **{**BOUND, "zorder": 3})
            axes.axhline(np.searchsorted(grid.index, 750_000) + 0.5, **{**BOUND, "zorder": 3})
            axes.grid(visible=False)
            axes.tick_params(length=0)
            axes.set_title(title)
            axes.set_xlabel("bucket [KB]")
        panels[0].set_ylabel("rate limit [Mbit/s]")
        footnote(
            plot,
            "Cells: error of the estimated rate [%]; grey: share of missed limits. Dashed: the range that "
            f"the paper claims (from 260 KB, up to 6 Mbit/s). {note(kept)}",
        )
    return Figure(
        plot,
        "Grid of bucket sizes and rates: limits are missed only with small buckets and high rates, as in "
        "the paper; elsewhere the rate's error is below one per cent",
        "**Figure 19**: limits found.",
    )


def harder() -> str:
    """Return a table of the detector's errors where limiters are not exact, or where there are none."""
    kept = part(NAME, f"harder{SIM}")
    checks = {one.name: one.found for one in kept.checks if one.known}
    lines = ["| condition | transfers | wrong verdicts in % | error of R in % |", "| --- | --- | --- | --- |"]
    for name, wrong in checks.items():
        what, _, condition = name.partition(", ")
        if what not in ("missed", "false"):
            continue
        error = checks.get(f"rate error, {condition}")
        shares = " ".join((f"{100 * wrong.value:.1f}", f"[{100 * wrong.low:.1f}, {100 * wrong.high:.1f}]"))
        errors = "" if error is None else f"{100 * error.value:.1f}"
        lines.append(f"| {condition} | {wrong.n} | {shares} | {errors} |")
    return "\n".join(lines)


FIGURES: Final = {"r-tcp-downloads": downloads, "r-tcp-sizes": sizes, "r-tcp-limits": limits}
