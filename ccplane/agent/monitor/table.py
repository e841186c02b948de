"""The table of flows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.text import Text
from textual.coordinate import Coordinate
from textual.widgets import DataTable

from ccplane.agent.monitor.history import FlowHistory, Metric
from ccplane.agent.monitor.model import MAX_SHOWN, Chosen, Placed, layout
from ccplane.agent.monitor.spark import spark

COLOURS: Final = {
    Metric.CWND: "#56b4e9",
    Metric.THROUGHPUT: "#2dc491",
    Metric.SRTT: "#e69f00",
    Metric.RATE: "#cc79a7",
}
"""Colours of the charts, distinguishable with red-green colour blindness."""

WARNING: Final = "#f0e442"


class FlowTable(DataTable[Text]):
    """The flows, one per line; the cursor follows its flow when the order changes."""

    def __init__(self) -> None:
        super().__init__(cursor_type="row", zebra_stripes=True, header_height=2, id="flows")
        self._placed: tuple[Placed, ...] = ()
        self._headings: list[str] = []
        self._shown: list[int] = []
        self._lines: list[list[Text]] = []

    @property
    def selected(self) -> int | None:
        """Id of the flow under the cursor; None if there is none."""
        return self._shown[self.cursor_row] if 0 <= self.cursor_row < len(self._shown) else None

    def show(self, flows: Sequence[FlowHistory], chosen: Chosen) -> None:
        """Show flows."""
        flows = flows[:MAX_SHOWN]
        selected, row = self.selected, self.cursor_row
        in_view = self.scroll_y <= row < self.scroll_y + self.scrollable_content_region.height
        self._arrange(layout(self.size.width, [flow.row for flow in flows]), chosen)
        # Lines are reused with new contents, so that the table keeps its scroll position.
        for number, flow in enumerate(flows):
            self._write(number, [_cell(flow, one) for one in self._placed])
        while len(self._lines) > len(flows):
            self._lines.pop()
            self.remove_row(str(len(self._lines)))
        ids = self._shown = [flow.row.flow_id for flow in flows]
        if ids:
            row = ids.index(selected) if selected in ids else min(row, len(ids) - 1)
            if row == self.cursor_row:
                return
            if in_view:
                self.move_cursor(row=row)
            else:  # the user scrolled away: move the cursor without the watcher, which would scroll back
                self.refresh_row(self.cursor_row)
                self.set_reactive(DataTable.cursor_coordinate, Coordinate(row, 0))
                self.refresh_row(row)

    def _arrange(self, placed: tuple[Placed, ...], chosen: Chosen) -> None:
        """Rebuild the table if columns, widths or headings changed."""
        headings = [one.heading(chosen) for one in placed]
        if (placed, headings) == (self._placed, self._headings):
            return
        self.clear(columns=True)
        self._lines = []
        for one, heading in zip(placed, headings, strict=True):
            self.add_column(Text(heading), key=one.column.name, width=one.width)
        self._placed, self._headings = placed, headings

    def _write(self, number: int, line: list[Text]) -> None:
        """Update the changed cells of a line."""
        if number == len(self._lines):
            self.add_row(*line, key=str(number))
            self._lines.append(line)
            return
        for one, before, now in zip(self._placed, self._lines[number], line, strict=True):
            if before != now:
                self.update_cell(str(number), one.column.name, now)
        self._lines[number] = line


def _cell(flow: FlowHistory, placed: Placed) -> Text:
    column = placed.column
    text = placed.text(flow.row)
    if column.name == "algorithm" and text == "fallback":
        return Text(text, style=WARNING)
    cell = Text(text)
    if column.metric is not None:
        (line,) = spark(flow.series(column.metric, placed.spark_width).tolist(), placed.spark_width)
        cell.append(" ").append(line, style=COLOURS[column.metric])
    return cell
