"""What `ccp receive` prints: a table, lines of JSON, or nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal

import msgspec
import typer
from rich.console import Console
from rich.live import Live

from telemetry.bus import Bus, mono_us, wall_us
from telemetry.receiver import table
from telemetry.regime.watch import Watch, Watched
from telemetry.schema import ReceiverSignal, RegimeDecision, kind_of

Form = Literal["table", "json", "none"]
Show = Callable[[Sequence[ReceiverSignal], Sequence[Watched]], None]
"""Shows the signals of an interval and the decisions about peers whose window ended with it."""

_PIPE_WIDTH: Final = 200


def printer(form: Form, stack: contextlib.ExitStack, watch: Watch | None, bus: Bus | None) -> Show:
    """Return what shows an interval.

    Args:
        form: How.
        stack: What has to end with it.
        watch: Whose decisions stand in the table; None without a detector.
        bus: Whose state stands below it; None without a broker.
    """
    if form == "none":
        return lambda _signals, _watched: None
    if form == "json":
        return _print_json

    def rendered(signals: Sequence[ReceiverSignal]) -> Any:
        return table.render(signals, _note(bus), None if watch is None else watch.decisions)

    if not Console().is_terminal:
        console = Console(width=_PIPE_WIDTH)
        return lambda signals, _watched: console.print(rendered(signals))
    live = stack.enter_context(Live(auto_refresh=False))
    return lambda signals, _watched: live.update(rendered(signals), refresh=True)


def _print_json(signals: Sequence[ReceiverSignal], watched: Sequence[Watched]) -> None:
    for signal in signals:
        typer.echo(json_line(signal))
    for one in watched:
        seen = msgspec.structs.asdict(one.observation)
        del seen["t_s"]  # t_mono_us
        typer.echo(
            json_line(one.decision, **seen, baseline_ms=one.baseline_ms, switched=one.verdict.switched)
        )


def json_line(body: ReceiverSignal | RegimeDecision, **more: object) -> str:
    """Return a message as JSON: kind, wall and monotonic time [us], and all fields, null where missing.

    Args:
        body: The message.
        more: What else to say.
    """
    head = {"kind": kind_of(body), "t_wall_us": wall_us(), "t_mono_us": mono_us()}
    return msgspec.json.encode({**head, **msgspec.structs.asdict(body), **more}).decode()


def _note(bus: Bus | None) -> str:
    if bus is None:
        return ""
    state = "connected" if bus.connected else f"away for {bus.away_s:.0f} s"
    dropped = bus.counters.connection.samples_dropped
    return f"broker {state}" + (f", {dropped} signals dropped" if dropped else "")
