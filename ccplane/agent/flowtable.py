"""The table of flows: rows from two looks at the datapath, and how they are shown."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from rich.table import Table

from ccplane.agent import exits
from ccplane.agent.runfile import RunInfo
from ccplane.base.flows import FlowInfo, FlowStats
from ccplane.datapath.protocol import LAW_PROGRAM, DatapathView

LAW: Final = "law"
"""Who steers a flow that the fallback law has."""


@dataclass(frozen=True, slots=True)
class FlowRow:
    """One flow over an interval.

    Attributes:
        flow_id: The flow.
        src: Local address and port.
        dst: Peer's address and port.
        cc_name: Congestion-control name that the socket chose.
        steered_by: `ALGORITHM/PROGRAM`, `law` while the fallback law steers, or `program N` if no agent says
            its name.
        law_cause: Why the fallback law has the flow, or had it last, see `FlowStats.law_cause`.
        law_stay: Why and for how long the fallback law has the flow, or had it last; None if it has not
            taken it from an agent.
        cwnd_bytes: Window [bytes].
        rate_bytes_per_s: Pacing rate of the algorithm [bytes/s], 0 = none.
        srtt_us: Smoothed RTT [us].
        min_rtt_us: Minimum RTT [us].
        throughput_bytes_per_s: Bytes acknowledged per second of the interval [bytes/s]; None at the first
            look.
        loss_ratio: Segments marked lost per segment delivered or lost in the interval; None if there were
            none.
        retrans_pkts: Segments sent again, in total.
    """

    flow_id: int
    src: str
    dst: str
    cc_name: str
    steered_by: str
    law_cause: str
    law_stay: str | None
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
"""The flows of one moment by flow id."""


def look(view: DatapathView) -> Look:
    """Return the flows of now; one that closes between the two calls is left out."""
    infos = {info.flow_id: info for info in view.flows()}
    return {
        stats.flow_id: (infos[stats.flow_id], stats) for stats in view.all_stats() if stats.flow_id in infos
    }


def rows(before: Look, now: Look, agent: RunInfo | None) -> list[FlowRow]:
    """Return one row a flow, fastest first.

    Args:
        before: An earlier look; empty at the first.
        now: This look.
        agent: What the agent runs; None if there is none or it cannot be asked.
    """
    made = [
        _row(info, stats, before[flow_id][1] if flow_id in before else None, agent)
        for flow_id, (info, stats) in now.items()
    ]
    return sorted(made, key=lambda row: (-(row.throughput_bytes_per_s or 0.0), row.flow_id))


def between(before: FlowStats, now: FlowStats) -> tuple[float, float | None]:
    """Return what a flow did between two looks.

    Totals stand still between ACKs, and so does their time: no ACK means no throughput, not an unknown one.

    Args:
        before: Its totals at the earlier look.
        now: Those at the later one.

    Returns:
        Throughput [bytes/s], and segments marked lost per segment delivered or lost; None if there were none.
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
        law_cause=stats.law_cause,
        law_stay=exits.stay(stats, time.monotonic_ns() // 1000),
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
    if stats.law or stats.program == LAW_PROGRAM:
        return LAW
    known = {} if agent is None else agent.programs
    return known.get(stats.program, f"program {stats.program}")


def render(
    flows: Sequence[FlowRow],
    counters: Mapping[str, int],
    agent: RunInfo | None,
    failures: Sequence[str] = (),
) -> Table:
    """Return the rows as a table for the terminal.

    Args:
        flows: The rows.
        counters: The datapath's counters.
        agent: What the agent runs; None if there is none.
        failures: What algorithms raised, a line each.
    """
    who = "no agent: flows run the fallback law" if agent is None else f"agent pid {agent.pid}"
    slotless = exits.slotless(counters)
    caption = f"{len(flows)} flows; {who}" + (f"; {slotless}" if slotless else "")
    caption = "\n".join([caption, *failures])
    table = Table(caption=caption, caption_justify="left", box=None, header_style="bold")
    table.add_column("local", overflow="fold")
    table.add_column("peer", overflow="fold")
    table.add_column("chosen")
    table.add_column("steered by")
    for column in ("cwnd kB", "rate Mbit/s", "srtt ms", "throughput Mbit/s", "loss %", "retrans"):
        table.add_column(column, justify="right")
    for row in flows:
        table.add_row(
            row.src,
            row.dst,
            row.cc_name,
            f"{row.steered_by} ({row.law_stay})" if row.steered_by == LAW else row.steered_by,
            f"{row.cwnd_bytes / 1e3:.1f}",
            f"{8e-6 * row.rate_bytes_per_s:.2f}" if row.rate_bytes_per_s else "-",
            f"{row.srtt_us / 1e3:.2f}",
            "-" if row.throughput_bytes_per_s is None else f"{8e-6 * row.throughput_bytes_per_s:.2f}",
            "-" if row.loss_ratio is None else f"{100 * row.loss_ratio:.2f}",
            str(row.retrans_pkts),
        )
    return table
