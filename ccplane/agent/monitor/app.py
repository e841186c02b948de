"""The application of `ccp top`: polls the source and displays its data."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar, Final, ParamSpec, TypeVar

from rich.text import Text
from textual import on
from textual.app import App
from textual.binding import Binding, BindingType
from textual.timer import Timer
from textual.widgets import DataTable, Static

from ccplane.agent.monitor.detail import DetailScreen
from ccplane.agent.monitor.history import FlowHistory, Histories
from ccplane.agent.monitor.overview import Overview
from ccplane.agent.monitor.prompts import AlgorithmPrompt, Help, ParameterPrompt, sentence, setting
from ccplane.agent.monitor.source import Happened, Look, Source
from ccplane.agent.monitor.table import WARNING
from ccplane.base.errors import CcpError

MESSAGE_S: Final = 8.0
"""Time for which a message is shown [s]."""

EVENTS_KEPT: Final = 2000
"""Maximum events kept, of all flows; the oldest are dropped first."""

P = ParamSpec("P")
R = TypeVar("R")


class Monitor(App[None]):
    """The flows of this machine.

    Attributes:
        histories: Recent samples of the flows.
        paused: Whether polling is paused.
    """

    TITLE = "ccp top"
    ENABLE_COMMAND_PALETTE = False
    CSS_PATH = "monitor.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "set_param", "Set"),
        Binding("w", "switch", "Switch"),
        Binding("space", "pause", "Pause"),
        Binding("question_mark,h", "help", "Help", key_display="?"),
        Binding("q", "quit", "Quit"),
    ]

    def __init__(self, source: Source, interval_s: float | None = 0.5) -> None:
        """Create the application; `run` starts it.

        Args:
            source: Source of the data; closed at the end.
            interval_s: Polling interval [s]; None to poll only through `look`.
        """
        super().__init__()
        self.histories = Histories()
        self.paused = False
        self._source = source
        self._interval_s = interval_s
        # One thread for all requests: the source need not be thread-safe, and the screen never blocks.
        self._pool = ThreadPoolExecutor(1, "ccp-top")
        self._looking = False
        self._lost = False
        self._forget: Timer | None = None
        self._last: Look | None = None
        self._events: deque[Happened] = deque(maxlen=EVENTS_KEPT)
        self._overview = Overview(self.histories)

    async def on_mount(self) -> None:
        """Show the table and start polling."""
        await self.push_screen(self._overview)
        if self._interval_s is not None:
            self.set_interval(self._interval_s, self.tick)
            self.tick()

    async def on_unmount(self) -> None:
        """Close the source."""
        await self._asked(self._source.close)
        self._pool.shutdown(wait=False)

    # Polling

    def tick(self) -> None:
        """Start a poll, unless the screen is paused or the previous poll still runs."""
        if not (self.paused or self._looking):
            self._looking = True
            self.run_worker(self.look())

    async def look(self) -> None:
        """Poll once and show the result."""
        self._looking = True
        try:
            look = await self._asked(self._source.look)
        except CcpError as error:
            self.say(sentence(error), wrong=True)
            self._lost = True
        else:
            if self._lost:
                self._lost = False
                self.say("")
            self._last = look
            self.histories.add(look.rows, look.t_wall_s)
            self._overview.show(look)
            await self._show_detail()
        finally:
            self._looking = False

    async def _show_detail(self) -> None:
        detail = self._detail
        if detail is None or not detail.is_mounted or self._last is None:
            return
        flow_id = detail.flow_id
        detail.show(self._last.stats.get(flow_id))
        if detail.history.closed:
            return  # the agent has no data of a closed flow; keep the last
        try:
            inside = await self._asked(self._source.inside, flow_id)
            self._events.extend(await self._asked(self._source.events))
        except CcpError as error:
            # The view may be closed meanwhile; for a flow that has just closed, keep the last data.
            if detail in self.screen_stack and not (error.slug == "flow.gone" and detail.reported):
                detail.show_no_inside(sentence(error))
        else:
            if detail in self.screen_stack:
                detail.show_inside(inside, about_flow(self._events, flow_id, inside.algorithm))

    async def _asked(self, question: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        return await asyncio.get_running_loop().run_in_executor(self._pool, lambda: question(*args, **kwargs))

    # Screens

    @property
    def _detail(self) -> DetailScreen | None:
        return next((one for one in self.screen_stack if isinstance(one, DetailScreen)), None)

    @property
    def _selected(self) -> FlowHistory | None:
        """The flow that keys act on: the flow of the detail view, else the flow under the cursor."""
        detail = self._detail
        if detail is not None:
            return detail.history
        flow_id = self._overview.selected
        return None if flow_id is None else self.histories.flows.get(flow_id)

    def say(self, message: str, *, wrong: bool = False) -> None:
        """Show a message in the last line of all screens for `MESSAGE_S`; an empty one clears it."""
        if self._forget is not None:
            self._forget.stop()
        self._forget = self.set_timer(MESSAGE_S, lambda: self.say("")) if message else None
        if message:
            self._show_message(Text(message, style=WARNING if wrong else ""))
        else:
            self._show_message(Text("paused: press Space to resume" if self.paused else ""))

    def _show_message(self, message: Text) -> None:
        for screen in self.screen_stack:
            for line in screen.query("#status").results(Static):
                line.update(message)

    @on(DataTable.RowSelected)
    async def look_into(self) -> None:
        """Open the detail view of the flow under the cursor."""
        history = self._selected
        if history is not None:
            await self.push_screen(DetailScreen(history))
            await self._show_detail()

    def action_pause(self) -> None:
        """Pause or resume polling."""
        self.paused = not self.paused
        self.say("")

    def action_help(self) -> None:
        """Show the keys."""
        self.push_screen(Help())

    # Changes

    def action_set_param(self) -> None:
        """Open the window for a parameter."""
        self.run_worker(self._ask_parameter(), exclusive=True, group="prompt")

    def action_switch(self) -> None:
        """Open the window for an algorithm."""
        self.run_worker(self._ask_algorithm(), exclusive=True, group="prompt")

    async def _ask_parameter(self) -> None:
        history = self._selected
        if history is None:
            return
        flow_id = history.row.flow_id
        try:
            inside = await self._asked(self._source.inside, flow_id)
        except CcpError as error:
            self.say(sentence(error), wrong=True)
            return

        async def ask(text: str, this_flow: bool) -> str:
            name, value = setting(text)
            only = flow_id if this_flow else None
            reached = await self._asked(self._source.set_param, name, value, inside.algorithm, only)
            own = name.removeprefix(f"{inside.algorithm}.")
            return f"{inside.algorithm}.{own} = {value}: {_flows(reached)}"

        self.push_screen(
            ParameterPrompt(inside.algorithm, inside.parameters, ask, one_flow=self._detail is not None),
            self._done,
        )

    async def _ask_algorithm(self) -> None:
        history = self._selected
        if history is None:
            return
        flow_id = history.row.flow_id
        try:
            inside = await self._asked(self._source.inside, flow_id)
            running = await self._asked(self._source.algorithms)
        except CcpError as error:
            self.say(sentence(error), wrong=True)
            return

        async def ask(name: str, this_flow: bool) -> str:
            only = flow_id if this_flow else None
            reached = await self._asked(self._source.switch, name, only, inside.algorithm)
            return f"{_flows(reached)} switched from {inside.algorithm} to {name}"

        self.push_screen(
            AlgorithmPrompt(inside.algorithm, running, ask, one_flow=self._detail is not None), self._done
        )

    async def _done(self, message: str | None) -> None:
        if message is not None:
            self.say(message)
            await self.look()


def about_flow(events: Iterable[Happened], flow_id: int, algorithm: str) -> list[Happened]:
    """Return the events of a flow, and events of its algorithm that do not concern a single flow."""
    return [
        one
        for one in events
        if one.flow_id == flow_id or (one.flow_id is None and one.algorithm == algorithm)
    ]


def _flows(n: int) -> str:
    return "1 flow" if n == 1 else f"{n:,} flows"
