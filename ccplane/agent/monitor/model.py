"""Which flows the table shows, and in which order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ccplane.agent.flowtable import FlowRow
from ccplane.agent.monitor import units
from ccplane.agent.monitor.history import FlowHistory, Metric

MAX_SHOWN: Final = 200
"""Rows that the table shows; with more flows, the first of them in the chosen order."""

SPARK_WIDTH: Final = (6, 24)
"""Least and greatest width of a sparkline [characters]."""

_PADDING: Final = 2  # characters around a cell
_ARROW: Final = 2  # characters of the mark for the order
_SHORTEST: Final = 12  # characters of an address or name that is cut


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the table.

    Attributes:
        name: Its name; flows can be sorted by it.
        title: Its heading, with unit.
        short: A heading for narrow columns; empty for the same.
        text: What a cell says.
        key: What it is sorted by; None sorts last.
        metric: Which sparkline stands beside the number.
        width: Least width of the text [characters].
        ascending: Smallest first, unless turned round.
        keep: Columns with low values are left out first when the terminal is narrow.
    """

    name: str
    title: str
    text: Callable[[FlowRow], str]
    key: Callable[[FlowRow], float | str | None]
    metric: Metric | None = None
    width: int = 0
    ascending: bool = False
    keep: int = 9
    short: str = ""

    @property
    def right(self) -> bool:
        """Whether it is a number, set to the right."""
        return not self.ascending


COLUMNS: Final = (
    Column("local", "local", lambda row: row.src, lambda row: row.src, ascending=True, keep=2),
    Column("peer", "peer", lambda row: row.dst, lambda row: row.dst, ascending=True),
    Column("algorithm", "steered by", lambda row: row.steered_by, lambda row: row.steered_by, ascending=True),
    Column(
        "cwnd",
        "cwnd kB",
        lambda row: units.kilobytes(row.cwnd_bytes),
        lambda row: row.cwnd_bytes,
        Metric.CWND,
        7,
    ),
    Column(
        "throughput",
        "throughput Mbit/s",
        lambda row: units.mbits(row.throughput_bytes_per_s),
        lambda row: row.throughput_bytes_per_s,
        Metric.THROUGHPUT,
        7,
        short="Mbit/s",
    ),
    Column(
        "srtt",
        "srtt ms",
        lambda row: units.milliseconds(row.srtt_us or None),
        lambda row: row.srtt_us or None,
        Metric.SRTT,
        6,
    ),
    Column(
        "rate",
        "rate Mbit/s",
        lambda row: units.mbits(row.rate_bytes_per_s or None),
        lambda row: row.rate_bytes_per_s or None,
        width=7,
        keep=3,
    ),
    Column(
        "loss",
        "loss %",
        lambda row: units.percent(row.loss_ratio),
        lambda row: row.loss_ratio,
        width=6,
        keep=4,
    ),
    Column(
        "retrans",
        "retrans",
        lambda row: str(row.retrans_pkts),
        lambda row: row.retrans_pkts,
        width=7,
        keep=1,
    ),
)
"""All columns, from left to right."""

BY_NAME: Final = {column.name: column for column in COLUMNS}


@dataclass(frozen=True, slots=True)
class Chosen:
    """What the user wants to see.

    Attributes:
        sort: Name of the column.
        turned: The other way round than the column's usual order.
        filter: Words that a flow must have; `!word` those that it must not have.
    """

    sort: str = "throughput"
    turned: bool = False
    filter: str = ""

    @property
    def descending(self) -> bool:
        """Whether the greatest comes first."""
        return BY_NAME[self.sort].ascending == self.turned

    def by(self, name: str) -> Chosen:
        """Return the order by a column; by the same column again, turned round."""
        return replace(self, sort=name, turned=not self.turned if name == self.sort else False)

    def next(self, step: int) -> Chosen:
        """Return the order by the column `step` to the right."""
        names = [column.name for column in COLUMNS]
        return replace(self, sort=names[(names.index(self.sort) + step) % len(names)], turned=False)

    def matches(self, row: FlowRow) -> bool:
        """Return whether a flow is shown: addresses, names and id are searched for the words."""
        if not self.filter:
            return True
        text = f"{row.src} {row.dst} {row.cc_name} {row.steered_by} {row.flow_id}".lower()
        return all(
            (word[1:] not in text) if word.startswith("!") and len(word) > 1 else (word in text)
            for word in self.filter.lower().split()
        )

    def apply(self, flows: Iterable[FlowHistory]) -> list[FlowHistory]:
        """Return the flows that are shown, sorted; equal ones by id, those without a value last."""
        key = BY_NAME[self.sort].key
        shown = sorted((flow for flow in flows if self.matches(flow.row)), key=lambda flow: flow.row.flow_id)
        with_value = [flow for flow in shown if key(flow.row) is not None]
        without = [flow for flow in shown if key(flow.row) is None]
        # The keys of one column are all numbers or all text.
        with_value.sort(key=lambda flow: key(flow.row), reverse=self.descending)  # type: ignore[arg-type, return-value]
        return with_value + without


@dataclass(frozen=True, slots=True)
class Placed:
    """A column with its place in the table.

    Attributes:
        column: The column.
        text_width: Width of its text [characters].
        spark_width: Width of its sparkline [characters], 0 = none.
    """

    column: Column
    text_width: int
    spark_width: int

    @property
    def width(self) -> int:
        """The whole width of the column [characters]."""
        return self.text_width + (1 + self.spark_width if self.spark_width else 0)

    def heading(self, chosen: Chosen) -> str:
        """Return the heading, with an arrow if flows are sorted by it."""
        arrow = "" if self.column.name != chosen.sort else " ▼" if chosen.descending else " ▲"
        title = self.column.title
        if len(title) + _ARROW > self.width and self.column.short:
            title = self.column.short
        heading = title + arrow
        return heading.rjust(self.text_width) if self.column.right else heading

    def text(self, row: FlowRow) -> str:
        """Return what a cell says; of addresses that are too long, the end."""
        text = self.column.text(row)
        if len(text) > self.text_width:
            cut = self.text_width - 1
            text = "…" + text[-cut:] if self.column.name in ("local", "peer") else text[:cut] + "…"
        return text.rjust(self.text_width) if self.column.right else text


def layout(width: int, rows: Sequence[FlowRow]) -> tuple[Placed, ...]:
    """Choose columns and widths for a terminal.

    Columns are left out, and then texts cut, until there is room for sparklines; these share what is left
    over.

    Args:
        width: Width of the terminal [characters].
        rows: What is to be shown.

    Returns:
        The columns from left to right. In a very narrow terminal they are wider than it, and it scrolls.
    """
    widths = {column: _text_width(column, rows) for column in COLUMNS}
    least, most = SPARK_WIDTH
    while _room(width, widths) < least and (droppable := [column for column in widths if column.keep < 9]):
        del widths[min(droppable, key=lambda column: column.keep)]
    while _room(width, widths) < least:
        widest = max(widths, key=lambda column: 0 if column.right else widths[column])
        if widest.right or widths[widest] <= _SHORTEST:
            break
        widths[widest] -= 1
    spark_width = min(max(_room(width, widths), least), most)
    return tuple(
        Placed(column, text, 0 if column.metric is None else spark_width) for column, text in widths.items()
    )


def _room(width: int, widths: Mapping[Column, int]) -> int:
    """Return the width that is left for each sparkline [characters]."""
    sparks = sum(column.metric is not None for column in widths)
    return (width - sum(widths.values()) - _PADDING * len(widths)) // sparks - 1


def _text_width(column: Column, rows: Sequence[FlowRow]) -> int:
    longest = max((len(column.text(row)) for row in rows), default=0)
    heading = 0 if column.metric is not None else len(column.title) + _ARROW
    return max(column.width, longest, heading)
