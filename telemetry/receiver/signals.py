"""Combines a receiver's data on a peer into one signal. Pure: no clock, no I/O."""

from __future__ import annotations

from msgspec.structs import replace

from telemetry.receiver.arrivals import Arrivals, variation_us
from telemetry.receiver.rtt import RttSummary
from telemetry.receiver.series import Growth, Values
from telemetry.schema import FlowId, ReceiverSignal


def signal_of(
    peer: str,
    address: str | None,
    elapsed_us: int,
    *,
    flow: FlowId | None = None,
    rtt: RttSummary | None = None,
    tcp: Growth | None = None,
    flows: int | None = None,
    host: Values | None = None,
    retrans_pkts: int | None = None,
    arrivals: Arrivals | None = None,
    arrivals_are_all: bool = True,
) -> ReceiverSignal:
    """Return the signal of a window. Unmeasured values are None, never 0.

    Args:
        peer: Its address.
        address: This host's address on that path, if known.
        elapsed_us: Length of the window [us].
        flow: The connection, for the signal of a single one.
        rtt: Answered probes of the window.
        tcp: Counters of the sockets with this peer in the window (`telemetry.receiver.tcp`); None if unknown.
        flows: Number of these sockets; without sockets the signal has no data on TCP.
        host: Counters of the host in the window (`telemetry.receiver.proc`), if only this peer sent.
        retrans_pkts: Retransmissions that the peer reported for the window.
        arrivals: Counts of the kernel probe in the window; None without one.
        arrivals_are_all: Whether the probe had room for all connections; else its counts are too low.
    """
    values: Values = tcp.values if tcp is not None and flows else {}
    host = host if host is not None and flows else {}
    seen = arrivals if flows or (arrivals is not None and arrivals.segs) else None
    marks = [values.get("ce"), host.get("ce")]
    if seen is not None and arrivals_are_all:
        marks.insert(0, seen.ce)
    sent = (values.get("data_out") or 0) + (values.get("retrans") or 0)
    received, arrived = values.get("bytes_received"), values.get("data_in")
    seconds = tcp.elapsed_us / 1e6 if tcp is not None else 0.0
    signal = ReceiverSignal(
        peer=peer,
        address=address,
        flow=flow,
        window_ms=max(round(elapsed_us / 1000), 1),
        owd_variation_us=None if seen is None else variation_us(seen.delays),
        ce_marks=next((count for count in marks if count is not None), None),
        loss_pkts=values.get("retrans") if sent else None,
        reordered_pkts=values.get("out_of_order"),
        duplicate_pkts=host.get("duplicates"),
        resent_pkts=None if seen is None or not arrivals_are_all else seen.resent if seen.segs else 0,
        retrans_pkts=retrans_pkts,
        arrival_pkts_per_s=None if arrived is None or not seconds else round(arrived / seconds),
        goodput_bytes_per_s=None if received is None or not seconds else round(received / seconds),
        flows=flows,
    )
    if rtt is None:
        return signal
    return replace(
        signal,
        rtt_min_us=rtt.min_us,
        rtt_p50_us=rtt.p50_us,
        rtt_p95_us=rtt.p95_us,
        rtt_p99_us=rtt.p99_us,
        rtt_max_us=rtt.max_us,
        rtt_samples=rtt.samples,
        jitter_us=rtt.jitter_us,
    )


def sole_sender(growths: dict[str, Growth]) -> str | None:
    """Return the only peer that sent data, to which the host's counters apply; None unless one peer did."""
    senders = [peer for peer, growth in growths.items() if growth.values.get("data_in")]
    return senders[0] if len(senders) == 1 else None
