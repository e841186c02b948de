"""The rate of a path, by packets that left together: its bottleneck spreads them, whoever else sends.

A flow that came late knows nothing of the rate that others had before: its own best is what they left. But of
packets that leave together the last arrives behind the first by what the bottleneck takes for those between
them. Two kinds of packets leave together here: the first window of a connection, or that behind a pause, and
what a factor of the policy adds to the window. They are told by how many packets were delivered, so that an
ACK costs two comparisons while no train is on its way. A train of which some were lost seems slower than it
was.

Source: C. Dovrolis, P. Ramanathan and D. Moore, "What Do Packet Dispersion Techniques Measure?", INFOCOM
2001. Deviations: packets of others between those of a train make it slower, and there the mode of many trains
tells the rate; here a train is held against the best throughput that the flow had (`collector.View`). Nothing
is sent for a train.
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
"""Of a train, behind its first ACK: fewer tell little."""
LEAST_PKTS: Final = 3
"""Of one that is half a window of fewer than ten: a flow that others starve has no longer ones."""
LEAST_US: Final = 500
"""How long it lasts [us]: what offloads and radio links hold back comes at once, however slow the path is."""


@dataclasses.dataclass(frozen=True)
class Trains(Part):
    """The train that is on its way, if there is one.

    Attributes:
        train_bytes_per_s: Reported: rate of the fastest train that came since the last report; 0: none did.
        train_before_pkts: Deliveries before its first packet's: it counts from the packet before it.
        train_last_pkts: Deliveries with its last one's; 0: there is none; INFINITY: its first ACK will tell.
        idle: What is sent next leaves at once.
    """

    train_bytes_per_s: Register
    train_before_pkts: Register
    train_last_pkts: Register
    train_began_us: Register
    train_from_pkts: Register
    measure: Block
    idle: Block

    def begin(self, when: Flag) -> tuple[Statement, ...]:
        """Return what takes note of a window that was raised, not by what an ACK acknowledges."""
        return (
            self.train_before_pkts.set(_on_its_way_pkts(), when=when),
            self.train_last_pkts.set(Flow.delivered + Cwnd // Flow.mss, when=when),
            self.train_began_us.set(0, when=when),
        )


def trains() -> Trains:
    """Build the part; it goes in front of what begins one."""
    before_pkts, last_pkts = state(), state(INFINITY)
    began_us, from_pkts = state(), state()
    rate = field()
    opens = let((began_us == 0) & (Flow.delivered >= before_pkts), "opens")
    closes = let((began_us > 0) & (Flow.delivered >= last_pkts), "closes")
    enough_pkts = max_(LEAST_PKTS, min_(ENOUGH_PKTS, Cwnd // Flow.mss // 2))
    tells = closes & (Flow.delivered >= from_pkts + enough_pkts) & (Ack.now > began_us + LEAST_US)
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
                when=tells,
            ),
            from_pkts.set(Flow.delivered, when=opens),
            # Behind a pause, what is on its way when the first ACK comes left at once.
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
