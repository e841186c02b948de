"""R-TCP: ACKs that were recorded in runs, taken through detectors afterwards.

    for acks in connections(result, "op1-bbr-1"):
        verdict = judged(acks, "r-tcp")

R-TCP's own detector is the one in the kernel, compiled for here. The baselines (`baselines`)
see the same ACKs. All of them get one connection at a time.
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
from experiments.scenario import Flow

R_TCP: Final = "r-tcp"
DETECTORS: Final = (R_TCP, *BASELINES)

DIRECTORY: Final = "acks"
"""In a result's: for each flow a directory with a file for each of its connections."""
CLIENT: Final = packed("192.0.2.1")
"""Where all connections of a client go to, for the detector that hears them together."""
LEAST_PKTS: Final = 50
"""A connection that carried less carried no data."""


def connections(result: Result, flow: str) -> Iterator[list[Ack]]:
    """Yield the recorded ACKs of each connection of a flow, in the order of the connections' beginnings.

    Left out are the sockets at the other end, which send requests or nothing.
    """
    assert result.directory is not None
    files = sorted((result.directory / DIRECTORY / flow).glob("*.csv.gz"))
    recorded = [
        acks for acks in (list(read_acks(file)) for file in files) if _delivered_pkts(acks) >= LEAST_PKTS
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
    """Return what a detector finds in a connection.

    Args:
        acks: From the connection's beginning on.
        detector: One of `DETECTORS`.
        options: Of R-TCP's.

    Returns:
        R-TCP's `limited` says whether it found a limit at some time; `why` is `gone` if that ended.
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
    """Return what R-TCP's detector of a client knows after all of its connections, as in the kernel.

    A connection has nothing to send from the ACK before a start on.

    Args:
        several: The ACKs of each connection.
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


def compared(result: Result, flow: Flow, finding: Finding) -> dict[str, Any]:
    """Return a finding beside the truth: what is wrong, and how far estimates are off.

    Returns:
        `wrong_ratio`: 1 if a limit was not found, or one was that is none, else 0. `rate_error_ratio`,
        `bucket_error_ratio`: |estimate - truth| / truth, NaN where there is no estimate or no limit.
    """
    limit = limit_of(result.scenario, flow)
    return {
        "wrong_ratio": float(finding.limited != (limit is not None)),
        "bucket_error_ratio": off(finding.bucket_bytes, limit and limit[0]),
        "rate_error_ratio": off(finding.rate_bytes_per_s, limit and limit[1]),
    }


def off(found: float | None, truth: float | None) -> float:
    """Return |found - truth| / truth; NaN if one of them is not known."""
    return NAN if found is None or truth is None else abs(found - truth) / truth
