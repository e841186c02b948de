"""Tables of the detail view: parameters, state, telemetry, totals and events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ccplane.agent import console
from ccplane.agent.flowtable import FlowRow
from ccplane.agent.monitor import units
from ccplane.agent.monitor.source import Happened, Parameter, Received
from ccplane.base.flows import FlowStats

_CA_STATES: Final = ("Open", "Disorder", "CWR", "Recovery", "Loss")

NOTHING: Final = Text("none", style="dim")


def parameters(known: Sequence[Parameter]) -> RenderableType:
    """Return the parameters of an algorithm as a table."""
    return _grid((one.name, units.plain(one.value), one.about) for one in known) if known else NOTHING


def state(attributes: Mapping[str, Any], report: Mapping[str, Any], age_s: float) -> RenderableType:
    """Return the attributes of an instance and the registers of its last report as tables."""
    blocks: list[RenderableType] = []
    if attributes:
        blocks.append(_grid((name, units.plain(value), "") for name, value in attributes.items()))
    if report:
        blocks.append(Text(f"last report, {units.age(age_s)} ago"))
        blocks.append(_grid((f"  {name}", units.plain(value), "") for name, value in report.items()))
    return Group(*blocks) if blocks else NOTHING


def telemetry(received: Sequence[Received]) -> RenderableType:
    """Return the latest telemetry by kind and sender, with its age."""
    if not received:
        return NOTHING
    blocks: list[RenderableType] = []
    for one in received:
        head = Text(f"{one.kind} from {one.sender}, {units.age(one.age_s)} ago")
        blocks += [head, _grid((f"  {name}", units.plain(value), "") for name, value in one.fields.items())]
    return Group(*blocks)


def totals(row: FlowRow, stats: FlowStats | None) -> RenderableType:
    """Return the datapath's totals, without values that need an agent or an ACK."""
    said: list[tuple[str, str]] = [
        ("min RTT", f"{units.milliseconds(row.min_rtt_us or None)} ms"),
        ("loss", f"{units.percent(row.loss_ratio)} %"),
    ]
    if stats is not None:
        known = stats.ca_state < len(_CA_STATES)
        said += [
            ("TCP state", _CA_STATES[stats.ca_state] if known else str(stats.ca_state)),
            ("acknowledged", f"{units.plain(stats.bytes_acked)} bytes"),
            ("delivered", f"{units.plain(stats.delivered_pkts)} segments"),
            ("marked lost", units.plain(stats.lost_pkts)),
            ("retransmitted", units.plain(stats.retrans_pkts)),
            ("reports", f"{units.plain(stats.reports)}, {units.plain(stats.reports_missed)} missed"),
            ("fold errors", units.plain(stats.fold_errors)),
            ("to fallback", f"{units.plain(stats.fallback_entries)} times"),
        ]
        if row.fallback_stay is not None:
            said.append(("in fallback" if stats.fallback else "last fallback", row.fallback_stay))
    return _grid((name, value, "") for name, value in said)


def events(happened: Sequence[Happened], last: int) -> RenderableType:
    """Return the last events, newest first."""
    if not happened:
        return NOTHING
    table = Table.grid(padding=(0, 2))
    for one in list(reversed(happened))[:last]:
        detail = ", ".join(f"{name} {units.plain(value)}" for name, value in one.detail.items())
        table.add_row(
            Text(console.clock(one.t_wall_s), style="dim"),
            Text(one.kind),
            Text(one.algorithm, style="bold"),
            Text(detail, style="dim", no_wrap=True, overflow="ellipsis"),
        )
    return table


def _grid(lines: Iterable[tuple[str, str, str]]) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(style="dim")
    for name, value, about in lines:
        table.add_row(Text(name), Text(value), Text(about, no_wrap=True, overflow="ellipsis"))
    return table
