"""The output of `ccp telemetry receive`: a table, lines of JSON, or nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, Self

import msgspec
import typer
from rich.console import Console
from rich.live import Live

from telemetry.bus import Bus, mono_us, wall_us
from telemetry.receiver import table
from telemetry.schema import ReceiverSignal, RegimeDecision, kind_of


class Moment(NamedTuple):
    """End of an interval.

    Attributes:
        wall_us: Wall clock [us].
        mono_us: CLOCK_MONOTONIC [us].
    """

    wall_us: int
    mono_us: int

    @classmethod
    def now(cls) -> Self:
        """Return the current time."""
        return cls(wall_us(), mono_us())


Form = Literal["table", "json", "none"]
Decided = tuple[RegimeDecision, Mapping[str, object]]
"""A decision about a peer, and additional fields to print."""
Show = Callable[[Moment, Sequence[ReceiverSignal], Sequence[Decided]], None]
"""Prints the signals of an interval, and the decisions about peers whose window ended with it."""

_PIPE_WIDTH: Final = 200


def printer(
    form: Form,
    stack: contextlib.ExitStack,
    decisions: Callable[[], Mapping[str, RegimeDecision]] | None,
    bus: Bus | None,
) -> Show:
    """Return the function that prints an interval."""
    if form == "none":
        return lambda _moment, _signals, _decided: None
    if form == "json":
        return _print_json

    def rendered(signals: Sequence[ReceiverSignal]) -> Any:
        return table.render(signals, _note(bus), None if decisions is None else decisions())

    if not Console().is_terminal:
        console = Console(width=_PIPE_WIDTH)
        return lambda _moment, signals, _decided: console.print(rendered(signals))
    live = stack.enter_context(Live(auto_refresh=False))
    return lambda _moment, signals, _decided: live.update(rendered(signals), refresh=True)


def _print_json(moment: Moment, signals: Sequence[ReceiverSignal], decided: Sequence[Decided]) -> None:
    for line in json_lines(moment, signals, decided):
        typer.echo(line)


def json_lines(
    moment: Moment, signals: Sequence[ReceiverSignal], decided: Sequence[Decided]
) -> Iterator[str]:
    """Yield the signals of an interval, and the decisions about peers whose window ended with it, as JSON."""
    for signal in signals:
        yield json_line(signal, moment)
    for decision, more in decided:
        yield json_line(decision, moment, **more)


def json_line(body: ReceiverSignal | RegimeDecision, moment: Moment, **more: object) -> str:
    """Return a message as JSON: kind, wall and monotonic time [us], and all fields, null where missing."""
    head = {"kind": kind_of(body), "t_wall_us": moment.wall_us, "t_mono_us": moment.mono_us}
    return msgspec.json.encode({**head, **msgspec.structs.asdict(body), **more}).decode()


def _note(bus: Bus | None) -> str:
    if bus is None:
        return ""
    state = "connected" if bus.connected else f"disconnected for {bus.away_s:.0f} s"
    dropped = bus.counters.connection.samples_dropped
    return f"broker {state}" + (f", {dropped} signals dropped" if dropped else "")
