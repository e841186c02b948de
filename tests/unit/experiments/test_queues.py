"""Queue management in the simulator: delays and shares of TCP flows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pandas as pd
import pytest

from experiments.evaluate.measures import Run
from experiments.netlab.spec import Buffer, CoDel, Direction, DropTail, DualPI2, FqCoDel, Pie, Queue
from experiments.results import Result
from experiments.run import run
from experiments.runs.shapes import Dumbbell
from experiments.scenario import FlowSpec, Scenario
from experiments.traffic.spec import UNCONTROLLED, Iperf3, Rtp
from experiments.units import MBIT

RATE_MBIT: Final = 20
SECONDS: Final = 30
FROM_S: Final = 10


def _simulate(
    queue: Queue,
    algorithms: Sequence[str],
    *,
    access_us: Sequence[int] = (),
    ecn: Sequence[str] = (),
    mbit: float = RATE_MBIT,
) -> Result:
    """Run flows for 30 s over at least 20 ms and a buffer of 1 MB; uncontrolled ones are voice."""
    flows = [
        FlowSpec(
            f"f{n}",
            f"s{n}",
            f"r{n}",
            name,
            traffic=Rtp() if name == UNCONTROLLED else Iperf3(),
            ecn=name in ecn,
        )
        for n, name in enumerate(algorithms, 1)
    ]
    way = Direction(mbit * MBIT, delay_us=10_000, buffer=Buffer(bytes=1_000_000), queue=queue)
    access = tuple(Direction(delay_us=one) for one in access_us or [0] * len(flows))
    shape = Dumbbell(len(flows), way, access=access, backward=Direction(delay_us=10_000))
    return run(
        Scenario(name="queues", topology=shape, flows=tuple(flows), duration_s=SECONDS, datapath="sim")
    )


def _queue_ms(result: Result) -> float:
    """Return the mean length of the bottleneck's queue as a delay [ms]."""
    samples = result.link_samples
    own = samples[(samples["link"] == "bottleneck>") & (samples["t_s"] > FROM_S)]
    return float(own["queue_bytes"].mean()) / (RATE_MBIT * MBIT) * 1e3


def _last(result: Result) -> pd.Series:
    samples = result.link_samples
    return samples[samples["link"] == "bottleneck>"].iloc[-1]


@pytest.mark.parametrize("ecn", [False, True])
def test_pie_holds_15_ms_of_delay_with_drops_or_marks(ecn: bool) -> None:
    result = _simulate(Pie(ecn=ecn), ["kernel/reno"] * 4, ecn=["kernel/reno"] if ecn else [])
    assert _queue_ms(result) == pytest.approx(15, rel=0.25)
    assert sum(Run(result).mbit(f"f{n}", FROM_S) for n in range(1, 5)) > 0.9 * RATE_MBIT
    last = _last(result)
    assert (last["marked_pkts"] > 50) == ecn
    assert last["dropped_queue_pkts"] < 50  # of slow start


def test_fq_codel_gives_flows_with_different_rtts_equal_shares_and_spares_voice() -> None:
    def measured(queue: Queue) -> tuple[float, float]:
        names = ["kernel/cubic"] * 3 + [UNCONTROLLED]
        result = _simulate(queue, names, access_us=[0, 10_000, 40_000, 0])
        found = Run(result)
        shares = [found.mbit(f"f{n}", FROM_S) for n in range(1, 4)]
        return max(shares) / min(shares), result.media["delay_p95_us"].iloc[0] / 1e3

    spread, voice_ms = measured(FqCoDel())
    spread_before, voice_before_ms = measured(CoDel(ecn=False))
    assert spread < 1.35 < spread_before
    # 10 ms of propagation, and few packets of 0.6 ms.
    assert voice_ms < 13 < voice_before_ms


def test_dual_pi2_couples_a_scalable_and_a_classic_flow() -> None:
    """With `any_ect`, DCTCP uses the low-latency queue; CUBIC without ECN the classic one."""
    flows, ecn = ["dctcp", "kernel/cubic"], ["dctcp"]
    result = _simulate(DualPI2(any_ect=True), flows, ecn=ecn, mbit=100)
    found = Run(result)
    ratio = found.mbit("f1", FROM_S) / found.mbit("f2", FROM_S)
    before = Run(_simulate(DropTail(ce_threshold_us=1_000), flows, ecn=ecn, mbit=100))
    ratio_before = before.mbit("f1", FROM_S) / before.mbit("f2", FROM_S)
    assert 0.3 < ratio < 3
    assert not 0.3 < ratio_before < 3
    delays_ms = found.rtt_ms("f1", 95, FROM_S) - 20, found.rtt_ms("f2", 50, FROM_S) - 20
    assert delays_ms[0] < 5 < delays_ms[1] < 25
    assert _last(result)["marked_pkts"] > 50


@pytest.mark.parametrize("queue", [Pie(), FqCoDel(), DualPI2()])
def test_runs_with_the_same_seed_are_equal(queue: Queue) -> None:
    first, second = (_simulate(queue, ["kernel/cubic", "kernel/reno"]) for _ in range(2))
    pd.testing.assert_frame_equal(first.connection_samples, second.connection_samples)
