"""What must hold whatever the network does: random ACKs through the programs of loss-based algorithms."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccp_algs.cubic import CubicFold
from ccp_algs.dctcp import DctcpFold
from ccp_algs.episodes import CUT, REDUCING
from ccp_algs.flex_cubic import FlexCubicFold
from ccp_algs.int_cubic import IntCubicFold
from ccp_algs.reno import RenoFold
from tests.unit.ccp_algs.folded import CWR, INFINITY, MSS, OPEN, RECOVERY, Folded

PROGRAMS = [RenoFold, CubicFold, DctcpFold, FlexCubicFold, IntCubicFold]

ACKS = st.lists(
    st.fixed_dictionaries(
        {
            "pkts": st.sampled_from([0, 0.1, 1, 2, 44, 700]),
            "after_us": st.sampled_from([0, 10, 1000, 200_000, 3_600_000_000]),
            "rtt_us": st.sampled_from([1, 50, 20_000, 900_000, 0xFFFFFFFF]),
            "ca_state": st.integers(0, 4),
            "lost_pkts_sample": st.sampled_from([0, 0, 0, 1, 100]),
            "local_congestion": st.sampled_from([0, 0, 0, 2]),
            "was_timeout": st.sampled_from([0, 0, 0, 1]),
            "cwnd_limited": st.integers(0, 1),
            "ecn_bytes": st.sampled_from([0, 0, MSS, 1 << 20]),
            "bytes_in_flight": st.sampled_from([0, MSS, 100 * MSS, 1 << 30]),
            "packets_misordered": st.sampled_from([0, 3]),
            "srtt_us": st.sampled_from([0, 30, 20_000, 2_000_000]),
            "snd_ssthresh": st.sampled_from([2 * MSS, 50 * MSS, INFINITY]),
        }
    ).map(lambda ack: ack if ack["ca_state"] < CWR else ack | {"snd_ssthresh": 50 * MSS}),
    max_size=60,
)


@pytest.mark.parametrize("program", PROGRAMS)
@given(acks=ACKS, cwnd_pkts=st.sampled_from([2, 10, 1000, 700_000]))
def test_window_stays_finite_and_above_the_floor(
    program: Any, acks: list[dict[str, Any]], cwnd_pkts: int
) -> None:
    flow = Folded(program, cwnd_pkts)
    for ack in acks:
        before = flow.cwnd
        flow.ack(**ack)  # raises ArithmeticError if the fold stops half way
        assert flow.interpreter.cwnd_bytes >= 2 * MSS
        # A reduction follows what is delivered, and its end restores the threshold. From there slow start
        # adds what is acknowledged, and CUBIC half a window.
        threshold = flow["ssthresh_bytes"]
        ceiling = 1.5 * max(before, threshold if threshold < INFINITY else 0) + ack["pkts"] * MSS
        if flow["episode"] == REDUCING:
            delivered_pkts = ack["pkts"] + ack["packets_misordered"]
            ceiling = max(ceiling, ack["bytes_in_flight"] + delivered_pkts * MSS)
        assert flow.cwnd <= ceiling + MSS
        flow.cwnd = min(flow.cwnd, 1 << 30)  # as the datapath does


@pytest.mark.parametrize("program", PROGRAMS)
@given(acks=ACKS)
def test_window_does_not_grow_while_it_is_not_used_up(program: Any, acks: list[dict[str, Any]]) -> None:
    flow = Folded(program, 20)
    left_state = 0
    for ack in acks:
        before, quiet = flow.cwnd, flow["episode"] < REDUCING and ack["ca_state"] < CWR
        # After a loss that is no congestion Flex-Cubic puts the window back.
        is_spared = program is FlexCubicFold and left_state >= CWR
        flow.ack(**(ack | {"cwnd_limited": 0}))
        if quiet and not is_spared:  # else an episode's own rule holds, see test_episodes.py
            assert flow.cwnd <= before
        left_state = ack["ca_state"]


@pytest.mark.parametrize("program", PROGRAMS)
@given(
    steps=st.lists(
        st.tuples(st.integers(0, 20), st.integers(0, 50), st.integers(0, 100)), min_size=1, max_size=40
    )
)
def test_one_loss_episode_is_one_reduction(program: Any, steps: list[tuple[int, int, int]]) -> None:
    flow = Folded(program, 100)
    flow.ssthresh = 100 * MSS
    flow.ack(0, cwnd_limited=0)
    flow.ca_state = RECOVERY
    cuts, budget_pkts = 0, 127  # 100, a quarter of that, and 3: behind these a new episode could begin
    for pkts, lost, in_flight_pkts in [(0, 1, 100), *steps]:
        pkts = min(pkts, budget_pkts)
        budget_pkts -= pkts
        report = flow.ack(pkts, lost_pkts_sample=lost, after_us=100, bytes_in_flight=in_flight_pkts * MSS)
        cuts += report is not None and report["event"] == CUT
        assert flow.cwnd <= flow["ssthresh_bytes"]
    assert cuts == 1


@pytest.mark.parametrize("program", PROGRAMS)
@given(acks=ACKS)
def test_flow_recovers_from_anything(program: Any, acks: list[dict[str, Any]]) -> None:
    flow = Folded(program, 10)
    for ack in acks:
        flow.ack(**ack)
        flow.cwnd = min(flow.cwnd, 1000 * MSS)
    flow.ca_state = OPEN
    flow.delivered_bytes += 2 << 30  # everything that was in flight
    flow.ack(1)
    flow.ack(1)
    flow.cwnd = 10 * MSS
    for _ in range(100):
        flow.round_trip(bytes_in_flight=0)
        if flow.cwnd > 50 * MSS:
            return
    pytest.fail(f"the window is {flow.cwnd} bytes after 100 round trips without loss")
