"""`ccp telemetry node` and `ccp telemetry parquet`: in-band telemetry of flows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from ccplane.base import options
from ccplane.base.errors import CcpError
from telemetry.inband import node_commands

FAILED: Final = 1

app = typer.Typer(help="In-band telemetry of flows (INT).", no_args_is_help=True, add_completion=False)


@app.callback()
def inband() -> None:
    """In-band telemetry of flows (INT)."""


app.command(
    epilog=options.examples(
        "sudo ccp telemetry node eth0 --role source,transit --to-prefix fd00::/8",
        "sudo ccp telemetry node eth0 --role sink --from-prefix fd00::/8 --json -o packets.csv",
    )
)(node_commands.node)


@app.command(epilog=options.examples("ccp telemetry parquet packets.csv"))
def parquet(
    records: Annotated[
        Path, typer.Argument(metavar="FILE", help="CSV file that `ccp telemetry node --out` wrote.")
    ],
    out: Annotated[
        Path | None,
        options.out("Parquet file.", metavar="FILE", show_default="the CSV file's name, .parquet"),
    ] = None,
) -> None:
    """Convert a sink's CSV file to Parquet, with one row for each packet and node."""
    from telemetry.inband.records import write_parquet  # pyarrow takes a third of a second

    out = out or records.with_suffix(".parquet")
    try:
        rows = write_parquet(records, out)
    except CcpError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(FAILED) from None
    typer.echo(f"{out}: {rows} rows", err=True)
