"""`ccp regime`: publish decisions, and replay recorded series."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer

from ccplane.base import options
from ccplane.base.errors import CcpError
from telemetry.regime.detector import Detector, DetectorOptions, Verdict
from telemetry.regime.modes import MODES, mode_of, with_settings
from telemetry.regime.publish import emit
from telemetry.regime.trace import read_trace

app = typer.Typer(
    help="Publish, replay and apply congestion regimes: whether a path is shared (R-Hybrid).",
    no_args_is_help=True,
    add_completion=False,
)

FAILED: Final = 1
_NAMES: Final = ", ".join(DetectorOptions.__struct_fields__)


@app.callback()
def regime() -> None:
    """Publish, replay and apply congestion regimes: whether a path is shared (R-Hybrid)."""


app.command(
    "publish",
    epilog=options.examples(
        "ccp regime publish SHARED --peer 10.0.0.1 --address 10.0.0.2 --broker mqtt://10.0.0.1 --ttl 10min"
    ),
)(emit)


@app.command(epilog=options.examples("ccp regime replay series.csv --mode fast -p delta_ms=5"))
def replay(
    trace: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="CSV file with columns t_s, rtt_tail_ms, ce_marks, retransmits and, optionally, rtt_min_ms; "
            "an empty field is a missing sample.",
        ),
    ],
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON, one object per line and interval.")
    ] = False,
    mode: Annotated[
        str, typer.Option(metavar="MODE", help=f"Preset of the detector: {', '.join(MODES)}.")
    ] = "paper",
    settings: Annotated[
        list[str] | None, options.param(f"Set a parameter of the detector: {_NAMES}; repeatable.")
    ] = None,
) -> None:
    """Print the decisions of the regime detector for a recorded series, one line per interval.

    An interval scores 1 if it looks congested. The density is the fraction of intervals
    in the window that score 1. Replaying does not wait in real time: it uses the times in the file.
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
