"""`ccp lab`: list and remove networks of experiments; draw and convert traces of links."""

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
from experiments.netlab.errors import bad_value
from experiments.netlab.formats import read_recording
from experiments.netlab.mobile import PROFILES, draw_profile, profile_of, write_scenario
from experiments.units import MBIT

app = typer.Typer(
    help="List and remove the emulated networks on this machine; draw and convert traces of links.",
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


@app.command(
    epilog=options.examples(
        "ccp lab trace -o cell.trace --rate 12mbit -t 2min",
        "ccp lab trace --profile leo -o leo.trace --scenario leo.yaml",
        "ccp lab trace recorded.csv -o recorded.trace",
    )
)
def trace(
    context: typer.Context,
    recording: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE",
            help="Convert this recording: a Mahimahi trace, a CSV file with the columns `time` and `rate`, "
            "or a file of one of the data sets in docs/netlab.md.",
            show_default="draw a trace at random",
        ),
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help=f"Draw a link of this kind: {', '.join(PROFILES)}.",
            show_default="the model of a cell with the options below",
        ),
    ] = None,
    out: Annotated[
        Path | None, options.out("File for the trace.", metavar="FILE", show_default="print figures only")
    ] = None,
    scenario: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Also write a scenario over this link, with its changes of delay (with --profile, --out).",
            show_default="none",
        ),
    ] = None,
    run: Annotated[int, typer.Option(min=1, help="Run to convert, of a recording that has several.")] = 1,
    seconds: Annotated[
        float, options.seconds("Length of the trace, after which a link repeats the trace", min=1)
    ] = options.in_unit(60.0, "s"),
    seed: Annotated[int, typer.Option(min=0, help="Random seed; the same seed gives the same trace.")] = 1,
    rate_mbit: Annotated[
        float | None,
        options.rate(
            "--rate",
            unit="mbit",
            help="Mean rate, outages included",
            show_default="as recorded; as drawn from the profile; 5mbit",
        ),
    ] = None,
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
    """Draw a trace of a mobile or satellite link at random, or convert a recording to one.

    The trace is in Mahimahi's format, for the field `trace` of a link.
    """
    _refuse(context, recording, profile)
    mean_bytes_per_s = None if rate_mbit is None else rate_mbit * MBIT
    delays: tuple[tuple[float, int], ...] = ()
    if recording is not None:
        times_ms = read_recording(recording, run, mean_bytes_per_s)
    elif profile is not None:
        drawn = draw_profile(profile_of(profile), seconds, seed, mean_bytes_per_s)
        times_ms, delays = drawn.times_ms, drawn.delays
    else:
        link = Cellular(
            mean_bytes_per_s=mean_bytes_per_s or _DEFAULT.mean_bytes_per_s,
            variation_ratio=variation,
            coherence_s=coherence_s,
            outage_every_s=outage_every_s or None,
            outage_s=outage_s,
        )
        times_ms = draw(link, seconds, seed)
    if out is not None:
        write_trace(out, times_ms)
        if scenario is not None and profile is not None:
            write_scenario(scenario, profile, out, drawn)
    figures = describe(times_ms)
    if as_json:
        # JSON has no NaN: unknown figures are null.
        plain = {name: None if value != value else value for name, value in vars(figures).items()}
        print(json.dumps(plain | ({"delays": delays} if delays else {})))
        return
    print(
        f"{out or recording or profile or 'trace'}: {figures.duration_s:g} s, "
        f"mean {figures.mean_bytes_per_s / 125e3:.2f} Mbit/s, "
        f"variation {figures.variation_ratio:.2f}, coherence {figures.coherence_s:.1f} s, "
        f"outages of at least 0.5 s: {figures.outages}, longest gap {figures.longest_gap_ms} ms"
    )
    if delays:
        rtts_ms = [delay_us / 500 for _, delay_us in delays]
        print(f"base RTT {min(rtts_ms):.0f} to {max(rtts_ms):.0f} ms, {len(delays) - 1} handovers")


_OF_THE_MODEL: Final = ("variation", "coherence_s", "outage_every_s", "outage_s")
_OF_DRAWING: Final = ("seconds", "seed", "profile", "scenario")


def _refuse(context: typer.Context, recording: Path | None, profile: str | None) -> None:
    """Refuse options that would have no effect.

    Raises:
        LabError: `lab.bad_value`.
    """
    given = {
        name
        for name in context.params
        if (source := context.get_parameter_source(name)) is not None and source.name == "COMMANDLINE"
    }
    options_of = {one.name: one.opts[0] for one in context.command.params}
    without: list[tuple[bool, tuple[str, ...], str]] = [
        (recording is not None, (*_OF_THE_MODEL, *_OF_DRAWING), "a recording is converted as it is"),
        (recording is None, ("run",), "only recordings have runs"),
        (profile is not None, _OF_THE_MODEL, f"they are part of the profile `{profile}`"),
        (profile is None or "out" not in given, ("scenario",), "a scenario needs --profile and --out"),
    ]
    for applies, names, why in without:
        found = [options_of[name] for name in names if name in given]
        if applies and found:
            raise bad_value(
                f"{', '.join(found)} cannot be used here: {why}", found[0], f"leave out {found[0]}"
            )
