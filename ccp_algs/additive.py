"""Window growth below the threshold, limited by the free room that telemetry reports; for fold programs.

In slow start the window grows by the bytes that each ACK acknowledges. Here it grows by `growth_permille`
thousandths of these bytes, and by at most `room_bytes` per round. A round is a round trip, or the telemetry's
interval if that is longer, since earlier telemetry cannot show the added bytes. An echo, which the receiver
sends, never makes the window grow by more than `increment` times the acknowledged bytes. From
`additive_until_us` on the telemetry is stale, and slow start applies again.

If ACKs carry echoes of the path, the growth is computed from each echo; otherwise Python computes it from
summaries (`int_summary.py`, which has the equation). An echo is used only if every hop reports its queue and
the bottleneck's queue has a limit.

If the buffer is small compared with the bandwidth-delay product, slow start is faster: with a buffer of 50
packets, growth from 10 packets to 1000 takes 80 round trips with increment 1, and 7 in slow start.
"""

from __future__ import annotations

import dataclasses
from typing import Final

from ccp_algs.echoes import NO_LIMIT_BYTES
from ccp_algs.episodes import Episodes
from ccp_algs.fold import (
    INFINITY,
    Ack,
    Block,
    Cwnd,
    Flow,
    Int,
    Part,
    Register,
    control,
    let,
    max_,
    min_,
    on,
    state,
)

MAX_PERMILLE: Final = 1000
"""Maximum growth per acknowledged byte by an echo, in thousandths, at increment 1: that of slow start."""


@dataclasses.dataclass(frozen=True)
class Additive(Part):
    """Registers and lines of growth by free room; in a fold program they go before slow start.

    Attributes:
        additive_until_us: Growth is additive until this time [us]; 0: slow start.
        growth_permille: Growth per acknowledged byte, in thousandths.
        increment: `increment` of equation (1); 0: echoes do not set the growth.
        period_permille: Period of equation (1), in thousandths of a round trip.
        room_bytes: Maximum growth per round [bytes].
        round_us: Length of a round [us].
        added_bytes: Growth by this ACK while the window is below the threshold [bytes].
        spent_bytes: Growth in this round so far [bytes].
        spent_since_us: Start of this round [us].
    """

    additive_until_us: Register
    growth_permille: Register
    increment: Register
    period_permille: Register
    room_bytes: Register
    round_us: Register
    added_bytes: Register
    spent_bytes: Register
    spent_since_us: Register
    add: Block


def additive(loss: Episodes, stale_us: Register) -> Additive:
    """Build the lines of growth by free room; pass their `added_bytes` to `hystart(loss, added_bytes)`.

    Args:
        loss: The program's loss episodes.
        stale_us: Maximum age of an echo that counts [us].
    """
    increment, period_permille = control(), control(4000)
    until_us, permille, room_bytes, round_us = control(), control(), control(), control()
    added_bytes, spent_bytes, since_us = state(), state(), state()
    emits = Int.all_known & (Int.free_bytes < INFINITY)
    received = let((increment > 0) & (Int.age_us < stale_us) & emits, "received_room")
    free_bytes, flows = min_(Int.free_bytes, NO_LIMIT_BYTES), max_(Int.flow_count, 1)
    # The rate is a lagging mean (docs/inband.md), but at least what this flow sends in a round arrives there.
    round_bytes = max_(Int.arrival_bytes_per_s * Flow.srtt_us // 1_000_000, Cwnd)
    arrived_bytes = round_bytes * period_permille // 1000 * flows
    is_additive = let(Ack.now < until_us, "is_additive")
    new_round = let(Ack.now >= since_us + round_us, "new_spending_round")
    left_bytes = max_(room_bytes, spent_bytes) - spent_bytes
    return Additive(
        additive_until_us=until_us,
        growth_permille=permille,
        increment=increment,
        period_permille=period_permille,
        room_bytes=room_bytes,
        round_us=round_us,
        added_bytes=added_bytes,
        spent_bytes=spent_bytes,
        spent_since_us=since_us,
        add=on(
            loss.may_grow & (Cwnd < loss.ssthresh_bytes),
            added_bytes.set(Ack.bytes_acked),
            received,
            permille.set(increment * min_(1000 * free_bytes // arrived_bytes, MAX_PERMILLE), when=received),
            room_bytes.set(free_bytes // flows, when=received),
            round_us.set(Flow.srtt_us, when=received),
            until_us.set(Ack.now + 1, when=received),
            is_additive,
            new_round,
            since_us.set(Ack.now, when=new_round),
            spent_bytes.set(0, when=new_round),
            added_bytes.set(min_(Ack.bytes_acked * permille // 1000, left_bytes), when=is_additive),
            spent_bytes.add(added_bytes, when=is_additive),
        ),
    )
