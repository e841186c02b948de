"""`ccp get`, `ccp set`: parameters of a running agent."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ccplane.agent import console, params
from ccplane.agent.commands.connection import PIN_DIR, AsJson, Connect, FlowId, Keys, Match, PinDir, client
from ccplane.base import options
from ccplane.base.errors import ParamError
from ccplane.base.names import close_names

get_app = typer.Typer(add_completion=False)
set_app = typer.Typer(add_completion=False)

Algorithm = Annotated[str | None, options.algorithm("Only this algorithm.")]


@get_app.command(epilog=options.examples("ccp get", "ccp get cubic.beta --json"))
def get(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME", help="NAME or ALGORITHM.NAME.", show_default="all parameters"),
    ] = None,
    algorithm: Algorithm = None,
    flow: FlowId = None,
    as_json: AsJson = False,
    connect: Connect = None,
    keys: Keys = None,
    pin_dir: PinDir = PIN_DIR,
) -> None:
    """Show the parameters of running algorithms: value, default, range, meaning."""
    with client(connect, keys, pin_dir) as agent:
        found = _named(agent.get_params(algorithm, flow), names or [])
    if as_json:
        console.print_json(found)
    else:
        Console().print(_table(found))


@set_app.command(
    "set", epilog=options.examples("ccp set cubic.beta=0.5", "ccp set beta=0.5 --match 'dst=10.0.0.0/8'")
)
def set_(
    settings: Annotated[
        list[str], typer.Argument(metavar="NAME=VALUE", help="NAME=VALUE or ALGORITHM.NAME=VALUE.")
    ],
    algorithm: Algorithm = None,
    flow: FlowId = None,
    match: Match = None,
    connect: Connect = None,
    keys: Keys = None,
    pin_dir: PinDir = PIN_DIR,
) -> None:
    """Set parameters while flows run."""
    values = params.parse(settings)
    with client(connect, keys, pin_dir) as agent:
        reached = agent.set(values, flow=flow, algorithm=algorithm, rule=match)
    typer.echo(f"ccp: set for {reached} running flow{'' if reached == 1 else 's'}")


def _named(found: dict[str, list[dict[str, Any]]], names: list[str]) -> dict[str, list[dict[str, Any]]]:
    """Return the parameters with these names only; all of them without a name."""
    known = {f"{algorithm}.{row['name']}": row for algorithm, rows in found.items() for row in rows}
    chosen: dict[str, list[dict[str, Any]]] = {}
    for name in names:
        matches = [one for one in known if name in (one, one.partition(".")[2])]
        if not matches:
            raise ParamError(
                "param.unknown_params",
                f"no running algorithm has a parameter `{name}`",
                where=name,
                fix=close_names(name, known, "parameter"),
            )
        for one in matches:
            chosen.setdefault(one.partition(".")[0], []).append(known[one])
    return chosen if names else found


def _table(found: dict[str, list[dict[str, Any]]]) -> Table:
    table = Table(box=None, header_style="bold")
    for column in ("parameter", "value", "default", "range", "meaning"):
        table.add_column(column)
    for algorithm, rows in found.items():
        for row in rows:
            low, high = (row[bound] for bound in ("low", "high"))
            limits = ", ".join(map(str, row["choices"])) or (
                "" if low is None and high is None else f"{low} to {high}"
            )
            cells = (
                f"{algorithm}.{row['name']}",
                f"{row['value']} {row['unit']}".strip(),
                str(row["default"]),
                limits,
                row["doc"],
            )
            table.add_row(*map(Text, cells))
    return table
