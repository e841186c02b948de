"""Tables of the detail view: parameters, state, telemetry, totals and events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ccplane.agent import console
from ccplane.agent.flowtable import FlowRow
from ccplane.agent.marks import Kind, mark_of
from ccplane.agent.monitor import units
from ccplane.agent.monitor.charts import Change
from ccplane.agent.monitor.source import Happened, Parameter, Received
from ccplane.base.flows import FlowStats
from ccplane.base.printable import printable

_CA_STATES: Final = ("Open", "Disorder", "CWR", "Recovery", "Loss")

MAX_NAME: Final = 28
"""Minimum room for long names [characters]; values give way first."""

_SYMBOLS: Final[Mapping[Kind, tuple[str, str]]] = {
    "parameter": ("◆", "#f0e442"),
    "version": ("▲", "#56b4e9"),
    "path": ("■", "#2dc491"),
    "error": ("✕", "#ff6b5e"),
}
"""Kind of a mark -> its symbol and style."""

NOTHING: Final = Text("none", style="dim")


def parameters(known: Sequence[Parameter]) -> RenderableType:
    """Return the parameters of an algorithm as a table."""
    return _grid([(one.name, _exact(one.value), one.about) for one in known]) if known else NOTHING


def state(attributes: Mapping[str, Any], report: Mapping[str, Any], age_s: float) -> RenderableType:
    """Return the attributes of an instance and the registers of its last report as tables."""
    blocks: list[RenderableType] = []
    if attributes:
        blocks.append(_named(_flat(attributes)))
    if report:
        blocks.append(Text(f"last report, {units.age(age_s)} ago"))
        blocks.append(_named(report, "  "))
    return Group(*blocks) if blocks else NOTHING


def telemetry(received: Sequence[Received]) -> RenderableType:
    """Return the latest telemetry by kind and sender, with its age."""
    if not received:
        return NOTHING
    blocks: list[RenderableType] = []
    for one in received:
        head = Text(f"{one.kind} from {one.sender}, {units.age(one.age_s)} ago")
        blocks += [head, _named(one.fields, "  ")]
    return Group(*blocks)


def totals(row: FlowRow, stats: FlowStats | None) -> RenderableType:
    """Return the datapath's totals, without values that need an agent or an ACK."""
    said: list[tuple[str, str]] = [
        ("minimum RTT", units.duration(row.min_rtt_us or None)),
        ("lost", f"{units.percent(row.loss_ratio)} %"),
    ]
    if stats is not None:
        known = stats.ca_state < len(_CA_STATES)
        said += [
            ("TCP state", _CA_STATES[stats.ca_state] if known else str(stats.ca_state)),
            ("acknowledged", units.size(stats.bytes_acked)),
            ("delivered", f"{units.plain(stats.delivered_pkts)} packets"),
            ("marked lost", f"{units.plain(stats.lost_pkts)} packets"),
            ("retransmitted", f"{units.plain(stats.retrans_pkts)} packets"),
            ("reports", f"{units.plain(stats.reports)}, {units.plain(stats.reports_missed)} missed"),
            ("fold errors", units.plain(stats.fold_errors)),
            ("to fallback", f"{units.plain(stats.fallback_entries)} times"),
        ]
        if row.fallback_stay is not None:
            said.append(("in fallback" if stats.fallback else "last fallback", row.fallback_stay))
    return _grid([(name, value, "") for name, value in said])


def events(happened: Sequence[Happened], last: int) -> RenderableType:
    """Return the last events, newest first."""
    if not happened:
        return NOTHING
    table = Table.grid(padding=(0, 2))
    for one in list(reversed(happened))[:last]:
        mark = mark_of(one.kind, one.algorithm, one.detail)
        what = Text(no_wrap=True, overflow="ellipsis")
        if mark is None:
            detail = ", ".join(f"{name} {units.plain(value)}" for name, value in one.detail.items())
            what.append(f"{one.algorithm}  ", "bold").append(detail, "dim")
        else:
            what.append(printable(mark.text))
        symbol = Text(" ") if mark is None else Text(*_SYMBOLS[mark.kind])
        table.add_row(symbol, Text(console.clock(one.t_wall_s), style="dim"), Text(one.kind), what)
    return table


def changes(happened: Sequence[Happened]) -> list[Change]:
    """Return the changes that charts mark."""
    marked = [(one.t_wall_s, mark_of(one.kind, one.algorithm, one.detail)) for one in happened]
    return [Change(t_wall_s, *_SYMBOLS[mark.kind]) for t_wall_s, mark in marked if mark is not None]


def _flat(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return attributes with those of records as `record.field`."""
    return {
        path: plain
        for name, value in attributes.items()
        for path, plain in (
            {f"{name}.{field}": one for field, one in value.items()}
            if isinstance(value, dict)
            else {name: value}
        ).items()
    }


def _exact(value: object) -> str:
    """Return a value that was set, with all its digits."""
    return f"{value:.10g}" if isinstance(value, float) else units.plain(value)


def _named(values: Mapping[str, Any], indent: str = "") -> Table:
    return _grid([(indent + name, units.named(name, value), "") for name, value in values.items()])


def _grid(lines: Sequence[tuple[str, str, str]]) -> Table:
    table = Table.grid(padding=(0, 2))
    longest = max((len(name) for name, _, _ in lines), default=0)
    table.add_column(style="dim", no_wrap=True, min_width=min(longest, MAX_NAME))
    table.add_column(no_wrap=True)
    table.add_column(style="dim")
    for name, value, about in lines:
        table.add_row(Text(name), Text(value), Text(about, no_wrap=True, overflow="ellipsis"))
    return table
