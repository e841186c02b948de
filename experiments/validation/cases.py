"""The scenarios that both datapaths run: a few words each, as data.

Together they vary what TCP reacts to: rate (2 to 100 Mbit/s), RTT (10 to 200 ms), random loss, buffer (0.25
to 4 BDP), rate limiters, active queue management with drops and with marks, congestion control, the number of
flows, and applications that do not always have something to send.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

import msgspec

from experiments.netlab.spec import (
    Bernoulli,
    Buffer,
    CoDel,
    Direction,
    DropTail,
    Loss,
    Queue,
    Red,
    TokenBucket,
)
from experiments.runs.shapes import Dumbbell
from experiments.scenario import Flow, Scenario
from experiments.traffic.spec import Http, Iperf3, OnOff, Traffic
from experiments.units import MBIT

SAMPLE_INTERVAL_US: Final = 20_000
"""A thousand samples of RTT in 20 s: percentiles are of them."""

_BULK: Final = Iperf3()
_APART_S: Final = 1.0
"""Between the starts of flows that share a bottleneck."""
_JITTER_S: Final = 0.2
"""How much later a flow starts at most, in a round."""


def _path(
    name: str,
    rate_mbit: float,
    rtt_ms: float,
    *algorithms: str,
    bdp: float = 1.0,
    seconds: float = 20.0,
    loss: Loss | None = None,
    queue: Queue | None = None,
    limiter: TokenBucket | None = None,
    back_mbit: float | None = None,
    ecn: bool = False,
    traffic: Traffic | None = None,
) -> Scenario:
    """Return flows, each from a host of its own, through one bottleneck.

    Args:
        name: Of the scenario.
        rate_mbit: Of the bottleneck [Mbit/s].
        rtt_ms: Without queues; all of it is the bottleneck's [ms].
        *algorithms: One for each flow.
        bdp: The bottleneck's buffer, in rate x RTT.
        seconds: Length of the run [s].
        loss: Of packets from the senders; none, if None.
        queue: Drop-tail, if None.
        limiter: In front of the bottleneck; none, if None.
        back_mbit: Rate of the way back, where it is another one [Mbit/s].
        ecn: Whether flows ask for ECN.
        traffic: What they send; bulk, if None.
    """
    delay_us = round(rtt_ms * 500)
    bottleneck = Direction(
        rate_bytes_per_s=rate_mbit * MBIT,
        delay_us=delay_us,
        buffer=Buffer(bdp=bdp),
        queue=queue or DropTail(),
        loss=loss,
        token_bucket=limiter,
    )
    backward = None
    if back_mbit is not None:
        backward = Direction(rate_bytes_per_s=back_mbit * MBIT, delay_us=delay_us, buffer=Buffer(packets=100))
    return dumbbell(
        name, bottleneck, algorithms, seconds=seconds, backward=backward, ecn=ecn, traffic=traffic or Iperf3()
    )


def dumbbell(
    name: str,
    bottleneck: Direction,
    algorithms: Sequence[str],
    *,
    seconds: float,
    backward: Direction | None = None,
    ecn: bool = False,
    traffic: Traffic = _BULK,
) -> Scenario:
    """Return flows, each from a host of its own, that start one after the other.

    Args:
        name: Of the scenario.
        bottleneck: From the senders to the receivers.
        algorithms: One for each flow.
        seconds: Length of the run [s].
        backward: The bottleneck's way back; as `Link.backward`, if None.
        ecn: Whether flows ask for ECN.
        traffic: What they send.
    """
    flows = tuple(
        Flow(
            f"f{number}",
            f"s{number}",
            f"r{number}",
            algorithm,
            traffic=traffic,
            start_s=_APART_S * (number - 1),
            ecn=ecn,
        )
        for number, algorithm in enumerate(algorithms, 1)
    )
    return Scenario(
        name=name,
        topology=Dumbbell(len(algorithms), bottleneck, backward=backward),
        flows=flows,
        duration_s=seconds,
        sample_interval_us=SAMPLE_INTERVAL_US,
    )


_CUBIC: Final = "kernel/cubic"
_RENO: Final = "kernel/reno"
_BBR: Final = "kernel/bbr"

_ALL: Final = (
    _path("slow", 2, 50, _CUBIC, bdp=2, seconds=30),
    _path("cubic", 20, 20, _CUBIC),
    _path("reno", 20, 20, _RENO),
    _path("bbr", 20, 40, _BBR, bdp=2),
    _path("shallow", 50, 40, _CUBIC, bdp=0.25),
    _path("deep", 10, 60, _CUBIC, bdp=4, seconds=30),
    _path("fast", 100, 10, _CUBIC),
    _path("far", 20, 200, _CUBIC, seconds=30),
    _path("far-bbr", 50, 100, _BBR),
    _path("loss-reno", 50, 40, _RENO, loss=Bernoulli(0.01)),
    _path("loss-cubic", 50, 50, _CUBIC, loss=Bernoulli(0.001)),
    _path("loss-bbr", 20, 50, _BBR, loss=Bernoulli(0.02)),
    _path("two-cubic", 20, 30, _CUBIC, _CUBIC, seconds=30),
    _path("four-reno", 40, 20, *[_RENO] * 4, seconds=30),
    _path("cubic-bbr", 20, 40, _CUBIC, _BBR, bdp=2, seconds=30),
    _path("policer", 50, 30, _CUBIC, limiter=TokenBucket(10 * MBIT, 60_000)),
    _path("policer-bbr", 50, 30, _BBR, limiter=TokenBucket(10 * MBIT, 60_000)),
    _path("codel", 20, 40, _CUBIC, bdp=4, queue=CoDel(ecn=False)),
    _path("ecn", 20, 40, _CUBIC, bdp=4, queue=CoDel(), ecn=True),
    _path("red-ecn", 40, 20, _RENO, _RENO, bdp=4, queue=Red(50_000, 150_000), ecn=True),
    _path("thin-back", 50, 30, _CUBIC, back_mbit=0.5),
    _path("paced-app", 20, 40, _CUBIC, traffic=Iperf3(rate_bytes_per_s=5 * MBIT)),
    _path("on-off", 20, 40, _CUBIC, traffic=OnOff(0.5, 0.5, "fixed"), seconds=15),
    _path(
        "short",
        20,
        50,
        _CUBIC,
        traffic=Http((20_000, 100_000, 500_000, 2_000_000), (0.2,), repeat=5, persistent=False),
        seconds=30,
    ),
    _path("ours-cubic", 20, 20, "cubic"),
    _path("ours-reno-loss", 50, 40, "reno", loss=Bernoulli(0.01)),
    _path("ours-two", 20, 30, "cubic", _CUBIC, seconds=30),
)

CASES: Final[dict[str, Scenario]] = {one.name: one for one in _ALL}
"""Name -> scenario of its first round."""

QUICK: Final = (
    "slow",
    "cubic",
    "reno",
    "bbr",
    "shallow",
    "far",
    "loss-reno",
    "loss-cubic",
    "two-cubic",
    "policer",
    "ecn",
    "short",
    "ours-cubic",
)
"""Those of `--quick`."""


def in_round(scenario: Scenario, number: int) -> Scenario:
    """Return a scenario as one round has it: with a seed, and with starts of flows, that others do not have.

    Args:
        scenario: As its first round has it.
        number: Of the round, from 1.
    """
    rng = random.Random(f"{scenario.name} {number}")
    flows = tuple(
        msgspec.structs.replace(flow, start_s=round(flow.start_s + rng.uniform(0, _JITTER_S), 3))
        for flow in scenario.flows
    )
    return scenario.replace(seed=scenario.seed + number - 1, flows=flows)
