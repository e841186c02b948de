"""`ccp probe`: a BCC probe of one's own, beside the reports of a running agent."""

from __future__ import annotations

import json
import math
import os
import threading
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from ccplane.agent.commands.connection import PIN_DIR, AsJson, Connect, FlowId, Keys, PinDir, client
from ccplane.agent.features.probes.beside import Beside
from telemetry.bpfcc import BccProbe, Table
from telemetry.bpfcc.errors import ProbeError
from telemetry.signals import on_signals

COLUMNS = "{:>16}  {:<12}  {:>12}  {}"
"""Time [s], source, flow, what."""


app = typer.Typer()


@app.command()
def probe(
    file: Annotated[Path | None, typer.Argument(help="File with C text for BCC.")] = None,
    text: Annotated[str | None, typer.Option("--text", "-e", help="The C text itself.")] = None,
    tables: Annotated[
        list[str] | None,
        typer.Option(
            "--table",
            help="Show how this table changes; may be repeated. By default all, if there is no output.",
        ),
    ] = None,
    interval: Annotated[float, typer.Option(min=0.01, help="Seconds between looks at tables.")] = 1.0,
    flow: FlowId = None,
    seconds: Annotated[
        float | None, typer.Option(min=0.0, help="End after so many seconds; compiling is not counted.")
    ] = None,
    count: Annotated[int | None, typer.Option("--count", "-n", help="End after so many lines.")] = None,
    as_json: AsJson = False,
    connect: Connect = None,
    keys: Keys = None,
    pin_dir: PinDir = PIN_DIR,
) -> None:
    """Attach a BCC probe, and print its events and the agent's reports in order of time, until Ctrl-C.

    Then come its tables. Needs root, bcc of the distribution (apt install python3-bpfcc) and the kernel's
    headers. Functions attach by their names: kprobe__tcp_retransmit_skb, TRACEPOINT_PROBE(tcp, tcp_probe).
    Events have their time in a field t_us, t_ns or ts (ns), and belong to the flow that has their sport and
    dport.
    """
    source, name = _source(file, text)
    stop = threading.Event()
    with client(connect, keys, pin_dir) as agent, on_signals(stop.set):
        agent.status()  # says so if nobody is there, before the compiler takes its time
        with BccProbe(source, tables=tables or (), interval_s=interval, name=name) as attached:
            _greet(attached)
            if not as_json:
                typer.secho(COLUMNS.format("time [s]", "source", "flow", "what"), bold=True)
            beside = Beside(attached, agent, flow)
            end_s = math.inf if seconds is None else time.monotonic() + seconds
            rows = beside.rows(lambda: stop.is_set() or time.monotonic() >= end_s)
            for number, row in enumerate(rows, start=1):
                if as_json:
                    typer.echo(json.dumps(row))
                else:
                    typer.secho(line(row), fg=typer.colors.CYAN if row["stream"] == "probe" else None)
                if number == count:
                    break
            for table in attached.read_tables():
                typer.echo(json.dumps(table_row(table)) if as_json else drawn(table))
        _take_leave(attached, beside)


def _greet(attached: BccProbe) -> None:
    """Say on stderr what is attached."""
    told = f"ccp: attached; {', '.join(attached.sources)} beside the agent's reports; Ctrl-C ends"
    typer.echo(told, err=True)
    if attached.without_clock:
        lacking = ", ".join(attached.without_clock)
        typer.echo(f"ccp: {lacking}: no field with a time, so the time of reading is shown", err=True)
    if attached.unreadable:
        left_out = ", ".join(attached.unreadable)
        typer.echo(f"ccp: {left_out}: not shown, because bcc does not know their types", err=True)


def _take_leave(attached: BccProbe, beside: Beside) -> None:
    """Say on stderr what is missing in what was shown."""
    for what, lost in (("events", attached.dropped), ("reports", beside.dropped_reports)):
        if lost:
            typer.echo(f"ccp: {lost} {what} were lost, because they came too fast", err=True)
    if beside.late:
        typer.echo(f"ccp: {beside.late} rows came too late to be in order", err=True)


def line(row: dict[str, Any]) -> str:
    """Return a row of `Beside.rows` as one line."""
    head = {
        name: row[name]
        for name in ("cwnd_bytes", "rate_bytes_per_s", "missed", "timeout", "fold_error")
        if row.get(name)
    }
    what = " ".join(f"{name}={value}" for name, value in {**head, **row["fields"]}.items())
    flow_id = "" if row["flow_id"] is None else row["flow_id"]
    return COLUMNS.format(f"{row['t_us'] / 1e6:.6f}", row.get("source", row["stream"]), flow_id, what)


def table_row(table: Table) -> dict[str, Any]:
    """Return what a table holds at the end as a row beside those of `Beside.rows`."""
    return {
        "stream": "table",
        "t_us": time.monotonic_ns() // 1000,
        "source": table.name,
        "entries": table.entries,
    }


def drawn(table: Table) -> str:
    """Return what a table holds at the end as lines: a histogram as one, others an entry a line."""
    entries = [f"  {_words(one['key'])}: {_words(one['value'])}" for one in table.entries]
    lines = [table.histogram] if table.histogram else entries
    return "\n".join([f"\n{table.name}:{'' if entries else ' empty'}", *lines])


def _words(value: Any) -> str:
    """Return a key or a value of a table as people read it."""
    if isinstance(value, dict):
        return " ".join(f"{name}={_words(one)}" for name, one in value.items())
    return str(value)


def _source(file: Path | None, text: str | None) -> tuple[str, str]:
    """Return the text, and what errors call it."""
    if text is not None and file is None:
        return text, "-e"
    if file is None or text is not None:
        raise ProbeError(
            "probe.no_text",
            "a probe is a file, or a text: one of them",
            fix="ccp probe FILE.c, or ccp probe -e 'C TEXT'",
        )
    try:
        return file.read_text(encoding="utf-8"), os.fspath(file)
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise ProbeError("probe.no_text", "the probe cannot be read", os.fspath(file), why) from error
