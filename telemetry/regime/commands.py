"""`ccp regime`: the regime detector over recorded series."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer

from ccplane.base.errors import CcpError
from telemetry.regime.detector import Detector, DetectorOptions, Verdict
from telemetry.regime.modes import MODES, mode_of, with_settings
from telemetry.regime.tell import tell
from telemetry.regime.trace import read_trace

app = typer.Typer(help="Congestion regimes, as R-Hybrid tells them apart.", no_args_is_help=True)

FAILED: Final = 1
_NAMES: Final = ", ".join(DetectorOptions.__struct_fields__)


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
    mode: Annotated[
        str, typer.Option(help=f"Parameters of this mode of `ccp receive`: {', '.join(MODES)}.")
    ] = "paper",
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help=f"A parameter of the detector, as `ccp receive --regime-set`: {_NAMES}.",
        ),
    ] = None,
) -> None:
    """Print what the detector makes of a recorded series, interval by interval.

    An interval scores 1 if it looks congested; the density is the share of the window that does. Nothing but
    the times in the file counts, so that a day is replayed in a moment.
    """
    try:
        detector = Detector(with_settings(mode_of(mode).options, settings or ()))
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
