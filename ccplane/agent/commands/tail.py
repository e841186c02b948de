"""`ccp tail`: reports, decisions, events and telemetry of a running agent."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from ccplane.agent import console
from ccplane.agent.commands.connection import PIN_DIR, AsJson, Connect, Count, FlowId, Keys, PinDir, client
from ccplane.agent.control import STREAMS
from ccplane.base import options
from ccplane.base.errors import UsageError
from ccplane.base.names import close_names
from ccplane.base.printable import printable

app = typer.Typer(add_completion=False)


@app.command(epilog=options.examples("ccp tail", "ccp tail report decision -n 20 --json"))
def tail(
    kinds: Annotated[
        list[str] | None,
        typer.Argument(metavar="STREAM", help=f"Streams: {', '.join(STREAMS)}.", show_default="event"),
    ] = None,
    flow: FlowId = None,
    count: Count = None,
    as_json: AsJson = False,
    connect: Connect = None,
    keys: Keys = None,
    pin_dir: PinDir = PIN_DIR,
) -> None:
    """Print events, reports, decisions and telemetry of the agent, one per line, until Ctrl-C.

    An algorithm determines how often it gets reports. cubic, reno and dctcp get one only when they have to
    react; set their parameter report_ms for more: ccp set cubic.report_ms=100
    """
    for kind in kinds or []:
        if kind not in STREAMS:
            raise UsageError(
                "control.no_stream",
                f"there is no stream `{kind}`",
                fix=close_names(kind, STREAMS, "stream"),
            )
    with client(connect, keys, pin_dir) as agent:
        agent.status()  # fails if no agent runs
        with agent.stream(flow, kinds=tuple(kinds or ["event"])) as stream:
            try:
                for number, row in enumerate(stream, start=1):
                    typer.echo(json.dumps(row) if as_json else line(row))
                    if number == count:
                        return
            except KeyboardInterrupt:
                pass
            if stream.dropped:
                typer.echo(
                    f"ccp: {stream.dropped} lines were lost: they arrived faster than they could be printed",
                    err=True,
                )


def line(row: dict[str, Any]) -> str:
    """Return a message of a stream as one line of printable text."""
    if row["stream"] == "event":
        clock = console.clock(row["t_wall_us"] / 1e6)
        parts = [clock, row["kind"], row["algorithm"], _flow(row), _fields(row["detail"])]
    elif row["stream"] == "telemetry":
        body = {name: value for name, value in row["body"].items() if name != "kind"}
        parts = [f"{row['received_us'] / 1e6:.6f}", row["kind"], row["sender"], _fields(body)]
    else:
        known = {"stream", "flow_id", "t_us", "fields", "registers"}
        head = {
            name: value for name, value in row.items() if name not in known and value not in (None, False)
        }
        more = row.get("fields") or row.get("registers") or {}
        parts = [f"{row['t_us'] / 1e6:.6f}", row["stream"], str(row["flow_id"]), _fields({**head, **more})]
    return printable("  ".join(part for part in parts if part))


def _flow(row: dict[str, Any]) -> str:
    return "" if row["flow_id"] is None else f"{row['flow_id']} ({row['flow']})"


def _fields(fields: dict[str, Any]) -> str:
    return " ".join(f"{name}={value}" for name, value in fields.items())
