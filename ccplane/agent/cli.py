"""The command `ccp`: its options, and errors as messages with exit codes; `front` lists the commands."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from importlib import metadata
from typing import Annotated, Any, Final

import typer

from ccplane.agent import console, front
from ccplane.agent.front import Entry
from ccplane.base import site
from ccplane.base.errors import CcpError
from ccplane.base.extras import extra_part
from ccplane.base.printable import PrintableFormatter

MORE: Final = (
    "`ccp help --all` also lists the commands for research and for work on ccplane; "
    "`ccp help COMMAND` shows the help of one."
)


def plugins() -> Mapping[str, Entry]:
    """Return the commands of features and of other packages by path; none of them is imported."""
    return front.plugins()


class Group(front.Branch):
    """All commands; turns ccplane's errors into messages and exit codes."""

    def entries(self) -> Mapping[str, Entry]:
        """Return all commands by path; no plug-in replaces a command of `ccplane.agent`."""
        own = front.own()
        return own | {path: entry for path, entry in plugins().items() if path not in own}

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Show the first screen, or, for `ccp help --all`, both screens."""
        self.first_screen = not ctx.meta.get("all_commands")
        self.epilog = MORE + (f"\n\nDocuments: {site.address()}" if site.address() else "")
        try:
            super().format_help(ctx, formatter)
        finally:
            self.first_screen = False

    def invoke(self, ctx: Any) -> Any:
        """Run the command; an error of ccplane is printed without traceback unless `--debug` asks for it."""
        try:
            with extra_part():
                return super().invoke(ctx)
        except CcpError as error:
            console.show_error(error, debug=bool(ctx.params.get("debug")))
            raise typer.Exit(console.exit_code(error)) from None


app = typer.Typer(
    cls=Group,
    name="ccp",
    epilog=MORE,
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
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks and debug messages.")] = False,
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True),
    ] = False,
) -> None:
    """Run congestion-control algorithms, written in Python, on the TCP sockets of this machine."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(PrintableFormatter("%(asctime)s %(levelname)s %(message)s"))
    logging.basicConfig(level=logging.DEBUG if debug else logging.WARNING, handlers=[handler])


@app.command("help", hidden=True)
def help_(
    ctx: typer.Context,
    words: Annotated[
        list[str] | None, typer.Argument(metavar="COMMAND", help="Command to explain, such as `run`.")
    ] = None,
    every: Annotated[
        bool,
        typer.Option("--all", help="List all commands, also those for research and for work on ccplane."),
    ] = False,
) -> None:
    """Show the help of a command, or the list of commands."""
    shown = ctx.find_root()
    shown.meta["all_commands"] = every
    for word in words or []:
        group: Any = shown.command
        name, command, _ = group.resolve_command(shown, [word])
        whole = front.whole(command)
        shown = type(shown)(whole, info_name=name, parent=shown, **whole.context_settings)
    typer.echo(shown.get_help().rstrip() or "", nl=False)


def main() -> None:
    """Run `ccp`."""
    app()
