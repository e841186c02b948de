"""`ccp run`: algorithms steer flows until Ctrl-C."""

from __future__ import annotations

import logging
import pwd
import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from agent.algorithms import Find, find
from agent.changes import Reloaded
from agent.commands.told import told
from agent.console import show_error
from agent.control import ControlOptions, check_address
from agent.description import PLAIN, Description, Plan, plan
from agent.known_good import KnownGood
from agent.metrics import MetricsAddress
from agent.params import parse
from agent.plane import Plane
from agent.runfile import RUN_DIR
from agent.serve import ServeOptions, serve
from agent.user import settle
from broker.embedded import EmbeddedBroker
from broker.options import BusOptions
from ccp_base.errors import CcpError, Collector, UsageError
from datapath.ebpf import DEFAULT_PIN_DIR, LoadOptions, compile_program

STATUS_INTERVAL_S = 1.0
"""How often `-v` prints a status line [s]."""


def run(
    algorithm: Annotated[list[str], typer.Argument(help="Name, FILE.py, FILE.py:Class or module:Class.")],
    param: Annotated[
        list[str] | None, typer.Option("--param", "-p", help="NAME=VALUE or ALGORITHM.NAME=VALUE.")
    ] = None,
    rule: Annotated[
        list[str] | None,
        typer.Option(
            "--rule", help="'dst=10.0.0.0/8 -> cubic'; also src, sport, dport, cgroup. First match."
        ),
    ] = None,
    name: Annotated[
        list[str] | None,
        typer.Option(
            "--name", help="ALGORITHM=ccp.NAME: another congestion-control name than ccp.ALGORITHM."
        ),
    ] = None,
    default: Annotated[
        str | None, typer.Option(help="Algorithm of `ccp` flows that no rule matches; else the first one.")
    ] = None,
    max_flows: Annotated[int, typer.Option(help="Concurrent flows; more run the fallback law.")] = 65_536,
    max_flows_per_user: Annotated[
        int | None, typer.Option(help="Of them, those of one user; else no user has a quota.")
    ] = None,
    max_flows_per_cgroup: Annotated[
        int | None, typer.Option(help="Of them, those made in one cgroup (v2); else none has a quota.")
    ] = None,
    heartbeat_timeout_ms: Annotated[
        int, typer.Option(help="Silence of this agent after which flows go to the fallback law, in ms.")
    ] = 200,
    pin_dir: Annotated[str, typer.Option(help="Directory in a bpffs.")] = DEFAULT_PIN_DIR,
    duration: Annotated[float | None, typer.Option(help="Stop after so many seconds.")] = None,
    take_over: Annotated[
        bool,
        typer.Option(
            "--take-over", help="Have the agent that runs hand its flows over, once all is loaded here."
        ),
    ] = False,
    unload: Annotated[
        bool, typer.Option("--unload", help="Remove everything from the kernel at the end.")
    ] = False,
    keep_capabilities: Annotated[
        bool, typer.Option("--keep-capabilities", help="Do not drop capabilities after loading.")
    ] = False,
    user: Annotated[
        str | None,
        typer.Option(help="Become this user, with no more than the capabilities that an agent needs."),
    ] = None,
    realtime: Annotated[
        bool,
        typer.Option(help="Real-time priority for the event loop; computing for 200 ms at a time loses it."),
    ] = True,
    wakeful: Annotated[
        bool,
        typer.Option(
            help="Let idle processors spin while reports come: updates are sooner, but flows are slower where"
            " processors are hyperthreads, and power is spent.",
        ),
    ] = False,
    reload: Annotated[
        bool, typer.Option("--reload", help="Watch the algorithms' files, and swap in what is saved.")
    ] = False,
    control: Annotated[
        str | None,
        typer.Option(help="Where the agent can be asked: ipc://PATH, tcp://HOST:PORT or `none`."),
    ] = None,
    control_user: Annotated[
        str | None, typer.Option(help="User who may control the agent besides root, over the Unix socket.")
    ] = None,
    control_keys: Annotated[
        Path | None, typer.Option(help="Directory of CURVE keys, for tcp://; made if there are none.")
    ] = None,
    broker: Annotated[
        str | None,
        typer.Option(
            help="Telemetry bus: mqtt://[USER:PASSWORD@]HOST[:PORT]; embedded[:[ADDRESS:]PORT] starts one,"
            " with ?users=FILE on an address that others reach."
        ),
    ] = None,
    host: Annotated[str | None, typer.Option(help="Our name on the bus; else the host's.")] = None,
    metrics: Annotated[
        str | None,
        typer.Option(help="Where Prometheus may ask: PORT of this machine only, ADDRESS:PORT or unix:PATH."),
    ] = None,
    audit: Annotated[
        Path | None, typer.Option(help="File to write down in who changed what: one line of JSON a change.")
    ] = None,
    known_good: Annotated[
        Path | None,
        typer.Option(
            help="Directory to keep versions known to be good in; the agent starts with one where its"
            " file does not load, or has a version that was taken back."
        ),
    ] = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Print a status line every second.")
    ] = False,
) -> None:
    """Run algorithms on the TCP flows of this machine that choose `ccp` or `ccp.ALGORITHM`, until Ctrl-C.

    It needs root. `ccp simulate` needs none, and simulates the flows.
    """
    if verbose:
        logging.getLogger("ccplane").setLevel(logging.INFO)
    settle(user, pin_dir, RUN_DIR)
    kept = None if known_good is None else KnownGood(known_good, compile_program)
    finds = find if kept is None else kept.find
    ready = _planned(algorithm, param or [], rule or [], name or [], default, finds)
    options = ServeOptions(
        load=LoadOptions(
            pin_dir=pin_dir,
            max_flows=max_flows,
            max_flows_per_user=max_flows_per_user,
            max_flows_per_cgroup=max_flows_per_cgroup,
            heartbeat_timeout_ms=heartbeat_timeout_ms,
            take_over=take_over,
        ),
        duration_s=duration,
        audit=audit,
        known_good=kept,
        metrics=None if metrics is None else MetricsAddress.from_text(metrics),
        unload_at_end=unload,
        keep_capabilities=keep_capabilities,
        realtime=realtime,
        wakeful=wakeful,
        control=_control(control, control_keys, control_user),
        on_reload=_tell_reload if reload else None,
        broker=_broker(broker),
        host=host,
    )
    plane = serve(ready, options, on_start=_greet, each_turn=_Status() if verbose else None)
    counters = plane.counters
    typer.echo(
        f"ccp: stopped; {counters.flows_created} flows, {counters.reports} reports"
        + (f", {counters.flows_failed} flows failed" if counters.flows_failed else "")
        + f"; {_ending(plane, unload)}"
    )


def _ending(plane: Plane, unloaded: bool) -> str:
    if plane.handed_over:
        return "another agent has the flows now"
    if unloaded:
        return "unloaded"
    return f"flows run the fallback law, {PLAIN} stays registered until `ccp unload`"


def _planned(
    algorithms: list[str],
    settings: list[str],
    rules: list[str],
    names: list[str],
    default: str | None,
    finds: Find,
) -> Plan:
    """Return the plan for what the command line asks for, or tell everything that is wrong with it."""
    problems = Collector()
    params: dict[str, str] = {}
    cc_names: dict[str, str] = {}
    with problems.check():
        params = parse(settings)
    with problems.check():
        cc_names = _names(names)
    with problems.check():
        ready = plan(Description(algorithms, params, rules, cc_names, default), finds=finds)
    problems.finish()
    return ready


def _control(address: str | None, keys: Path | None, user: str | None) -> ControlOptions | None:
    if address == "none":
        return None
    if address is not None:
        check_address(address, f"--control {address}")
    if user is not None:
        try:
            pwd.getpwnam(user)
        except KeyError:
            raise UsageError(
                "control.no_user",
                f"there is no user `{user}`",
                where=f"--control-user {user}",
                fix="name the user who shall control the agent besides root",
            ) from None
    return ControlOptions(address or "", keys, user)


def _broker(url: str | None) -> BusOptions | EmbeddedBroker | None:
    if url is None or url == "none":
        return None
    if not url.startswith("embedded"):
        return BusOptions.from_url(url)
    return EmbeddedBroker.from_text(url)


def _tell_reload(name: str, came: Reloaded | CcpError) -> None:
    """Say what saving a file came to; called on the loader's thread."""
    if isinstance(came, Reloaded):
        typer.echo(f"ccp: {told(asdict(came))}")
    else:
        show_error(came, debug=False)
        typer.echo(f"ccp: {name} goes on as it was", err=True)


def _names(settings: list[str]) -> dict[str, str]:
    problems = Collector()
    names: dict[str, str] = {}
    for setting in settings:
        algorithm, equals, cc_name = setting.partition("=")
        with problems.check():
            if not (algorithm and equals and cc_name):
                raise UsageError(
                    "name.invalid",
                    f"`{setting}` names nothing",
                    where=f"--name {setting}",
                    fix="write ALGORITHM=ccp.NAME, such as --name example_aimd=ccp.aimd",
                )
            names[algorithm] = cc_name
    problems.finish()
    return names


def _greet(plane: Plane, ready: Plan) -> None:
    loaded = ", ".join(
        f"{running.name} ({PLAIN}, {running.cc_name})"
        if running is ready.default
        else f"{running.name} ({running.cc_name})"
        for running in ready.running
    )
    adopted = plane.counters.flows_adopted
    typer.echo(
        f"ccp: {loaded} loaded, {adopted} flow{'' if adopted == 1 else 's'} adopted; "
        f'use: iperf3 -C {PLAIN} ..., or setsockopt(TCP_CONGESTION, "{PLAIN}"); Ctrl-C stops'
    )


class _Status:
    """Prints a status line every second."""

    def __init__(self) -> None:
        self._then_s = time.monotonic()
        self._reports = 0

    def __call__(self, plane: Plane) -> None:
        now_s = time.monotonic()
        if now_s - self._then_s < STATUS_INTERVAL_S:
            return
        counters = plane.counters
        per_s = (counters.reports - self._reports) / (now_s - self._then_s)
        typer.echo(
            f"ccp: {len(plane.flow_ids())} flows, {per_s:.0f} reports/s, {counters.reports_stale} stale, "
            f"{counters.flows_failed} failed, {counters.resyncs} resyncs",
            err=True,
        )
        self._then_s, self._reports = now_s, counters.reports
