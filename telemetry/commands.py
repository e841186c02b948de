"""`ccp telemetry receive`: the receiver agent, and the responder to UDP probes."""

from __future__ import annotations

import contextlib
import selectors
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final

import typer

from broker.options import BusOptions
from ccplane.base import options
from ccplane.base.errors import CcpError
from ccplane.base.notify import Manager, Supervised
from telemetry import netns
from telemetry.bus import Bus
from telemetry.receiver.errors import ReceiverError
from telemetry.receiver.output import Form, Moment, printer
from telemetry.receiver.peers import resolve
from telemetry.receiver.probing import DEFAULT_PORT, Kind, Responder
from telemetry.receiver.receiver import Available, Options, Receiver
from telemetry.receiver.times import INTERVAL_MS, MIN_TTL_MS, PROBE_MS, TTL_INTERVALS, lives_ms, times
from telemetry.regime.modes import MODES, mode_of, with_settings
from telemetry.regime.watch import Watch, Watched
from telemetry.schema import MAX_TTL_MS, ReceiverSignal
from telemetry.signals import on_signals
from telemetry.status import online, sender_name

app = typer.Typer(add_completion=False)

SUFFIX: Final = "-receiver"
"""Follows the host name in the sender name, because the host's agent already uses the host name."""

FAILED: Final = 1


def _lifetime(unit: str) -> str:
    return f"{TTL_INTERVALS} {unit}, at least {MIN_TTL_MS / 1000:g}s"


@app.command(
    epilog=options.examples(
        "ccp telemetry receive --peer 10.0.0.1",
        "ccp telemetry receive --peer 10.0.0.1 --interval 100ms --broker mqtt://10.0.0.1",
    )
)
def receive(
    peer: Annotated[
        list[str] | None,
        typer.Option(
            metavar="HOST",
            help="Measure and probe this data sender; repeatable.",
            show_default="all TCP peers, without probes",
        ),
    ] = None,
    window_ms: Annotated[
        int | None,
        options.duration(
            "--window",
            unit="ms",
            help="Time that a signal covers, a multiple of the interval",
            min=1,
            whole=True,
            show_default="the interval",
        ),
    ] = None,
    interval_ms: Annotated[
        int | None,
        options.duration(
            "--interval",
            unit="ms",
            help="Time between signals",
            min=1,
            whole=True,
            show_default=f"{INTERVAL_MS / 1000:g}s",
        ),
    ] = None,
    probe: Annotated[
        str, typer.Option(metavar="icmp|udp|none", help="How to probe the RTT to peers.")
    ] = "icmp",
    probe_ms: Annotated[
        int | None,
        options.duration(
            "--probe-interval",
            unit="ms",
            help="Time between probes to a peer",
            min=1,
            whole=True,
            show_default=f"{PROBE_MS}ms",
            panel=options.ADVANCED,
        ),
    ] = None,
    port: Annotated[
        int,
        typer.Option(min=0, max=65535, help="UDP port for probes.", rich_help_panel=options.ADVANCED),
    ] = DEFAULT_PORT,
    kernel_probe: Annotated[
        bool,
        typer.Option(
            help="Count CE marks, retransmissions and delays in the kernel (needs CAP_BPF and CAP_PERFMON).",
            rich_help_panel=options.ADVANCED,
        ),
    ] = True,
    per_flow: Annotated[
        bool, typer.Option("--per-flow", help="Also send one signal for each TCP connection.")
    ] = False,
    respond: Annotated[
        bool,
        typer.Option("--respond", help="Only answer UDP probes on --port; measure nothing."),
    ] = False,
    namespace: Annotated[
        str | None,
        typer.Option(
            "--netns",
            metavar="NAME|PATH",
            help="Measure in this network namespace. The connection to the broker stays in the current "
            "network namespace.",
            rich_help_panel=options.ADVANCED,
        ),
    ] = None,
    regime: Annotated[
        bool,
        typer.Option(
            "--regime", help="Also decide for each peer whether its path is shared (docs/r-hybrid.md)."
        ),
    ] = False,
    regime_mode: Annotated[
        str,
        typer.Option(
            metavar="MODE",
            help=f"Preset of the regime detector: {', '.join(MODES)}. The preset also sets the defaults of "
            "--window, --interval and --probe-interval.",
        ),
    ] = "paper",
    detector: Annotated[
        list[str] | None,
        options.param(
            "Set a parameter of the regime detector (names: `ccp regime replay --help`); repeatable."
        ),
    ] = None,
    regime_ttl_ms: Annotated[
        int | None,
        options.duration(
            "--regime-ttl",
            unit="ms",
            help="Lifetime of a decision",
            min=1,
            max=MAX_TTL_MS,
            whole=True,
            show_default=_lifetime("windows"),
            panel=options.ADVANCED,
        ),
    ] = None,
    broker: Annotated[str | None, options.broker()] = None,
    ttl_ms: Annotated[
        int | None,
        options.duration(
            "--ttl",
            unit="ms",
            help="Lifetime of a signal",
            min=1,
            max=MAX_TTL_MS,
            whole=True,
            show_default=_lifetime("intervals"),
            panel=options.ADVANCED,
        ),
    ] = None,
    sender: Annotated[
        str | None, options.sender(f"the broker's user, or HOSTNAME{SUFFIX}", panel=options.ADVANCED)
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON, one object per line for each signal and decision.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing.")] = False,
) -> None:
    """Measure RTT, CE marks, losses, reordering and goodput of the flows that this host receives.

    The signals are printed, and published on the telemetry bus if --broker is given.
    Ctrl-C stops.
    """
    try:
        if respond:
            with _inside(namespace):
                _respond(port)
            return
        if not regime and (detector or regime_ttl_ms is not None):
            raise ReceiverError(
                "receiver.bad_option",
                "--param and --regime-ttl need --regime",
                "--param" if detector else "--regime-ttl",
                "without --regime there is no detector",
                "add --regime",
            )
        mode = mode_of(regime_mode) if regime else None
        window_ms, interval_ms, probe_ms = times(mode, window_ms, interval_ms, probe_ms)
        order = Options(
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
                with_settings(mode.options_for(window_ms), detector or ()), window_ms // interval_ms
            )
        publishing = _Publishing(
            broker,
            sender,
            ttl_ms or lives_ms(interval_ms),
            regime_ttl_ms or lives_ms(window_ms),
        )
        _receive(order, namespace, watch, publishing, "json" if as_json else "none" if quiet else "table")
    except CcpError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(FAILED) from None


def _kind(probe: str) -> Kind | None:
    kinds: dict[str, Kind | None] = {"icmp": "icmp", "udp": "udp", "none": None}
    if probe not in kinds:
        raise ReceiverError(
            "receiver.bad_option", f"no probe `{probe}`", "--probe", "", "choose icmp, udp or none"
        )
    return kinds[probe]


def _inside(namespace: str | None) -> contextlib.AbstractContextManager[None]:
    """Move this thread into a network namespace during a block; None: stay."""
    path = None if namespace is None else netns.path_of(namespace)
    return netns.inside(
        path,
        lambda error: ReceiverError(
            "receiver.no_netns",
            f"cannot measure in the network namespace `{namespace}`",
            str(path),
            error.strerror or str(error),
            "give a name from `ip netns list` or a path such as /proc/PID/ns/net, and run as root",
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
class _Publishing:
    """How signals and decisions are published.

    Attributes:
        broker: URL of the broker; None: publish nothing.
        sender: Name on the bus; None: the default.
        ttl_ms: Lifetime of a signal [ms].
        regime_ttl_ms: Lifetime of a decision [ms].
    """

    broker: str | None
    sender: str | None
    ttl_ms: int
    regime_ttl_ms: int


def _receive(
    order: Options, namespace: str | None, watch: Watch | None, publishing: _Publishing, form: Form
) -> None:
    bus: Bus | None = None

    def take(signals: Sequence[ReceiverSignal]) -> None:
        moment = Moment.now()
        if bus is not None:
            for signal in signals:
                bus.publish(signal, ttl_ms=publishing.ttl_ms)
        watched: list[Watched] = [] if watch is None else watch.take(signals, moment.mono_us, moment.wall_us)
        if bus is not None:
            for one in watched:
                bus.publish(one.decision, ttl_ms=publishing.regime_ttl_ms)
        show(moment, signals, [(one.decision, one.details) for one in watched])

    with contextlib.ExitStack() as stack:
        with _inside(namespace):
            receiver = Receiver(order, take)
        stack.callback(receiver.close)
        _print_available(receiver.available)
        if publishing.broker is not None:
            bus = _bus(publishing.broker, publishing.sender, receiver)
            stack.callback(bus.stop)
        show = printer(form, stack, None if watch is None else lambda: watch.decisions, bus)
        stack.enter_context(on_signals(receiver.request_stop))
        manager = Manager.from_environment()
        loop = (
            None if manager is None else Supervised(manager, lambda: f"{len(receiver.windows.peers)} peers")
        )
        if loop is not None:
            stack.callback(loop.stopping)
        with _inside(namespace):  # the threads started above stay outside
            receiver.run(None if loop is None else loop.turn)


def _print_available(available: Available) -> None:
    for what, error in available.missing.items():
        typer.echo(f"{what}: not available\n{error}", err=True)
    for what, how in available.how.items():
        typer.echo(f"{what}: {how}", err=True)


def _bus(broker: str, sender: str | None, receiver: Receiver) -> Bus:
    address = BusOptions.from_url(broker)
    bus = Bus(
        address,
        sender=sender or sender_name(address, SUFFIX),
        status=online("receiver"),
        on_sample=receiver.take,
        kinds=("receiver_signal",),
    )
    bus.start()
    return bus
