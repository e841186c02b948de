"""Proportional rate reduction (RFC 9937) in fold programs, and the immediate reduction."""

from typing import Any

import pytest

from ccp_algs.cubic import CubicFold
from ccp_algs.episodes import CUT
from ccp_algs.reduction import ALWAYS, ECHO, NEVER
from ccp_algs.registry import get, names
from ccp_algs.reno import RenoFold
from tests.unit.ccp_algs.folded import CWR, MSS, OPEN, RECOVERY, events, started


class Sender:
    """A flow that always has data: what it may send is sent after each ACK."""

    def __init__(self, program: Any, pkts: int, **registers: int) -> None:
        self.flow = started(program, pkts, pkts)
        self.flow.set(**registers)
        self.in_flight = pkts
        self.sent: list[int] = []

    def ack(self, delivered: int = 1, lost: int = 0, state: int = CWR, in_order: bool = True) -> None:
        self.in_flight -= delivered + lost
        self.flow.ca_state = state
        prims = {} if in_order else {"packets_misordered": delivered}
        self.flow.ack(
            delivered if in_order else 0,
            after_us=1000,
            bytes_in_flight=self.in_flight * MSS,
            packets_in_flight=self.in_flight,
            lost_pkts_sample=lost,
            **prims,
        )
        room = max(0, self.flow.cwnd // MSS - self.in_flight)
        self.sent.append(room)
        self.in_flight += room


@pytest.mark.parametrize(("prr", "state"), [(ECHO, CWR), (ALWAYS, CWR), (ALWAYS, RECOVERY)])
def test_prr_spreads_the_reduction_over_a_round_trip(prr: int, state: int) -> None:
    sender = Sender(CubicFold, 100, prr=prr)
    for _ in range(100):
        sender.ack(state=state)
    assert events(sender.flow) == [CUT]
    assert sum(sender.sent) == sender.in_flight == 70
    assert sender.flow.cwnd // MSS == 70
    quarters = [sum(sender.sent[at : at + 25]) for at in range(0, 100, 25)]
    assert all(quarter in (17, 18) for quarter in quarters)
    assert max(sender.sent) == 1
    sender.ack(state=OPEN)
    assert sender.flow.cwnd // MSS == 70


@pytest.mark.parametrize(("prr", "state"), [(NEVER, CWR), (NEVER, RECOVERY), (ECHO, RECOVERY)])
def test_immediate_reduction_pauses_until_the_threshold_is_in_flight(prr: int, state: int) -> None:
    sender = Sender(CubicFold, 100, prr=prr)
    for _ in range(100):
        sender.ack(state=state)
    assert sum(sender.sent[:30]) == 0
    assert sender.in_flight == 70


def test_prr_makes_up_below_the_threshold_for_what_was_not_sent() -> None:
    # 60 of 100 segments are lost at once: 40 in flight, below the threshold of 50. RFC 9937: with
    # progress, an ACK releases what it delivers and one segment more.
    sender = Sender(RenoFold, 100, prr=ALWAYS)
    sender.ack(1, 60, RECOVERY, in_order=False)
    assert sender.sent == [1], "the first retransmission is sent at once"
    for _ in range(20):
        sender.ack(1, 0, RECOVERY)
    assert sender.in_flight == 50
    assert set(sender.sent[1:11]) == {2}
    assert sender.flow.cwnd == 50 * MSS


def test_prr_conserves_packets_while_losses_go_on() -> None:
    sender = Sender(RenoFold, 100, prr=ALWAYS)
    sender.ack(1, 60, RECOVERY, in_order=False)
    for _ in range(10):
        sender.ack(1, 1, RECOVERY)
    assert set(sender.sent[1:]) == {1}, "no more than is delivered"


def test_reduction_after_a_pause_of_the_sender_is_made_up_for() -> None:
    # The window allowed to send, and the sender did not: `prr_out` is what was sent, not what was allowed.
    sender = Sender(CubicFold, 100, prr=ALWAYS)
    for _ in range(20):
        sender.ack()
    sender.in_flight -= sum(sender.sent)  # as if nothing had been sent
    sender.sent.clear()
    sender.ack()
    assert sender.sent[0] == 14  # 21 * 0.7, in whole segments


def test_end_of_the_reduction_sets_the_threshold() -> None:
    sender = Sender(CubicFold, 100, prr=ALWAYS)
    for _ in range(30):
        sender.ack()
    assert sender.flow.cwnd > 85 * MSS
    sender.ack(state=OPEN)
    assert sender.flow.cwnd // MSS == 70


@pytest.mark.parametrize("name", sorted(names()))
def test_every_algorithm_that_reduces_at_a_loss_has_the_parameter(name: str) -> None:
    cls: Any = get(name)
    programs = cls.program if isinstance(cls.program, dict) else {"": cls.program}
    reduces = any("prr" in getattr(program, "control_registers", ()) for program in programs.values())
    assert reduces == hasattr(cls, "prr"), name
