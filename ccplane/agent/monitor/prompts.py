"""Dialogs: set a parameter, switch the algorithm, help."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import ClassVar

from rich.table import Table
from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.suggester import SuggestFromList
from textual.widgets import Checkbox, Input, Label, OptionList, Static

from ccplane.agent.console import one_line, problems
from ccplane.agent.monitor import panels
from ccplane.agent.monitor.source import Parameter
from ccplane.base.errors import CcpError, ParamError

Ask = Callable[[str, bool], Awaitable[str]]
"""Takes the input and whether it is for this flow only; returns the message to show; raises CcpError."""


def sentence(error: CcpError) -> str:
    """Return an error on one line."""
    return "; ".join(one_line(problem) for problem in problems(error))


class Prompt(ModalScreen[str | None]):
    """A dialog; it stays open and shows the error if the request fails."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "cancel", "Cancel")]

    def __init__(self, title: str, algorithm: str, ask: Ask, *, one_flow: bool) -> None:
        """Create the dialog."""
        super().__init__()
        self._title = title
        self._algorithm = algorithm
        self._ask = ask
        self._one_flow = one_flow

    def compose_scope(self) -> ComposeResult:
        """Return the choice of flows, and the line for errors."""
        scope = Checkbox(f"only this flow, not all flows of {self._algorithm}", self._one_flow, id="scope")
        scope.BUTTON_INNER = _tick(self._one_flow)
        yield scope
        yield Static(id="problem")
        yield Label(
            "[b]Enter[/b] applies   [b]Tab[/b] and [b]Space[/b] choose flows   [b]Esc[/b] cancels",
            classes="keys",
        )

    @on(Checkbox.Changed)
    def scope_changed(self, event: Checkbox.Changed) -> None:
        """Show the choice with a mark, not only with a colour."""
        event.checkbox.BUTTON_INNER = _tick(event.value)
        event.checkbox.refresh()

    async def answer(self, text: str) -> None:
        """Execute the request, and close the dialog on success."""
        this_flow = self.query_one("#scope", Checkbox).value
        try:
            done = await self._ask(text, this_flow)
        except CcpError as error:
            self.query_one("#problem", Static).update(Text(sentence(error)))
        else:
            self.dismiss(done)

    def action_cancel(self) -> None:
        """Close the window."""
        self.dismiss(None)


def _tick(chosen: bool) -> str:
    return "X" if chosen else " "


class ParameterPrompt(Prompt):
    """Asks for NAME=VALUE."""

    def __init__(self, algorithm: str, known: Sequence[Parameter], ask: Ask, *, one_flow: bool) -> None:
        super().__init__(f"Set a parameter of {algorithm}", algorithm, ask, one_flow=one_flow)
        self._known = known

    def compose(self) -> ComposeResult:
        """Return the widgets of the window."""
        names = [f"{one.name}=" for one in self._known]
        with Vertical(classes="window") as window:
            window.border_title = self._title
            yield Static(panels.parameters(self._known), id="known")
            yield Input(
                placeholder="name=value", suggester=SuggestFromList(names, case_sensitive=False), id="setting"
            )
            yield from self.compose_scope()

    def on_mount(self) -> None:
        """Focus the input."""
        self.query_one(Input).focus()

    @on(Input.Submitted)
    async def submitted(self, event: Input.Submitted) -> None:
        """Set the parameter."""
        await self.answer(event.value)


def setting(text: str) -> tuple[str, str]:
    """Parse NAME=VALUE.

    Raises:
        ParamError: `param.syntax`.
    """
    name, equals, value = (part.strip() for part in text.partition("="))
    if not (name and equals and value):
        raise ParamError(
            "param.syntax", f"cannot parse NAME=VALUE: `{text}`", fix="write NAME=VALUE, such as beta=0.8"
        )
    return name, value


class AlgorithmPrompt(Prompt):
    """Asks for one of the running algorithms."""

    def __init__(self, algorithm: str, running: Sequence[str], ask: Ask, *, one_flow: bool) -> None:
        super().__init__("Switch to another algorithm", algorithm, ask, one_flow=one_flow)
        self._names = running

    def compose(self) -> ComposeResult:
        """Return the widgets of the window."""
        with Vertical(classes="window") as window:
            window.border_title = self._title
            yield OptionList(*(Text(name) for name in self._names), id="running")
            yield from self.compose_scope()

    def on_mount(self) -> None:
        """Focus the list, with another algorithm selected."""
        options = self.query_one(OptionList)
        options.focus()
        others = [index for index, name in enumerate(self._names) if name != self._algorithm]
        options.highlighted = others[0] if others else 0

    @on(OptionList.OptionSelected)
    async def chosen(self, event: OptionList.OptionSelected) -> None:
        """Switch."""
        await self.answer(self._names[event.option_index])


class Help(ModalScreen[None]):
    """The keys."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,enter,question_mark,h", "app.pop_screen", "Close")
    ]

    KEYS: ClassVar[tuple[tuple[str, str], ...]] = (
        ("↑ ↓", "choose a flow"),
        ("Enter", "show details of the flow; Esc returns"),
        ("s", "set a parameter of this flow, or of all flows of its algorithm"),
        ("w", "switch this flow, or all flows of its algorithm, to another algorithm"),
        ("/", "filter: words that address, name or id must contain; !word excludes flows"),
        ("< >", "sort by the column to the left or to the right; or click a heading"),
        ("r", "reverse the order"),
        ("a", "show or hide receive-only flows: those that have sent no data"),
        ("Space", "pause and resume"),
        ("?", "this help"),
        ("q", "quit"),
    )

    def compose(self) -> ComposeResult:
        """Return the window."""
        table = Table.grid(padding=(0, 2))
        for key, meaning in self.KEYS:
            table.add_row(Text(key, style="bold"), Text(meaning))
        with Vertical(classes="window") as window:
            window.border_title = "Keys"
            yield Static(table)
            yield Label("[b]Esc[/b] closes the help", classes="keys")
