"""`ccp lab`: look at and clean up the networks of experiments."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.table import Table

from experiments.netlab import lab
from experiments.netlab.cellular import Cellular, describe, draw, write_trace

app = typer.Typer(
    help="Networks of experiments on this machine; docs/netlab.md says how to describe and build them.",
    no_args_is_help=True,
)

_Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
_DEFAULT: Final = Cellular()


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


@app.command()
def trace(
    file: Annotated[Path, typer.Argument(help="Where to write it.")],
    seconds: Annotated[float, typer.Option(min=1, help="Length, after which it begins anew, in s.")] = 60.0,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same trace.")] = 1,
    mean_bytes_per_s: Annotated[
        float, typer.Option(help="Mean rate, outages included, in bytes/s.")
    ] = _DEFAULT.mean_bytes_per_s,
    variation: Annotated[
        float, typer.Option(help="Standard deviation of the rate by its mean, outside outages.")
    ] = _DEFAULT.variation_ratio,
    coherence_s: Annotated[
        float, typer.Option(help="Time for which the rate stays about the same, in s.")
    ] = _DEFAULT.coherence_s,
    outage_every_s: Annotated[
        float, typer.Option(help="Mean time between outages, in s; 0: there are none.")
    ] = _DEFAULT.outage_every_s or 0.0,
    outage_s: Annotated[float, typer.Option(help="Mean length of an outage, in s.")] = _DEFAULT.outage_s,
    as_json: _Json = False,
) -> None:
    """Draw a trace of a cellular link, in Mahimahi's format, for the field `trace` of scenarios' links."""
    link = Cellular(
        mean_bytes_per_s=mean_bytes_per_s,
        variation_ratio=variation,
        coherence_s=coherence_s,
        outage_every_s=outage_every_s or None,
        outage_s=outage_s,
    )
    times_ms = draw(link, seconds, seed)
    write_trace(file, times_ms)
    figures = describe(times_ms)
    if as_json:
        # JSON has no NaN: what there was too little of is null.
        print(json.dumps({name: None if value != value else value for name, value in vars(figures).items()}))
        return
    print(
        f"{file}: {figures.duration_s:g} s, mean {figures.mean_bytes_per_s / 125e3:.2f} Mbit/s, "
        f"variation {figures.variation_ratio:.2f}, coherence {figures.coherence_s:.1f} s, "
        f"outages of at least 0.5 s: {figures.outages}, longest gap {figures.longest_gap_ms} ms"
    )
