"""`ccp regime`: the regime detector over recorded series."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer

from ccplane.base.errors import CcpError
from telemetry.regime.detector import Detector, DetectorOptions, Verdict
from telemetry.regime.modes import MODES, mode_of, start_of
from telemetry.regime.tell import tell
from telemetry.regime.trace import read_trace

app = typer.Typer(help="Congestion regimes, as R-Hybrid tells them apart.", no_args_is_help=True)

FAILED: Final = 1
_DEFAULTS: Final = DetectorOptions()


@app.callback()
def regime() -> None:
    """Congestion regimes, as R-Hybrid tells them apart."""


app.command("tell")(tell)


@app.command()
def replay(
    trace: Annotated[
        Path,
        typer.Argument(
            metavar="TRACE.csv",
            help="Series with t_s, rtt_tail_ms, ce_marks, retransmits, and rtt_min_ms if there is one; an "
            "empty field is a missing sample.",
        ),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object an interval.")] = False,
    delta_ms: Annotated[
        float, typer.Option(help="Tail RTT above the baseline that is no congestion yet.")
    ] = _DEFAULTS.delta_ms,
    noise_ce_marks: Annotated[
        float | None,
        typer.Option(help="New CE marks in an interval that are no congestion yet (the mode's)."),
    ] = None,
    noise_retransmits: Annotated[
        float | None,
        typer.Option(help="Retransmissions in an interval that are no congestion yet (the mode's)."),
    ] = None,
    window: Annotated[int, typer.Option(help="Scores in the window, N.")] = _DEFAULTS.window,
    majority: Annotated[
        float, typer.Option(help="Share of the window that makes the estimate SHARED.")
    ] = _DEFAULTS.majority,
    persistence: Annotated[
        int, typer.Option(help="Estimates in a row that change the regime, M.")
    ] = _DEFAULTS.persistence,
    cooldown_s: Annotated[
        float | None, typer.Option(help="Least time between two changes (the mode's).")
    ] = None,
    baseline_ms: Annotated[
        float | None, typer.Option(help="RTT of the empty path (learned from the first samples).")
    ] = None,
    baseline_of: Annotated[
        str,
        typer.Option(help="Of which RTT it is the least: min, or tail where the receiver is late itself."),
    ] = _DEFAULTS.baseline_of,
    baseline_samples: Annotated[
        int, typer.Option(help="After how many samples it is known; the path is SHARED till then.")
    ] = _DEFAULTS.baseline_samples,
    baseline_horizon_s: Annotated[
        float | None,
        typer.Option(help="Take the least RTT of so long as baseline, for routes that change (never)."),
    ] = None,
    own_queue: Annotated[
        bool | None,
        typer.Option(help="A path that the sender fills by itself is its own (the mode's)."),
    ] = None,
    mode: Annotated[
        str, typer.Option(help=f"Of `ccp receive`, {' or '.join(MODES)}: whose cooldown and noise it is.")
    ] = "paper",
    start: Annotated[
        str, typer.Option(help="Regime once the baseline is known: single_owner or shared.")
    ] = "single_owner",
) -> None:
    """Print what the detector makes of a recorded series, interval by interval.

    An interval scores 1 if it looks congested; the density is the share of the window that does. Nothing but
    the times in the file counts, so that a day is replayed in a moment.
    """
    try:
        given = {
            "delta_ms": delta_ms,
            "noise_ce_marks": noise_ce_marks,
            "noise_retransmits": noise_retransmits,
            "window": window,
            "majority": majority,
            "persistence": persistence,
            "cooldown_s": cooldown_s,
            "baseline_ms": baseline_ms,
            "baseline_of": baseline_of,
            "baseline_samples": baseline_samples,
            "baseline_horizon_s": baseline_horizon_s,
            "own_queue": own_queue,
            "start": start_of(start),
        }
        chosen = {name: value for name, value in given.items() if value is not None}
        detector = Detector(msgspec.structs.replace(mode_of(mode).options, **chosen))
        if not as_json:
            typer.echo(f"{'t_s':>12}  score  density  {'estimate':<12}  regime")
        for observation in read_trace(trace):
            verdict = detector.observe(observation)
            typer.echo(msgspec.json.encode(verdict) if as_json else _row(verdict))
    except CcpError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(FAILED) from None


def _row(verdict: Verdict) -> str:
    change = "  <- changed" if verdict.switched else ""
    return (
        f"{verdict.t_s:12g}  {verdict.score:5d}  {verdict.density:7.2f}  {verdict.estimate:<12}  "
        f"{verdict.regime}{change}"
    )
