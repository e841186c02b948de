"""The table of `ccp flows`: rows from two snapshots of the datapath, and their display."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from rich.table import Table
from rich.text import Text

from ccplane.agent import exits
from ccplane.agent.runfile import RunInfo
from ccplane.base import clock
from ccplane.base.flows import FlowInfo, FlowStats
from ccplane.base.printable import printable
from ccplane.datapath.protocol import FALLBACK_PROGRAM, DatapathView

FALLBACK: Final = "fallback"
"""Controller of a flow that runs the fallback."""


@dataclass(frozen=True, slots=True)
class FlowRow:
    """One flow over an interval.

    Attributes:
        flow_id: The flow.
        src: Local address and port.
        dst: Peer's address and port.
        cc_name: Congestion-control name that the socket chose.
        steered_by: `ALGORITHM/PROGRAM`, `fallback` while the fallback controls the flow, or `program N` if no
            agent gives the program's name.
        fallback_cause: Why the flow runs the fallback, or last ran it, see `FlowStats.fallback_cause`.
        fallback_stay: Why and for how long the flow runs the fallback, or last ran it; None if the
            fallback has not taken the flow from an agent.
        cwnd_bytes: Window [bytes].
        rate_bytes_per_s: Pacing rate of the algorithm [bytes/s], 0 = none.
        srtt_us: Smoothed RTT [us].
        min_rtt_us: Minimum RTT [us].
        throughput_bytes_per_s: Bytes acknowledged per second of the interval [bytes/s]; None in the first
            snapshot.
        loss_ratio: Segments marked lost per segment delivered or lost in the interval; None without segments.
        retrans_pkts: Segments retransmitted, in total.
    """

    flow_id: int
    src: str
    dst: str
    cc_name: str
    steered_by: str
    fallback_cause: str
    fallback_stay: str | None
    cwnd_bytes: int
    rate_bytes_per_s: int
    srtt_us: int
    min_rtt_us: int
    throughput_bytes_per_s: float | None
    loss_ratio: float | None
    retrans_pkts: int

    def as_dict(self) -> dict[str, Any]:
        """Return all fields by name."""
        return asdict(self)


Look = Mapping[int, tuple[FlowInfo, FlowStats]]
"""A snapshot of the flows, by flow id."""


def look(view: DatapathView) -> Look:
    """Return the current flows, without those that close during the call."""
    infos = {info.flow_id: info for info in view.flows()}
    return {
        stats.flow_id: (infos[stats.flow_id], stats) for stats in view.all_stats() if stats.flow_id in infos
    }


def rows(before: Look, now: Look, agent: RunInfo | None) -> list[FlowRow]:
    """Return one row per flow, fastest first.

    Args:
        before: The previous snapshot; empty if there is none.
        now: The current snapshot.
        agent: What the agent runs; None if no agent runs or it cannot be reached.
    """
    made = [
        _row(info, stats, before[flow_id][1] if flow_id in before else None, agent)
        for flow_id, (info, stats) in now.items()
    ]
    return sorted(made, key=lambda row: (-(row.throughput_bytes_per_s or 0.0), row.flow_id))


def between(before: FlowStats, now: FlowStats) -> tuple[float, float | None]:
    """Return throughput and loss of a flow between two snapshots.

    Totals and their timestamp change only on ACKs, so without an ACK the throughput is 0, not unknown.

    Returns:
        Throughput [bytes/s], and segments marked lost per segment delivered or lost; None without segments.
    """
    elapsed_us = now.now_us - before.now_us
    throughput = 1e6 * (now.bytes_acked - before.bytes_acked) / elapsed_us if elapsed_us > 0 else 0.0
    lost = now.lost_pkts - before.lost_pkts
    delivered = now.delivered_pkts - before.delivered_pkts
    return throughput, lost / (lost + delivered) if lost + delivered > 0 else None


def _row(info: FlowInfo, stats: FlowStats, before: FlowStats | None, agent: RunInfo | None) -> FlowRow:
    throughput, loss = (None, None) if before is None else between(before, stats)
    return FlowRow(
        flow_id=info.flow_id,
        src=_endpoint(info.src_addr, info.src_port),
        dst=_endpoint(info.dst_addr, info.dst_port),
        cc_name=info.cc_name,
        steered_by=_steered_by(stats, agent),
        fallback_cause=stats.fallback_cause,
        fallback_stay=exits.stay(stats, clock.now_us()),
        cwnd_bytes=stats.cwnd_bytes,
        rate_bytes_per_s=stats.rate_bytes_per_s,
        srtt_us=stats.srtt_us,
        min_rtt_us=stats.min_rtt_us,
        throughput_bytes_per_s=throughput,
        loss_ratio=loss,
        retrans_pkts=stats.retrans_pkts,
    )


def _endpoint(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _steered_by(stats: FlowStats, agent: RunInfo | None) -> str:
    if stats.fallback or stats.program == FALLBACK_PROGRAM:
        return FALLBACK
    known = {} if agent is None else agent.programs
    return known.get(stats.program, f"program {stats.program}")


def render(
    flows: Sequence[FlowRow],
    counters: Mapping[str, int],
    agent: RunInfo | None,
    failures: Sequence[str] = (),
) -> Table:
    """Return the rows as a table for the terminal."""
    who = "no agent: flows run the fallback" if agent is None else f"agent pid {agent.pid}"
    slotless = exits.slotless(counters)
    caption = f"{len(flows)} flows; {who}" + (f"; {slotless}" if slotless else "")
    text = "\n".join([caption, *(printable(failure) for failure in failures)])
    table = Table(caption=Text(text), caption_justify="left", box=None, header_style="bold")
    table.add_column("local", overflow="fold")
    table.add_column("peer", overflow="fold")
    table.add_column("chosen")
    table.add_column("steered by")
    for column in ("cwnd kB", "rate Mbit/s", "srtt ms", "throughput Mbit/s", "loss %", "retrans"):
        table.add_column(column, justify="right")
    for row in flows:
        cells = (
            row.src,
            row.dst,
            row.cc_name,
            f"{row.steered_by} ({row.fallback_stay})" if row.steered_by == FALLBACK else row.steered_by,
            f"{row.cwnd_bytes / 1e3:.1f}",
            f"{8e-6 * row.rate_bytes_per_s:.2f}" if row.rate_bytes_per_s else "-",
            f"{row.srtt_us / 1e3:.2f}",
            "-" if row.throughput_bytes_per_s is None else f"{8e-6 * row.throughput_bytes_per_s:.2f}",
            "-" if row.loss_ratio is None else f"{100 * row.loss_ratio:.2f}",
            str(row.retrans_pkts),
        )
        table.add_row(*map(Text, cells))  # rich takes `[fd00::1]` in a str for a style
    return table
