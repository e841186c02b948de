"""Figures of docs/papers/flex-cubic.md."""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd

from experiments.plots import style
from scripts.figures.drawing import (
    BOUND,
    Figure,
    categories,
    datapaths,
    footnote,
    handle,
    legend,
    marks,
    note,
    part,
    rows,
)

NAME: Final = "flex-cubic"
_MBIT: Final = 8e-6
_CUBIC, _FLEX = style.look("kernel/cubic"), style.look("flex_cubic")
_BOUNDED: Final = style.Look("#009E73", "v")


def throughput() -> Figure:
    """Draw the paper's Figure 5: throughput by loss, for each delay, in two buffers."""
    real, kept = part(NAME, "grid"), part(NAME, "grid-sim")
    with style.styled():
        plot = style.new_plot(4.3)
        panels = plot.subplots(2, 3, sharex=True, sharey=True)
        for across, owd_us in enumerate((10_000, 25_000, 50_000)):
            for down, buffer in enumerate((1.0, 0.25)):
                axes = panels[down][across]
                for side, (algorithm, look) in enumerate((("kernel/cubic", _CUBIC), ("flex_cubic", _FLEX))):
                    found, on_sockets = (
                        rows(
                            one,
                            owd_us=owd_us,
                            buffer__bdp=buffer,
                            algorithm=algorithm,
                            beta=0.7,
                            queue_fraction=0.0,
                        ).sort_values("loss_ratio")
                        for one in (kept, real)
                    )
                    at = np.arange(len(found)) + (side - 0.5) * 0.4
                    marks(
                        axes,
                        at[_places(on_sockets, found, "loss_ratio")],
                        on_sockets,
                        "throughput_bytes_per_s",
                        look,
                        simulated=False,
                        scale=_MBIT,
                        line=False,
                    )
                    middle = _MBIT * found["throughput_bytes_per_s"].to_numpy()
                    axes.bar(at, middle, 0.38, facecolor="white", edgecolor=look.colour, lw=1.2)
                    marks(
                        axes,
                        at,
                        found,
                        "throughput_bytes_per_s",
                        look,
                        simulated=True,
                        scale=_MBIT,
                        line=False,
                    )
                categories(axes, [f"{100 * one:g}" for one in found["loss_ratio"]])
                axes.set_ylim(0, 105)
                axes.set_title(f"delay {owd_us / 1000:g} ms, buffer {100 * buffer:g} % BDP")
        for axes in panels[1]:
            axes.set_xlabel("random loss [%]")
        for axes in panels[:, 0]:
            axes.set_ylabel("throughput [Mbit/s]")
        legend(
            plot,
            [
                handle("kernel CUBIC", _CUBIC, line=False),
                handle("Flex-Cubic, k = 2", _FLEX, line=False),
                *datapaths(),
            ],
        )
        footnote(
            plot,
            note(real, kept) + ". Two flows of one algorithm over 100 Mbit/s; the paper prints no numbers",
        )
    deep, shallow = (
        _ratio(rows(real, owd_us=25_000, buffer__bdp=buffer, loss_ratio=0.005, beta=0.7, queue_fraction=0.0))
        for buffer in (1.0, 0.25)
    )
    return Figure(
        plot,
        "Bars of throughput by random loss: Flex-Cubic keeps 73 to 96 Mbit/s in both buffers; kernel CUBIC "
        "falls below 20 Mbit/s at 0.5 % loss",
        f"**Figure 5**, beta 0.7. At 25 ms and 0.5 % loss, Flex-Cubic has {deep:.0f} times kernel CUBIC's "
        f"throughput with one BDP of buffer, {shallow:.0f} times with a quarter (real sockets).",
    )


def _ratio(found) -> float:
    by = found.set_index("algorithm")["throughput_bytes_per_s"]
    return float(by["flex_cubic"] / by["kernel/cubic"])


def cost() -> Figure:
    """Draw what throughput does not show: the share of sent bytes that are retransmissions."""
    kept = part(NAME, "grid-sim")
    sides = (
        ("kernel CUBIC", "kernel/cubic", 0.0, _CUBIC),
        ("Flex-Cubic", "flex_cubic", 0.0, _FLEX),
        ("Flex-Cubic, queue_fraction = 0.5", "flex_cubic", 0.5, _BOUNDED),
    )
    with style.styled():
        plot = style.new_plot(2.7)
        panels = plot.subplots(1, 2, sharey=True)
        for axes, loss in zip(panels, (0.0, 0.005), strict=True):
            for place, (_, algorithm, fraction, look) in enumerate(sides):
                found = rows(
                    kept,
                    owd_us=25_000,
                    loss_ratio=loss,
                    algorithm=algorithm,
                    beta=0.7,
                    queue_fraction=fraction,
                ).sort_values("buffer.bdp")
                at = np.arange(len(found)) + 0.12 * (place - 1)
                marks(axes, at, found, "retrans_pct", look, simulated=True)
            categories(axes, [f"{100 * one:g}" for one in found["buffer.bdp"]])
            axes.set_title(f"{100 * loss:g} % random loss, delay 25 ms")
            axes.set_xlabel("buffer [% of the BDP]")
        panels[0].set_ylabel("retransmitted [% of sent bytes]")
        panels[0].set_ylim(0, 100)
        legend(plot, [handle(f"{name} (simulated)", look, simulated=True) for name, _, _, look in sides], 3)
        footnote(plot, note(kept))
    wasted = rows(
        kept,
        owd_us=25_000,
        buffer__bdp=0.25,
        loss_ratio=0.0,
        algorithm="flex_cubic",
        beta=0.7,
        queue_fraction=0.0,
    )["retrans_pct"].iloc[0]
    return Figure(
        plot,
        "Retransmitted share by buffer: about a fifth of what Flex-Cubic sends if the buffer is below one "
        "BDP, near zero otherwise and for kernel CUBIC",
        f"**Not in the paper: the price.** With a quarter of a BDP and no random loss, {wasted:.0f} % of "
        "the bytes are retransmissions. Throughput hides this, because the receiver counts each byte once.",
    )


def _places(found: pd.DataFrame, among: pd.DataFrame, column: str) -> list[int]:
    """Return the place of each value of a column among those of other rows."""
    values = list(among[column])
    return [values.index(one) for one in found[column]]


def fairness() -> Figure:
    """Draw Jain's index next to kernel CUBIC, by buffer."""
    kept, real = part(NAME, "fairness-sim"), part(NAME, "fairness")
    sides = (
        ("Flex-Cubic, k = 2", "Flex-Cubic against kernel CUBIC", _FLEX),
        ("Flex-Cubic, k = 1.9", "with k 1.9 against kernel CUBIC", _BOUNDED),
        ("a second kernel CUBIC", "kernel CUBIC against kernel CUBIC", _CUBIC),
    )
    with style.styled():
        plot = style.new_plot(2.7)
        axes = plot.subplots()
        for place, (_, pair, look) in enumerate(sides):
            found = rows(kept, pair=pair, loss_ratio=0.0).sort_values("buffer.bdp")
            at = np.arange(len(found)) + 0.12 * (place - 1)
            marks(axes, at, found, "jain_index", look, simulated=True)
            measured = rows(real, pair=pair, loss_ratio=0.0).dropna(subset=["jain_index.low"])
            marks(
                axes,
                at[_places(measured, found, "buffer.bdp")] + 0.05,
                measured,
                "jain_index",
                look,
                simulated=False,
                line=False,
            )
        axes.axhline(0.9, **BOUND)
        axes.text(-0.45, 0.905, "bound 0.9", va="bottom", fontsize=7.5, color=style.FAINT)
        categories(axes, [f"{one:g}" for one in found["buffer.bdp"]])
        axes.set_ylim(0.5, 1.02)
        axes.set_xlabel("buffer [BDP]")
        axes.set_ylabel("Jain index")
        legend(plot, [*(handle(name, look, line=False) for name, _, look in sides), *datapaths()], columns=3)
        footnote(
            plot,
            note(real, kept)
            + ". 100 Mbit/s, delay 25 ms, no random loss; points of one run are not drawn; 0.5: one has all",
        )
    return Figure(
        plot,
        "Jain index of a flow next to kernel CUBIC by buffer: with k = 2 below 0.7 up to one BDP in the "
        "simulator, and between 0.6 and 1 with one BDP on real sockets; with k = 1.9 as fair as kernel CUBIC",
        "**Left open in the paper: fairness** to kernel CUBIC.",
    )


FIGURES: Final = {
    "flex-cubic-throughput": throughput,
    "flex-cubic-cost": cost,
    "flex-cubic-fairness": fairness,
}
