"""The picture in a terminal: window, RTT and goodput over time, parameters, marks and keys."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from rich.console import Group
from rich.text import Text

from ccplane.base.printable import printable
from experiments.play.chart import LABEL_WIDTH, Curve, Span, axis, chart
from experiments.play.controls import HELP
from experiments.play.history import FlowHistory, History
from experiments.play.messages import Message
from experiments.play.setting import Setting

SPAN_S: Final = 30.0
"""Time that the picture shows [s]."""

COLOURS: Final = (
    "cyan",
    "yellow",
    "magenta",
    "green",
    "blue",
    "red",
    "white",
    "bright_cyan",
    "bright_yellow",
)
"""Colours of flows, in order."""

SYMBOLS: Final = {"save": ("S", "bold green"), "param": ("P", "bold blue"), "path": ("N", "bold yellow")}
"""Character and style of marks on the axis; errors have `_ERROR`."""
_ERROR: Final = ("E", "bold red")

MIN_LINES: Final = 3
"""Minimum height of a chart in lines."""

_LOG_LINES: Final = 4
_FIXED_LINES: Final = 9 + _LOG_LINES
"""Lines of everything but the charts: titles, axis, parameters, marks, keys."""


@dataclass(frozen=True, slots=True)
class Panel:
    """A chart.

    Attributes:
        title: Its quantity, with the unit.
        field: Its values in the samples.
        scale: Factor from the samples' unit to the shown one.
        reference: The dotted line: the value that belongs to a path, in the samples' unit.
        meaning: What the dotted line is.
    """

    title: str
    field: str
    scale: float
    reference: Callable[[Setting], float]
    meaning: str

    def values(self, flow: FlowHistory) -> Iterator[float | None]:
        """Yield the values of a flow in the shown unit."""
        for value in getattr(flow, self.field):
            yield None if value is None else value * self.scale


PANELS: Final = (
    Panel("goodput [Mbit/s]", "goodput_bytes_per_s", 8e-6, lambda path: path.rate_bytes_per_s, "rate"),
    Panel("RTT [ms]", "srtt_us", 1e-3, lambda path: path.rtt_us, "without queue"),
    Panel("window [kB]", "cwnd_bytes", 1e-3, lambda path: path.rate_bytes_per_s * path.rtt_us / 1e6, "1 BDP"),
)


def picture(
    history: History,
    title: str,
    width: int,
    lines: int,
    bottom: Iterable[Text] = (),
    selected: Message | None = None,
) -> Group:
    """Return the picture.

    Args:
        history: What is shown.
        title: First line.
        width: Columns of the terminal.
        lines: Lines of the terminal.
        bottom: Lines to show instead of the keys.
        selected: The parameter that keys change.
    """
    end_s = max(history.now_s, SPAN_S)
    span = Span(end_s - SPAN_S, end_s, max(width - LABEL_WIDTH - 1, 20))
    height = max((lines - _FIXED_LINES) // len(PANELS), MIN_LINES)
    height -= height > MIN_LINES and height % 2 == 0  # odd heights have a line in the middle
    marks = [mark["t_s"] for mark in history.marks]
    shown = [_title(history, title)]
    for panel in PANELS:
        curves = [
            Curve(list(zip(history.times, panel.values(flow), strict=True)), colour)
            for flow, colour in zip(history.flows, COLOURS, strict=False)
        ]
        shown.append(_legend(history, panel))
        shown += chart(curves, span, height, _reference(history, panel, span), marks)
    symbols = [(mark["t_s"], *SYMBOLS.get(mark["kind"], _ERROR)) for mark in history.marks]
    shown += axis(span, symbols)
    shown.append(_params(history, selected))
    shown += _log(history)
    shown += list(bottom) or [Text(line, "bright_black") for line in HELP]
    for line in shown:
        line.no_wrap, line.overflow = True, "ellipsis"
    return Group(*shown)


def _title(history: History, title: str) -> Text:
    if not history.state:
        return Text(title, "bold")
    setting = Setting.of(history.state["setting"])
    rest = f"  {setting.path_text()}  {history.now_s:.1f} s"
    if history.state["speed"] != 1:
        rest += f"  speed {history.state['speed']:g}"
    line = Text.assemble((title, "bold"), rest)
    return line if history.state["running"] else line.append("  paused", "bold yellow")


def _legend(history: History, panel: Panel) -> Text:
    line = Text(f"{panel.title}  ", "bold")
    for flow, colour in zip(history.flows, COLOURS, strict=False):
        last = next(iter(reversed(list(panel.values(flow)))), None)
        line.append(f"━ {flow.name} {'–' if last is None else f'{last:.1f}'}  ", f"not bold {colour}")
    return line.append(f"┈ {panel.meaning}", "not bold bright_black")


def _reference(history: History, panel: Panel, span: Span) -> Curve:
    """Return the value of each path over the time in which it was in use."""
    points: list[tuple[float, float | None]] = []
    starts = [*(t_s for t_s, _ in history.paths[1:]), max(history.now_s, span.end_s)]
    for (start_s, path), end_s in zip(history.paths, starts, strict=False):
        if end_s < span.start_s:
            continue
        value = panel.reference(path) * panel.scale
        points += [(max(start_s, span.start_s), value), (end_s, value), (end_s, None)]
    return Curve(points, "bright_black")


def _params(history: History, selected: Message | None) -> Text:
    line = Text("parameters  ", "bold")
    for one in history.state.get("params", []):
        is_selected = selected is not None and one["name"] == selected["name"]
        value = f"{one['value']:g}" if isinstance(one["value"], float) else str(one["value"])
        text = f"{one['name']}={value}"
        if is_selected and one["min"] is not None and one["max"] is not None:
            text += f" ({one['min']:g} to {one['max']:g})"
        line.append(text, "not bold reverse" if is_selected else "not bold").append("  ")
    return line if history.state.get("params") else line.append("none", "not bold")


def _log(history: History) -> list[Text]:
    """Return the last marks, or the last error."""
    if history.error:
        lines = [Text(printable(line), "red") for line in history.error.splitlines()]
    else:
        lines = []
        for mark in list(history.marks)[-_LOG_LINES:]:
            symbol, style = SYMBOLS.get(mark["kind"], _ERROR)
            lines.append(Text.assemble((symbol, style), f" {mark['t_s']:.1f} s  {printable(mark['text'])}"))
    return [*lines, *[Text()] * _LOG_LINES][:_LOG_LINES]
