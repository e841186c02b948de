"""The simulator against theory: queues, the laws of TCP, and that no packet is made or lost."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Final

import pandas as pd
import pytest

from experiments.netlab.spec import Bernoulli, Buffer, CoDel, Direction, TokenBucket
from experiments.results import Result
from experiments.run import run
from experiments.runs.shapes import Dumbbell
from experiments.scenario import FlowSpec, Scenario
from experiments.traffic.spec import Http, Iperf3
from tests.laws import Laws

PACKET_BYTES: Final = 1500
DROPS: Final = ("dropped_loss_pkts", "dropped_queue_pkts", "dropped_aqm_pkts", "dropped_policer_pkts")


class TestLawsInTheSimulator(Laws):
    datapath = "sim"


REQUEST_ACK_BYTES: Final = 52
CUSTOMER_BYTES: Final = PACKET_BYTES + REQUEST_ACK_BYTES
"""What a request makes a server send, at once: an ACK of it, and a full packet as answer."""
OBJECT_BYTES: Final = 1448 - 240
"""Such that the answer fills a packet, with the header of HTTP."""


def _requests(load_ratio: float, rate_bytes_per_s: float, seconds: float) -> Scenario:
    """Return clients that each ask for a packet, wait a random time, and ask again.

    Each of them is idle for much longer than a packet waits, and there are many: together they ask at the
    times of a Poisson process.
    """
    clients, rng = 400, random.Random(1)
    mean_s = clients * CUSTOMER_BYTES / rate_bytes_per_s / load_ratio
    each = round(seconds / mean_s * 1.5)
    flows = tuple(
        FlowSpec(
            f"f{number}",
            "s1",
            "r1",
            "kernel/reno",
            traffic=Http(
                (OBJECT_BYTES,), tuple(rng.expovariate(1 / mean_s) for _ in range(each)), repeat=each
            ),
            start_s=rng.uniform(0, mean_s),
        )
        for number in range(clients)
    )
    bottleneck = Direction(rate_bytes_per_s, buffer=Buffer(packets=1000))
    topology = Dumbbell(1, bottleneck, backward=Direction())
    return _simulated("requests", topology, flows, seconds, sample_interval_us=5_000)


@pytest.mark.parametrize("load_ratio", [0.5, 0.75])
def test_packets_that_come_at_random_wait_as_in_an_m_d_1_queue(load_ratio: float) -> None:
    """What waits is the work ahead of a new customer, without what is left of the packet on the wire."""
    rate_bytes_per_s = 1.25e6
    link = _link(run(_requests(load_ratio, rate_bytes_per_s, 40)), "bottleneck>", from_s=5)
    counted = link[["t_s", "arrived_pkts", "arrived_bytes"]]
    grown = counted.iloc[-1] - counted.iloc[0]
    assert grown["arrived_bytes"] / grown["arrived_pkts"] == pytest.approx(CUSTOMER_BYTES / 2, rel=0.01)
    customers_per_s = grown["arrived_bytes"] / CUSTOMER_BYTES / grown["t_s"]
    service_s = CUSTOMER_BYTES / rate_bytes_per_s
    on_wire_bytes = customers_per_s * (PACKET_BYTES**2 + REQUEST_ACK_BYTES**2) / 2 / rate_bytes_per_s
    load_ratio = customers_per_s * service_s
    wait_s = load_ratio / (2 * (1 - load_ratio)) * service_s  # Pollaczek and Khinchine, for M/D/1
    expected_bytes = wait_s * rate_bytes_per_s - on_wire_bytes
    found_bytes = link["queue_bytes"].mean()
    print(f"load {load_ratio:.3f}: {found_bytes:.0f} bytes wait, by theory {expected_bytes:.0f}")
    assert found_bytes == pytest.approx(expected_bytes, rel=0.1)


@pytest.mark.parametrize(("buffer_bdp", "expected"), [(0.5, 0.381), (1.0, 0.556), (2.0, 0.667)])
def test_one_reno_flow_fills_a_drop_tail_buffer_as_a_sawtooth(buffer_bdp: float, expected: float) -> None:
    """Expected is the integral of q (1 + q) over dW from W = (1 + b) / 2 to 1 + b, q = max(0, W - 1)."""
    rate_bytes_per_s, rtt_us = 2.5e6, 40_000
    direction = Direction(rate_bytes_per_s, delay_us=rtt_us // 2, buffer=Buffer(bdp=buffer_bdp))
    flow = FlowSpec("f1", "s1", "r1", "kernel/reno")
    scenario = _simulated("sawtooth", Dumbbell(1, direction), [flow], 60)
    link = _link(run(scenario), "bottleneck>", from_s=15, to_s=59)
    bdp_bytes = rate_bytes_per_s * rtt_us / 1e6
    share = link["queue_bytes"].mean() / (buffer_bdp * bdp_bytes)
    print(f"buffer {buffer_bdp:g} BDP: {share:.3f} of it is in use, {expected:.3f} by theory")
    assert share == pytest.approx(expected, abs=0.06)
    assert link["queue_bytes"].max() <= buffer_bdp * bdp_bytes
    assert link["queue_bytes"].max() > 0.95 * buffer_bdp * bdp_bytes - PACKET_BYTES


@pytest.fixture(scope="module")
def crowded() -> Result:
    """Four flows through losses, a policer, CoDel and a short way back, all at once."""
    bottleneck = Direction(
        2.5e6,
        delay_us=10_000,
        buffer=Buffer(bdp=0.5),
        queue=CoDel(ecn=False),
        loss=Bernoulli(0.01),
        token_bucket=TokenBucket(2.4e6, 60_000),
    )
    backward = Direction(25_000, delay_us=10_000, buffer=Buffer(packets=10), loss=Bernoulli(0.02))
    names = ("kernel/cubic", "kernel/reno", "kernel/bbr", "cubic")
    flows = [FlowSpec(f"f{n}", f"s{n}", f"r{n}", name) for n, name in enumerate(names, 1)]
    flows[1] = FlowSpec("f2", "s2", "r2", "kernel/reno", traffic=Iperf3(parallel=4))
    topology = Dumbbell(4, bottleneck, backward=backward)
    return run(_simulated("crowded", topology, flows, 10))


def test_what_arrives_at_a_link_leaves_it_is_dropped_or_is_in_it(crowded: Result) -> None:
    for name in crowded.link_samples["link"].unique():
        link = _link(crowded, name)
        gone = link["delivered_pkts"] + link[list(DROPS)].sum(axis=1) + link["queue_pkts"]
        inside = link["arrived_pkts"] - gone  # in transmission, or on their way
        assert (inside >= 0).all(), name
        # On the bottleneck 10 ms of the smallest packets; elsewhere a burst, at the moment of the sample.
        maximum = 2.5e6 * 0.01 / 52 if name.startswith("bottleneck") else 16
        assert (inside <= maximum).all(), name
    drops = _link(crowded, "bottleneck>")[list(DROPS)].iloc[-1]
    assert (drops[["dropped_loss_pkts", "dropped_policer_pkts"]] > 0).all()


def test_what_senders_sent_is_what_their_links_got(crowded: Result) -> None:
    """No packet comes from nowhere; what is acknowledged had arrived at the far end."""
    last = crowded.flow_samples.groupby("flow").last()
    for number in range(1, 5):
        sent, arrived = f"access-s{number}>", f"access-r{number}>"
        own, there = _link(crowded, sent).iloc[-1], _link(crowded, arrived).iloc[-1]
        flow = last.loc[f"f{number}"]
        segments = flow["bytes_sent"] / 1448
        assert segments <= own["arrived_pkts"] <= segments * 1.02 + 100  # handshakes, and the last moments
        assert there["delivered_pkts"] <= own["arrived_pkts"]
        assert flow["bytes_acked"] <= there["delivered_pkts"] * 1448
    bottleneck = _link(crowded, "bottleneck>").iloc[-1]
    ways = [_link(crowded, f"access-s{number}>").iloc[-1] for number in range(1, 5)]
    assert sum(one["delivered_pkts"] for one in ways) == bottleneck["arrived_pkts"]


def test_the_same_seed_gives_the_same_packets_and_another_one_others() -> None:
    def samples(seed: int) -> pd.DataFrame:
        direction = Direction(1.25e6, delay_us=5_000, loss=Bernoulli(0.02))
        flow = FlowSpec("f1", "s1", "r1", "cubic")
        scenario = _simulated("seeds", Dumbbell(1, direction), [flow], 3, seed=seed)
        return run(scenario).connection_samples

    first = samples(1)
    pd.testing.assert_frame_equal(first, samples(1))
    assert not first.equals(samples(2))


def _simulated(
    name: str, shape: Dumbbell, flows: Iterable[FlowSpec], seconds: float, **more: int
) -> Scenario:
    own = {"topology": shape, "flows": tuple(flows), "duration_s": seconds, "datapath": "sim"}
    return Scenario(name=name, **own, **more)  # type: ignore[arg-type]


def _link(result: Result, name: str, from_s: float = 0.0, to_s: float = 1e9) -> pd.DataFrame:
    samples = result.link_samples
    return samples[(samples["link"] == name) & samples["t_s"].between(from_s, to_s)]
