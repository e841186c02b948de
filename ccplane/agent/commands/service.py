"""`ccp service`: the agent, the receiver, R-TCP and Mosquitto as systemd services."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from ccplane.agent import service
from ccplane.agent.service import Service, unit_name
from ccplane.base.options import examples

_NEXT: Final[dict[Service, str]] = {
    Service.AGENT: "set what it runs in /etc/ccplane/agent.env",
    Service.RECEIVER: "set what it measures, and where it publishes, in /etc/ccplane/receiver.env",
    Service.RTCP: "set which sockets it limits in /etc/ccplane/rtcp.env (docs/rtcp.md)",
    Service.MOSQUITTO: "create its secrets: /etc/ccplane/mosquitto/make-secrets.sh HOST[,HOST...] USER...",
}

app = typer.Typer(
    help="Install hardened systemd units for the agent, the receiver, R-TCP or Mosquitto.",
    no_args_is_help=True,
    add_completion=False,
)

_Services = Annotated[
    list[Service] | None, typer.Argument(metavar="SERVICE", help="Services.", show_default="agent")
]
_Root = Annotated[
    Path,
    typer.Option(
        metavar="DIRECTORY", help="Install below this directory, for an image; do not run systemctl."
    ),
]


@app.callback()
def services() -> None:
    """Install hardened systemd units for the agent, the receiver, R-TCP or Mosquitto."""


@app.command(epilog=examples("sudo ccp service install", "ccp service install agent receiver --dry-run"))
def install(
    what: _Services = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the files; change nothing.")] = False,
    root: _Root = Path("/"),
) -> None:
    """Write the units, settings and users of services; they are neither enabled nor started."""
    chosen = _chosen(what)
    if dry_run:
        for one in chosen:
            for file in service.files(one):
                typer.echo(f"# {file.path} (mode {file.mode:o}{', kept if it exists' if file.kept else ''})")
                typer.echo(file.text)
        return
    for line in service.install(chosen, root):
        typer.echo(line)
    for one in chosen:
        typer.echo(f"{_NEXT[one]}; then: systemctl enable --now {unit_name(one)}")


@app.command(epilog=examples("sudo ccp service remove", "sudo ccp service remove agent receiver"))
def remove(what: _Services = None, root: _Root = Path("/")) -> None:
    """Stop services and remove their units; settings and secrets stay."""
    for line in service.remove(_chosen(what), root):
        typer.echo(line)


def _chosen(what: list[Service] | None) -> tuple[Service, ...]:
    return tuple(dict.fromkeys(what or [Service.AGENT]))
