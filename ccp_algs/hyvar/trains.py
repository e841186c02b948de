"""The rate of a path, from packets that left together and were spread by the bottleneck.

A flow that arrives late cannot know the path's rate: its own best throughput is the capacity that earlier
flows left over. But the bottleneck spreads packets that leave together, so the time between the arrivals of
the first and the last one shows its rate. Two kinds of packets leave together here: the first window after
the start of a connection or after an idle period, and the packets that a factor of the policy adds to the
window. Trains are identified by the number of deliveries, so that an ACK costs two comparisons while no train
is in flight. A train with losses appears slower than it was.

Source: C. Dovrolis, P. Ramanathan and D. Moore, "What Do Packet Dispersion Techniques Measure?", INFOCOM
2001. Deviations: packets of other flows within a train make it appear slower, and the paper takes the mode of
many trains; here a train is compared with the flow's best throughput (`collector.View`). No extra packets are
sent.
"""

from __future__ import annotations

import dataclasses
from typing import Final

from ccp_algs.fold import (
    INFINITY,
    Ack,
    Block,
    Cwnd,
    Flow,
    Part,
    Register,
    Statement,
    field,
    let,
    max_,
    min_,
    on,
    state,
)
from ccp_algs.fold.expressions import Flag, Num

ENOUGH_PKTS: Final = 5
"""Minimum packets of a train after its first ACK; shorter trains are inaccurate."""
MIN_PKTS: Final = 3
"""Minimum packets of a train if half a window is less than `ENOUGH_PKTS`, for flows with a small window."""
MIN_US: Final = 500
"""Minimum duration of a train [us], because offloads and radio links release packets together."""


@dataclasses.dataclass(frozen=True)
class Trains(Part):
    """The train in flight, if any.

    Attributes:
        train_bytes_per_s: Reported: rate of the fastest train since the last report; 0: none.
        train_before_pkts: Deliveries before its first packet: it is measured from the packet before it.
        train_last_pkts: Deliveries including its last packet; 0: no train; INFINITY: known at its first ACK.
        idle: Nothing is in flight, so the next packets leave together.
    """

    train_bytes_per_s: Register
    train_before_pkts: Register
    train_last_pkts: Register
    train_began_us: Register
    train_from_pkts: Register
    measure: Block
    idle: Block

    def begin(self, when: Flag) -> tuple[Statement, ...]:
        """Return statements that begin a train where the window grows by more than the acknowledged bytes."""
        return (
            self.train_before_pkts.set(_on_its_way_pkts(), when=when),
            self.train_last_pkts.set(Flow.delivered + Cwnd // Flow.mss, when=when),
            self.train_began_us.set(0, when=when),
        )


def trains() -> Trains:
    """Build the lines that measure trains; they go before statements that begin a train."""
    before_pkts, last_pkts = state(), state(INFINITY)
    began_us, from_pkts = state(), state()
    rate = field()
    opens = let((began_us == 0) & (Flow.delivered >= before_pkts), "opens")
    closes = let((began_us > 0) & (Flow.delivered >= last_pkts), "closes")
    enough_pkts = max_(MIN_PKTS, min_(ENOUGH_PKTS, Cwnd // Flow.mss // 2))
    emits = closes & (Flow.delivered >= from_pkts + enough_pkts) & (Ack.now > began_us + MIN_US)
    return Trains(
        train_bytes_per_s=rate,
        train_before_pkts=before_pkts,
        train_last_pkts=last_pkts,
        train_began_us=began_us,
        train_from_pkts=from_pkts,
        measure=on(
            last_pkts > 0,
            closes,
            opens,
            rate.set(
                max_(rate, (Flow.delivered - from_pkts) * Flow.mss * 1_000_000 // (Ack.now - began_us)),
                when=emits,
            ),
            from_pkts.set(Flow.delivered, when=opens),
            # After an idle period, all that is in flight at the first ACK left together.
            last_pkts.set(min_(last_pkts, _on_its_way_pkts()), when=opens),
            last_pkts.set(0, when=closes),
            began_us.set(0, when=closes),
            began_us.set(Ack.now, when=opens),
        ),
        idle=on(
            Flow.packets_in_flight == 0,
            before_pkts.set(Flow.delivered),
            last_pkts.set(INFINITY),
            began_us.set(0),
        ),
    )


def _on_its_way_pkts() -> Num:
    return Flow.delivered + Flow.packets_in_flight
