"""`ccp install-service`: the agent, the receiver, R-TCP and Mosquitto as services of systemd's."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from ccplane.agent import service
from ccplane.agent.service import Service, unit_name

_NEXT: Final[dict[Service, str]] = {
    Service.AGENT: "what it runs: /etc/ccplane/agent.env",
    Service.RECEIVER: "what it measures, and for whom: /etc/ccplane/receiver.env",
    Service.RTCP: "which sockets it bounds: /etc/ccplane/rtcp.env; who has it: docs/rtcp.md",
    Service.MOSQUITTO: "first its secrets: /etc/ccplane/mosquitto/make-secrets.sh HOST[,HOST...] USER...",
}


def install_service(
    what: Annotated[
        list[Service] | None, typer.Argument(help="Which; else the agent.", show_default=False)
    ] = None,
    show: Annotated[bool, typer.Option("--print", help="Print the files, and change nothing.")] = False,
    remove: Annotated[
        bool, typer.Option("--remove", help="Stop them and remove their units; settings and secrets stay.")
    ] = False,
    root: Annotated[
        Path, typer.Option(help="Write below this directory, and run nothing: for images.")
    ] = Path("/"),
) -> None:
    """Make services of systemd's of the agent, the receiver, R-TCP or Mosquitto: hardened, without root."""
    services = tuple(dict.fromkeys(what or [Service.AGENT]))
    if show:
        for one in services:
            for file in service.files(one):
                typer.echo(
                    f"# {file.path} (mode {file.mode:o}{', kept if it is there' if file.kept else ''})"
                )
                typer.echo(file.text)
        return
    for line in service.remove(services, root) if remove else service.install(services, root):
        typer.echo(line)
    if not remove:
        for one in services:
            typer.echo(f"{_NEXT[one]}; then: systemctl enable --now {unit_name(one)}")
