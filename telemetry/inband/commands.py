"""`ccp int`: in-band telemetry of flows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from ccplane.base.errors import CcpError
from telemetry.inband import node_commands

FAILED: Final = 1

app = typer.Typer(help="In-band telemetry of flows (INT).", no_args_is_help=True)


@app.callback()
def inband() -> None:
    """In-band telemetry of flows (INT)."""


app.command()(node_commands.node)


@app.command()
def parquet(
    records: Annotated[
        Path, typer.Argument(help="A CSV file of a sink, as `ccp int node --records` writes it.")
    ],
    out: Annotated[
        Path | None, typer.Argument(help="The Parquet file (the same name with .parquet).")
    ] = None,
) -> None:
    """Make a Parquet file of a sink's records, with a row for each packet and node."""
    from telemetry.inband.records import write_parquet  # pyarrow takes a third of a second

    out = out or records.with_suffix(".parquet")
    try:
        rows = write_parquet(records, out)
    except CcpError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(FAILED) from None
    typer.echo(f"{rows} rows in {out}", err=True)
