"""`ccp rtcp`: R-TCP for ordinary sockets, and its detector on recorded ACKs."""

from __future__ import annotations

import faulthandler
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.live import Live

from ccp_algs.rtcp import new_detector
from ccplane.agent import console, params
from ccplane.agent.commands.connection import PIN_DIR, AsJson, PinDir
from ccplane.agent.features.rtcp import limits_table
from ccplane.agent.features.rtcp.ack_trace import START, read_ack_trace
from ccplane.agent.features.rtcp.acks import AckRecorder
from ccplane.agent.features.rtcp.attached import MAX_CLIENTS, Attachment, Verdict
from ccplane.agent.features.rtcp.metrics import collecting
from ccplane.agent.features.rtcp.rules import parse_bound_rule
from ccplane.agent.features.rtcp.settings import options_of
from ccplane.agent.features.rtcp.tables import KEPT_IN, known_tables
from ccplane.agent.metrics import MetricsAddress, serving
from ccplane.base import options
from ccplane.base.errors import collected
from ccplane.base.notify import Manager, Supervised
from telemetry.bus import mono_us, wall_us
from telemetry.signals import on_signals

if TYPE_CHECKING:
    from ccplane.base._native import RtcpTransfer

app = typer.Typer(
    help="Detect token-bucket rate limits and stay under them (R-TCP).",
    no_args_is_help=True,
    add_completion=False,
)

_TURN_S = 0.1
"""Time between two reads of verdicts [s]."""

_WATCH_S = 1.0


@app.callback()
def rtcp() -> None:
    """Detect token-bucket rate limits and stay under them (R-TCP)."""


@app.command(epilog=options.examples("ccp rtcp detect flow.csv.gz", "ccp rtcp detect flow.csv --json"))
def detect(
    trace: Annotated[
        Path,
        typer.Argument(
            metavar="TRACE.csv",
            help="ACKs, also as .csv.gz, with the columns ev, time_us, acked_bytes, delivered, lost, "
            "min_rtt_us, "
            "app_limited, prior_delivered, srtt_us, inflight; MSS 1448.",
        ),
    ],
    as_json: AsJson = False,
) -> None:
    """Show whether and since when a token bucket limited a recorded flow, and the bucket's size and rate.

    Times are on the trace's clock. A flow counts as limited even if the limit was lifted later. Size and rate
    of the bucket are the last estimate of a detected limit.
    """
    detector = new_detector()
    for event, now in read_ack_trace(trace):
        if event == START:
            detector.start(now)
        else:
            detector.ack(now)
    transfers = detector.transfers
    rows = [_of_transfer(transfer) for transfer in transfers]
    verdict = {
        "triggered_at_us": next(filter(None, (one.triggered_at_us for one in transfers)), None),
        **_of_limit(
            detector.detected_at_us,
            detector.undetected_at_us,
            detector.bucket_bytes,
            detector.rate_bytes_per_s,
        ),
        "transfers": rows,
    }
    if as_json:
        console.print_json(verdict)
        return
    typer.echo(f"{'transfer':<10} {'start_s':>10} {_HEADER}")
    for number, one in enumerate(rows, start=1):
        typer.echo(f"{number:<10} {one['started_at_us'] / 1e6:>10.3f} {_row(one)}")
    typer.echo(f"{'flow':<10} {'':>10} {_row(verdict)}")


@app.command(
    epilog=options.examples(
        "sudo ccp rtcp attach",
        "sudo ccp rtcp attach --rule 'dst=10.0.0.0/8 -> except' -p probe_every_rounds=25",
    )
)
def attach(
    rule: Annotated[
        list[str] | None,
        typer.Option(
            "--rule",
            metavar="RULE",
            help="'CONDITIONS -> limit' or 'CONDITIONS -> except'; repeatable, the first match decides. "
            "Conditions: "
            "src, dst, sport, dport, cgroup.",
            show_default="limit all sockets",
        ),
    ] = None,
    param: Annotated[
        list[str] | None,
        options.param("Set a parameter of the detector or limiter: NAME=VALUE; repeatable."),
    ] = None,
    observe: Annotated[
        bool, typer.Option("--observe", help="Detect limits only; do not change how sockets send.")
    ] = False,
    record: Annotated[
        Path | None,
        typer.Option(
            metavar="DIRECTORY", help="Directory to record the ACKs of connections in, for `ccp rtcp detect`."
        ),
    ] = None,
    max_clients: Annotated[
        int,
        typer.Option(
            min=1, metavar="N", help="Maximum number of clients; sockets of further clients are not limited."
        ),
    ] = MAX_CLIENTS,
    keep: Annotated[
        bool, typer.Option(help="Keep what is known about clients in the kernel for the next start.")
    ] = True,
    metrics: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Endpoint of Prometheus metrics: PORT (this machine only), ADDRESS:PORT or unix:PATH.",
            show_default="none",
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object when ready, and one per verdict.")
    ] = False,
) -> None:
    """Offer the congestion controls rtcp_cubic and rtcp_bbr to sockets, until Ctrl-C.

    rtcp_cubic and rtcp_bbr are variants of the kernel's CUBIC and BBR that stay below the rate of a client's
    token bucket. With rules, sockets that no rule limits get the kernel's `cubic` or `bbr` when they connect.
    If all rules are exceptions, only sockets that match an exception get the kernel's congestion controls.
    Needs root.
    """
    values = dict(params.parse(param or [], "--param", "probe_every_rounds=25"))
    rtcp_options = options_of({**values, "observe": True} if observe else values)
    asked_at = None if metrics is None else MetricsAddress.from_text(metrics)
    attachment = Attachment(
        rtcp_options,
        max_clients=max_clients,
        rules=collected(parse_bound_rule, rule or []),
        keep_in=KEPT_IN if keep else None,
        recorder=None if record is None else AckRecorder(record),
    )
    show_all = _print_json if as_json else _print
    stopping = threading.Event()
    with on_signals(stopping.set), ExitStack() as around:
        around.callback(lambda: show_all(attachment.close()))
        if asked_at is not None:
            collector = around.enter_context(collecting(attachment.summary))
            around.enter_context(serving(asked_at, collector)).start(lambda: None)
        _print_ready(attachment, as_json)
        turned = around.enter_context(_supervised(attachment))
        while not stopping.wait(_TURN_S):
            show_all(attachment.turn())
            turned()


@app.command(epilog=options.examples("ccp rtcp show", "ccp rtcp show --watch"))
def show(watch: options.Watch = False, as_json: AsJson = False, pin_dir: PinDir = PIN_DIR) -> None:
    """Show the limit of each client as detected by `ccp rtcp attach` or by algorithms such as r_tcp_cubic."""
    if not watch:
        known = known_tables(pin_dir)
        if as_json:
            console.print_json([msgspec.to_builtins(one) for one in known])
        else:
            Console().print(limits_table.render(known))
        return
    stopping = threading.Event()
    with on_signals(stopping.set), ExitStack() as around:
        live = None if as_json else around.enter_context(Live(auto_refresh=False))
        while True:
            known = known_tables(pin_dir)
            if live is None:
                typer.echo(msgspec.json.encode(known))
            else:
                live.update(limits_table.render(known), refresh=True)
            if stopping.wait(_WATCH_S):
                return


def _print_ready(attachment: Attachment, as_json: bool) -> None:
    kept = attachment.kept
    if as_json:
        ready = {"kind": "attached", "t_mono_us": mono_us(), "t_wall_us": wall_us()}
        ready |= {"names": attachment.names, "kept": kept.what, "kept_clients": kept.clients}
        typer.echo(msgspec.json.encode(ready))
        return
    if kept.sentence:
        typer.echo(f"ccp: {kept.sentence}", err=True)
    typer.echo(f"ccp: sockets can choose {' and '.join(attachment.names)}; Ctrl-C stops", err=True)


@contextmanager
def _supervised(attachment: Attachment) -> Iterator[Callable[[], None]]:
    """Yield a function that reports each turn to the service manager, if one started this process."""
    manager = Manager.from_environment()
    if manager is None:
        yield lambda: None
        return
    faulthandler.enable()
    loop = Supervised(manager, lambda: f"{', '.join(attachment.names)}: {attachment.verdicts} verdicts")
    try:
        yield loop.turn
    finally:
        loop.stopping()


def _print_json(verdicts: list[Verdict]) -> None:
    for one in verdicts:
        typer.echo(msgspec.json.encode(one))


def _print(verdicts: list[Verdict]) -> None:
    for one in verdicts:
        clock = console.clock(one.t_wall_us / 1e6)
        limit = f"{one.bucket_bytes / 1e3:.0f} KB, {one.rate_bytes_per_s * 8 / 1e6:.3f} Mbit/s"
        typer.echo(f"{clock}  {one.client}  {one.state}  {limit}  {one.active_flows} active")


def _of_transfer(transfer: RtcpTransfer) -> dict[str, Any]:
    return {
        "started_at_us": transfer.started_at_us,
        "triggered_at_us": transfer.triggered_at_us,
        **_of_limit(
            transfer.detected_at_us,
            transfer.undetected_at_us,
            transfer.bucket_bytes,
            transfer.rate_bytes_per_s,
        ),
    }


def _of_limit(
    detected_at_us: int | None, undetected_at_us: int | None, bucket_bytes: int, rate_bytes_per_s: int
) -> dict[str, Any]:
    detected = detected_at_us is not None
    return {
        "detected": detected,
        "detected_at_us": detected_at_us,
        "undetected_at_us": undetected_at_us,
        "bucket_bytes": bucket_bytes if detected else None,
        "rate_bytes_per_s": rate_bytes_per_s if detected else None,
    }


_HEADER = f"{'trigger_s':>10} {'limited_s':>10} {'gone_s':>10} {'bucket_KB':>10} {'rate_Mbit/s':>12}"


def _row(one: dict[str, Any]) -> str:
    times = [one["triggered_at_us"], one["detected_at_us"], one["undetected_at_us"]]
    cells = ["-" if time_us is None else f"{time_us / 1e6:.3f}" for time_us in times]
    cells.append("-" if one["bucket_bytes"] is None else f"{one['bucket_bytes'] / 1e3:.0f}")
    row = " ".join(f"{cell:>10}" for cell in cells)
    rate = one["rate_bytes_per_s"]
    return f"{row} {'-' if rate is None else f'{rate * 8 / 1e6:.3f}':>12}"
