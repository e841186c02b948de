"""`ccp run`: run algorithms on flows until Ctrl-C."""

from __future__ import annotations

from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Final

import typer

from ccplane.agent import upgrade
from ccplane.agent.agent_loop import AgentLoop
from ccplane.agent.algorithms import find
from ccplane.agent.changes import Reloaded
from ccplane.agent.commands.outcome import sentence
from ccplane.agent.commands.serving import Given, how_to_use, serving
from ccplane.agent.console import show_error
from ccplane.agent.description import PLAIN, Plan
from ccplane.agent.known_good import KnownGood
from ccplane.agent.lifecycle import SocketOptions
from ccplane.base import options
from ccplane.base.errors import CcpError, UsageError
from ccplane.datapath import registry
from ccplane.datapath.ebpf import LoadOptions, compile_program

OF_THE_KERNEL: Final = (
    "heartbeat_timeout_ms",
    "keep_capabilities",
    "max_flows",
    "max_flows_per_cgroup",
    "max_flows_per_user",
    "pin_dir",
    "report_timeout_ms",
    "take_over",
    "unload",
    "user",
)
"""Options that only the kernel datapath has."""

app = typer.Typer(add_completion=False)


@app.command(
    epilog=options.examples(
        "sudo ccp run mine.py --reload", "sudo ccp run cubic dctcp --rule 'dst=10.0.0.0/8 -> dctcp'"
    )
)
@serving
def run(
    context: typer.Context,
    algorithm: Annotated[
        list[str],
        typer.Argument(metavar="ALGORITHM", help="Name, FILE.py, FILE.py:Class or module:Class."),
    ],
    given: Given,
    datapath: Annotated[
        str,
        typer.Option(
            metavar="NAME", help=f"Datapath of the flows: {', '.join(registry.names(scenarios=False))}."
        ),
    ] = registry.EBPF,
    bind: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="Socket at which datapaths other than ebpf reach the agent.",
            show_default="the datapath's own",
            rich_help_panel=options.ADVANCED,
        ),
    ] = None,
    take_over: Annotated[
        bool,
        typer.Option(
            "--take-over",
            help="Take over the running agent's flows once this one is ready.",
            rich_help_panel=options.ADVANCED,
        ),
    ] = False,
    reload: Annotated[
        bool, typer.Option("--reload", help="Load an algorithm's file again whenever it is saved.")
    ] = False,
    known_good: Annotated[
        Path | None,
        typer.Option(
            metavar="DIRECTORY",
            help="Directory of versions that are known to work. The agent starts with a known-good version "
            "if a file does not load, or contains a version that was taken back.",
            rich_help_panel=options.ADVANCED,
        ),
    ] = None,
) -> None:
    """Run algorithms on the TCP flows of this machine that use `ccp` or `ccp.ALGORITHM`, until Ctrl-C.

    Needs root. Without root, `ccp simulate` simulates flows, and --datapath selects the flows of another
    datapath.
    """
    upgrade.detach()
    _check_datapath(context, datapath)
    kept = None if known_good is None else KnownGood(known_good, compile_program)
    ready = given.planned(algorithm, find if kept is None else kept.find)
    serve_options = replace(given.options, known_good=kept, on_reload=_print_reload if reload else None)
    if isinstance(serve_options.load, LoadOptions) and datapath == registry.EBPF:
        serve_options = replace(serve_options, load=replace(serve_options.load, take_over=take_over))
        given.serve(ready, serve_options, _greet)
    else:
        socket = bind or registry.kind_of(datapath).socket
        assert socket is not None, datapath
        serve_options = replace(serve_options, load=SocketOptions(datapath, socket))
        given.serve(ready, serve_options, partial(_greet_datapaths, socket))


def _check_datapath(context: typer.Context, datapath: str) -> None:
    """Refuse unknown datapaths, and options that the datapath does not have."""
    if refused := registry.refusal(datapath, scenarios=False):
        message, fix = refused
        raise UsageError("datapath.unknown", message, where=f"--datapath {datapath}", fix=fix)
    of_others = ("bind",) if datapath == registry.EBPF else OF_THE_KERNEL
    if given := [name for name in of_others if _is_given(context, name)]:
        names = ", ".join(f"--{name.removesuffix('_ms').replace('_', '-')}" for name in given)
        raise UsageError(
            "datapath.option",
            f"the datapath `{datapath}` does not have the option {names}",
            where=f"--datapath {datapath}",
            fix="leave the option out",
        )


def _is_given(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _greet_datapaths(socket: Path, agent_loop: AgentLoop, ready: Plan) -> None:
    loaded = ", ".join(running.name for running in ready.running)
    typer.echo(f"ccp: {loaded} loaded, waiting for datapaths at {socket}; Ctrl-C stops")


def _print_reload(name: str, result: Reloaded | CcpError) -> None:
    """Print the result of saving a file; called on the loader's thread."""
    if isinstance(result, Reloaded):
        typer.echo(f"ccp: {sentence(asdict(result))}")
    else:
        show_error(result, debug=False)
        typer.echo(f"ccp: {name} continues unchanged", err=True)


def _greet(agent_loop: AgentLoop, ready: Plan) -> None:
    loaded = ", ".join(
        f"{running.name} ({PLAIN}, {running.cc_name})"
        if running is ready.default
        else f"{running.name} ({running.cc_name})"
        for running in ready.running
    )
    typer.echo(f"ccp: {loaded} loaded, {how_to_use(agent_loop)}")
