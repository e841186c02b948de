"""`ccp receive`: the receiver agent, and the responder for its UDP probes."""

from __future__ import annotations

import contextlib
import selectors
import socket
from collections.abc import Callable, Sequence
from typing import Annotated, Final, Literal

import msgspec
import typer
from rich.console import Console
from rich.live import Live

from broker.errors import ExplainedError
from broker.options import BusOptions
from telemetry.bus import Bus, wall_us
from telemetry.receiver import table
from telemetry.receiver.errors import ReceiverError
from telemetry.receiver.probing import DEFAULT_PORT, Kind, Responder
from telemetry.receiver.receiver import Options, Receiver, resolve
from telemetry.schema import ReceiverSignal
from telemetry.signals import on_signals
from telemetry.status import host_name, online

app = typer.Typer(add_completion=False)

TTL_INTERVALS: Final = 3
LEAST_TTL_MS: Final = 1000
"""A signal is true for so many intervals, and not less than this [ms]: networks and busy hosts delay some."""

SUFFIX: Final = "-receiver"
"""An agent on the same host is another sender, and has the host's name."""

FAILED: Final = 1
Form = Literal["table", "json", "none"]
_PIPE_WIDTH: Final = 200


@app.command()
def receive(
    peer: Annotated[
        list[str] | None,
        typer.Option(
            help="Who sends to this host, and is probed; repeat it. Without: all TCP peers, no probes."
        ),
    ] = None,
    window_ms: Annotated[
        int | None,
        typer.Option(min=1, help="What a signal covers, a multiple of the interval [the interval]."),
    ] = None,
    interval_ms: Annotated[int, typer.Option(min=1, help="Time between signals.")] = 1000,
    probe: Annotated[str, typer.Option(help="How to measure the RTT: icmp, udp or none.")] = "icmp",
    probe_ms: Annotated[int, typer.Option(min=1, help="Time between probes to a peer.")] = 50,
    port: Annotated[int, typer.Option(min=0, max=65535, help="UDP port of responders.")] = DEFAULT_PORT,
    kernel_probe: Annotated[
        bool,
        typer.Option(
            help="Let the kernel count CE marks and one-way delays (needs CAP_BPF and CAP_PERFMON)."
        ),
    ] = True,
    per_flow: Annotated[
        bool, typer.Option("--per-flow", help="A signal of each TCP connection, too.")
    ] = False,
    respond: Annotated[
        bool, typer.Option("--respond", help="Only answer UDP probes of others, on --port.")
    ] = False,
    broker: Annotated[
        str | None, typer.Option(help="Publish to it: mqtt://[USER[:PASSWORD]@]HOST[:PORT], or mqtts://.")
    ] = None,
    ttl_ms: Annotated[
        int | None, typer.Option(min=1, help="How long a signal is true [3 intervals, at least 1000 ms].")
    ] = None,
    sender: Annotated[
        str | None,
        typer.Option(help="Name on the bus [the broker's user, or this host's name and -receiver]."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a JSON object a signal, one line each.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print no signals, only publish them.")] = False,
) -> None:
    """Measure what a receiver sees of its peers, and publish it: RTT, CE marks, loss, reordering, goodput."""
    try:
        if respond:
            _respond(port)
        else:
            options = Options(
                tuple(dict.fromkeys(resolve(one) for one in peer or ())),
                window_ms or interval_ms,
                interval_ms,
                _kind(probe),
                probe_ms,
                port,
                kernel_probe,
                per_flow,
            )
            lives_ms = ttl_ms or max(interval_ms * TTL_INTERVALS, LEAST_TTL_MS)
            _receive(options, broker, sender, lives_ms, "json" if as_json else "none" if quiet else "table")
    except ExplainedError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(FAILED) from None


def _kind(probe: str) -> Kind | None:
    kinds: dict[str, Kind | None] = {"icmp": "icmp", "udp": "udp", "none": None}
    if probe not in kinds:
        raise ReceiverError("receiver.bad_option", f"no probe `{probe}`", "--probe", "", "icmp, udp or none")
    return kinds[probe]


def _respond(port: int) -> None:
    responder = Responder(port)
    here, there = socket.socketpair()
    with (
        contextlib.closing(responder),
        here,
        there,
        selectors.DefaultSelector() as selector,
        on_signals(lambda: there.send(b"\0")),
    ):
        selector.register(responder.sock, selectors.EVENT_READ)
        selector.register(here, selectors.EVENT_READ)
        typer.echo(f"answering probes on UDP port {responder.port}", err=True)
        while here not in [key.fileobj for key, _ in selector.select()]:
            responder.poll()


def _receive(options: Options, broker: str | None, sender: str | None, ttl_ms: int, form: Form) -> None:
    with contextlib.ExitStack() as stack:
        bus: Bus | None = None

        def publish(signals: Sequence[ReceiverSignal]) -> None:
            if bus is not None:
                for one in signals:
                    bus.publish(one, ttl_ms=ttl_ms)
            show(signals, bus)

        show = _printer(form, stack)
        receiver = Receiver(options, publish)
        stack.callback(receiver.close)
        for what, error in receiver.available.missing.items():
            typer.echo(f"{what}: not available\n{error}", err=True)
        for what, how in receiver.available.how.items():
            typer.echo(f"{what}: {how}", err=True)
        if broker is not None:
            way = BusOptions.from_url(broker)
            bus = Bus(
                way,
                sender=sender or way.user or f"{host_name(SUFFIX)}{SUFFIX}",
                status=online("receiver"),
                on_sample=receiver.take,
                kinds=("receiver_signal",),
            )
            stack.callback(bus.stop)
            bus.start()
        stack.enter_context(on_signals(receiver.request_stop))
        receiver.run()


def _printer(
    form: Form, stack: contextlib.ExitStack
) -> Callable[[Sequence[ReceiverSignal], Bus | None], None]:
    """Return what shows the signals of an interval."""
    if form == "none":
        return lambda _signals, _bus: None
    if form == "json":
        return _print_json
    if not Console().is_terminal:
        console = Console(width=_PIPE_WIDTH)
        return lambda signals, bus: console.print(table.render(signals, _note(bus)))
    live = stack.enter_context(Live(auto_refresh=False))
    return lambda signals, bus: live.update(table.render(signals, _note(bus)), refresh=True)


def _print_json(signals: Sequence[ReceiverSignal], _bus: Bus | None) -> None:
    for one in signals:
        typer.echo(json_line(one))


def json_line(one: ReceiverSignal) -> str:
    """Return a signal as JSON with all its fields, null where nothing was measured, and the time [us]."""
    return msgspec.json.encode({"t_wall_us": wall_us(), **msgspec.structs.asdict(one)}).decode()


def _note(bus: Bus | None) -> str:
    if bus is None:
        return ""
    state = "connected" if bus.connected else f"away for {bus.away_s:.0f} s"
    dropped = bus.counters.connection.samples_dropped
    return f"broker {state}" + (f", {dropped} signals dropped" if dropped else "")
