"""`ccp receive`: the receiver agent, and the responder for its UDP probes."""

from __future__ import annotations

import contextlib
import selectors
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final

import typer

from broker.options import BusOptions
from ccplane.base.errors import CcpError
from ccplane.base.notify import Manager, Supervised
from telemetry import netns
from telemetry.bus import Bus
from telemetry.receiver.errors import ReceiverError
from telemetry.receiver.output import Form, Moment, printer
from telemetry.receiver.probing import DEFAULT_PORT, Kind, Responder
from telemetry.receiver.receiver import Available, Options, Receiver, resolve
from telemetry.receiver.times import INTERVAL_MS, PROBE_MS, lives_ms, times
from telemetry.regime.modes import MODES, mode_of, with_settings
from telemetry.regime.watch import Watch, Watched
from telemetry.schema import MAX_TTL_MS, ReceiverSignal
from telemetry.signals import on_signals
from telemetry.status import online, sender_name

app = typer.Typer(add_completion=False)

SUFFIX: Final = "-receiver"
"""An agent on the same host is another sender, and has the host's name."""

FAILED: Final = 1


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
        typer.Option(min=1, help="What a signal covers, a multiple of the interval (the interval)."),
    ] = None,
    interval_ms: Annotated[
        int | None, typer.Option(min=1, help=f"Time between signals [{INTERVAL_MS}].")
    ] = None,
    probe: Annotated[str, typer.Option(help="How to measure the RTT: icmp, udp or none.")] = "icmp",
    probe_ms: Annotated[
        int | None, typer.Option(min=1, help=f"Time between probes to a peer [{PROBE_MS}].")
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="UDP port of responders.")] = DEFAULT_PORT,
    kernel_probe: Annotated[
        bool,
        typer.Option(
            help="Let the kernel count marks, retransmissions and delays (needs CAP_BPF and CAP_PERFMON)."
        ),
    ] = True,
    per_flow: Annotated[
        bool, typer.Option("--per-flow", help="A signal of each TCP connection, too.")
    ] = False,
    respond: Annotated[
        bool, typer.Option("--respond", help="Only answer UDP probes of others, on --port.")
    ] = False,
    namespace: Annotated[
        str | None,
        typer.Option(
            "--netns",
            metavar="NAME|PATH",
            help="Measure in this network namespace; the broker is reached from where the command is run.",
        ),
    ] = None,
    regime: Annotated[
        bool,
        typer.Option("--regime", help="Decide of each peer whether the path is shared; docs/regime.md."),
    ] = False,
    regime_mode: Annotated[
        str,
        typer.Option(
            help=f"How fast: {' or '.join(MODES)}; sets window, interval and probes where they are not given."
        ),
    ] = "paper",
    regime_set: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="A parameter of the detector; repeat it."),
    ] = None,
    regime_ttl_ms: Annotated[
        int | None,
        typer.Option(
            min=1, max=MAX_TTL_MS, help="How long a decision is true (3 windows, at least 1000 ms)."
        ),
    ] = None,
    broker: Annotated[
        str | None, typer.Option(help="Publish to it: mqtt://[USER[:PASSWORD]@]HOST[:PORT], or mqtts://.")
    ] = None,
    ttl_ms: Annotated[
        int | None,
        typer.Option(
            min=1, max=MAX_TTL_MS, help="How long a signal is true (3 intervals, at least 1000 ms)."
        ),
    ] = None,
    sender: Annotated[
        str | None,
        typer.Option(help="Name on the bus (the broker's user, or this host's name and -receiver)."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a JSON object a signal or decision, one line each.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print no signals, only publish them.")] = False,
) -> None:
    """Measure what a receiver sees of its peers, and publish it: RTT, CE marks, loss, reordering, goodput."""
    try:
        if respond:
            with _inside(namespace):
                _respond(port)
            return
        if not regime and (regime_set or regime_ttl_ms is not None):
            raise ReceiverError(
                "receiver.bad_option", "nothing decides", "--regime-...", fix="give --regime, too"
            )
        mode = mode_of(regime_mode) if regime else None
        window_ms, interval_ms, probe_ms = times(mode, window_ms, interval_ms, probe_ms)
        options = Options(
            tuple(dict.fromkeys(resolve(one) for one in peer or ())),
            window_ms,
            interval_ms,
            _kind(probe),
            probe_ms,
            port,
            kernel_probe,
            per_flow,
        )
        watch = None
        if mode is not None:
            watch = Watch(
                with_settings(mode.options_for(window_ms), regime_set or ()), window_ms // interval_ms
            )
        telling = _Telling(
            broker,
            sender,
            ttl_ms or lives_ms(interval_ms),
            regime_ttl_ms or lives_ms(window_ms),
        )
        _receive(options, namespace, watch, telling, "json" if as_json else "none" if quiet else "table")
    except CcpError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(FAILED) from None


def _kind(probe: str) -> Kind | None:
    kinds: dict[str, Kind | None] = {"icmp": "icmp", "udp": "udp", "none": None}
    if probe not in kinds:
        raise ReceiverError("receiver.bad_option", f"no probe `{probe}`", "--probe", "", "icmp, udp or none")
    return kinds[probe]


def _inside(namespace: str | None) -> contextlib.AbstractContextManager[None]:
    """Have this thread in a network namespace for the length of a block; None: where it is."""
    path = None if namespace is None else netns.path_of(namespace)
    return netns.inside(
        path,
        lambda error: ReceiverError(
            "receiver.no_netns",
            f"cannot measure in the network namespace `{namespace}`",
            str(path),
            error.strerror or str(error),
            "`ip netns list` shows names, others have a path: /proc/PID/ns/net; entering needs root",
        ),
    )


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


@dataclass(frozen=True, slots=True)
class _Telling:
    """Whom to tell what was measured.

    Attributes:
        broker: Its URL; None: nobody.
        sender: Our name there, if not the usual one.
        ttl_ms: How long a signal is true [ms].
        regime_ttl_ms: How long a decision is true [ms].
    """

    broker: str | None
    sender: str | None
    ttl_ms: int
    regime_ttl_ms: int


def _receive(
    options: Options, namespace: str | None, watch: Watch | None, telling: _Telling, form: Form
) -> None:
    bus: Bus | None = None

    def take(signals: Sequence[ReceiverSignal]) -> None:
        moment = Moment.now()
        if bus is not None:
            for signal in signals:
                bus.publish(signal, ttl_ms=telling.ttl_ms)
        watched: list[Watched] = [] if watch is None else watch.take(signals, moment.mono_us, moment.wall_us)
        if bus is not None:
            for one in watched:
                bus.publish(one.decision, ttl_ms=telling.regime_ttl_ms)
        show(moment, signals, [(one.decision, one.details) for one in watched])

    with contextlib.ExitStack() as stack:
        with _inside(namespace):
            receiver = Receiver(options, take)
        stack.callback(receiver.close)
        _say(receiver.available)
        if telling.broker is not None:
            bus = _bus(telling.broker, telling.sender, receiver)
            stack.callback(bus.stop)
        show = printer(form, stack, None if watch is None else lambda: watch.decisions, bus)
        stack.enter_context(on_signals(receiver.request_stop))
        manager = Manager.from_environment()
        loop = (
            None if manager is None else Supervised(manager, lambda: f"{len(receiver.windows.peers)} peers")
        )
        if loop is not None:
            stack.callback(loop.stopping)
        with _inside(namespace):  # after threads that talk to others are under way: they stay outside
            receiver.run(None if loop is None else loop.turn)


def _say(available: Available) -> None:
    for what, error in available.missing.items():
        typer.echo(f"{what}: not available\n{error}", err=True)
    for what, how in available.how.items():
        typer.echo(f"{what}: {how}", err=True)


def _bus(broker: str, sender: str | None, receiver: Receiver) -> Bus:
    way = BusOptions.from_url(broker)
    bus = Bus(
        way,
        sender=sender or sender_name(way, SUFFIX),
        status=online("receiver"),
        on_sample=receiver.take,
        kinds=("receiver_signal",),
    )
    bus.start()
    return bus
