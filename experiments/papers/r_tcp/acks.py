"""R-TCP: detectors on ACKs that were recorded in runs.

    for acks in connections(result, "op1-bbr-1"):
        verdict = judged(acks, "r-tcp")

R-TCP's detector is the kernel's, compiled for user space. The baselines (`baselines`) get the same ACKs, one
connection at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from ccp_algs.rtcp import Options
from ccp_algs.rtcp.remote import packed
from ccplane.agent.features.rtcp.ack_trace import COLUMNS, START, read_ack_rows
from ccplane.base import _native
from experiments.metrics import NAN
from experiments.papers.r_tcp.baselines import BASELINES, Ack, Finding
from experiments.papers.r_tcp.baselines.acks import MSS_BYTES
from experiments.papers.r_tcp.operators import limit_of
from experiments.results import Result
from experiments.scenario import FlowSpec

R_TCP: Final = "r-tcp"
DETECTORS: Final = (R_TCP, *BASELINES)

DIRECTORY: Final = "acks"
"""Directory in a result: a directory per flow with a file per connection."""
CLIENT: Final = packed("192.0.2.1")
"""Address of the client, for the detector that observes all its connections."""
MIN_PKTS: Final = 50
"""Minimum packets of a connection that carried data."""


def connections(result: Result, flow: str) -> Iterator[list[Ack]]:
    """Yield the recorded ACKs of each connection of a flow, in order of their starts.

    Sockets of the receiver, which send requests or nothing, are left out.
    """
    assert result.directory is not None
    files = sorted((result.directory / DIRECTORY / flow).glob("*.csv.gz"))
    recorded = [
        acks for acks in (list(read_acks(file)) for file in files) if _delivered_pkts(acks) >= MIN_PKTS
    ]
    yield from sorted(recorded, key=lambda acks: acks[0].time_us)


def read_acks(path: Path) -> Iterator[Ack]:
    """Yield the recorded ACKs of a file.

    Raises:
        UsageError: `trace.not_readable`, or `trace.bad_row` with the line.
    """
    columns = (*COLUMNS, "srtt_us", "app_limited", "prior_delivered")
    for event, numbers in read_ack_rows(path, columns):
        time_us, delivered, lost, min_rtt_us, srtt_us, app_limited, prior = numbers
        yield Ack(event == START, time_us, delivered, lost, min_rtt_us, srtt_us, bool(app_limited), prior)


def _delivered_pkts(acks: list[Ack]) -> int:
    return acks[-1].delivered_pkts - acks[0].delivered_pkts if acks else 0


def judged(acks: list[Ack], detector: str, options: Options | None = None) -> Finding:
    """Return the finding of a detector for a connection.

    Args:
        acks: From the connection's beginning on.
        detector: One of `DETECTORS`.
        options: Options of R-TCP's detector.

    Returns:
        R-TCP's `limited` says whether it found a limit at any time; `why` is `gone` if the limit ended.
    """
    if detector != R_TCP:
        return BASELINES[detector](acks)
    rows = [(one.start, *one[1:5]) for one in acks]
    said = _native.rtcp_replay((options or Options()).to_bytes(), MSS_BYTES, rows)
    detected_at_us, undetected_at_us, bucket_bytes, rate_bytes_per_s = said[-1][:4]
    if detected_at_us is None:
        return Finding(limited=False, why="no limit")
    why = "" if undetected_at_us is None else "gone"
    return Finding(True, detected_at_us, bucket_bytes, rate_bytes_per_s, why)


def together(several: list[list[Ack]]) -> _native.RtcpState:
    """Return the state of R-TCP's detector of a client after the ACKs of all its connections.

    A connection counts as idle from its last ACK before the start of a transfer.
    """
    clients = _native.RtcpClients(Options().to_bytes(), MSS_BYTES)
    events = [
        (ack, number, place + 1 == len(acks) or acks[place + 1].start)
        for number, acks in enumerate(several)
        for place, ack in enumerate(acks)
    ]
    flows: dict[int, _native.RtcpConnection] = {}
    for ack, number, idle in sorted(events, key=lambda one: one[0].time_us):
        now = ack[1:5]
        if number not in flows:
            flows[number] = clients.open(CLIENT, 0, now)
        if ack.start:
            flows[number].start(now)
        else:
            flows[number].ack(now, idle=idle)
    found = flows[0].detector
    assert found is not None, "the client of an open connection is known"
    return found


def compared(result: Result, flow: FlowSpec, finding: Finding) -> dict[str, Any]:
    """Compare a finding with the truth.

    Returns:
        `wrong_ratio`: 1 if a limit was missed, or found where there is none, else 0. `rate_error_ratio`,
        `bucket_error_ratio`: |estimate - truth| / truth, NaN without an estimate or a limit.
    """
    limit = limit_of(result.scenario, flow)
    return {
        "wrong_ratio": float(finding.limited != (limit is not None)),
        "bucket_error_ratio": off(finding.bucket_bytes, limit and limit[0]),
        "rate_error_ratio": off(finding.rate_bytes_per_s, limit and limit[1]),
    }


def off(found: float | None, truth: float | None) -> float:
    """Return |found - truth| / truth; NaN if one of them is unknown."""
    return NAN if found is None or truth is None else abs(found - truth) / truth
