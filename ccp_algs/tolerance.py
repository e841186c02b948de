"""Random losses: evidence from the flow's own RTTs, in a fold program, and the consequences for the window.

A loss is *low* if the RTT on its ACK, and all other RTTs of this round trip except single ones (delayed
acknowledgments), are at most `low_us` above the minimum: no queue, so no congestion. `low_us` is a twelfth of
the minimum RTT, or 2 ms for bursts (at most a quarter of the minimum RTT), whichever is longer. `low_us` is
at most a quarter of the range of RTTs in the last 10 to 20 s, so that a full shallow buffer exceeds it, and
at least the time of one and a half packets plus 0.1 ms. A low loss causes no reduction, unless the flow
floods the path, that is, the loss in this round trip exceeds 2 %, four packets, and twice the loss share of
the best recent round trip.

Two low losses, in different round trips and less than `memory_us` apart, make the flow *tolerant*, until no
low loss occurred for that long, or an ECN echo arrived. At the first of these two losses, RTTs of the
previous round trip must also be low, because in slow start a burst can overflow a queue that is empty again
when ACKs show the loss.

While the flow is tolerant,

* a reduction leaves the measured capacity of the path, which is the maximum recent delivery rate times the
  minimum RTT, or `cut_permille` of the window, whichever is more, but at most nine tenths of the window;
* the window grows only while the RTT is low, so that the queue stays short; it then grows by at least an
  eighth per round trip, because the curve from the last reduction does not fit a path that loses at random;
* the flow is paced at 1.2 windows per smoothed RTT, or 2 in slow start, as in Linux: bursts into a shallow
  buffer cause losses. Slow start then ends when the RTT is not low.

Sources: for the comparison of the RTT with its own range, the Spike scheme (S. Cen, P. C. Cosman, G. M.
Voelker, "End-to-end differentiation of congestion and wireless losses", IEEE/ACM Transactions on Networking
11(5), 2003); for the window after a reduction, Westwood+ (`westwood.py`). The thresholds are ccplane's own.
"""

from __future__ import annotations

import dataclasses
from typing import Final

from ccp_algs.episodes import Episodes, Evidence
from ccp_algs.fold import (
    INFINITY,
    Ack,
    Block,
    Cwnd,
    Flow,
    Part,
    Rate,
    Register,
    control,
    field,
    latest,
    let,
    max_,
    min_,
    on,
    state,
)
from ccp_algs.fold.expressions import Flag, Num
from ccp_algs.fold.lines import LocalFlag, LocalNum
from ccp_algs.slow_start import HyStart

# Values of the report field `loss_reason`.
NO_LOSS: Final = 0
SPARED_LOSS: Final = 1
HIGH: Final = 2
"""Congestion: the RTT was not low."""
FLOOD: Final = 3
"""Congestion: this round trip loses too much."""
UNKNOWN: Final = 4
"""Congestion: there was no RTT sample yet."""

MEMORY_MS: Final = 4_000.0
RANGE_US: Final = 10_000_000
"""Length of a bucket for RTTs and loss shares [us]."""
RATE_US: Final = 1_000_000
RATE_ROUNDS: Final = 10
"""Delivery rates are remembered for one to two times this many round trips, at least a second."""
MAX_BYTES_PER_S: Final = 1 << 37
MAX_US: Final = 10_000_000
FLOOD_PERMILLE: Final = 20
FLOOD_PKTS: Final = 4
MIN_ROUND_PKTS: Final = 20
"""Minimum packets of a round trip whose loss share is used."""
BURSTS_US: Final = 2_000
"""Allowance for the flow's own bursts on short paths, where it exceeds a twelfth of the RTT [us]."""
_SECOND_US: Final = 1_000_000


@dataclasses.dataclass(frozen=True)
class Tolerance(Part):
    """Registers and lines; in a fold program they go before the loss episodes.

    Attributes:
        rtt_us: Reported: last RTT sample [us].
        loss_rise_us: Reported: rise over the minimum of the RTT by which the last loss was classified [us].
        low_us: Reported: maximum rise of a low loss [us].
        loss_reason: Reported: verdict on the last loss since the last report, NO_LOSS to UNKNOWN.
        memory_us: See the module [us].
        tolerant_until_us: End of the tolerance [us].
        min_bytes: Lower bound of reductions [bytes].
    """

    rtt_us: Register
    loss_rise_us: Register
    low_us: Register
    loss_reason: Register
    memory_us: Register
    tolerant_until_us: Register
    min_bytes: Register
    suspect_us: Register
    round_peak_us: Register
    old_peak_us: Register
    last_sample_us: Register
    max_rtt_us: Register
    old_max_rtt_us: Register
    range_at_us: Register
    best_permille: Register
    old_best_permille: Register
    fastest_bytes_per_s: Register
    old_fastest_bytes_per_s: Register
    rate_at_us: Register
    round_end_pkts: Register
    round_from_pkts: Register
    round_lost_pkts: Register
    gone_pkts: LocalNum
    forget: Block
    forget_rate: Block
    sample_rtt: Block
    sample_rate: Block
    count: Block
    next_round: Block
    is_tolerant: LocalFlag

    @property
    def is_low(self) -> Flag:
        """Whether the last RTT sample shows no queue."""
        return self.rtt_us <= Flow.min_rtt_us + self.low_us

    @property
    def may_grow(self) -> Flag:
        """Whether tolerance lets the window grow."""
        return (Ack.now >= self.tolerant_until_us) | self.is_low

    @property
    def _rate(self) -> Num:
        return max_(self.fastest_bytes_per_s, self.old_fastest_bytes_per_s)

    def evidence(self) -> Evidence:
        """Return the classification of losses, for `loss_episodes(evidence=...)`."""
        judged = let((Ack.lost_pkts_sample > 0) | Flow.was_timeout, "judged")
        range_us = max_(self.max_rtt_us, self.old_max_rtt_us) - Flow.min_rtt_us
        packet_us = min_(Flow.mss * _SECOND_US // self._rate, 20_000)
        bursts_us = min_(Flow.min_rtt_us // 4, BURSTS_US)
        low_us = max_(min_(max_(Flow.min_rtt_us // 12, bursts_us), range_us // 4), 3 * packet_us // 2 + 100)
        best_permille = min_(self.best_permille, self.old_best_permille, 100)
        in_round = self.gone_pkts - self.round_from_pkts
        lost = self.round_lost_pkts * 1000
        flooded = lost > in_round * (2 * best_permille + FLOOD_PERMILLE) + 1000 * FLOOD_PKTS
        reason, rise_us = self.loss_reason, self.loss_rise_us
        is_old = Ack.now >= self.suspect_us + self.memory_us
        fresh = let((self.suspect_us == 0) | is_old, "unsuspected")
        spared = let((Ack.lost_pkts_sample > 0) & (reason == SPARED_LOSS), "is_low_loss")
        is_young = Ack.now < self.suspect_us + self.memory_us
        again = let((self.suspect_us > 0) & is_young & (Ack.now > self.suspect_us + Flow.srtt_us), "again")
        bdp_bytes = self._rate * min_(Flow.min_rtt_us, MAX_US) // _SECOND_US
        return Evidence(
            weigh=(
                judged,
                fresh,
                self.low_us.set(low_us, when=judged),
                rise_us.set(max_(self.rtt_us, self.round_peak_us) - Flow.min_rtt_us, when=judged),
                rise_us.set(max_(rise_us, self.old_peak_us - Flow.min_rtt_us), when=judged & fresh),
                reason.set(SPARED_LOSS, when=judged),
                reason.set(HIGH, when=judged & (rise_us > self.low_us)),
                reason.set(FLOOD, when=judged & flooded),
                reason.set(UNKNOWN, when=judged & (self.rtt_us == 0)),
                spared,
                again,
                self.tolerant_until_us.set(
                    Ack.now + self.memory_us, when=spared & (self.is_tolerant | again)
                ),
                self.suspect_us.set(Ack.now, when=spared & fresh),
                self.tolerant_until_us.set(0, when=Ack.ecn_bytes > 0),
                self.min_bytes.set(0),
                self.min_bytes.set(min_(bdp_bytes, Cwnd * 9 // 10), when=Ack.now < self.tolerant_until_us),
            ),
            congestion=reason > SPARED_LOSS,
        )


def tolerance() -> Tolerance:
    """Build the registers and lines that classify losses."""
    rtt_us, max_rtt_us, old_max_rtt_us, range_at_us = latest(Flow.rtt_sample_us), state(), state(), state()
    peak_us, old_peak_us, last_us = state(), state(), state()
    best, old_best = state(INFINITY), state(INFINITY)
    fastest, old_fastest, rate_at_us = state(), state(), state()
    end_pkts, from_pkts, lost_pkts = state(), state(), state()
    tolerant_until_us = state()
    gone = let(Flow.delivered + Flow.lost)
    return Tolerance(
        rtt_us=rtt_us,
        loss_rise_us=field(volatile=False),
        low_us=field(volatile=False),
        loss_reason=field(),
        memory_us=control(round(1000 * MEMORY_MS)),
        tolerant_until_us=tolerant_until_us,
        min_bytes=state(),
        suspect_us=state(),
        round_peak_us=peak_us,
        old_peak_us=old_peak_us,
        last_sample_us=last_us,
        max_rtt_us=max_rtt_us,
        old_max_rtt_us=old_max_rtt_us,
        range_at_us=range_at_us,
        best_permille=best,
        old_best_permille=old_best,
        fastest_bytes_per_s=fastest,
        old_fastest_bytes_per_s=old_fastest,
        rate_at_us=rate_at_us,
        round_end_pkts=end_pkts,
        round_from_pkts=from_pkts,
        round_lost_pkts=lost_pkts,
        gone_pkts=gone,
        forget=on(
            Ack.now >= range_at_us + RANGE_US // 2,
            old_max_rtt_us.set(max_rtt_us),
            max_rtt_us.set(0),
            old_best.set(best),
            best.set(INFINITY),
            range_at_us.set(Ack.now),
        ),
        forget_rate=on(
            Ack.now >= rate_at_us + max_(RATE_ROUNDS * Flow.srtt_us, RATE_US),
            old_fastest.set(fastest),
            fastest.set(0),
            rate_at_us.set(Ack.now),
        ),
        sample_rtt=on(
            Flow.rtt_sample_us > 0,
            max_rtt_us.set(max_(max_rtt_us, Flow.rtt_sample_us)),
            # The smaller of two samples: a delayed acknowledgment raises one sample, a queue raises several.
            peak_us.set(max_(peak_us, min_(last_us, Flow.rtt_sample_us))),
            last_us.set(Flow.rtt_sample_us),
        ),
        sample_rate=on(
            Flow.rate_incoming > 0,
            fastest.set(max_(fastest, min_(Flow.rate_incoming, Flow.rate_outgoing, MAX_BYTES_PER_S))),
        ),
        count=on(Ack.lost_pkts_sample > 0, lost_pkts.add(Ack.lost_pkts_sample)),
        next_round=on(
            gone > end_pkts,
            best.set(
                min_(best, lost_pkts * 1000 // (gone - from_pkts)), when=gone > from_pkts + MIN_ROUND_PKTS
            ),
            from_pkts.set(gone),
            lost_pkts.set(0),
            old_peak_us.set(peak_us),
            peak_us.set(0),
            end_pkts.set(gone + Flow.packets_in_flight),
        ),
        is_tolerant=let(Ack.now < tolerant_until_us, "is_tolerant"),
    )


@dataclasses.dataclass(frozen=True)
class Lenience(Part):
    """Further behaviour of a tolerant flow: pacing, and the end of slow start."""

    paced: Register
    is_lenient: LocalFlag
    pace: Block
    stop_pacing: Block


def lenience(tolerance: Tolerance, loss: Episodes, start: HyStart) -> Lenience:
    """Build the lines for tolerant flows; they go after slow start.

    Args:
        tolerance: The program's evidence.
        loss: Its loss episodes.
        start: Its slow start.
    """
    paced = state()
    tolerant = let(Ack.now < tolerance.tolerant_until_us, "is_lenient")
    queued = tolerance.rtt_us > Flow.min_rtt_us + tolerance.low_us
    in_slow_start = Cwnd < loss.ssthresh_bytes
    return Lenience(
        paced=paced,
        is_lenient=tolerant,
        pace=on(
            tolerant,
            paced.set(1),
            # Pacing stretches a train of ACKs to a round trip, which HyStart would mistake for a queue.
            start.hystart.set(0),
            Rate.set(min_(Cwnd * 6 * (_SECOND_US // 5) // Flow.srtt_us, MAX_BYTES_PER_S)),
            Rate.set(Rate * 5 // 3, when=in_slow_start),
            loss.ssthresh_bytes.set(Cwnd, when=queued & in_slow_start),
        ),
        stop_pacing=on((paced > 0) & (Ack.now >= tolerance.tolerant_until_us), paced.set(0), Rate.set(0)),
    )
