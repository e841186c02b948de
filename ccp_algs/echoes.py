"""Losses judged by echoes of the path (`Int.*`), in a fold program, on the ACK that shows them.

Counters in the echo say how many packets of this flow were lost so far, and where. The sink sees a gap before
the sender can mark the packet lost, so that the cause is there first. An ACK that shows a loss, first line
that holds:

| since the last judgement the counters say | the loss is |
| --- | --- |
| lost by congestion, or nobody knows where, and no reduction has answered it | congestion |
| more lost on links than losses were judged | none |
| nothing | congestion |

A timeout shows nothing, as no packet came behind the lost ones. It is congestion if the first line holds, a
hop is silent, or the queue of the bottleneck was full to `full_permille` when the last echo saw it.

Where nobody echoes, or the echo is older than `stale_us`, none of this holds: see `wireless.py`.
"""

from __future__ import annotations

import dataclasses
from typing import Final

from ccp_algs.episodes import Verdict
from ccp_algs.fold import Ack, Flow, Int, Part, Register, Statement, control, field, min_, state
from ccp_algs.fold.expressions import Num

NO_LIMIT_BYTES: Final = 1 << 40
"""Room that counts as unlimited: products with it still fit 64 bits."""


@dataclasses.dataclass(frozen=True)
class Echoes(Part):
    """Registers of the judgement.

    Attributes:
        stale_us: An echo that is older counts as none [us].
        full_permille: How much of a queue is in use when it counts as full, in thousandths.
        spares: 1: losses may be spared.
        answered_pkts: Of the losses that count as congestion, those that a reduction answered [packets].
        judged_pkts: Of the losses on links, those that were judged [packets].
        heard: 1: the loss at hand is judged by an echo.
        congested: 1: by the echo it is congestion.
        echo_age_us: Reported: age of the echo that the last loss was judged by [us].
    """

    stale_us: Register
    full_permille: Register
    spares: Register
    answered_pkts: Register
    judged_pkts: Register
    heard: Register
    congested: Register
    echo_age_us: Register

    def weigh(self, at_us: Num) -> list[Statement]:
        """Return what finds `heard`, by an echo that was recent at `at_us` [us], and `congested`."""
        recent = Int.age_us < self.stale_us + (Ack.now - at_us)
        queue_bytes = Int.queue_bytes
        room_bytes = min_(Int.free_bytes, NO_LIMIT_BYTES)
        had_room = queue_bytes * 1000 < self.full_permille * (queue_bytes + room_bytes)
        return [
            self.heard.set(0),
            self.heard.set(1, when=(self.spares > 0) & recent),
            self.congested.set(1),
            self.congested.set(0, when=Int.losses_link > self.judged_pkts),
            self.congested.set(1, when=Flow.was_timeout),
            self.congested.set(0, when=Flow.was_timeout & Int.all_known & had_room),
            self.congested.set(1, when=_congestion_pkts() > self.answered_pkts),
        ]

    def account(self, verdict: Verdict) -> list[Statement]:
        """Return what notes that losses were judged, for `loss_episodes(also=...)`."""
        answered = verdict.cut | verdict.timeout | verdict.repairing
        return [
            self.answered_pkts.set(_congestion_pkts(), when=answered),
            self.echo_age_us.set(Int.age_us, when=self.heard > 0),
            self.judged_pkts.set(min_(Int.losses_link, self.judged_pkts + Ack.lost_pkts_sample)),
        ]


def _congestion_pkts() -> Num:
    return Int.losses_congestion + Int.losses_unknown


def echoes() -> Echoes:
    """Build the part."""
    return Echoes(
        stale_us=control(),
        full_permille=control(900),
        spares=control(),
        answered_pkts=state(),
        judged_pkts=state(),
        heard=state(),
        congested=state(),
        echo_age_us=field(volatile=False),
    )
