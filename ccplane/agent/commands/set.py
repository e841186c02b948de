"""`ccp set`: parameters of a running agent."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from ccplane.agent import console, params
from ccplane.agent.commands.connection import PIN_DIR, AsJson, Connect, FlowId, Keys, PinDir, RuleText, client


def set_(
    settings: Annotated[
        list[str] | None, typer.Argument(help="NAME=VALUE or ALGORITHM.NAME=VALUE; none shows all.")
    ] = None,
    flow: FlowId = None,
    algorithm: Annotated[str | None, typer.Option(help="For flows of this algorithm only.")] = None,
    rule: RuleText = None,
    as_json: AsJson = False,
    connect: Connect = None,
    keys: Keys = None,
    pin_dir: PinDir = PIN_DIR,
) -> None:
    """Set parameters while flows run, or show them."""
    values = params.parse(settings or [])
    with client(connect, keys, pin_dir) as agent:
        if values:
            reached = agent.set(values, flow=flow, algorithm=algorithm, rule=rule)
            typer.echo(f"ccp: set for {reached} running flow{'' if reached == 1 else 's'}")
        elif as_json:
            console.print_json(agent.get_params(algorithm, flow))
        else:
            Console().print(_table(agent.get_params(algorithm, flow)))


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
            table.add_row(
                f"{algorithm}.{row['name']}",
                f"{row['value']} {row['unit']}".strip(),
                str(row["default"]),
                limits,
                row["doc"],
            )
    return table
