"""`ccp canary`: new versions on trial."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from ccplane.agent.client import Client
from ccplane.agent.commands.connection import PIN_DIR, AsJson, Connect, Keys, Match, PinDir, client
from ccplane.agent.commands.load import LoadedAs
from ccplane.agent.source import read
from ccplane.base import options

INTERVAL_S: Final = 1.0
"""Time between two requests for the state of a trial [s]."""

PROMOTED: Final = "widened"
"""Outcome of a trial after which all flows have the new version."""

app = typer.Typer(
    help="Try a new version on some of the new flows; it takes over, or is taken back.",
    no_args_is_help=True,
    add_completion=False,
)

Algorithm = Annotated[
    str | None,
    typer.Argument(metavar="ALGORITHM", help="A running algorithm.", show_default="the default one"),
]


@app.callback()
def canary() -> None:
    """Try a new version on some of the new flows; it takes over, or is taken back."""


@app.command(
    epilog=options.examples(
        "ccp canary start mine.py --share 5%", "ccp canary start mine.py --match dport=5001 -t 2min --no-wait"
    )
)
def start(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="FILE.py, or a running algorithm, whose file is read again.")
    ],
    share: Annotated[
        str | None,
        typer.Option(
            metavar="PERCENT",
            help="Share of the new flows, such as 5%.",
            show_default="50% with --match, else 5%",
        ),
    ] = None,
    match: Match = None,
    seconds: Annotated[
        float | None,
        options.seconds("Length of the trial", min=1, max=86_400, show_default="the agent's, 60s"),
    ] = None,
    wait: Annotated[bool, typer.Option(help="Wait for the end of the trial.")] = True,
    algorithm: LoadedAs = None,
    connect: Connect = None,
    keys: Keys = None,
    pin_dir: PinDir = PIN_DIR,
) -> None:
    """Give a new version to some of the new flows, and compare these flows with the others.

    The version takes over if its flows do no worse than the others; otherwise it is taken back, and this
    command exits with 1. Ctrl-C ends this command; the trial continues.
    """
    given = " ".join(part for part in (share or ("" if match else "5%"), match) if part)
    with client(connect, keys, pin_dir) as agent:
        if file.endswith(".py"):
            read(file)  # names what is wrong with the path
            trial = agent.load(Path(file), algorithm, canary=given, seconds=seconds)
        else:
            (trial,) = agent.reload(file, canary=given, seconds=seconds)
        name = trial["algorithm"]
        hashes = f"{trial['old_sha256'][:12] or 'nothing'} -> {trial['new_sha256'][:12]}"
        typer.echo(f"ccp: {name}: {hashes} for {trial['share']}")
        if wait and not _follow(agent, name):
            raise typer.Exit(1)


@app.command(epilog=options.examples("ccp canary status", "ccp canary status mine --watch"))
def status(
    algorithm: Algorithm = None,
    watch: options.Watch = False,
    as_json: AsJson = False,
    connect: Connect = None,
    keys: Keys = None,
    pin_dir: PinDir = PIN_DIR,
) -> None:
    """Show the trials that run or have ended."""
    with client(connect, keys, pin_dir) as agent:
        while True:
            rows = [row for row in agent.status()["canaries"] if algorithm in (None, row["algorithm"])]
            if as_json:
                typer.echo(json.dumps(rows, indent=None if watch else 2))
            else:
                _print(rows)
            if not watch:
                return
            time.sleep(INTERVAL_S)


@app.command(epilog=options.examples("ccp canary promote mine"))
def promote(
    algorithm: Algorithm = None, connect: Connect = None, keys: Keys = None, pin_dir: PinDir = PIN_DIR
) -> None:
    """Give the version on trial to all flows now."""
    with client(connect, keys, pin_dir) as agent:
        name = algorithm or agent.status()["default"]
        agent.end_canary(name, widen=True)
        _print([_until_ended(agent, name)])


@app.command(epilog=options.examples("ccp canary abort mine"))
def abort(
    algorithm: Algorithm = None, connect: Connect = None, keys: Keys = None, pin_dir: PinDir = PIN_DIR
) -> None:
    """End the trial now, and return its flows to the old version."""
    with client(connect, keys, pin_dir) as agent:
        name = algorithm or agent.status()["default"]
        agent.end_canary(name, widen=False)
        _print([row for row in agent.status()["canaries"] if row["algorithm"] == name])


def _print(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        typer.echo(f"ccp: {describe(row)}")
    if not rows:
        typer.echo("ccp: no version is on trial")


def _follow(agent: Client, name: str) -> bool:
    """Print how a trial goes until it ends; return whether the new version took over."""
    try:
        row = _until_ended(agent, name, report=True)
    except KeyboardInterrupt:
        typer.echo(f"\nccp: the trial continues; `ccp canary status {name}` shows it", err=True)
        raise typer.Exit(130) from None
    typer.echo(f"ccp: {describe(row)}")
    return bool(row["outcome"] == PROMOTED)


def _until_ended(agent: Client, name: str, *, report: bool = False) -> dict[str, Any]:
    printed = ""
    while True:
        (row,) = (row for row in agent.status()["canaries"] if row["algorithm"] == name)
        if row["outcome"] is not None:
            return dict(row)
        if report and describe(row) != printed:
            printed = describe(row)
            typer.echo(f"ccp: {printed}", err=True)
        time.sleep(INTERVAL_S)


def describe(row: dict[str, Any]) -> str:
    """Return the state of a trial as a sentence."""
    name, flows = row["algorithm"], f"{row['flows']} flows, {row['other_flows']} others"
    if row["outcome"] is not None:
        return f"{name}: {row['outcome']} after {row['age_s']:.1f} s ({flows}): {row['why']}"
    figures = [
        f"{label} {scale * row['figures'][one]['new']:.3g} ({scale * row['figures'][one]['old']:.3g}) {unit}"
        for one, label, scale, unit in (
            ("goodput", "goodput", 8e-6, "Mbit/s"),
            ("rtt", "RTT", 1e-3, "ms"),
            ("loss", "loss", 100, "%"),
        )
        if one in row["figures"]
    ]
    measured = f"; {', '.join(figures)}" if figures else ""
    return f"{name}: {row['share']}, {row['age_s']:.0f} of {row['for_s']:.0f} s, {flows}{measured}"
