"""Options of an agent that serves flows, and what it prints: shared by `ccp run` and commands of features."""

from __future__ import annotations

import inspect
import logging
import pwd
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from broker.embedded import EmbeddedBroker
from broker.options import BusOptions
from ccplane.agent.algorithms import Find, Running, find
from ccplane.agent.commands.shared_options import take
from ccplane.agent.control import ControlOptions, check_address
from ccplane.agent.description import PLAIN, Description, Plan, plan
from ccplane.agent.metrics import MetricsAddress
from ccplane.agent.params import parse
from ccplane.agent.plane import Plane
from ccplane.agent.runfile import RUN_DIR
from ccplane.agent.serve import ServeOptions, serve
from ccplane.agent.user import settle
from ccplane.base.errors import Collector, UsageError
from ccplane.datapath.ebpf import DEFAULT_PIN_DIR, LoadOptions

STATUS_INTERVAL_S: Final = 1.0
"""How often `-v` prints a status line [s]."""

_GIVEN: Final = "given"
"""The parameter of a command that takes the shared options."""


@dataclass(frozen=True, slots=True)
class Given:
    """What was given with the shared options.

    Attributes:
        options: How to serve.
        params: `--param`.
        rules: `--rule`.
        names: `--name`.
        default: `--default`.
        verbose: Whether to print a status line every second.
    """

    options: ServeOptions
    params: Sequence[str]
    rules: Sequence[str]
    names: Sequence[str]
    default: str | None
    verbose: bool

    def planned(self, algorithms: Sequence[str], finds: Find = find, also: Sequence[Running] = ()) -> Plan:
        """Return the plan for what the command line asks for.

        Args:
            algorithms: As of `Description`.
            finds: As of `plan`.
            also: Likewise.

        Raises:
            CcpError: The problem, if there is one.
            Several: All problems, if there are more.
        """
        problems = Collector()
        params: dict[str, str] = {}
        cc_names: dict[str, str] = {}
        with problems.check():
            params = parse(self.params)
        with problems.check():
            cc_names = _names(self.names)
        with problems.check():
            described = Description(algorithms, params, self.rules, cc_names, self.default)
            ready = plan(described, finds=finds, also=also)
        problems.finish()
        return ready

    def serve(self, ready: Plan, options: ServeOptions, greet: Callable[[Plane, Plan], None]) -> None:
        """Serve until a stop, and say what happened.

        Args:
            ready: What to run.
            options: How.
            greet: Says what is there, when flows are served.

        Raises:
            CcpError: As `ccplane.agent.serve.serve`.
        """
        plane = serve(ready, options, on_start=greet, each_turn=_Status() if self.verbose else None)
        counters = plane.counters
        typer.echo(
            f"ccp: stopped; {counters.flows_created} flows, {counters.reports} reports"
            + (f", {counters.flows_failed} flows failed" if counters.flows_failed else "")
            + f"; {_ending(plane, options)}"
        )


def how_to_use(plane: Plane) -> str:
    """Return what stands at the end of a greeting."""
    adopted = plane.counters.flows_adopted
    return (
        f"{adopted} flow{'' if adopted == 1 else 's'} adopted; "
        f'use: iperf3 -C {PLAIN} ..., or setsockopt(TCP_CONGESTION, "{PLAIN}"); Ctrl-C stops'
    )


def _ending(plane: Plane, options: ServeOptions) -> str:
    if not isinstance(options.load, LoadOptions):
        return "flows of datapaths that are there run the law"
    if plane.handed_over:
        return "another agent has the flows now"
    if options.unload_at_end:
        return "unloaded"
    return f"flows run the fallback law, {PLAIN} stays registered until `ccp unload`"


def serving(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the shared options.

    Before it is called, this process is who the agent shall be.

    Args:
        command: Takes options of its own, and `given: Given`.
    """
    own = inspect.signature(command, eval_str=True).parameters.values()
    shared = inspect.signature(_given, eval_str=True).parameters

    def run(**options: Any) -> None:
        given = _given(**{name: options.pop(name) for name in shared})
        command(**options, **{_GIVEN: given})

    run.__doc__ = command.__doc__
    take(run, [one for one in (*own, *shared.values()) if one.name != _GIVEN])
    return run


def _given(
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
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Print a status line every second.")
    ] = False,
) -> Given:
    """Become who the agent shall be, and return what was given."""
    if verbose:
        logging.getLogger("ccplane").setLevel(logging.INFO)
    settle(user, pin_dir, RUN_DIR)
    options = ServeOptions(
        load=LoadOptions(
            pin_dir=pin_dir,
            max_flows=max_flows,
            max_flows_per_user=max_flows_per_user,
            max_flows_per_cgroup=max_flows_per_cgroup,
            heartbeat_timeout_ms=heartbeat_timeout_ms,
        ),
        duration_s=duration,
        audit=audit,
        metrics=None if metrics is None else MetricsAddress.from_text(metrics),
        unload_at_end=unload,
        keep_capabilities=keep_capabilities,
        realtime=realtime,
        control=_control(control, control_keys, control_user),
        broker=_broker(broker),
        host=host,
    )
    return Given(options, param or [], rule or [], name or [], default, verbose)


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


def _names(settings: Sequence[str]) -> dict[str, str]:
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
