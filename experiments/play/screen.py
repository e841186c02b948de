"""Displays of `ccp play`: a full screen with keys, or a line per second where output is not a terminal."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final, Protocol

from rich.console import Console, RenderableType
from rich.live import Live
from rich.text import Text

from ccplane.base.errors import CcpError
from ccplane.base.printable import printable
from experiments.play import terminal
from experiments.play.controls import Controls
from experiments.play.history import FlowHistory, History
from experiments.play.messages import Message
from experiments.play.picture import picture
from experiments.play.series import INTERVAL_US

DRAW_S: Final = 0.1
"""Time between two pictures [s]."""

LINE_S: Final = 1
"""Time of the path between two lines of plain output [s]."""

_LINE_SAMPLES: Final = LINE_S * 1_000_000 // INTERVAL_US


_END: Final = ("q", "\x03", "\x04")
"""Keys that end; the last two are Ctrl-C and Ctrl-D."""


class Screen(Protocol):
    """A display."""

    def wait(self, timeout_s: float) -> list[Message] | None:
        """Wait for requests of the user; None to end."""
        ...

    def show(self, messages: Iterable[Message]) -> None:
        """Show messages."""
        ...


class FullScreen:
    """The picture, redrawn ten times per second, with keys."""

    def __init__(self, history: History, title: str, console: Console, notice: str = "") -> None:
        """Prepare; `notice` is shown below the curves until a key is pressed."""
        self._history = history
        self._title = title
        self._console = console
        self._controls = Controls(history)
        self._line: str | None = None
        self._keys: deque[str] = deque()
        self._notice = notice
        self._drawn_s = 0.0
        self._live = Live(console=console, screen=True, auto_refresh=False)

    @contextmanager
    def on(self) -> Iterator[None]:
        """Use the whole terminal for a `with` block; leave the last picture behind."""
        with terminal.single_keys(), self._live:
            yield
        self._console.print(picture(self._history, self._title, *self._console.size, [Text()]))

    def wait(self, timeout_s: float) -> list[Message] | None:
        """Wait for keys."""
        self._keys.extend(terminal.keys(0.0 if self._keys else timeout_s))
        while self._keys:
            key = self._keys.popleft()
            self._drawn_s = 0.0
            if self._line is None and key in _END:
                return None
            asked = self._pressed(key)
            if self._line is None:
                return asked  # the next key refers to what this one does
        return []

    def _pressed(self, key: str) -> list[Message]:
        if self._line is None:
            self._notice = ""
            if key == ":":
                self._line = ""
                return []
            return self._controls.key(key)
        if key == "enter":
            line, self._line = self._line, None
            try:
                return self._controls.typed(line)
            except CcpError as error:
                self._notice = f"{error.message}; {error.fix}"
        elif key == "escape":
            self._line = None
        elif key == "backspace":
            self._line = self._line[:-1]
        elif len(key) == 1 and key.isprintable():
            self._line += key
        return []

    def show(self, messages: Iterable[Message]) -> None:
        """Take messages, and redraw if it is time."""
        self._history.take(messages)
        now_s = time.monotonic()
        if now_s - self._drawn_s >= DRAW_S:
            self._drawn_s = now_s
            self._live.update(self._picture(), refresh=True)

    def _picture(self) -> RenderableType:
        bottom = []
        if self._line is not None:
            bottom = [
                Text.assemble(
                    (": ", "bold"),
                    self._line,
                    ("█", "blink"),
                    ("  Enter applies, Esc cancels", "bright_black"),
                )
            ]
        elif self._notice:
            bottom = [Text(self._notice, "red")]
        return picture(self._history, self._title, *self._console.size, bottom, self._controls.selected)


class Lines:
    """A line per second of the path, and one per mark."""

    def __init__(self, history: History, console: Console) -> None:
        self._history = history
        self._console = console
        self._left = _LINE_SAMPLES

    def wait(self, timeout_s: float) -> list[Message] | None:
        """Wait; there are no keys."""
        time.sleep(timeout_s)
        return []

    def show(self, messages: Iterable[Message]) -> None:
        """Print what is due."""
        for message in messages:
            if message["type"] == "samples":
                self._samples(message)
                continue
            self._history.take([message])
            if message["type"] == "mark" and message["kind"] != "error":
                self._print(f"{message['t_s']:7.2f} s  {message['kind']}: {message['text']}")
            elif message["type"] == "error":
                self._print(f"{self._history.now_s:7.2f} s  error: {message['text']}")

    def _samples(self, message: Message) -> None:
        begin = 0
        while begin < len(message["t_s"]):
            end = begin + self._left
            part = [
                {key: values if key == "name" else values[begin:end] for key, values in flow.items()}
                for flow in message["flows"]
            ]
            taken = message["t_s"][begin:end]
            self._history.take([{"type": "samples", "t_s": taken, "flows": part}])
            self._left -= len(taken)
            begin = end
            if not self._left:
                self._left = _LINE_SAMPLES
                flows = "   ".join(line_of(flow) for flow in self._history.flows)
                self._print(f"{self._history.now_s:7.2f} s  {flows}")

    def _print(self, line: str) -> None:
        self._console.print(printable(line, keep="\n"), highlight=False, markup=False, soft_wrap=True)


def line_of(flow: FlowHistory, samples: int = _LINE_SAMPLES) -> str:
    """Return the means of a flow's last samples."""

    def mean(values: Iterable[float | None], scale: float) -> str:
        there = [value for value in list(values)[-samples:] if value is not None]
        return f"{scale * sum(there) / len(there):.1f}" if there else "–"

    return (
        f"{flow.name}: {mean(flow.goodput_bytes_per_s, 8e-6)} Mbit/s, RTT {mean(flow.srtt_us, 1e-3)} ms, "
        f"window {mean(flow.cwnd_bytes, 1e-3)} kB"
    )
