"""`ccp rtcp`: R-TCP's detector over recorded ACKs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from agent import console
from agent.ack_trace import START, read_ack_trace
from ccp_algs.rtcp import Detector, Transfer

app = typer.Typer(help="Rate limits by token buckets, as R-TCP finds them.", no_args_is_help=True)


@app.callback()
def rtcp() -> None:
    """Rate limits by token buckets, as R-TCP finds them."""


@app.command()
def detect(
    trace: Annotated[
        Path,
        typer.Argument(
            metavar="TRACE.csv[.gz]",
            help="ACKs with ev,time_us,acked_bytes,delivered,lost,min_rtt_us,app_limited,"
            "prior_delivered,srtt_us,inflight; MSS 1448.",
        ),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say whether a token bucket limited a recorded flow, since when, and which.

    Times are those of the trace. A flow that was limited once counts as detected, even if the limit was found
    to be gone later. Bucket size and rate are the last estimate of a limit that was detected.
    """
    detector = Detector()
    transfers: list[Transfer] = []
    for event, now in read_ack_trace(trace):
        if event == START:
            detector.start(now)
        else:
            detector.ack(now)
        transfer = detector.transfer
        if transfer is not None and (not transfers or transfer is not transfers[-1]):
            transfers.append(transfer)
    told = [_of_transfer(transfer) for transfer in transfers]
    verdict = {
        "triggered_at_us": next((one.triggered_at_us for one in transfers if one.estimate), None),
        **_of_limit(
            detector.detected_at_us,
            detector.undetected_at_us,
            detector.bucket_bytes,
            detector.rate_bytes_per_s,
        ),
        "transfers": told,
    }
    if as_json:
        console.print_json(verdict)
        return
    typer.echo(f"{'transfer':<10} {'start_s':>10} {_HEADER}")
    for number, one in enumerate(told, start=1):
        typer.echo(f"{number:<10} {one['started_at_us'] / 1e6:>10.3f} {_row(one)}")
    typer.echo(f"{'flow':<10} {'':>10} {_row(verdict)}")


def _of_transfer(transfer: Transfer) -> dict[str, Any]:
    estimate = transfer.estimate
    return {
        "started_at_us": transfer.started_at_us,
        "triggered_at_us": transfer.triggered_at_us,
        **_of_limit(
            transfer.detected_at_us,
            transfer.undetected_at_us,
            0.0 if estimate is None else estimate.bucket_bytes,
            0.0 if estimate is None else estimate.rate_bytes_per_s,
        ),
    }


def _of_limit(
    detected_at_us: int | None, undetected_at_us: int | None, bucket_bytes: float, rate_bytes_per_s: float
) -> dict[str, Any]:
    detected = detected_at_us is not None
    return {
        "detected": detected,
        "detected_at_us": detected_at_us,
        "undetected_at_us": undetected_at_us,
        "bucket_bytes": round(bucket_bytes) if detected else None,
        "rate_bytes_per_s": round(rate_bytes_per_s) if detected else None,
    }


_HEADER = f"{'trigger_s':>10} {'limited_s':>10} {'gone_s':>10} {'bucket_KB':>10} {'rate_Mbit/s':>12}"


def _row(one: dict[str, Any]) -> str:
    times = [one["triggered_at_us"], one["detected_at_us"], one["undetected_at_us"]]
    cells = ["-" if time_us is None else f"{time_us / 1e6:.3f}" for time_us in times]
    cells.append("-" if one["bucket_bytes"] is None else f"{one['bucket_bytes'] / 1e3:.0f}")
    row = " ".join(f"{cell:>10}" for cell in cells)
    rate = one["rate_bytes_per_s"]
    return f"{row} {'-' if rate is None else f'{rate * 8 / 1e6:.3f}':>12}"
