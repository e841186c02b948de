"""RTT inflation as evidence of congestion, in a fold program: was there a queue at the time of the loss?

A loss is congestion if the RTT on the ACK that shows it is at least k times the minimum RTT; for the source
see `flex_cubic.py`. Five options extend this rule; each is off while its register is 0:

* `memory_us`: for this time after a loss that showed a queue the threshold is lower. In the first half of
  this time the threshold is 1, so that every loss counts as congestion; in the second half it rises back to
  k. Only a loss whose own RTT showed a queue renews the memory; otherwise random losses would keep it alive.
* `window_us`: the minimum RTT is taken over the last `window_us` (at least over half of it) instead of the
  kernel's 5 minutes.
* `queue_permille`: a loss is also congestion if the smoothed RTT is high in the flow's own range, that is, at
  least this many thousandths of the way from the minimum RTT to the maximum smoothed RTT of the last
  RANGE_US. This option is the Spike scheme, with three changes: the smoothed RTT replaces each packet's
  one-way delay, because the flow's own bursts make single samples jump; one threshold replaces two; a window
  of some seconds replaces the whole connection. A range below an eighth of the minimum RTT, or below a
  millisecond, is noise and shows nothing.
* `persist_rounds`: an RTT of k times the minimum shows a queue only if all RTTs of this many smoothed round
  trips were that large (a "temporal threshold").

ECN echoes can be classified like losses, by the ACK that carries the echo.

Time windows are kept in two buckets of half their length. On an ACK without an RTT sample the previous sample
applies; before the first sample the kernel's smoothed RTT is used. If the smoothed RTT is also unknown, a
loss is congestion.

Source of the Spike scheme: S. Cen, P. C. Cosman, G. M. Voelker, "End-to-end differentiation of congestion
and wireless losses", IEEE/ACM Transactions on Networking 11(5), 2003.
"""

from __future__ import annotations

import dataclasses
from typing import Final

from ccp_algs.episodes import Evidence
from ccp_algs.fold import (
    INFINITY,
    Ack,
    Block,
    Flow,
    Part,
    Register,
    Statement,
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

# Values of the report field `loss_reason`.
NO_LOSS: Final = 0
SPARED_LOSS: Final = 1
"""No evidence of congestion."""
REMEMBERED: Final = 2
"""Congestion: an earlier loss showed an inflated RTT."""
INFLATED: Final = 3
"""Congestion: the RTT is at least k times the minimum."""
QUEUE: Final = 4
"""Congestion: the smoothed RTT is high in the flow's own range."""

RANGE_US: Final = 10_000_000
"""Window of the maximum smoothed RTT [us]; on most paths CUBIC fills the queue in less time."""
NOISE_DIVISOR: Final = 8
NOISE_US: Final = 1_000


@dataclasses.dataclass(frozen=True)
class Inflation(Part):
    """Registers and lines that track the RTT; they go before the loss episodes.

    Attributes:
        rtt_us: Reported: last RTT sample [us].
        min_rtt_us: Reported: the minimum RTT that it is compared with [us].
        rtt_rise_us: Reported: absolute rise, `rtt_us - min_rtt_us` [us].
        rtt_rise_permille: Reported: relative rise, in thousandths of `min_rtt_us`.
        inflated: Reported: 1 if the RTT was inflated at the report.
        loss_rtt_us: Reported: RTT by which the last loss was classified [us].
        loss_reason: Reported: verdict on the last loss since the last report, NO_LOSS to QUEUE.
        k_permille: The threshold k, in thousandths.
        memory_us: See the module [us].
        window_us: See the module [us].
        queue_permille: See the module.
        persist_rounds: See the module.
        inflated_since_us: Time since which the RTT has been at least k times the minimum; 0: it is not.
    """

    rtt_us: Register
    min_rtt_us: Register
    rtt_rise_us: Register
    rtt_rise_permille: Register
    inflated: Register
    loss_rtt_us: Register
    loss_reason: Register
    k_permille: Register
    memory_us: Register
    window_us: Register
    queue_permille: Register
    persist_rounds: Register
    inflated_since_us: Register
    congested_at_us: Register
    bucket_min_us: Register
    old_bucket_min_us: Register
    min_bucket_at_us: Register
    bucket_max_us: Register
    old_bucket_max_us: Register
    max_bucket_at_us: Register
    relearn_min: Block
    relearn_max: Block
    persist: Block

    def evidence(self) -> Evidence:
        """Return the classification of losses, for `loss_episodes(evidence=...)`."""
        return self._evidence((Ack.lost_pkts_sample > 0) | Flow.was_timeout)

    def evidence_of_marks(self, also: Flag) -> Evidence:
        """Return the classification of ECN echoes; every loss is congestion.

        Args:
            also: Further condition for an echo to count.
        """
        evidence = self._evidence(Ack.ecn_bytes > 0)
        counts = (Ack.ecn_bytes > 0) & also & evidence.congestion
        return dataclasses.replace(evidence, congestion=Flow.mss > 0, marks=counts)

    def _evidence(self, trouble: Flag) -> Evidence:
        judged = let(trouble, "judged")
        rtt, smallest, reason = self.loss_rtt_us, self.min_rtt_us, self.loss_reason
        half_us = let(self.memory_us // 2, "half_us")
        age_us = let(Ack.now - self.congested_at_us, "age_us")
        faded = (self.k_permille - 1000) * (max_(age_us, half_us) - half_us) // half_us
        remembers = (self.congested_at_us > 0) & (age_us < self.memory_us)
        is_remembered = remembers & (rtt * 1000 >= (1000 + faded) * smallest)
        range_us = let(max_(self.bucket_max_us, self.old_bucket_max_us) - smallest, "range_us")
        is_range = (range_us > smallest // NOISE_DIVISOR) & (range_us > NOISE_US)
        is_high = (Flow.srtt_us - smallest) * 1000 >= self.queue_permille * range_us
        lasted = Ack.now >= self.inflated_since_us + self.persist_rounds * Flow.srtt_us
        persists = (self.persist_rounds == 0) | ((self.inflated_since_us > 0) & lasted)
        is_inflated = ((rtt * 1000 >= self.k_permille * smallest) & persists) | (rtt == 0)
        return Evidence(
            weigh=(
                judged,
                self._baseline(),
                rtt.set(self.rtt_us, when=judged),
                rtt.set(Flow.srtt_us, when=judged & (self.rtt_us == 0)),
                half_us,
                age_us,
                range_us,
                reason.set(SPARED_LOSS, when=judged),
                reason.set(REMEMBERED, when=judged & is_remembered),
                reason.set(QUEUE, when=judged & (self.queue_permille > 0) & is_range & is_high),
                reason.set(INFLATED, when=judged & is_inflated),
                self.congested_at_us.set(Ack.now, when=judged & (reason >= INFLATED)),
            ),
            congestion=reason > SPARED_LOSS,
        )

    def report(self, emits: Flag) -> Block:
        """Return the block that completes a report; it goes before `when`, and takes the same condition."""
        return on(
            emits,
            self._baseline(),
            self.rtt_rise_us.set(self.rtt_us - self.min_rtt_us),
            self.rtt_rise_permille.set(1000 * self.rtt_rise_us // self.min_rtt_us),
            self.inflated.set(0),
            self.inflated.set(1, when=self.rtt_rise_permille + 1000 >= self.k_permille),
        )

    def _baseline(self) -> list[Statement]:
        windowed_us = min_(self.bucket_min_us, self.old_bucket_min_us)
        return [
            self.min_rtt_us.set(Flow.min_rtt_us),
            self.min_rtt_us.set(windowed_us, when=(self.window_us > 0) & (windowed_us < INFINITY)),
        ]


def inflation(k_permille: int) -> Inflation:
    """Build the registers and lines that track the RTT.

    Args:
        k_permille: The threshold k, in thousandths: initial value of the register.
    """
    window_us, min_us, old_min_us, min_at_us = control(), state(INFINITY), state(INFINITY), state()
    queue_permille, max_us, old_max_us, max_at_us = control(), state(), state(), state()
    persist_rounds, since_us, k = control(), state(), control(k_permille)
    smaller, larger = min_(min_us, Flow.rtt_sample_us), max_(max_us, Flow.srtt_us)
    return Inflation(
        rtt_us=latest(Flow.rtt_sample_us),
        min_rtt_us=field(volatile=False),
        rtt_rise_us=field(volatile=False),
        rtt_rise_permille=field(volatile=False),
        inflated=field(volatile=False),
        loss_rtt_us=field(volatile=False),
        loss_reason=field(),
        k_permille=k,
        memory_us=control(),
        window_us=window_us,
        queue_permille=queue_permille,
        persist_rounds=persist_rounds,
        inflated_since_us=since_us,
        congested_at_us=state(),
        bucket_min_us=min_us,
        old_bucket_min_us=old_min_us,
        min_bucket_at_us=min_at_us,
        bucket_max_us=max_us,
        old_bucket_max_us=old_max_us,
        max_bucket_at_us=max_at_us,
        relearn_min=_relearn("min", window_us > 0, window_us // 2, (min_at_us, min_us, old_min_us), smaller),
        relearn_max=_relearn(
            "max", queue_permille > 0, RANGE_US // 2, (max_at_us, max_us, old_max_us), larger
        ),
        persist=on(
            persist_rounds > 0,
            since_us.set(Ack.now, when=(Flow.rtt_sample_us > 0) & (since_us == 0)),
            since_us.set(0, when=Flow.rtt_sample_us * 1000 < k * Flow.min_rtt_us),
        ),
    )


def _relearn(
    name: str, wanted: Flag, half_us: Num | int, registers: tuple[Register, Register, Register], newer: Num
) -> Block:
    """Return the block that tracks the extreme value of a time window in two buckets.

    Args:
        name: Prefix of the names of intermediate results.
        wanted: Condition for tracking.
        half_us: Length of a bucket [us].
        registers: Start of the newer bucket, the value in it, and the value in the older bucket.
        newer: New value of the newer bucket after this ACK.
    """
    began_us, bucket, old_bucket = registers
    length_us = let(half_us, f"{name}_half_us")
    turn = let(Ack.now >= began_us + length_us, f"{name}_turn")
    stale = let(Ack.now >= began_us + 2 * length_us, f"{name}_stale")  # both buckets are stale
    empty = bucket.initial
    return on(
        wanted,
        length_us,
        turn,
        stale,
        old_bucket.set(bucket, when=turn),
        old_bucket.set(empty, when=stale),
        bucket.set(empty, when=turn),
        began_us.set(began_us + length_us, when=turn),
        began_us.set(Ack.now, when=stale),
        bucket.set(newer),
    )
