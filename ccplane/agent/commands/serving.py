"""Options and output that `ccp run` and commands of features share: those of an agent that serves flows."""

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
from ccplane.agent.agent_loop import AgentLoop
from ccplane.agent.algorithms import Find, Running, find
from ccplane.agent.commands.shared_options import take
from ccplane.agent.control import ControlOptions, check_address
from ccplane.agent.description import PLAIN, Description, Plan, plan
from ccplane.agent.metrics import MetricsAddress
from ccplane.agent.params import parse
from ccplane.agent.runfile import RUN_DIR
from ccplane.agent.serve import ServeOptions, serve
from ccplane.agent.user import settle
from ccplane.base import options
from ccplane.base.errors import Collector, UsageError
from ccplane.datapath.ebpf import DEFAULT_PIN_DIR, LoadOptions

STATUS_INTERVAL_S: Final = 1.0
"""Time between two status lines of `-v` [s]."""

_GIVEN: Final = "given"
"""The parameter of a command that takes the shared options."""


@dataclass(frozen=True, slots=True)
class Given:
    """Values of the shared options.

    Attributes:
        options: How to serve.
        params: `--param`.
        rules: `--rule`.
        names: `--cc-name`.
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
        """Return the plan for the command line.

        Args:
            algorithms: As in `Description`.
            finds: As in `plan`.
            also: As in `plan`.

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

    def serve(self, ready: Plan, options: ServeOptions, greet: Callable[[AgentLoop, Plan], None]) -> None:
        """Serve until a stop, and print a summary.

        Args:
            ready: What to run.
            options: How to serve.
            greet: Called when flows are served; prints what runs.

        Raises:
            CcpError: As `ccplane.agent.serve.serve`.
        """
        agent_loop = serve(ready, options, on_start=greet, each_turn=_Status() if self.verbose else None)
        counters = agent_loop.counters
        typer.echo(
            f"ccp: stopped; {counters.flows_created} flows"
            # A program without a report in it, as of a fixed window, never sends one.
            + (f", {counters.reports} reports" if counters.reports else "")
            + (f", {counters.flows_failed} flows failed" if counters.flows_failed else "")
            + f"; {_ending(agent_loop, options)}"
        )


def how_to_use(agent_loop: AgentLoop) -> str:
    """Return the end of the start message: adopted flows, and how to use the agent."""
    adopted, left = agent_loop.counters.flows_adopted, len(agent_loop.not_renewed)
    return (
        f"{adopted} flow{'' if adopted == 1 else 's'} adopted; "
        + (f"{left} namespaces or listeners not upgraded, see the log; " if left else "")
        + f'use: iperf3 -C {PLAIN} ..., or setsockopt(TCP_CONGESTION, "{PLAIN}"); Ctrl-C stops'
    )


def _ending(agent_loop: AgentLoop, options: ServeOptions) -> str:
    if not isinstance(options.load, LoadOptions):
        return "flows of connected datapaths run the fallback"
    if agent_loop.successor_pid:
        return "another agent took the flows over"
    if options.unload_at_end:
        return "unloaded"
    return f"flows run the fallback; {PLAIN} stays registered until `ccp unload`"


def serving(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the shared options.

    This process switches to the agent's user before the command is called.

    Args:
        command: Takes its own options, and `given: Given`.
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
    param: Annotated[list[str] | None, options.param()] = None,
    rule: Annotated[
        list[str] | None,
        typer.Option(
            "--rule",
            metavar="RULE",
            help="'CONDITIONS -> ALGORITHM' for flows that use `ccp`, such as 'dst=10.0.0.0/8 dport=80 -> "
            "cubic'; repeatable, the first match decides. Conditions: src, dst, sport, dport, cgroup.",
        ),
    ] = None,
    default: Annotated[
        str | None,
        typer.Option(
            metavar="ALGORITHM",
            help="Algorithm for flows that use `ccp` and match no rule.",
            show_default="the first one",
        ),
    ] = None,
    seconds: Annotated[float | None, options.seconds("Time to run", show_default="until Ctrl-C")] = None,
    broker: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Telemetry bus: mqtt://USER:PASSWORD@HOST:PORT, or embedded:PORT to start a broker;"
            " embedded:ADDRESS:PORT?users=FILE for other machines.",
            show_default="none",
        ),
    ] = None,
    metrics: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Endpoint of Prometheus metrics: PORT (this machine only), ADDRESS:PORT or unix:PATH.",
            show_default="none",
        ),
    ] = None,
    unload: Annotated[
        bool, typer.Option("--unload", help="Remove ccplane from the kernel at the end.")
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Print a status line every second.")
    ] = False,
    name: Annotated[
        list[str] | None,
        typer.Option(
            "--cc-name",
            metavar="ALGORITHM=ccp.NAME",
            help="Name of an algorithm's congestion control, if not ccp.ALGORITHM; repeatable.",
            rich_help_panel=options.ADVANCED,
        ),
    ] = None,
    max_flows: Annotated[
        int,
        typer.Option(
            metavar="N",
            help="Maximum concurrent flows; further flows run the fallback.",
            rich_help_panel=options.ADVANCED,
        ),
    ] = 65_536,
    max_flows_per_user: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Maximum concurrent flows per user.",
            show_default="unlimited",
            rich_help_panel=options.ADVANCED,
        ),
    ] = None,
    max_flows_per_cgroup: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Maximum concurrent flows per cgroup (v2); a flow counts for the cgroup in which its socket "
            "was created.",
            show_default="unlimited",
            rich_help_panel=options.ADVANCED,
        ),
    ] = None,
    heartbeat_timeout_ms: Annotated[
        int,
        options.duration(
            "--heartbeat-timeout",
            unit="ms",
            whole=True,
            help="Silence of this agent after which its flows run the fallback",
            panel=options.ADVANCED,
        ),
    ] = options.in_unit(200, "ms"),
    report_timeout_ms: Annotated[
        int,
        options.duration(
            "--report-timeout",
            unit="ms",
            whole=True,
            help="Time after which a flow runs the fallback if its report is not answered",
            panel=options.ADVANCED,
        ),
    ] = options.in_unit(5_000, "ms"),
    pin_dir: Annotated[
        str,
        typer.Option(
            metavar="DIRECTORY",
            help="Directory of the datapath in a bpffs.",
            rich_help_panel=options.ADVANCED,
        ),
    ] = DEFAULT_PIN_DIR,
    keep_capabilities: Annotated[
        bool,
        typer.Option(
            "--keep-capabilities",
            help="Do not drop capabilities after loading.",
            rich_help_panel=options.ADVANCED,
        ),
    ] = False,
    user: Annotated[
        str | None,
        typer.Option(
            metavar="USER",
            help="Run as this user, with only the capabilities that an agent needs.",
            rich_help_panel=options.ADVANCED,
        ),
    ] = None,
    realtime: Annotated[
        bool,
        typer.Option(
            help="Run the event loop with real-time priority; the loop loses this priority if it computes "
            "for 200 ms without a pause.",
            rich_help_panel=options.ADVANCED,
        ),
    ] = True,
    control: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Control endpoint: ipc://PATH, tcp://HOST:PORT or none.",
            show_default="a Unix socket",
            rich_help_panel=options.ADVANCED,
        ),
    ] = None,
    control_user: Annotated[
        str | None,
        typer.Option(
            metavar="USER",
            help="User who, like root, may control the agent over the Unix socket.",
            rich_help_panel=options.ADVANCED,
        ),
    ] = None,
    control_keys: Annotated[
        Path | None,
        typer.Option(
            metavar="DIRECTORY",
            help="CURVE keys for a tcp:// endpoint; created if there are none.",
            rich_help_panel=options.ADVANCED,
        ),
    ] = None,
    sender: Annotated[str | None, options.sender("this host's name", panel=options.ADVANCED)] = None,
    audit: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Log of who changed what: one line of JSON per change.",
            rich_help_panel=options.ADVANCED,
        ),
    ] = None,
) -> Given:
    """Become the agent's user, and return the values of the options."""
    if verbose:
        logging.getLogger("ccplane").setLevel(logging.INFO)
    settle(user, pin_dir, RUN_DIR)
    serve_options = ServeOptions(
        load=LoadOptions(
            pin_dir=pin_dir,
            max_flows=max_flows,
            max_flows_per_user=max_flows_per_user,
            max_flows_per_cgroup=max_flows_per_cgroup,
            heartbeat_timeout_ms=heartbeat_timeout_ms,
            report_timeout_ms=report_timeout_ms,
        ),
        duration_s=seconds,
        audit=audit,
        metrics=None if metrics is None else MetricsAddress.from_text(metrics),
        unload_at_end=unload,
        keep_capabilities=keep_capabilities,
        realtime=realtime,
        control=_control(control, control_keys, control_user),
        broker=_broker(broker),
        host=sender,
    )
    return Given(serve_options, param or [], rule or [], name or [], default, verbose)


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
                fix="name an existing user",
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
                    f"cannot parse ALGORITHM=ccp.NAME: `{setting}`",
                    where=f"--cc-name {setting}",
                    fix="write the setting as in --cc-name example_aimd=ccp.aimd",
                )
            names[algorithm] = cc_name
    problems.finish()
    return names


class _Status:
    """Prints a status line every second."""

    def __init__(self) -> None:
        self._then_s = time.monotonic()
        self._reports = 0

    def __call__(self, agent_loop: AgentLoop) -> None:
        now_s = time.monotonic()
        if now_s - self._then_s < STATUS_INTERVAL_S:
            return
        counters = agent_loop.counters
        per_s = (counters.reports - self._reports) / (now_s - self._then_s)
        typer.echo(
            f"ccp: {len(agent_loop.flow_ids())} flows, {per_s:.0f} reports/s, "
            f"{counters.reports_stale} stale, {counters.flows_failed} failed, {counters.resyncs} resyncs",
            err=True,
        )
        self._then_s, self._reports = now_s, counters.reports
