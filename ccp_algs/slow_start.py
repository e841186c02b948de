"""Slow start in a fold program: the standard one, and two variants that end before the queue overflows.

A round ends when the data that was in flight at its beginning has been acknowledged.

HyStart++ (RFC 9406; `css_limit` > 0) compares the minimum RTT of this round with that of the previous one. A
rise by an eighth (at least 4 ms, at most 16 ms) indicates a queue: growth continues at a quarter of the speed
(CSS), and after `css_limit` such rounds (five) the window becomes the threshold. If the RTT falls again in
between, the rise was noise, and slow start continues.

HyStart (as in Linux; `css_limit` = 0) sets the threshold to the window at the first of two signs: the same
rise over the minimum RTT of the connection, or a train of ACKs, less than 2 ms apart, that lasts longer than
half of that RTT (plus half a millisecond, for ACKs that offloads hold back).

Sources: RFC 5681 section 3.1, RFC 3465 section 2.2 (byte counting), RFC 9406 sections 4.2 and 4.3; Ha and
Rhee, "Taming the elephants: new TCP slow start", Computer Networks 55 (2011), section 4.

Deviations: there is no limit L on the growth by one ACK (RFC 3465 section 2.3, RFC 9406 L = 8), as in Linux:
the size of acknowledged batches depends on the network card's offload. On paced sockets Linux requires a
train of a whole round trip, because pacing stretches it; here half a round trip always suffices, so that a
flow on such a socket leaves slow start earlier.
"""

from __future__ import annotations

import dataclasses
from typing import Final

from ccp_algs.episodes import Episodes
from ccp_algs.fold import (
    INFINITY,
    Ack,
    Block,
    Cwnd,
    Flow,
    Part,
    Register,
    Statement,
    control,
    let,
    max_,
    min_,
    on,
    state,
)
from ccp_algs.fold.expressions import Flag, HasSample, Num

MIN_RTT_THRESH_US: Final = 4_000
MAX_RTT_THRESH_US: Final = 16_000
MIN_RTT_DIVISOR: Final = 8
N_RTT_SAMPLE: Final = 8
CSS_GROWTH_DIVISOR: Final = 4
TRAIN_GAP_US: Final = 2_000
TRAIN_SLACK_US: Final = 1_000
UNKNOWN_RTT_US: Final = 1 << 32
"""Value for a round without an RTT sample; longer than any RTT."""
LOW_WINDOW_PKTS: Final = 16
"""Minimum window for HyStart; in smaller windows neither sign of a queue is reliable."""


@dataclasses.dataclass(frozen=True)
class SlowStart(Part):
    """Standard slow start."""

    slow_start: Block


def slow_start(loss: Episodes, growing: Flag | None = None) -> SlowStart:
    """Build standard slow start: below the threshold the window grows by the acknowledged bytes.

    Args:
        loss: The program's loss episodes.
        growing: Condition under which the window may grow; default `loss.may_grow`.

    Returns:
        The part, for one line of a FoldProgram.
    """
    growing = loss.may_grow if growing is None else growing
    return SlowStart(on(growing & (Cwnd < loss.ssthresh_bytes), _grow(loss, Ack.bytes_acked)))


@dataclasses.dataclass(frozen=True)
class HyStart(Part):
    """Slow start with HyStart++ or HyStart.

    Attributes:
        hystart: 0: standard slow start, without either.
        css_limit: Rounds of conservative slow start; 0: HyStart.
        slow_start: The whole part.
    """

    hystart: Register
    css_limit: Register
    ss_round_start_us: Register
    ss_last_ack_us: Register
    ss_grown_bytes: Register
    ss_round_end_bytes: Register
    ss_samples: Register
    ss_min_rtt_us: Register
    ss_last_min_rtt_us: Register
    css_baseline_us: Register
    ss_base_us: Register
    css_rounds: Register
    slow_start: Block


def hystart(loss: Episodes, added_bytes: Num = Ack.bytes_acked, growing: Flag | None = None) -> HyStart:
    """Build slow start: a flow's first one ends when the delay rises, each later one at the threshold.

    Args:
        loss: The program's loss episodes.
        added_bytes: Growth of the window per ACK; default the acknowledged bytes [bytes].
        growing: As for `slow_start`.

    Returns:
        The part, for one line of a FoldProgram.
    """
    growing = loss.may_grow if growing is None else growing
    enabled, css_limit = control(1), control(0)
    round_start_us, last_ack_us = state(), state()
    grown_bytes = state()
    round_end_bytes, samples, rounds = state(), state(), state()
    min_rtt_us, last_min_rtt_us = state(INFINITY), state(INFINITY)
    baseline_us, base_us = state(INFINITY), state()

    new_round = let(Flow.delivered_bytes > round_end_bytes, "new_round")
    ripe = let(samples >= N_RTT_SAMPLE, "ripe")
    in_css = let(baseline_us < INFINITY, "in_css")
    plus = css_limit > 0
    rise_us = max_(MIN_RTT_THRESH_US, min_(base_us // MIN_RTT_DIVISOR, MAX_RTT_THRESH_US))
    queue = let(ripe & (min_rtt_us >= base_us + rise_us), "rtt_rose")
    enter = let(queue & (baseline_us == INFINITY) & (enabled > 0) & plus, "enter")
    in_train = let(Ack.now <= last_ack_us + TRAIN_GAP_US, "in_train")
    train_us = (Flow.min_rtt_us + TRAIN_SLACK_US) // 2
    shown = (in_train & (Ack.now > round_start_us + train_us)) | queue
    sign = shown & (enabled > 0) & (css_limit == 0) & (Cwnd >= LOW_WINDOW_PKTS * Flow.mss)
    spurious = let(ripe & (baseline_us < INFINITY) & (min_rtt_us < baseline_us), "spurious")
    first = let(loss.ssthresh_bytes == INFINITY, "first_start")
    ends = sign | (in_css & (rounds >= css_limit))
    body = on(
        growing & (Cwnd < loss.ssthresh_bytes),
        new_round,
        rounds.add(1, when=new_round),
        last_min_rtt_us.set(min_rtt_us, when=new_round),
        min_rtt_us.set(INFINITY, when=new_round),
        samples.set(0, when=new_round),
        round_end_bytes.set(Flow.delivered_bytes + Flow.bytes_in_flight, when=new_round),
        round_start_us.set(Ack.now, when=new_round),
        last_ack_us.set(Ack.now, when=new_round),
        in_train,
        last_ack_us.set(Ack.now, when=in_train),
        min_rtt_us.set(min_(min_rtt_us, Flow.rtt_sample_us)),
        samples.set(samples + 1, when=HasSample()),
        ripe,
        spurious,
        baseline_us.set(INFINITY, when=spurious),
        base_us.set(Flow.min_rtt_us),
        base_us.set(min_(last_min_rtt_us, UNKNOWN_RTT_US), when=plus),
        queue,
        enter,
        rounds.set(0, when=enter),
        baseline_us.set(min_rtt_us, when=enter),
        in_css,
        # Once there is a threshold, by a loss or by this line, slow start is the standard one.
        first,
        grown_bytes.set(added_bytes),
        grown_bytes.set(grown_bytes // CSS_GROWTH_DIVISOR, when=in_css & first),
        loss.ssthresh_bytes.set(Cwnd, when=first & ends),
        _grow(loss, grown_bytes),
    )
    return HyStart(
        hystart=enabled,
        css_limit=css_limit,
        ss_round_start_us=round_start_us,
        ss_last_ack_us=last_ack_us,
        ss_grown_bytes=grown_bytes,
        ss_round_end_bytes=round_end_bytes,
        ss_samples=samples,
        ss_min_rtt_us=min_rtt_us,
        ss_last_min_rtt_us=last_min_rtt_us,
        css_baseline_us=baseline_us,
        ss_base_us=base_us,
        css_rounds=rounds,
        slow_start=body,
    )


def _grow(loss: Episodes, added_bytes: Num) -> Statement:
    return Cwnd.set(min_(Cwnd + added_bytes, loss.ssthresh_bytes))
