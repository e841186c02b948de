"""PD: packets are lost when a bucket is empty, and pass when it is not.

A bucket that is empty at the first loss and is refilled at the mean rate between first and last loss must be
near empty at losses, and not empty when packets pass. Otherwise, or if losses follow rising RTTs, are few, or
come late, the connection is not policed. The rate is tried with all losses, and without the first and last
two. `pd` judges the whole connection, `pd_by_transfer` each transfer.

Source: T. Flach et al., "An Internet-Wide Analysis of Traffic Policing", SIGCOMM 2016, section 3; constants
and reasons are those of the authors' tool (USC-NSL, policing-detection), which splits connections where a
request follows a response. The R-TCP paper says that PD does not account for tokens that accumulate in idle
times, which is true of `pd`. Differences:

* The detector gets ACKs, not packets: packets pass or are lost about a round trip after they were sent.
* RTTs are smoothed; the authors' tool uses the RTTs of single packets outside of loss recovery.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Sequence
from itertools import pairwise, takewhile
from statistics import fmean, median
from typing import Final, NamedTuple

from experiments.papers.r_tcp.baselines.acks import MSS_BYTES, US_PER_S, Ack, Finding

MIN_SAMPLES: Final = 15
MIN_SLICES: Final = 3
"""Minimum number of round trips with losses."""
LATEST_LOSS_BYTES: Final = 2_000_000
EMPTY_AT_LOSS_RTTS: Final = 2.0
EMPTY_AT_PASS_RTTS: Final = 0.75
"""Maximum distance from empty at which a bucket counts as near empty, in round trips at the rate."""
OUT_AT_LOSS_RATIO: Final = 0.1
OUT_AT_PASS_RATIO: Final = 0.03
"""Share of samples that may be out of range."""
INFLATED: Final = 1.3
MIN_INFLATED_US: Final = 20_000
INFLATED_RATIO: Final = 0.2
"""Share of losses that may follow RTTs above INFLATED times their 10th percentile."""
LEFT_OUT_LOSSES: Final = (0, 2)


class _Step(NamedTuple):
    """Packets that passed and packets that were lost, from an ACK."""

    time_us: int
    srtt_us: int
    passed_bytes: int
    passed_pkts: int
    lost_pkts: int


def pd(acks: Sequence[Ack]) -> Finding:
    """Return PD's finding for a connection; its bucket is the data that passed before the first loss."""
    return _judge_all([_steps(acks)])


def pd_by_transfer(acks: Sequence[Ack]) -> Finding:
    """Return PD's first finding in a transfer."""
    begins = [i for i, ack in enumerate(acks) if ack.start and i]
    ends = [*begins, len(acks)]
    # The row before a transfer has its initial counters.
    return _judge_all([_steps(acks[max(0, i - 1) : end]) for i, end in zip([0, *begins], ends, strict=True)])


def _judge_all(transfers: Iterable[list[_Step]]) -> Finding:
    finding = _no("no transfer")
    for steps in filter(None, transfers):
        for left_out in LEFT_OUT_LOSSES:
            finding = _judge(steps, left_out)
            if finding.limited:
                return finding
    return finding


def _steps(acks: Sequence[Ack]) -> list[_Step]:
    steps = []
    for last, ack in pairwise(acks):
        passed_pkts = ack.delivered_pkts - last.delivered_pkts
        lost_pkts = ack.lost_pkts - last.lost_pkts
        steps.append(_Step(ack.time_us, ack.srtt_us, passed_pkts * MSS_BYTES, passed_pkts, lost_pkts))
    return steps


def _no(why: str) -> Finding:
    return Finding(limited=False, why=why)


def _judge(steps: list[_Step], left_out: int) -> Finding:
    ends = _ends(steps, left_out)
    if ends is None:
        return _no("few losses")
    first, last = ends
    before_bytes = sum(step.passed_bytes for step in steps[:first])
    if before_bytes > LATEST_LOSS_BYTES:
        return _no("the first loss is late")
    time_us = steps[last].time_us - steps[first].time_us
    per_us = sum(step.passed_bytes for step in steps[first:last]) / time_us if time_us else 0.0
    rtt_us = median(step.srtt_us for step in steps)
    at_pass_bytes = EMPTY_AT_PASS_RTTS * rtt_us * per_us
    if before_bytes - per_us * (steps[first].time_us - steps[0].time_us) < -at_pass_bytes:
        return _no("the bucket would have been less than empty at the start")
    on_loss, on_pass = _levels(steps[first:], per_us)
    if min(len(on_loss), len(on_pass)) < MIN_SAMPLES or _slices(steps[first:], rtt_us) < MIN_SLICES:
        return _no("few losses")
    if fmean(on_loss) >= fmean(on_pass) or median(on_loss) >= median(on_pass):
        return _no("more tokens when packets were lost than when they passed")
    empty_bytes = median(on_loss)
    out = sum(abs(level - empty_bytes) > EMPTY_AT_LOSS_RTTS * rtt_us * per_us for level in on_loss)
    if out > OUT_AT_LOSS_RATIO * len(on_loss):
        return _no("the bucket was not empty when packets were lost")
    out = sum(level - empty_bytes < -at_pass_bytes for level in on_pass)
    if out > OUT_AT_PASS_RATIO * len(on_pass):
        return _no("the bucket was empty when packets passed")
    if _inflated(steps, first) > INFLATED_RATIO * len(on_loss):
        return _no("RTTs rose before losses")
    burst_bytes = sum(step.passed_bytes for step in takewhile(lambda step: not step.lost_pkts, steps))
    return Finding(limited=True, bucket_bytes=burst_bytes, rate_bytes_per_s=per_us * US_PER_S)


def _ends(steps: list[_Step], left_out: int) -> tuple[int, int] | None:
    """Return the places of the first and last loss, without those left out, or None."""
    losses = [i for i, step in enumerate(steps) for _ in range(step.lost_pkts)]
    if len(losses) < 2 * left_out + 2:
        return None
    return losses[left_out], losses[-1 - left_out]


def _levels(steps: list[_Step], per_us: float) -> tuple[list[float], list[float]]:
    """Return the bucket's level for each lost packet, and for each that passed [bytes]."""
    on_loss: list[float] = []
    on_pass: list[float] = []
    used_bytes = 0
    for step in steps:
        level_bytes = per_us * (step.time_us - steps[0].time_us) - used_bytes
        on_loss += [level_bytes] * step.lost_pkts
        on_pass += [level_bytes - i * MSS_BYTES for i in range(step.passed_pkts)]
        used_bytes += step.passed_bytes
    return on_loss, on_pass


def _slices(steps: list[_Step], rtt_us: float) -> int:
    """Return the number of round trips with losses."""
    count, end_us = 0, -1.0
    for step in steps:
        if step.lost_pkts and step.time_us > end_us:
            count, end_us = count + 1, step.time_us + rtt_us
    return count


def _inflated(steps: list[_Step], first: int) -> int:
    """Return the number of packets lost after a risen RTT."""
    count = 0
    rtts_us: list[int] = []
    for i, step in enumerate(steps):
        if i >= first and step.lost_pkts and rtts_us:
            rtt_us = steps[i - 1].srtt_us
            middle_us, low_us = rtts_us[len(rtts_us) // 2], rtts_us[len(rtts_us) // 10]
            if rtt_us >= middle_us and rtt_us > INFLATED * low_us and rtt_us >= MIN_INFLATED_US:
                count += step.lost_pkts
        insort(rtts_us, step.srtt_us)
    return count
