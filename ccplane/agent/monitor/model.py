"""Selection and order of the flows in the table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ccplane.agent.flowtable import FlowRow
from ccplane.agent.monitor import units
from ccplane.agent.monitor.history import FlowHistory, Metric

MAX_SHOWN: Final = 200
"""Maximum rows of the table; further flows in the chosen order are not shown."""

SPARK_WIDTH: Final = (6, 24)
"""Minimum and maximum width of a sparkline [characters]."""

_PADDING: Final = 2  # characters around a cell
_ARROW: Final = 2  # characters of the arrow for the order
_SHORTEST: Final = 12  # minimum characters of a shortened address or name


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the table.

    Attributes:
        name: Its name, for sorting.
        title: Its heading.
        text: Text of a cell.
        key: Sort key; None sorts last.
        unit: Unit of its numbers, below the heading.
        metric: Metric of the sparkline next to the number.
        width: Minimum width of the text [characters].
        ascending: Whether the default order is ascending.
        keep: In a narrow terminal, columns with low values are dropped first.
    """

    name: str
    title: str
    text: Callable[[FlowRow], str]
    key: Callable[[FlowRow], float | str | None]
    unit: str = ""
    metric: Metric | None = None
    width: int = 0
    ascending: bool = False
    keep: int = 9

    @property
    def right(self) -> bool:
        """Whether the column has numbers, aligned to the right."""
        return not self.ascending


_WIDTH: Final = 5  # of a number: three digits, and a point or a comma

COLUMNS: Final = (
    Column("local", "local", lambda row: row.src, lambda row: row.src, ascending=True, keep=2),
    Column("peer", "peer", lambda row: row.dst, lambda row: row.dst, ascending=True),
    Column("algorithm", "steered by", lambda row: row.steered_by, lambda row: row.steered_by, ascending=True),
    Column(
        "cwnd",
        "window",
        lambda row: units.kilobytes(row.cwnd_bytes),
        lambda row: row.cwnd_bytes,
        "kB",
        Metric.CWND,
        _WIDTH,
    ),
    Column(
        "throughput",
        "throughput",
        lambda row: units.mbits(row.throughput_bytes_per_s),
        lambda row: row.throughput_bytes_per_s,
        "Mbit/s",
        Metric.THROUGHPUT,
        _WIDTH,
    ),
    Column(
        "srtt",
        "smoothed RTT",
        lambda row: units.milliseconds(row.srtt_us or None),
        lambda row: row.srtt_us or None,
        "ms",
        Metric.SRTT,
        _WIDTH,
    ),
    Column(
        "rate",
        "pacing rate",
        lambda row: units.mbits(row.rate_bytes_per_s or None),
        lambda row: row.rate_bytes_per_s or None,
        "Mbit/s",
        width=_WIDTH,
        keep=3,
    ),
    Column(
        "loss",
        "lost",
        lambda row: units.percent(row.loss_ratio),
        lambda row: row.loss_ratio,
        "%",
        width=_WIDTH,
        keep=4,
    ),
    Column(
        "retrans",
        "retransmitted",
        lambda row: f"{row.retrans_pkts:,}",
        lambda row: row.retrans_pkts,
        "packets",
        width=_WIDTH,
        keep=1,
    ),
)
"""All columns, from left to right."""

BY_NAME: Final = {column.name: column for column in COLUMNS}


@dataclass(frozen=True, slots=True)
class Chosen:
    """Order and filter chosen by the user.

    Attributes:
        sort: Name of the column.
        turned: Whether the column's default order is reversed.
        filter: Words that a flow must contain; `!word` for words that it must not contain.
    """

    sort: str = "throughput"
    turned: bool = False
    filter: str = ""

    @property
    def descending(self) -> bool:
        """Whether the largest value comes first."""
        return BY_NAME[self.sort].ascending == self.turned

    def by(self, name: str) -> Chosen:
        """Return the order by a column; reversed if it is already the sort column."""
        return replace(self, sort=name, turned=not self.turned if name == self.sort else False)

    def next(self, step: int) -> Chosen:
        """Return the order by the column `step` columns to the right."""
        names = [column.name for column in COLUMNS]
        return replace(self, sort=names[(names.index(self.sort) + step) % len(names)], turned=False)

    def matches(self, row: FlowRow) -> bool:
        """Return whether addresses, names and id of a flow match the filter."""
        if not self.filter:
            return True
        text = f"{row.src} {row.dst} {row.cc_name} {row.steered_by} {row.flow_id}".lower()
        return all(
            (word[1:] not in text) if word.startswith("!") and len(word) > 1 else (word in text)
            for word in self.filter.lower().split()
        )

    def apply(self, flows: Iterable[FlowHistory]) -> list[FlowHistory]:
        """Return the matching flows, sorted; ties by id, flows without a value last."""
        key = BY_NAME[self.sort].key
        shown = sorted((flow for flow in flows if self.matches(flow.row)), key=lambda flow: flow.row.flow_id)
        with_value = [flow for flow in shown if key(flow.row) is not None]
        without = [flow for flow in shown if key(flow.row) is None]
        # All keys of a column have the same type, number or text.
        with_value.sort(key=lambda flow: key(flow.row), reverse=self.descending)  # type: ignore[arg-type, return-value]
        return with_value + without


@dataclass(frozen=True, slots=True)
class Placed:
    """A column with its width in the table.

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
        """Total width of the column [characters]."""
        return self.text_width + (1 + self.spark_width if self.spark_width else 0)

    def heading(self, chosen: Chosen) -> str:
        """Return the heading and the unit below it; an arrow if flows are sorted by the column."""
        arrow = "" if self.column.name != chosen.sort else " ▼" if chosen.descending else " ▲"
        title, unit = self.column.title + arrow, self.column.unit
        if self.column.right and not self.spark_width:
            title = title.rjust(self.text_width)
        return f"{title}\n{unit.rjust(self.text_width) if self.column.right else unit}"

    def text(self, row: FlowRow) -> str:
        """Return the text of a cell, shortened if necessary; addresses keep their end."""
        text = self.column.text(row)
        if len(text) > self.text_width:
            cut = self.text_width - 1
            text = "…" + text[-cut:] if self.column.name in ("local", "peer") else text[:cut] + "…"
        return text.rjust(self.text_width) if self.column.right else text


def layout(width: int, rows: Sequence[FlowRow]) -> tuple[Placed, ...]:
    """Choose columns and widths for a terminal.

    Drops columns, then shortens texts, until sparklines fit; these share the remaining width.

    Returns:
        The columns from left to right. A very narrow terminal scrolls horizontally.
    """
    widths = {column: _text_width(column, rows) for column in COLUMNS}
    minimum, maximum = SPARK_WIDTH
    while _room(width, widths) < minimum and (droppable := [column for column in widths if column.keep < 9]):
        del widths[min(droppable, key=lambda column: column.keep)]
    while _room(width, widths) < minimum:
        widest = max(widths, key=lambda column: 0 if column.right else widths[column])
        if widest.right or widths[widest] <= _SHORTEST:
            break
        widths[widest] -= 1
    spark_width = min(max(_room(width, widths), minimum), maximum)
    return tuple(
        Placed(column, text, 0 if column.metric is None else spark_width) for column, text in widths.items()
    )


def _room(width: int, widths: Mapping[Column, int]) -> int:
    """Return the remaining width for each sparkline [characters]."""
    sparks = sum(column.metric is not None for column in widths)
    return (width - sum(widths.values()) - _PADDING * len(widths)) // sparks - 1


def _text_width(column: Column, rows: Sequence[FlowRow]) -> int:
    longest = max((len(column.text(row)) for row in rows), default=0)
    heading = len(column.title) + _ARROW
    if column.metric is not None:  # the heading is also above the sparkline
        heading -= 1 + SPARK_WIDTH[0]
    return max(column.width, longest, heading)
