"""Signals as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from rich.box import SIMPLE
from rich.table import Table

from telemetry.schema import ReceiverSignal, RegimeDecision

_COLUMNS: Final = (
    ("RTT min", "rtt_min_us"),
    ("p50", "rtt_p50_us"),
    ("p95", "rtt_p95_us"),
    ("p99", "rtt_p99_us"),
    ("max", "rtt_max_us"),
    ("jitter", "jitter_us"),
    ("OWD above min", "owd_variation_us"),
    ("CE", "ce_marks"),
    ("lost", "loss_pkts"),
    ("reordered", "reordered_pkts"),
    ("duplicates", "duplicate_pkts"),
    ("retransmitted", "resent_pkts"),
    ("peer reports", "retrans_pkts"),
    ("flows", "flows"),
)


def render(
    signals: Sequence[ReceiverSignal],
    note: str = "",
    decisions: Mapping[str, RegimeDecision] | None = None,
) -> Table:
    """Return a table with one row per peer, followed by rows of its flows; `-` means not measured.

    Args:
        signals: Signals of one interval.
        note: Line below the table, such as the state of the broker.
        decisions: Peer -> decision about its path; None without a detector, and without these columns.
    """
    table = Table(box=SIMPLE, caption=note or None, caption_justify="left")
    table.add_column("peer", no_wrap=True)
    for title, name in _COLUMNS:
        table.add_column(f"{title} ms" if name.endswith("_us") else title, justify="right")
    table.add_column("Mbit/s", justify="right")
    for title in () if decisions is None else ("regime", "density", "estimate"):
        table.add_column(title)
    for signal in sorted(signals, key=_place):
        cells = [_cell(getattr(signal, name), name.endswith("_us")) for _, name in _COLUMNS]
        rate = signal.goodput_bytes_per_s
        cells.append("-" if rate is None else f"{rate * 8 / 1e6:.2f}")
        if decisions is not None:
            cells += _regime(None if signal.flow is not None else decisions.get(signal.peer))
        table.add_row(_name(signal), *cells)
    return table


def _place(signal: ReceiverSignal) -> tuple[str, bool]:
    """Sort key: a peer's signal, then those of its flows."""
    return signal.peer, signal.flow is not None


def _name(signal: ReceiverSignal) -> str:
    flow = signal.flow
    return signal.peer if flow is None else f"  :{flow.src_port} > :{flow.dst_port}"


def _regime(decision: RegimeDecision | None) -> tuple[str, ...]:
    if decision is None:
        return "-", "-", "-"
    density = decision.density
    return decision.regime, "-" if density is None else f"{density:.2f}", decision.estimate or "-"


def _cell(value: int | None, is_time: bool) -> str:
    if value is None:
        return "-"
    return f"{value / 1000:.2f}" if is_time else str(value)
