"""The command `ccp`.

Each command is a module of `ccplane.agent.commands`. Packages above `ccplane.agent` add theirs through the
entry-point group `ccplane.commands` (name = "module:typer_app"); these are imported when they are called or
listed, and one that does not import is listed with its error and breaks no other.
"""

from __future__ import annotations

import importlib.util
import logging
import sys
from importlib import metadata
from typing import Any

import typer
import typer.core
import typer.main
from rich.markup import escape

from ccplane.agent import console
from ccplane.agent.commands import (
    algorithms,
    canary,
    check,
    control,
    doctor,
    flows,
    new,
    reload,
    run,
    serve_ccp,
    service,
    switch,
    tail,
    top,
    unload,
)
from ccplane.agent.commands import set as setting
from ccplane.agent.features import features
from ccplane.base.errors import CcpError, UsageError
from ccplane.base.extras import extra_part, lacking

COMMANDS = "ccplane.commands"
"""Entry-point group of commands."""


def plugins() -> dict[str, metadata.EntryPoint]:
    """Return the commands of features and of other packages by name; none of them is imported."""
    of_features = {
        name: metadata.EntryPoint(name, value, COMMANDS)
        for feature in features()
        for name, value in feature.commands.items()
    }
    return {entry.name: entry for entry in metadata.entry_points(group=COMMANDS)} | of_features


def _is_left_out(entry: metadata.EntryPoint) -> bool:
    """Whether it is a command for work on ccplane itself, in a wheel, which lacks these."""
    if entry.dist is None or entry.dist.name != "ccplane":
        return False
    try:
        return importlib.util.find_spec(entry.module.rpartition(".")[0]) is None
    except ModuleNotFoundError:
        return True


def _load(entry: metadata.EntryPoint) -> Any:
    """Return the command of a plug-in, or one that says why there is none."""
    try:
        loaded = entry.load()
        if not isinstance(loaded, typer.Typer):
            raise TypeError(f"{entry.value} is a {type(loaded).__name__}, not a typer.Typer")
        command = typer.main.get_command(loaded)
    except Exception as error:  # whatever a plug-in does wrong must not break `ccp`
        command = _broken(entry, error)
    command.name = entry.name
    return command


def _broken(entry: metadata.EntryPoint, error: Exception) -> Any:
    app = typer.Typer(add_completion=False)
    settings = {"ignore_unknown_options": True, "allow_extra_args": True}

    without: CcpError | None = error if isinstance(error, CcpError) else None
    if isinstance(error, ModuleNotFoundError):
        without = _not_in_the_wheel(entry) if _is_left_out(entry) else lacking(error)
    why_not = without.fix if without else f"cannot be loaded: {type(error).__name__}: {error}"

    @app.command(help=f"({escape(why_not)})", context_settings=settings)
    def fail() -> None:
        if without:
            raise without from error
        raise UsageError(
            "command.broken",
            f"the command `{entry.name}` cannot be loaded",
            where=f"entry point {entry.name} = {entry.value}",
            why=f"{type(error).__name__}: {error}",
            fix="install what it needs, or remove the package that brings it",
        ) from error

    return typer.main.get_command(app)


def _not_in_the_wheel(entry: metadata.EntryPoint) -> CcpError:
    return UsageError(
        "command.not_in_wheel",
        f"`ccp {entry.name}` is not installed",
        where=f"entry point {entry.name} = {entry.value}",
        why="papers, the soak and the validation of the simulator stay in the repository",
        fix="clone ccplane's repository, run `make setup` there, and use its .venv/bin/ccp",
    )


class Group(typer.core.TyperGroup):
    """The commands of `ccplane.agent` and of plug-ins; turns our errors into messages and exit codes."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return all names; ours first."""
        own = list(super().list_commands(ctx))
        others = (name for name, entry in plugins().items() if name not in own and not _is_left_out(entry))
        return own + sorted(others)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command, ours or a plug-in's; None if there is none."""
        own = super().get_command(ctx, cmd_name)
        if own is not None:
            return own
        entry = plugins().get(cmd_name)
        return None if entry is None else _load(entry)

    def invoke(self, ctx: Any) -> Any:
        """Run the command; an error of ours is printed without traceback unless `--debug` asks for it."""
        try:
            with extra_part():
                return super().invoke(ctx)
        except CcpError as error:
            console.show_error(error, debug=bool(ctx.params.get("debug")))
            raise typer.Exit(console.exit_code(error)) from None


app = typer.Typer(
    cls=Group,
    name="ccp",
    help="Run congestion-control algorithms, written in Python, on the TCP sockets of this machine.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"ccplane {metadata.version('ccplane')}")
        raise typer.Exit


@app.callback()
def root(
    debug: bool = typer.Option(False, "--debug", help="Show tracebacks and debug messages."),
    version: bool = typer.Option(
        False, "--version", help="Print the version.", callback=_print_version, is_eager=True
    ),
) -> None:
    """Run congestion-control algorithms, written in Python, on the TCP sockets of this machine."""
    logging.basicConfig(
        level=logging.DEBUG if debug else logging.WARNING,
        stream=sys.stderr,
        format="%(asctime)s %(levelname)s %(message)s",
    )


app.command("run")(run.run)
app.command("serve-ccp")(serve_ccp.serve_ccp)
app.command("flows")(flows.flows)
app.command("top")(top.top)
app.command("check")(check.check)
app.command("doctor")(doctor.doctor)
app.command("unload")(unload.unload)
app.command("install-service")(service.install_service)
app.command("algorithms")(algorithms.algorithms)
app.command("new")(new.new)
app.command("set")(setting.set_)
app.command("switch")(switch.switch)
app.command("reload")(reload.reload)
app.command("canary")(canary.canary)
app.command("rollback")(canary.rollback)
app.command("tail")(tail.tail)
app.command("program")(control.program)
app.command("listen")(control.listen)
app.command("stop")(control.stop)


def main() -> None:
    """Run `ccp`."""
    app()
