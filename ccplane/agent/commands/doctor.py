"""`ccp doctor`: what this kernel supports and loads, and how to fix what is missing."""

from __future__ import annotations

from pathlib import Path

import typer

from ccplane.agent import console
from ccplane.agent.commands.connection import PIN_DIR, PinDir
from ccplane.agent.features import features
from ccplane.agent.runfile import running
from ccplane.base.options import AsJson, examples
from ccplane.datapath import ebpf

app = typer.Typer(add_completion=False)

AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
"""The kernel's list of congestion controls."""

ALLOWED = Path("/proc/sys/net/ipv4/tcp_allowed_congestion_control")
"""Those that unprivileged processes may choose."""


@app.command(epilog=examples("sudo ccp doctor", "sudo ccp doctor --json"))
def doctor(as_json: AsJson = False, pin_dir: PinDir = PIN_DIR) -> None:
    """Check what the kernel datapath needs, by loading each part.

    Exits with 1 if the datapath does not load.
    """
    capabilities = [*ebpf.probe(), *ebpf.try_load()]
    for feature in features():
        capabilities += feature.trials(available_names()) if feature.trials is not None else ()
    can_load = all(one.ok for one in capabilities if one.required)
    names = registered_names()
    root_only = [name for name in names if name not in _names_in(ALLOWED, names)]
    agent = running(pin_dir)
    if as_json:
        console.print_json(
            {
                "can_load": can_load,
                "capabilities": [
                    {"name": c.name, "ok": c.ok, "required": c.required, "detail": c.detail, "fix": c.fix}
                    for c in capabilities
                ],
                "registered": names,
                "root_only": root_only,
                "agent_pid": None if agent is None else agent.pid,
            }
        )
    else:
        width = max((len(one.name) for one in capabilities), default=0)
        for one in capabilities:
            mark = "OK  " if one.ok else "FAIL" if one.required else "warn"
            typer.echo(f"{mark}  {one.name:<{width}}  {one.detail}" + ("" if one.ok else f"; fix: {one.fix}"))
        typer.echo("the eBPF datapath can load" if can_load else "the eBPF datapath cannot load")
        typer.echo(
            f"registered: {', '.join(names) or 'nothing'}; "
            + ("no agent runs" if agent is None else f"agent: pid {agent.pid}")
        )
        if root_only:
            sysctl = f"net.ipv4.{ALLOWED.name}"
            typer.echo(
                f"only root may choose: {', '.join(root_only)}; {sysctl} was set without them; "
                f'fix: sysctl {sysctl}="$(sysctl -n {sysctl}) {" ".join(root_only)}"'
            )
    if not can_load:
        raise typer.Exit(console.FAILED)


def registered_names() -> list[str]:
    """Return the congestion controls of ccplane that sockets can choose now."""
    return sorted(name for name in available_names() if name == "ccp" or name.startswith("ccp."))


def available_names() -> list[str]:
    """Return all congestion controls that are loaded now."""
    return _names_in(AVAILABLE, [])


def _names_in(file: Path, otherwise: list[str]) -> list[str]:
    try:
        return file.read_text().split()
    except OSError:
        return otherwise
