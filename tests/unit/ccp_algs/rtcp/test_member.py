"""Whether connections of a client share a bucket."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccp_algs.rtcp.member import APART_PKTS, MOST_DUE_PKTS, Member
from ccp_algs.rtcp.transfer import Progress
from ccplane.base._native import rtcp_member_replay

MSS = 1448
RTT_US = 10_000
ROUND_US = 2 * RTT_US

Round = tuple[int, int, int, int]
"""Delivered and lost of a connection, and of all others [packets]."""


def doubt_after(*rounds: Round, round_us: int = ROUND_US) -> int:
    member, now_us, delivered, lost = Member(), 1_000_000, 0, 0
    member.start(now_us)
    member.ack(MSS, Progress(now_us, 0, 0, RTT_US))
    for own_delivered, own_lost, others_delivered, others_lost in rounds:
        now_us += round_us
        delivered += own_delivered + others_delivered
        lost += own_lost + others_lost
        member.add(now_us, own_delivered * MSS, own_lost * MSS)
        member.ack(MSS, Progress(now_us, delivered, lost, RTT_US))
    return member.doubt_pkts


@pytest.mark.parametrize(
    ("rounds", "doubt_pkts"),
    [
        ([(40, 0, 100, 25)], 8),  # a fifth of 40 should have been lost
        ([(40, 25, 100, 0)], MOST_DUE_PKTS),  # the same, the other way round: most of 100 should have been
        ([(40, 1, 100, 25)], 8 - 4),
        ([(40, 8, 100, 25)], 0),
        ([(400, 0, 100, 25)], MOST_DUE_PKTS),
        ([(19, 0, 100, 25)], 0),  # three of these prove nothing
        ([(400, 0, 100, 2)], 0),  # two lost packets are no empty bucket
        ([(400, 0, 1000, 25)], 0),  # nor is less than a twentieth
        ([(400, 0, 100, 25)] * 3 + [(40, 1, 100, 10)], 3 * MOST_DUE_PKTS - 1),
        ([(400, 0, 100, 25)] * 3 + [(40, 4, 100, 25)], 0),  # both lose much
    ],
)
def test_doubt_is_what_should_have_been_lost(rounds: list[Round], doubt_pkts: int) -> None:
    assert doubt_after(*rounds) == doubt_pkts


def test_a_long_round_speaks_only_against_doubt() -> None:
    assert doubt_after((400, 0, 100, 25), round_us=8 * ROUND_US) == 0
    assert doubt_after((40, 4, 100, 25), round_us=8 * ROUND_US) == 0
    assert doubt_after((400, 0, 100, 25), round_us=7 * ROUND_US) == MOST_DUE_PKTS


def test_a_round_that_says_nothing_goes_on() -> None:
    assert doubt_after((10, 0, 40, 10), (10, 0, 40, 10)) == 4
    assert doubt_after(*[(4, 0, 40, 2)] * 4) == 0
    assert doubt_after(*[(4, 0, 40, 3)] * 5) == 0, "it began anew"


def test_several_rounds_are_needed() -> None:
    assert doubt_after(*[(400, 0, 100, 25)] * 2) < APART_PKTS <= doubt_after(*[(400, 0, 100, 25)] * 3)


counts = st.one_of(st.integers(0, 60), st.sampled_from([0, 0, 3, 5000, 2**32, 2**40]))
steps = st.lists(
    st.tuples(
        st.sampled_from([False] * 7 + [True]),
        st.sampled_from([0, 1, ROUND_US, ROUND_US, 3 * ROUND_US, 7 * ROUND_US, 8 * ROUND_US, 2**44]),
        counts,
        counts,
        counts,
        counts,
    ),
    max_size=60,
)


@given(
    steps=steps,
    mss_bytes=st.sampled_from([0, 1, MSS, 65_535]),
    base=st.sampled_from([0, 2**32 - 100, 2**50]),
    min_rtt_us=st.sampled_from([0, 1, RTT_US, 2**32 - 1]),
)
def test_the_kernel_says_the_same(
    steps: list[tuple[bool, int, int, int, int, int]], mss_bytes: int, base: int, min_rtt_us: int
) -> None:
    member, rows, said = Member(), [], []
    now = Progress(base, base, base, min_rtt_us)
    for starts, gap_us, own_delivered, own_lost, others_delivered, others_lost in steps:
        now = Progress(
            now.time_us + gap_us,
            now.delivered_pkts + own_delivered + others_delivered,
            now.lost_pkts + own_lost + others_lost,
            min_rtt_us,
        )
        delivered_bytes, lost_bytes = own_delivered * mss_bytes, own_lost * mss_bytes
        member.add(now.time_us, delivered_bytes, lost_bytes)
        if starts:
            member.start(now.time_us)
        says = member.ack(mss_bytes, now)
        rows.append((starts, now.time_us, delivered_bytes, lost_bytes, *now[1:]))
        said.append((says, member.doubt_pkts, member.calm_us, member.calm_bytes))
    assert rtcp_member_replay(mss_bytes, rows) == said
