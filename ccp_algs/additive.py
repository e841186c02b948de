"""Growth below the threshold by what telemetry says is free, in a fold program, in place of slow start's.

Slow start adds to the window what an ACK acknowledges. Here an ACK adds `growth_permille` thousandths of that
instead, which Python computes (`int_summary.py`), and in a round never more than `room_bytes`. A round is a
round trip, or the interval of the telemetry where that is longer: what was added does not show sooner. From
`additive_until_us` on, which is where telemetry gets stale, it is slow start again.
"""

from __future__ import annotations

import dataclasses

from ccp_algs.episodes import Episodes
from ccp_algs.fold import Ack, Block, Cwnd, Part, Register, control, let, max_, min_, on, state


@dataclasses.dataclass(frozen=True)
class Additive(Part):
    """Registers and lines; it goes in front of slow start.

    Attributes:
        additive_until_us: Until when the growth is the additive one [us]; 0: it is slow start's.
        growth_permille: What an ACK adds, in thousandths of what it acknowledges.
        room_bytes: Largest growth in a round [bytes].
        round_us: Length of a round [us].
        added_bytes: What this ACK adds to a window below the threshold [bytes].
        spent_bytes: Added in this round [bytes].
        spent_since_us: When it began [us].
    """

    additive_until_us: Register
    growth_permille: Register
    room_bytes: Register
    round_us: Register
    added_bytes: Register
    spent_bytes: Register
    spent_since_us: Register
    add: Block


def additive(loss: Episodes) -> Additive:
    """Build the part; `added_bytes` is for `hystart(loss, added_bytes)`.

    Args:
        loss: The program's loss episodes.
    """
    until_us, permille, room_bytes, round_us = control(), control(), control(), control()
    added_bytes, spent_bytes, since_us = state(), state(), state()
    is_additive = let(Ack.now < until_us, "is_additive")
    new_round = let(Ack.now >= since_us + round_us, "new_spending_round")
    left_bytes = max_(room_bytes, spent_bytes) - spent_bytes
    return Additive(
        additive_until_us=until_us,
        growth_permille=permille,
        room_bytes=room_bytes,
        round_us=round_us,
        added_bytes=added_bytes,
        spent_bytes=spent_bytes,
        spent_since_us=since_us,
        add=on(
            loss.may_grow & (Cwnd < loss.ssthresh_bytes),
            added_bytes.set(Ack.bytes_acked),
            is_additive,
            new_round,
            since_us.set(Ack.now, when=new_round),
            spent_bytes.set(0, when=new_round),
            added_bytes.set(min_(Ack.bytes_acked * permille // 1000, left_bytes), when=is_additive),
            spent_bytes.add(added_bytes, when=is_additive),
        ),
    )
