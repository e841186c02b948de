"""The first screen: the table of flows, a summary line and a filter line."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widgets import DataTable, Footer, Input, Static

from ccplane.agent import exits
from ccplane.agent.monitor import units
from ccplane.agent.monitor.history import Histories
from ccplane.agent.monitor.model import MAX_SHOWN, Chosen
from ccplane.agent.monitor.source import Look
from ccplane.agent.monitor.table import WARNING, FlowTable


class Overview(Screen[None]):
    """All flows.

    Attributes:
        chosen: Order and filter.
        folded: Whether receive-only flows are only counted.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "filter", "Filter", key_display="/"),
        Binding("less_than_sign", "sort(-1)", "Sort", key_display="< >"),
        Binding("greater_than_sign", "sort(1)", "Sort right", show=False),
        Binding("r", "turn", "Reverse"),
        Binding("a", "fold", "Receive-only flows", show=False),
        Binding("escape", "unfilter", "All flows", show=False),
    ]

    def __init__(self, histories: Histories) -> None:
        super().__init__()
        self.chosen = Chosen()
        self.folded = True
        self._histories = histories
        self._look: Look | None = None

    def compose(self) -> ComposeResult:
        """Return the parts of the screen."""
        yield Static("loading flows", id="head")
        yield FlowTable()
        yield Static(id="folded")
        yield Input(placeholder="words to search for; !word excludes flows", id="filter")
        yield Static(id="status")
        yield Footer()

    def on_mount(self) -> None:
        """Focus the table; hide the filter."""
        self.query_one("#filter").display = False
        self.query_one(FlowTable).focus()

    def on_resize(self) -> None:
        """Fit the columns to the terminal, once the table has its new size."""
        self.call_after_refresh(self.show, None)

    @property
    def selected(self) -> int | None:
        """Id of the flow under the cursor; None if there is none."""
        return self.query_one(FlowTable).selected

    def show(self, look: Look | None = None) -> None:
        """Show a snapshot; None redraws the last one after a change of order or size."""
        self._look = look or self._look
        # At exit, the widgets of a screen are removed before the screen.
        if self._look is None or not self.query(FlowTable):
            return
        there = list(self._histories.flows.values())
        sending = [flow for flow in there if self._look.sends(flow.row.flow_id)]
        self._show_folded(len(there) - len(sending))
        if self.folded:
            there = sending
        flows = self.chosen.apply(there)
        self.query_one(FlowTable).show(flows, self.chosen)
        self.query_one("#head", Static).update(self._head(self._look, len(there), len(flows)))

    def _show_folded(self, receive_only: int) -> None:
        line = self.query_one("#folded", Static)
        line.display = receive_only > 0
        what = f"{_counted(receive_only, 'receive-only flow')} {'not shown' if self.folded else 'included'}"
        line.update(Text.assemble(f"{what}: ", ("a", "bold"), f" {'shows' if self.folded else 'hides'} them"))

    def _head(self, look: Look, there: int, found: int) -> Text:
        total = sum(row.throughput_bytes_per_s or 0.0 for row in look.rows)
        head = Text.assemble((_counted(there, "flow"), "bold"), f", {units.rate(total)}   ")
        if look.agent is None:
            head.append("no agent: flows run the fallback", style=WARNING)
        else:
            running = sorted({name.partition("/")[0] for name in look.agent.programs.values()})
            head.append(f"agent pid {look.agent.pid}: {', '.join(running)}")
        if slotless := exits.slotless(look.counters):
            head.append(f"   {slotless}", style=WARNING)
        if self.chosen.filter:
            head.append(f"   {found} of {there} match ", style="dim").append(self.chosen.filter, style="bold")
        if found > MAX_SHOWN:
            head.append(f"   showing the first {MAX_SHOWN}", style="dim")
        return head

    def action_sort(self, step: int) -> None:
        """Sort by the next column."""
        self.chosen = self.chosen.next(step)
        self.show()

    def action_turn(self) -> None:
        """Reverse the order."""
        self.chosen = self.chosen.by(self.chosen.sort)
        self.show()

    def action_fold(self) -> None:
        """Show or hide receive-only flows."""
        self.folded = not self.folded
        self.show()

    @on(DataTable.HeaderSelected)
    def heading_clicked(self, event: DataTable.HeaderSelected) -> None:
        """Sort by the column whose heading was clicked."""
        self.chosen = self.chosen.by(str(event.column_key.value))
        self.show()

    def action_filter(self) -> None:
        """Show the filter line."""
        field = self.query_one("#filter", Input)
        field.display = True
        field.focus()

    def action_unfilter(self) -> None:
        """Show all flows again."""
        field = self.query_one("#filter", Input)
        field.value = ""
        field.display = False
        self._filter_by("")
        self.query_one(FlowTable).focus()

    @on(Input.Changed, "#filter")
    def filter_changed(self, event: Input.Changed) -> None:
        """Filter while the user types."""
        self._filter_by(event.value)

    @on(Input.Submitted, "#filter")
    def filter_entered(self) -> None:
        """Keep the filter and return to the table."""
        field = self.query_one("#filter", Input)
        field.display = bool(field.value.strip())
        self.query_one(FlowTable).focus()

    def _filter_by(self, words: str) -> None:
        self.chosen = Chosen(self.chosen.sort, self.chosen.turned, words.strip())
        self.show()


def _counted(n: int, what: str) -> str:
    return f"1 {what}" if n == 1 else f"{n:,} {what}s"
