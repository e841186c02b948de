"""Classify losses by echoes of the path (`Int.*`), in a fold program, on the ACK that shows them.

Counters in the echo report how many of this flow's packets were lost so far, and where. The sink sees a gap
before the sender can mark the packet lost, so the cause arrives first. For an ACK that shows a loss, the
first matching line applies:

| counters since the last classified loss | the loss is |
| --- | --- |
| show losses by congestion or of unknown cause that no reduction has answered | congestion |
| show more losses on links than were classified as not congestion | not congestion |
| show nothing | congestion |

A timeout carries no echo, as no packet arrived after the lost ones. A timeout is congestion if the first line
of the table matches, a hop does not report, or the bottleneck's queue was filled to `full_permille` or more
at the last echo.

More losses on links than packets can be missing now do not count: those in flight, and those that this ACK
shows lost. So a receiver that claims more than were lost excuses at most one window of losses.

Without echoes, or if the last one is older than `stale_us`, `wireless.py` decides.
"""

from __future__ import annotations

import dataclasses
from typing import Final

from ccp_algs.episodes import Verdict
from ccp_algs.fold import Ack, Flow, Int, Part, Register, Statement, control, field, max_, min_, state
from ccp_algs.fold.expressions import Num

NO_LIMIT_BYTES: Final = 1 << 40
"""Free room that counts as unlimited; products with it still fit 64 bits."""


@dataclasses.dataclass(frozen=True)
class Echoes(Part):
    """Registers of the classification.

    Attributes:
        stale_us: Maximum age of an echo that counts [us].
        full_permille: Fraction of a queue in use from which it counts as full, in thousandths.
        spares: 1: losses may be spared.
        answered_pkts: Congestion losses that a reduction answered [packets].
        judged_pkts: Losses on links that were classified [packets].
        received: 1: an echo classifies the present loss.
        congested: 1: according to the echo it is congestion.
        echo_age_us: Reported: age of the echo that classified the last loss [us].
    """

    stale_us: Register
    full_permille: Register
    spares: Register
    answered_pkts: Register
    judged_pkts: Register
    received: Register
    congested: Register
    echo_age_us: Register

    def weigh(self, at_us: Num) -> list[Statement]:
        """Return statements that set `congested`, and `received` if the echo was recent at `at_us` [us]."""
        recent = Int.age_us < self.stale_us + (Ack.now - at_us)
        queue_bytes = Int.queue_bytes
        room_bytes = min_(Int.free_bytes, NO_LIMIT_BYTES)
        missing_pkts = Flow.packets_in_flight + Ack.lost_pkts_sample
        had_room = queue_bytes * 1000 < self.full_permille * (queue_bytes + room_bytes)
        return [
            self.received.set(0),
            self.received.set(1, when=(self.spares > 0) & recent),
            self.judged_pkts.set(max_(self.judged_pkts, Int.losses_link - missing_pkts)),
            self.congested.set(1),
            self.congested.set(0, when=Int.losses_link > self.judged_pkts),
            self.congested.set(1, when=Flow.was_timeout),
            self.congested.set(0, when=Flow.was_timeout & Int.all_known & had_room),
            self.congested.set(1, when=_congestion_pkts() > self.answered_pkts),
        ]

    def account(self, verdict: Verdict) -> list[Statement]:
        """Return the statements that record that losses were classified, for `loss_episodes(also=...)`."""
        answered = verdict.cut | verdict.timeout | verdict.repairing
        return [
            self.answered_pkts.set(_congestion_pkts(), when=answered),
            self.echo_age_us.set(Int.age_us, when=self.received > 0),
            self.judged_pkts.set(min_(Int.losses_link, self.judged_pkts + Ack.lost_pkts_sample)),
        ]


def _congestion_pkts() -> Num:
    return Int.losses_congestion + Int.losses_unknown


def echoes() -> Echoes:
    """Build the lines that classify losses."""
    return Echoes(
        stale_us=control(),
        full_permille=control(900),
        spares=control(),
        answered_pkts=state(),
        judged_pkts=state(),
        received=state(),
        congested=state(),
        echo_age_us=field(volatile=False),
    )
