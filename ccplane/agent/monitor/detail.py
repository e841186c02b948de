"""The detail view of one flow, with data of the datapath and of its algorithm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.screen import Screen
from textual.widgets import Footer, Static

from ccplane.agent.monitor import panels, units
from ccplane.agent.monitor.charts import Chart, TimeAxis
from ccplane.agent.monitor.history import LENGTH, FlowHistory, Metric
from ccplane.agent.monitor.source import Happened, Inside
from ccplane.agent.monitor.table import COLOURS, WARNING
from ccplane.base.flows import FlowStats

EVENTS_SHOWN: Final = 50

_CHARTS: Final = (
    (Metric.CWND, "congestion window", units.size),
    (Metric.THROUGHPUT, "throughput", units.rate),
    (Metric.RATE, "pacing rate", units.rate),
    (Metric.SRTT, "smoothed RTT", units.duration),
)


class DetailScreen(Screen[None]):
    """All data of one flow. When the flow closes, its last data stay visible.

    Attributes:
        history: The flow.
        reported: Whether the agent has sent data.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,enter,backspace", "app.pop_screen", "Back", key_display="esc")
    ]

    def __init__(self, history: FlowHistory) -> None:
        super().__init__()
        self.history = history
        self.reported = False
        self._charts = {metric: Chart(title, text, COLOURS[metric]) for metric, title, text in _CHARTS}
        self._stats: FlowStats | None = None
        self._happened: Sequence[Happened] = ()

    @property
    def flow_id(self) -> int:
        """Id of the flow."""
        return self.history.row.flow_id

    def compose(self) -> ComposeResult:
        """Return the widgets of the screen."""
        yield Static(id="head")
        with Horizontal(id="body"):
            with Vertical(id="charts"):
                yield from self._charts.values()
                yield TimeAxis()
            with VerticalScroll(id="words"):
                for name in ("parameters", "state", "telemetry", "totals"):
                    panel = Static(id=name, classes="panel")
                    panel.border_title = name
                    yield panel
        with VerticalScroll(id="events", classes="panel") as scroll:
            scroll.border_title = "events"
            yield Static(id="happened")
        yield Static(id="status")
        yield Footer()

    def show(self, stats: FlowStats | None) -> None:
        """Show the numbers; None means that the flow closed, and keeps the last numbers."""
        row = self.history.row
        self._stats = stats or self._stats
        head = Text.assemble((f"{row.src} → {row.dst}", "bold"), f"   {row.steered_by}   {row.cc_name}")
        head.append(f"   flow {row.flow_id}", style="dim")
        if self.history.closed:
            head.append("   closed", style=WARNING)
        self.query_one("#head", Static).update(head)
        self._show_charts()
        self.query_one("#totals", Static).update(panels.totals(row, self._stats))

    def _show_charts(self) -> None:
        times_s = self.history.times_s(LENGTH).tolist()
        changes = panels.changes(self._happened)
        for metric, chart in self._charts.items():
            values = self.history.series(metric, LENGTH).tolist()
            # Most algorithms do not pace; omit their empty chart.
            chart.display = metric is not Metric.RATE or any(value == value for value in values)
            chart.show(values, times_s, changes)
        self.query_one(TimeAxis).show(times_s)

    def show_inside(self, inside: Inside, events: Sequence[Happened]) -> None:
        """Show the agent's data."""
        self.reported = True
        self._happened = events
        self._show_charts()
        self.query_one("#happened", Static).update(panels.events(events, EVENTS_SHOWN))
        self.query_one("#parameters", Static).update(panels.parameters(inside.parameters))
        self.query_one("#state", Static).update(
            panels.state(inside.state, inside.report, inside.report_age_s)
        )
        self.query_one("#telemetry", Static).update(panels.telemetry(inside.telemetry))

    def show_no_inside(self, reason: str) -> None:
        """Show why there are no data from the agent."""
        self.query_one("#parameters", Static).update(Text(reason))
        for name in ("state", "telemetry"):
            self.query_one(f"#{name}", Static).update(panels.NOTHING)
