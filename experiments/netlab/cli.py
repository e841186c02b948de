"""`ccp lab`: look at and clean up the networks of experiments."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from experiments.netlab import lab

app = typer.Typer(
    help="Networks of experiments on this machine; docs/netlab.md says how to describe and build them.",
    no_args_is_help=True,
)

_Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command("list")
def list_(as_json: _Json = False) -> None:
    """List the networks' namespaces: whose they are, and whether their run is still alive."""
    found = lab.list_namespaces()
    if as_json:
        print(json.dumps([asdict(leftover) for leftover in found]))
        return
    if not found:
        print("no networks of experiments on this machine")
        return
    table = Table("host", "made by process", "state", "processes inside")
    table.add_column("namespace", overflow="fold")  # whole, to be copied
    for leftover in found:
        state = "in use" if leftover.in_use else "left behind: `ccp lab clean` removes it"
        inside = str(leftover.n_processes)
        table.add_row(leftover.host, str(leftover.pid), state, inside, leftover.namespace)
    Console().print(table)


@app.command()
def clean(as_json: _Json = False) -> None:
    """Remove what killed runs left behind; networks of runs that are alive stay."""
    removed = lab.clean_leftovers()
    if as_json:
        print(json.dumps({"removed": removed}))
        return
    for name in removed:
        print(f"removed {name}")
    if not removed:
        print("nothing to remove")
