"""`ccp canary`, `ccp rollback`: versions on trial, and the one before."""

from __future__ import annotations

import json
import time
from typing import Annotated, Any, Final

import typer

from ccplane.agent.client import Client
from ccplane.agent.commands.connection import PIN_DIR, AsJson, Connect, Keys, PinDir, client
from ccplane.agent.commands.told import told
from ccplane.base.errors import UsageError

LOOK_S: Final = 1.0
"""How often a trial is asked about [s]."""

_Algorithm = Annotated[str | None, typer.Argument(help="A running algorithm; else the default one.")]


def canary(
    algorithm: _Algorithm = None,
    widen: Annotated[bool, typer.Option("--widen", help="Let the new version take over now.")] = False,
    take_back: Annotated[bool, typer.Option("--take-back", help="Take the new version back now.")] = False,
    as_json: AsJson = False,
    connect: Connect = None,
    keys: Keys = None,
    pin_dir: PinDir = PIN_DIR,
) -> None:
    """Say how trials of new versions stand, or end one; `ccp reload --canary` begins one."""
    if widen and take_back:
        raise UsageError(
            "canary.two_ends", "a trial ends one way", where="--widen --take-back", fix="choose one"
        )
    with client(connect, keys, pin_dir) as agent:
        if widen or take_back:
            name = algorithm or agent.status()["default"]
            agent.end_canary(name, widen=widen)
            if widen:
                _until_ended(agent, name)
        rows = [row for row in agent.status()["canaries"] if algorithm in (None, row["algorithm"])]
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
    elif not rows:
        typer.echo("ccp: no new version is on trial")
    for row in () if as_json else rows:
        typer.echo(f"ccp: {stands(row)}")


def rollback(
    algorithm: _Algorithm = None,
    connect: Connect = None,
    keys: Keys = None,
    pin_dir: PinDir = PIN_DIR,
) -> None:
    """Go back to the version before; one that is on trial is taken back instead.

    Flows start afresh with it, as what the later version kept of them cannot be trusted.
    """
    with client(connect, keys, pin_dir) as agent:
        done = agent.rollback(algorithm or agent.status()["default"])
    typer.echo(f"ccp: {stands(done) if 'outcome' in done else told(done)}")


def follow(agent: Client, name: str) -> bool:
    """Tell how a trial goes until it ends; returns whether the new version took over.

    Ctrl-C ends the telling, and not the trial.
    """
    try:
        row = _until_ended(agent, name, tell=True)
    except KeyboardInterrupt:
        typer.echo(f"\nccp: the trial goes on; `ccp canary {name}` says how", err=True)
        raise typer.Exit(130) from None
    typer.echo(f"ccp: {stands(row)}")
    return bool(row["outcome"] == "widened")


def _until_ended(agent: Client, name: str, *, tell: bool = False) -> dict[str, Any]:
    said = ""
    while True:
        (row,) = (row for row in agent.status()["canaries"] if row["algorithm"] == name)
        if row["outcome"] is not None:
            return dict(row)
        if tell and stands(row) != said:
            said = stands(row)
            typer.echo(f"ccp: {said}", err=True)
        time.sleep(LOOK_S)


def stands(row: dict[str, Any]) -> str:
    """Return how a trial stands, as a sentence."""
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
    told_figures = f"; {', '.join(figures)}" if figures else ""
    return f"{name}: {row['share']}, {row['age_s']:.0f} of {row['for_s']:.0f} s, {flows}{told_figures}"
