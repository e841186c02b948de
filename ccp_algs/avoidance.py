"""Congestion avoidance by one segment per round trip, as part of a fold program, for Reno and DCTCP.

Acknowledged bytes are added up; for each full window of acknowledged bytes the window grows by one segment.

Sources: RFC 5681 section 3.1, RFC 3465 section 2.1 (byte counting). Deviation: none.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from ccp_algs.episodes import Episodes, Verdict
from ccp_algs.fold import Ack, Block, Cwnd, Flow, Part, Register, Statement, on, state
from ccp_algs.fold.expressions import Flag


@dataclasses.dataclass(frozen=True)
class Credit(Part):
    """Bytes acknowledged in congestion avoidance that have not yet grown the window.

    Attributes:
        credit_bytes: The register [bytes].
    """

    credit_bytes: Register

    def restart(self, verdict: Verdict) -> Sequence[Statement]:
        """Return the statements that reset the credit at a loss, for `loss_episodes(also=...)`."""
        return [self.credit_bytes.set(0, when=verdict.cut | verdict.timeout)]


def credit() -> Credit:
    """Build the register."""
    return Credit(state())


@dataclasses.dataclass(frozen=True)
class AdditiveIncrease(Part):
    """Congestion avoidance."""

    earn: Block
    spend: Block


def additive_increase(loss: Episodes, earned: Credit, growing: Flag | None = None) -> AdditiveIncrease:
    """Build this part of a fold program; it goes before slow start, so that no ACK counts for both.

    Args:
        loss: The program's loss episodes.
        earned: The program's credit.
        growing: Condition under which the window may grow; default `loss.may_grow`.

    Returns:
        The part, for one line of a FoldProgram.
    """
    growing = loss.may_grow if growing is None else growing
    credit_bytes = earned.credit_bytes
    # Credit may remain below the threshold, after an idle period has shrunk the window.
    return AdditiveIncrease(
        earn=on(growing & (Cwnd >= loss.ssthresh_bytes), credit_bytes.add(Ack.bytes_acked)),
        spend=on(
            (credit_bytes >= Cwnd) & (Cwnd >= loss.ssthresh_bytes),
            credit_bytes.set(credit_bytes - Cwnd),
            Cwnd.add(Flow.mss),
        ),
    )
