"""Copa: its rules by hand, and what it does alone, beside itself and beside CUBIC, simulated."""

from __future__ import annotations

from itertools import pairwise

import pandas as pd
import pytest

from ccp_algs.copa import UNIT, CopaFold
from experiments.metrics import goodput_bytes_per_s, jain_index, within
from experiments.netlab.spec import Buffer, Direction
from experiments.results import Result
from experiments.run import run
from experiments.runs.shapes import Dumbbell
from experiments.scenario import FlowSpec, Scenario
from tests.unit.ccp_algs.folded import MSS, Folded, timeout

RTT_US = 50_000
RATE_BYTES_PER_S = 2.5e6
TALKATIVE = CopaFold.source.replace("(> Micros (max Flow.srtt_us report_us))", "(> Ack.now 0)")
"""Reports each ACK."""


def flow(cwnd_pkts: float = 100, *, queueing_us: int = 0, **registers: int) -> Folded:
    """Return a flow behind slow start that has seen the path without a queue, and sees so much of one now."""
    found = Folded(TALKATIVE, cwnd_pkts)
    found.srtt_us = RTT_US
    found.ack(0, rtt_us=RTT_US)
    found.set(slow_start=0, **registers)
    # A whole window of RTT_standing.
    for _ in range(8):
        found.ack(0, after_us=RTT_US // 8, rtt_us=RTT_US + queueing_us)
    return found


def now(found: Folded, name: str) -> int:
    """Return a field of the last report."""
    return found.reports[-1][name]


def window(found: Folded, acks: int = 100, queueing_us: int = 0) -> float:
    """Acknowledge so many packets within the round trip, and return what the window changed by [packets]."""
    before = found.cwnd
    for _ in range(acks):
        found.ack(1, rtt_us=RTT_US + queueing_us)
    return (found.cwnd - before) / MSS


def test_window_moves_by_two_packets_a_round_trip_towards_the_target() -> None:
    # 1 / (delta d_q) = 2 packets in 10 ms are 200 a second; 100 packets in 60 ms are 1667: too fast.
    assert window(flow(queueing_us=10_000), queueing_us=10_000) in (-2, -3)
    # 2 packets in 1 ms are 2000 a second; 100 in 51 ms are 1961: too slow.
    assert window(flow(queueing_us=1_000), queueing_us=1_000) in (1, 2)


def test_no_queue_is_a_target_without_end() -> None:
    assert window(flow()) in (1, 2)


def test_a_smaller_delta_keeps_more_packets_in_the_queue() -> None:
    # 50 packets in 10 ms are 5000 a second.
    eager = flow(queueing_us=10_000, default_inverse=50 * UNIT)
    assert window(eager, queueing_us=10_000) > 0


def test_slow_start_doubles_until_the_target_rate_is_passed() -> None:
    found = Folded(CopaFold, 10)
    found.srtt_us = RTT_US
    for _ in range(10):
        found.ack(1, rtt_us=RTT_US)
    assert found.cwnd == 20 * MSS
    # A queue that holds for more than half an RTT: 20 packets in 60 ms are 333 a second, the target is 200.
    for _ in range(8):
        found.ack(0, after_us=RTT_US // 4, rtt_us=RTT_US + 10_000)
    assert found["slow_start"] == 0
    timeout(found)
    assert found["slow_start"] == 1


def test_velocity_doubles_once_the_direction_has_stayed_for_three_round_trips() -> None:
    found = flow(1000)
    velocities = []
    for _ in range(8):
        found.ack(0, after_us=RTT_US, rtt_us=RTT_US)
        for _ in range(found.cwnd // MSS):
            found.ack(1, rtt_us=RTT_US)
        velocities.append(now(found, "velocity"))
    assert velocities[0] == 1
    assert velocities[-1] >= 8
    steps = [after / before for before, after in pairwise(velocities)]
    assert set(steps) <= {1, 2}
    # The other way.
    for _ in range(3):
        for _ in range(8):
            found.ack(0, after_us=RTT_US // 8, rtt_us=2 * RTT_US)
        for _ in range(found.cwnd // MSS):
            found.ack(1, rtt_us=2 * RTT_US)
    assert now(found, "velocity") < velocities[-1]


def standing_queue(found: Folded, round_trips: int, *, queueing_us: int = 20_000) -> None:
    """Let round trips pass in which the queue is there all the time, and twice as long for a moment."""
    for number in range(8 * round_trips):
        more_us = queueing_us if number % 8 == 0 else 0
        found.ack(1, after_us=RTT_US // 8, rtt_us=RTT_US + queueing_us + more_us)


def test_a_queue_that_is_never_empty_for_five_round_trips_is_a_rivals() -> None:
    found = flow()
    standing_queue(found, 4)
    assert now(found, "competitive") == 0
    standing_queue(found, 4)
    assert now(found, "competitive") == 1
    for _ in range(8):
        found.ack(0, after_us=RTT_US // 8, rtt_us=RTT_US)
    assert now(found, "competitive") == 0
    assert now(found, "inverse") == 2 * UNIT


def test_competing_moves_one_by_delta_as_reno_moves_a_window() -> None:
    found = flow(8)
    standing_queue(found, 8)
    before = now(found, "inverse")
    standing_queue(found, 4)
    assert now(found, "inverse") >= before + 2 * UNIT
    before = now(found, "inverse")
    found.ack(1, rtt_us=RTT_US + 20_000, lost_pkts_sample=1)
    assert now(found, "inverse") == before // 2
    found.ack(1, rtt_us=RTT_US + 20_000, lost_pkts_sample=1)
    assert now(found, "inverse") == before // 2, "once a round trip"


def test_that_can_be_switched_off() -> None:
    found = flow(may_compete=0)
    standing_queue(found, 12)
    assert now(found, "competitive") == 0


def test_it_paces_at_twice_the_window_in_a_standing_rtt() -> None:
    found = flow(100)
    assert found.interpreter.rate_bytes_per_s == pytest.approx(2 * found.cwnd * 1e6 / RTT_US, rel=0.01)


# --- over a bottleneck of 20 Mbit/s, 50 ms -----------------------------------------------------------------


def ran(*algorithms: str, buffer_bdp: float = 2.0, duration_s: float = 20.0, apart_s: float = 2.0) -> Result:
    link = Direction(RATE_BYTES_PER_S, delay_us=RTT_US // 2, buffer=Buffer(bdp=buffer_bdp))
    flows = tuple(
        FlowSpec(f"f{i}", f"s{i + 1}", f"r{i + 1}", algorithm, start_s=apart_s * i)
        for i, algorithm in enumerate(algorithms)
    )
    return run(
        Scenario(
            name="copa",
            topology=Dumbbell(len(flows), link),
            flows=flows,
            duration_s=duration_s,
            datapath="sim",
            sample_interval_us=50_000,
        )
    )


def late(result: Result) -> pd.DataFrame:
    """Return the samples of the second half."""
    return within(result.flow_samples, result.scenario.duration_s / 2)


def queueing_us(samples: pd.DataFrame) -> float:
    return float(samples["srtt_us"].mean()) - RTT_US


def test_alone_it_fills_the_link_with_a_short_queue() -> None:
    samples = late(ran("copa", duration_s=10))
    assert goodput_bytes_per_s(samples).sum() > 0.85 * RATE_BYTES_PER_S
    assert queueing_us(samples) < 0.2 * RTT_US


def test_two_share_evenly_and_the_queue_stays_short() -> None:
    samples = late(ran("copa", "copa"))
    goodput = goodput_bytes_per_s(samples)
    assert jain_index(goodput) > 0.95
    assert goodput.sum() > 0.85 * RATE_BYTES_PER_S
    assert queueing_us(samples) < 0.3 * RTT_US


def test_alongside_cubic_it_competes() -> None:
    samples = late(ran("kernel/cubic", "copa", duration_s=40))
    goodput = goodput_bytes_per_s(samples)
    assert goodput["f1"] > 0.25 * goodput.sum()
    assert goodput["f0"] > 0.25 * goodput.sum()
