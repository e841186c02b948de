"""`ccp lab`: list and remove networks of experiments, and generate cellular traces."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.table import Table

from ccplane.base import options
from experiments.netlab import lab
from experiments.netlab.cellular import Cellular, describe, draw, write_trace
from experiments.units import MBIT

app = typer.Typer(
    help="List and remove the emulated networks on this machine; generate traces of cellular links.",
    no_args_is_help=True,
    add_completion=False,
)

_DEFAULT: Final = Cellular()


@app.command("list", epilog=options.examples("sudo ccp lab list"))
def list_(as_json: options.AsJson = False) -> None:
    """List the network namespaces of experiments: who created each one, and whether it is in use."""
    found = lab.list_namespaces()
    if as_json:
        print(json.dumps([asdict(leftover) for leftover in found]))
        return
    if not found:
        print("no networks of experiments on this machine")
        return
    table = Table("host", "made by (PID)", "state", "processes inside")
    table.add_column("namespace", overflow="fold")  # never cut: users copy it
    for leftover in found:
        state = "in use" if leftover.in_use else "stale: `ccp lab clean` removes it"
        inside = str(leftover.n_processes)
        table.add_row(leftover.host, str(leftover.pid), state, inside, leftover.namespace)
    Console().print(table)


@app.command(epilog=options.examples("sudo ccp lab clean"))
def clean(as_json: options.AsJson = False) -> None:
    """Remove the networks of experiments that were killed; networks in use stay."""
    removed = lab.clean_leftovers()
    if as_json:
        print(json.dumps({"removed": removed}))
        return
    for name in removed:
        print(f"removed {name}")
    if not removed:
        print("nothing to remove")


@app.command(epilog=options.examples("ccp lab trace -o cell.trace --rate 12mbit -t 2min"))
def trace(
    out: Annotated[Path, options.out("File for the trace.", metavar="FILE")],
    seconds: Annotated[
        float, options.seconds("Length of the trace, after which a link repeats the trace", min=1)
    ] = options.in_unit(60.0, "s"),
    seed: Annotated[int, typer.Option(min=0, help="Random seed; the same seed gives the same trace.")] = 1,
    rate_mbit: Annotated[
        float, options.rate("--rate", unit="mbit", help="Mean rate, outages included")
    ] = options.in_unit(_DEFAULT.mean_bytes_per_s / MBIT, "mbit"),
    variation: Annotated[
        float, typer.Option(help="Standard deviation of the rate outside outages, divided by the mean rate.")
    ] = _DEFAULT.variation_ratio,
    coherence_s: Annotated[
        float, options.duration("--coherence", unit="s", help="Time over which the rate changes little")
    ] = options.in_unit(_DEFAULT.coherence_s, "s"),
    outage_every_s: Annotated[
        float,
        options.duration("--outage-interval", unit="s", help="Mean time between outages, 0 for none"),
    ] = options.in_unit(_DEFAULT.outage_every_s or 0.0, "s"),
    outage_s: Annotated[
        float, options.duration("--outage", unit="s", help="Mean duration of an outage")
    ] = options.in_unit(_DEFAULT.outage_s, "s"),
    as_json: options.AsJson = False,
) -> None:
    """Generate a random trace of a cellular link, in Mahimahi's format, for the field `trace` of a link."""
    link = Cellular(
        mean_bytes_per_s=rate_mbit * MBIT,
        variation_ratio=variation,
        coherence_s=coherence_s,
        outage_every_s=outage_every_s or None,
        outage_s=outage_s,
    )
    times_ms = draw(link, seconds, seed)
    write_trace(out, times_ms)
    figures = describe(times_ms)
    if as_json:
        # JSON has no NaN: unknown figures are null.
        print(json.dumps({name: None if value != value else value for name, value in vars(figures).items()}))
        return
    print(
        f"{out}: {figures.duration_s:g} s, mean {figures.mean_bytes_per_s / 125e3:.2f} Mbit/s, "
        f"variation {figures.variation_ratio:.2f}, coherence {figures.coherence_s:.1f} s, "
        f"outages of at least 0.5 s: {figures.outages}, longest gap {figures.longest_gap_ms} ms"
    )
