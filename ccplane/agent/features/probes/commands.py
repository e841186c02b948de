"""`ccp probe`: a BCC probe, with the reports of a running agent."""

from __future__ import annotations

import json
import math
import os
import threading
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from ccplane.agent.commands.connection import PIN_DIR, AsJson, Connect, Count, FlowId, Keys, PinDir, client
from ccplane.agent.features.probes.timeline import ProbeTimeline
from ccplane.base import clock, options
from telemetry.bpfcc import BccProbe, Table
from telemetry.bpfcc.errors import ProbeError
from telemetry.signals import on_signals

COLUMNS = "{:>16}  {:<12}  {:>12}  {}"
"""Columns of a row: time [s], source, flow, fields."""

app = typer.Typer(add_completion=False)


@app.command(
    epilog=options.examples("sudo ccp probe retransmits.c", "sudo ccp probe retransmits.c -t 1min --json")
)
def probe(
    file: Annotated[Path | None, typer.Argument(metavar="FILE", help="C text for BCC.")] = None,
    text: Annotated[
        str | None, typer.Option("--text", "-e", metavar="TEXT", help="The C text itself, instead of FILE.")
    ] = None,
    tables: Annotated[
        list[str] | None,
        typer.Option(
            "--table",
            metavar="NAME",
            help="Print changes of this table; repeatable.",
            show_default="all, if the probe prints nothing",
        ),
    ] = None,
    interval_s: Annotated[
        float, options.duration("--interval", unit="s", min=0.01, help="Time between two reads of the tables")
    ] = options.in_unit(1.0, "s"),
    flow: FlowId = None,
    seconds: Annotated[
        float | None,
        options.seconds("Time to run, after the probe is compiled", min=0, show_default="until Ctrl-C"),
    ] = None,
    count: Count = None,
    as_json: AsJson = False,
    connect: Connect = None,
    keys: Keys = None,
    pin_dir: PinDir = PIN_DIR,
) -> None:
    """Attach a BCC probe, and print its events and the agent's reports in order of time, until Ctrl-C.

    At the end, the probe's tables are printed. Needs root, the distribution's bcc (apt install
    python3-bpfcc) and the kernel's headers. Functions attach by their names: kprobe__tcp_retransmit_skb,
    TRACEPOINT_PROBE(tcp, tcp_probe). The time of an event is its field t_us, t_ns or ts (ns); its fields
    sport and dport identify its flow.
    """
    source, name = _source(file, text)
    stop = threading.Event()
    with client(connect, keys, pin_dir) as agent, on_signals(stop.set):
        agent.status()  # fails if no agent runs, before the compiler takes its time
        with BccProbe(source, tables=tables or (), interval_s=interval_s, name=name) as attached:
            _greet(attached)
            if not as_json:
                typer.secho(COLUMNS.format("time [s]", "source", "flow", "what"), bold=True)
            alongside = ProbeTimeline(attached, agent, flow)
            end_s = math.inf if seconds is None else time.monotonic() + seconds
            rows = alongside.rows(lambda: stop.is_set() or time.monotonic() >= end_s)
            for number, row in enumerate(rows, start=1):
                if as_json:
                    typer.echo(json.dumps(row))
                else:
                    typer.secho(line(row), fg=typer.colors.CYAN if row["stream"] == "probe" else None)
                if number == count:
                    break
            for table in attached.read_tables():
                typer.echo(json.dumps(table_row(table)) if as_json else drawn(table))
        _take_leave(attached, alongside)


def _greet(attached: BccProbe) -> None:
    """Print on stderr what is attached."""
    typer.echo(f"ccp: attached {', '.join(attached.sources)}; Ctrl-C stops", err=True)
    if attached.without_clock:
        lacking = ", ".join(attached.without_clock)
        typer.echo(
            f"ccp: {lacking}: events have no time field, so each event has the time at which it was read",
            err=True,
        )
    if attached.unreadable:
        left_out = ", ".join(attached.unreadable)
        typer.echo(f"ccp: {left_out}: not shown, because bcc cannot decode their types", err=True)


def _take_leave(attached: BccProbe, alongside: ProbeTimeline) -> None:
    """Print on stderr what the output lacks."""
    for what, lost in (("events", attached.dropped), ("reports", alongside.dropped_reports)):
        if lost:
            typer.echo(
                f"ccp: {lost} {what} were lost: they arrived faster than they could be printed", err=True
            )
    if alongside.late:
        typer.echo(f"ccp: {alongside.late} rows arrived too late to be printed in order", err=True)


def line(row: dict[str, Any]) -> str:
    """Return a row of `ProbeTimeline.rows` as one line."""
    head = {
        name: row[name]
        for name in ("cwnd_bytes", "rate_bytes_per_s", "missed", "timeout", "fold_error")
        if row.get(name)
    }
    what = " ".join(f"{name}={value}" for name, value in {**head, **row["fields"]}.items())
    flow_id = "" if row["flow_id"] is None else row["flow_id"]
    return COLUMNS.format(f"{row['t_us'] / 1e6:.6f}", row.get("source", row["stream"]), flow_id, what)


def table_row(table: Table) -> dict[str, Any]:
    """Return the final contents of a table as a row like those of `ProbeTimeline.rows`."""
    return {
        "stream": "table",
        "t_us": clock.now_us(),
        "source": table.name,
        "entries": table.entries,
    }


def drawn(table: Table) -> str:
    """Return the final contents of a table as lines, either a histogram or one line per entry."""
    entries = [f"  {_words(one['key'])}: {_words(one['value'])}" for one in table.entries]
    lines = [table.histogram] if table.histogram else entries
    return "\n".join([f"\n{table.name}:{'' if entries else ' empty'}", *lines])


def _words(value: Any) -> str:
    """Return a key or a value of a table as text."""
    if isinstance(value, dict):
        return " ".join(f"{name}={_words(one)}" for name, one in value.items())
    return str(value)


def _source(file: Path | None, text: str | None) -> tuple[str, str]:
    """Return the text, and its name in errors."""
    if text is not None and file is None:
        return text, "-e"
    if file is None or text is not None:
        raise ProbeError(
            "probe.no_text",
            "give either a file or a text",
            fix="ccp probe FILE.c, or ccp probe -e 'C TEXT'",
        )
    try:
        return file.read_text(encoding="utf-8"), os.fspath(file)
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise ProbeError("probe.no_text", "the probe cannot be read", os.fspath(file), why) from error
