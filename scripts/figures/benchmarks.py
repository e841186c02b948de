"""Figure and numbers of docs/benchmarks.md."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from experiments.bench.every import BENCHMARKS
from experiments.bench.result import BenchResult, Metric, short
from experiments.plots import style
from scripts.figures.drawing import RESULTS, Figure, footnote, legend

NAME: Final = "benchmarks"
_COLOURS: Final = {"met": "#0072B2", "missed": "#D55E00", "undecided": "#8A7A00", None: "#757575"}
_MARKERS: Final = {"met": "o", "missed": "s", "undecided": "D", None: "x"}
_PATHS: Final = {"unlimited": "bare link", "1gbit": "1 Gbit/s", "100mbit": "100 Mbit/s"}

_LABELS: Final[Mapping[str, str]] = {
    "sim.packet_events_per_s": "simulator: packet events",
    "sim.env_steps_per_s": "simulator: environment steps",
    "datapath.cpu_per_gb_ratio": "CPU per GB / kernel CUBIC's",
    "datapath.throughput_ratio": "throughput / kernel CUBIC's",
    "datapath.retransmit_ratio": "retransmissions / kernel CUBIC's",
    "datapath.ack_ns": "time per ACK",
    "latency.p50_us": "ACK to update in force, median",
    "latency.p99_us": "ACK to update in force, 99th percentile",
    "latency.written_p50_us": "ACK to update written, median",
    "latency.written_p99_us": "ACK to update written, 99th percentile",
    "flows.cpu_ratio": "CPU of 10,000 flows / kernel CUBIC's",
    "bus.p99_us": "telemetry bus, 99th percentile",
    "ioam.source_per_s": "IOAM: packets written",
    "ioam.fill_per_s": "IOAM: packets filled",
    "ioam.read_per_s": "IOAM: packets read",
    "ioam.remove_per_s": "IOAM: headers removed",
    "quic.cpu_per_gb_ratio": "QUIC: CPU per GB / quinn's CUBIC",
    "quic.throughput_ratio": "QUIC: throughput / quinn's CUBIC",
    "canary.undone_s": "canary: bad version withdrawn after",
    "canary.goodput_ratio": "canary: goodput / without",
    "reload.swap_us": "reload of 1,000 flows, pause",
    "signal.p99_us": "signal to changed window, 99th percentile",
}
"""Benchmark and metric -> label."""


def kept() -> dict[str, BenchResult]:
    """Return the kept results by name, in the order of the benchmarks.

    Raises:
        BenchError: `bench.cannot_read`.
    """
    found = [
        BenchResult.from_json(file.read_text(), str(file)) for file in (RESULTS / "bench").glob("*.json")
    ]
    order = list(BENCHMARKS)
    place = {name: number for number, name in enumerate(order)}
    return {
        one.name: one for one in sorted(found, key=lambda one: (place.get(one.name, len(order)), one.name))
    }


def forest() -> Figure:
    """Draw every metric with a goal: its interval relative to the goal."""
    lines = [
        (label, metric)
        for result in kept().values()
        for name, metric in result.metrics.items()
        if metric.goal is not None and (label := _label(result.name, name))
    ]
    with style.styled():
        plot = style.new_plot(0.165 * len(lines) + 0.9)
        axes = plot.subplots()
        axes.axvspan(1, 10, color="#EAF2F8", lw=0, zorder=0)
        axes.axvline(1, color=style.FAINT, lw=0.9, zorder=1)
        for place, (_, metric) in enumerate(lines):
            low, middle, high = (_margin(metric, one) for one in _interval(metric))
            verdict = metric.verdict
            axes.plot([low, high], [place, place], color=_COLOURS[verdict], lw=1.4, zorder=2)
            axes.plot(middle, place, _MARKERS[verdict], color=_COLOURS[verdict], ms=4.5, zorder=3)
            axes.text(
                1.01,
                place,
                f"{short(metric.value)} {metric.unit}  ({metric.goal})",
                transform=axes.get_yaxis_transform(),
                va="center",
                fontsize=7,
            )
        axes.set_yticks(range(len(lines)), [label for label, _ in lines], fontsize=7)
        axes.set_ylim(len(lines) - 0.4, -0.6)
        axes.set_xscale("log")
        axes.minorticks_off()
        axes.set_xticks([0.2, 0.5, 1, 2, 5], ["0.2", "0.5", "1", "2", "5"])
        axes.set_xlim(0.2, 8)
        axes.grid(visible=False)
        axes.grid(axis="x", color=style.RULE)
        axes.set_xlabel("margin: 1 is the goal, 2 is twice as good (log scale)")
        legend(plot, [_entry(verdict) for verdict in ("met", "missed", "undecided")])
        dates = sorted({one.about["date"][:10] for one in kept().values()})
        counts = sorted({len(metric.values) for _, metric in lines})
        host = next(iter(kept().values())).about["host"]
        footnote(
            plot,
            f"Medians with 95 % intervals over {counts[0]} to {counts[-1]} rounds; right: median and goal. "
            f"Linux {str(host['kernel']).split('-')[0]}, {host['cpu']}, {host['cores']} processors, "
            f"{dates[0]} to {dates[-1]}",
        )
    verdicts = [metric.verdict for _, metric in lines]
    return Figure(
        plot,
        f"Forest plot of {len(lines)} metrics relative to their goals: {verdicts.count('met')} met, "
        f"{verdicts.count('missed')} missed, {verdicts.count('undecided')} undecided",
        f"Of {len(lines)} goals, {verdicts.count('met')} are met, {verdicts.count('missed')} missed, and "
        f"{verdicts.count('undecided')} undecided"
        + (f"; {verdicts.count(None)} had too few rounds." if None in verdicts else "."),
    )


def _entry(verdict: str):
    from matplotlib.lines import Line2D

    return Line2D([], [], label=verdict, color=_COLOURS[verdict], marker=_MARKERS[verdict], ms=4.5, lw=1.4)


def _label(benchmark: str, metric: str) -> str:
    """Return the label of a metric; empty for metrics that are counts of flows, and not measured."""
    name, _, variant = metric.partition(".")
    label = _LABELS.get(f"{benchmark}.{name}", "")
    if not label:
        return ""
    return f"{label}, {_PATHS.get(variant, variant.replace('.', ', '))}" if variant else label


def _interval(metric: Metric) -> tuple[float, float, float]:
    found = metric.estimate
    if math.isnan(found.low):
        return found.value, found.value, found.value
    return found.low, found.value, found.high


def _margin(metric: Metric, value: float) -> float:
    """Return how good a value is relative to its goal: above 1 is better than the goal."""
    assert metric.goal is not None
    direction, bound = metric.goal.split()
    if direction == "<=":
        return float(bound) / value if value else math.inf
    return value / float(bound)


def numbers() -> str:
    """Return the numbers that a user needs, as a table."""
    found = kept()

    def cell(benchmark: str, metric: str, scale: float = 1.0, unit: str = "") -> str:
        one = found[benchmark].metrics[metric]
        low, middle, high = (scale * value for value in _interval(one))
        span = "" if low == high else f" [{short(low)}, {short(high)}]"
        return f"{short(middle)}{span}{unit}"

    lines = [
        ("CPU per GB relative to kernel CUBIC, 1 Gbit/s", cell("datapath", "cpu_per_gb_ratio.1gbit")),
        ("throughput relative to kernel CUBIC, 1 Gbit/s", cell("datapath", "throughput_ratio.1gbit")),
        ("the same over a bare link", cell("datapath", "throughput_ratio.unlimited")),
        ("time per ACK, bare link", cell("datapath", "ack_ns.unlimited", unit=" ns")),
        ("ACK to changed window, median", cell("latency", "p50_us.load", unit=" us")),
        ("memory per flow, kernel", cell("flows", "memory_per_flow_bytes", 1e-3, " kB")),
        ("reload of 1,000 flows, pause", cell("reload", "swap_us.numbers", 1e-3, " ms")),
        ("telemetry to changed window, 99th percentile", cell("signal", "p99_us", 1e-3, " ms")),
        ("simulated seconds per second of CPU time", cell("sim", "simulated_ratio.kernel")),
    ]
    return "\n".join(
        ["| what | median [95 % interval] |", "| --- | ---: |", *(f"| {a} | {b} |" for a, b in lines)]
    )


FIGURES: Final = {"benchmarks": forest}
