"""`ccp run`: algorithms steer flows until Ctrl-C."""

from __future__ import annotations

from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Final

import typer

from ccplane.agent.algorithms import find
from ccplane.agent.changes import Reloaded
from ccplane.agent.commands.serving import Given, how_to_use, serving
from ccplane.agent.commands.told import told
from ccplane.agent.console import show_error
from ccplane.agent.description import PLAIN, Plan
from ccplane.agent.held import SocketOptions
from ccplane.agent.known_good import KnownGood
from ccplane.agent.plane import Plane
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
    "take_over",
    "unload",
    "user",
)
"""Options that only the kernel datapath has."""


@serving
def run(
    context: typer.Context,
    algorithm: Annotated[list[str], typer.Argument(help="Name, FILE.py, FILE.py:Class or module:Class.")],
    given: Given,
    datapath: Annotated[
        str, typer.Option(help=f"Where the flows are: {', '.join(registry.names(scenarios=False))}.")
    ] = registry.EBPF,
    bind: Annotated[
        Path | None,
        typer.Option(
            help="The agent's socket, where datapaths other than ebpf look for it; else each has its own."
        ),
    ] = None,
    take_over: Annotated[
        bool,
        typer.Option(
            "--take-over", help="Have the agent that runs hand its flows over, once all is loaded here."
        ),
    ] = False,
    reload: Annotated[
        bool, typer.Option("--reload", help="Watch the algorithms' files, and swap in what is saved.")
    ] = False,
    known_good: Annotated[
        Path | None,
        typer.Option(
            help="Directory to keep versions known to be good in; the agent starts with one where its"
            " file does not load, or has a version that was taken back."
        ),
    ] = None,
) -> None:
    """Run algorithms on the TCP flows of this machine that choose `ccp` or `ccp.ALGORITHM`, until Ctrl-C.

    It needs root. `ccp simulate` needs none, and simulates the flows; `--datapath` names other datapaths,
    which need none (docs/datapaths.md).
    """
    _check_datapath(context, datapath)
    kept = None if known_good is None else KnownGood(known_good, compile_program)
    ready = given.planned(algorithm, find if kept is None else kept.find)
    options = replace(given.options, known_good=kept, on_reload=_tell_reload if reload else None)
    if isinstance(options.load, LoadOptions) and datapath == registry.EBPF:
        options = replace(options, load=replace(options.load, take_over=take_over))
        given.serve(ready, options, _greet)
    else:
        socket = bind or registry.kind_of(datapath).socket
        assert socket is not None, datapath
        options = replace(options, load=SocketOptions(datapath, socket))
        given.serve(ready, options, partial(_greet_datapaths, socket))


def _check_datapath(context: typer.Context, datapath: str) -> None:
    """Refuse what is no datapath, and options that mean nothing on it, rather than ignore them."""
    if refused := registry.refusal(datapath, scenarios=False):
        message, fix = refused
        raise UsageError("datapath.unknown", message, where=f"--datapath {datapath}", fix=fix)
    of_others = ("bind",) if datapath == registry.EBPF else OF_THE_KERNEL
    if given := [name for name in of_others if _is_given(context, name)]:
        options = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        raise UsageError(
            "datapath.option",
            f"{options} means nothing on the datapath `{datapath}`",
            where=f"--datapath {datapath}",
            fix="leave it out",
        )


def _is_given(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _greet_datapaths(socket: Path, plane: Plane, ready: Plan) -> None:
    loaded = ", ".join(running.name for running in ready.running)
    typer.echo(f"ccp: {loaded} loaded; waits for datapaths at {socket}; Ctrl-C stops")


def _tell_reload(name: str, came: Reloaded | CcpError) -> None:
    """Say what saving a file came to; called on the loader's thread."""
    if isinstance(came, Reloaded):
        typer.echo(f"ccp: {told(asdict(came))}")
    else:
        show_error(came, debug=False)
        typer.echo(f"ccp: {name} goes on as it was", err=True)


def _greet(plane: Plane, ready: Plan) -> None:
    loaded = ", ".join(
        f"{running.name} ({PLAIN}, {running.cc_name})"
        if running is ready.default
        else f"{running.name} ({running.cc_name})"
        for running in ready.running
    )
    typer.echo(f"ccp: {loaded} loaded, {how_to_use(plane)}")
