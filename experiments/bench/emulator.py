"""`ccp bench emulator`: how fast and how exact the userspace link emulator is.

Speed: one TCP flow with segmentation offload over one link that is faster than the emulator.

Delay: small UDP packets over a link of 100 Mbit/s and 10 ms; the error is the time from sending until the
receiver's device has the packet, minus delay and transmission time. Once with nothing else on the link, and
once while it is filled in the other direction with more UDP packets than it carries: a TCP flow backs off
where the machine makes it late, and fills a link on good days only. In the direction that is filled packets
wait in the queue for a time that only the emulator knows, so the probes go against it.

Rate: a train of packets of 1,500 bytes, which waits in the link's queue and is spread by it; the error is
that of the slope of bytes over time, by least squares, to which single late packets matter little. The worst
of three rates.

Loss: packets through a link that loses 1 %; `loss_z` is the distance from what was to be expected in standard
deviations of the binomial distribution. 99 % of fair links are below 2.58.
"""

from __future__ import annotations

import contextlib
import math
import sys
import time
from collections.abc import Iterator
from typing import Final

import numpy as np

from experiments.bench import probes
from experiments.bench.flows import load_environment
from experiments.bench.result import BenchResult
from experiments.bench.rounds import Plan, Unfit, measure_rounds
from experiments.disturbance import disturbances_alone
from experiments.netlab import Host, iperf3, process
from experiments.netlab.emulated import EmulatedNetwork, emulated
from experiments.netlab.linkstats import LinkStats
from experiments.netlab.spec import Bernoulli, Buffer, Direction
from experiments.netlab.topologies import point_to_point

PACKETS_GOAL: Final = ">= 200000"
DELAY_GOAL: Final = "<= 300"
RATE_GOAL: Final = "<= 1"
LOSS_GOAL: Final = "<= 2.58"

FAST: Final = Direction(rate_bytes_per_s=5e9, delay_us=50, buffer=Buffer(packets=5000))
"""40 Gbit/s: above what the emulator reaches."""
SPEED_S: Final = 3

RATE_BYTES_PER_S: Final = 12.5e6
DELAY_US: Final = 10_000
PATH: Final = Direction(rate_bytes_per_s=RATE_BYTES_PER_S, delay_us=DELAY_US, buffer=Buffer(bdp=2))
PROBES: Final = 2000
PROBE_GAP_S: Final = 0.001
START_S: Final = 0.3
"""After so long at the link's rate the load has filled its queue, too [s]."""
START_TIMEOUT_S: Final = 20.0
OVERLOAD: Final = 1.5
"""Packets that are sent to fill the link, by those that it carries; its queue lasts 40 ms without."""
MOST_EMPTY: Final = 0.05
"""What the load may leave of the link, for it to count as filled."""

RATES_BYTES_PER_S: Final = {"10mbit": 1.25e6, "100mbit": 12.5e6, "1gbit": 125e6}
PACKET_BYTES: Final = 1500
TRAIN_S: Final = 0.5
AT_ONCE: Final = 40
"""Packets that a host hands over in one piece: 60,000 bytes."""

LOSS_RATIO: Final = 0.01
LOSS_PACKETS: Final = 40_000
LOSS_PACKET_BYTES: Final = 128

METRICS: Final[dict[str, tuple[tuple[str, str, str | None], ...]]] = {
    "speed": (("packets_per_s", "packets/s", PACKETS_GOAL), ("mbit_per_s", "Mbit/s", None)),
    "delay_filled": (
        ("delay_error_p50_us", "us", None),
        ("delay_error_p99_us", "us", DELAY_GOAL),
        ("lateness_p50_us", "us", None),
        ("lateness_p99_us", "us", None),
    ),
    "delay_idle": (("delay_error_p50_us.idle", "us", None), ("delay_error_p99_us.idle", "us", DELAY_GOAL)),
    "rates": (
        ("rate_error_pct", "%", RATE_GOAL),
        *((f"rate_error_pct.{rate}", "%", None) for rate in RATES_BYTES_PER_S),
    ),
    "loss": (("loss_ratio", "ratio", None), ("loss_z", "sigma", LOSS_GOAL)),
}
"""What is measured -> names of figures, units, goals."""


def run(plan: Plan) -> BenchResult:
    """Measure.

    Args:
        plan: How long.

    Returns:
        `packets_per_s`, `mbit_per_s`; `delay_error_p50_us` and `delay_error_p99_us` on a filled link, and
        with `.idle` on an empty one; `lateness_p50_us` and `lateness_p99_us`, how much later than due the
        emulator itself says that it wrote the packets of the filled link; `rate_error_pct` and the same with
        each rate; `loss_ratio`, `loss_z`.

    Raises:
        BenchError: As `measure_rounds`.
        LabError: If the network cannot be built, or a transfer fails.
    """
    result = BenchResult("emulator", plan)
    parts = {
        "speed": _speed,
        "delay_idle": _delay_idle,
        "delay_filled": _delay_filled,
        "rates": _rates,
        "loss": _loss,
    }
    measured = measure_rounds(
        tuple(parts),
        lambda part, number: parts[part](number),
        plan,
        title="emulator",
        headlines=lambda samples: [[one["packets_per_s"] for one in samples["speed"]]],
        judge=disturbances_alone,
    )
    result.rounds["emulator"] = measured.tally
    for part, metrics in METRICS.items():
        for metric, unit, goal in metrics:
            result.add(metric, [one[metric] for one in measured.samples[part]], unit, goal)
    return result


def _speed(seed: int) -> dict[str, float]:
    with emulated(point_to_point(FAST), seed=seed) as net:
        flow = iperf3(net.hosts["sender"], net.hosts["receiver"], congestion="cubic", duration_s=SPEED_S)
        carried = net.stats()["link>"]
    return {
        "packets_per_s": carried.delivered_pkts / flow.duration_s,
        "mbit_per_s": carried.delivered_bytes * 8 / 1e6 / flow.duration_s,
    }


def _delay_idle(seed: int) -> dict[str, float]:
    with emulated(point_to_point(PATH), seed=seed) as net:
        return {f"{name}.idle": value for name, value in _delay_errors_us(net, seed).items()}


def _delay_filled(seed: int) -> dict[str, float]:
    with emulated(point_to_point(PATH), seed=seed) as net:
        with _filling(net.hosts["receiver"], net.hosts["sender"]):
            before = _filled(net)
            start_s = time.monotonic()
            errors_us = _delay_errors_us(net, seed)
            took_s = time.monotonic() - start_s
            after = net.stats()["link<"]
        lateness = net.emulator_stats()
    used = (after.delivered_bytes - before.delivered_bytes) / took_s / RATE_BYTES_PER_S
    if used < 1 - MOST_EMPTY:
        raise Unfit(f"the load filled only {used:.0%} of the link")
    assert lateness is not None
    of_itself = {"lateness_p50_us": lateness.lateness_us.p50, "lateness_p99_us": lateness.lateness_us.p99}
    return errors_us | of_itself


def _filled(net: EmulatedNetwork) -> LinkStats:
    """Wait until the load has filled the link, and return what it has carried by then."""
    end_s = time.monotonic() + START_TIMEOUT_S
    while (carried := net.stats()["link<"]).delivered_bytes < START_S * RATE_BYTES_PER_S:
        if time.monotonic() > end_s:
            raise Unfit(f"the load did not fill the link in {START_TIMEOUT_S:g} s")
        time.sleep(0.05)
    return carried


@contextlib.contextmanager
def _filling(sender: Host, receiver: Host) -> Iterator[None]:
    """Fill the link from one host to another for a block, with more packets than it carries."""
    with receiver.call(probes.udp) as unread:  # what nobody reads is dropped when its buffer is full
        unread.bind((receiver.ipv4, 0))
        address, port = unread.getsockname()
        command = [sys.executable, "-m", "experiments.bench.udp_load", address, str(port)]
        load = sender.popen([*command, str(OVERLOAD * RATE_BYTES_PER_S)], env=load_environment())
        try:
            yield
        finally:
            process.end([load])


def _delay_errors_us(net: EmulatedNetwork, seed: int) -> dict[str, float]:
    with probes.socket_pair(net.hosts["sender"], net.hosts["receiver"]) as (near, far):
        delays_ns = probes.delays_ns(near, far, PROBES, PROBE_GAP_S, seed)
    if len(delays_ns) < PROBES * 0.99:
        raise Unfit(f"only {len(delays_ns)} of {PROBES} probes arrived")
    expected_us = DELAY_US + probes.PROBE_BYTES / RATE_BYTES_PER_S * 1e6
    errors_us = np.abs(np.array(delays_ns) / 1000 - expected_us)
    return {f"delay_error_p{percent}_us": float(np.percentile(errors_us, percent)) for percent in (50, 99)}


def _rates(seed: int) -> dict[str, float]:
    errors = {}
    for name, rate_bytes_per_s in RATES_BYTES_PER_S.items():
        count = math.ceil(rate_bytes_per_s * TRAIN_S / PACKET_BYTES / AT_ONCE) * AT_ONCE
        link = Direction(rate_bytes_per_s=rate_bytes_per_s, delay_us=1000, buffer=Buffer(packets=count))
        with (
            emulated(point_to_point(link), seed=seed) as net,
            probes.socket_pair(net.hosts["sender"], net.hosts["receiver"]) as (near, far),
        ):
            probes.send_train(near, count, PACKET_BYTES, AT_ONCE)
            arrived = probes.arrivals(far)
        if len(arrived) != count:
            raise Unfit(f"{len(arrived)} of {count} packets arrived at {name}")
        at_s = [(one.at_ns - arrived[0].at_ns) / 1e9 for one in arrived]
        measured = PACKET_BYTES / float(np.polyfit(range(count), at_s, 1)[0])
        errors[f"rate_error_pct.{name}"] = abs(measured / rate_bytes_per_s - 1) * 100
    return errors | {"rate_error_pct": max(errors.values())}


def _loss(seed: int) -> dict[str, float]:
    link = Direction(
        rate_bytes_per_s=RATE_BYTES_PER_S, loss=Bernoulli(LOSS_RATIO), buffer=Buffer(packets=LOSS_PACKETS)
    )
    with (
        emulated(point_to_point(link), seed=seed) as net,
        probes.socket_pair(net.hosts["sender"], net.hosts["receiver"]) as (near, far),
    ):
        probes.send_train(near, LOSS_PACKETS, LOSS_PACKET_BYTES, AT_ONCE)
        lost = LOSS_PACKETS - len(probes.arrivals(far))
        counted = net.stats()["link>"]
    # What a device or socket dropped is not the link's loss.
    if counted.arrived_pkts != LOSS_PACKETS or counted.dropped_loss_pkts != lost:
        raise Unfit(
            f"{lost} packets are missing, of {counted.arrived_pkts} the link lost {counted.dropped_loss_pkts}"
        )
    deviation = math.sqrt(LOSS_PACKETS * LOSS_RATIO * (1 - LOSS_RATIO))
    return {"loss_ratio": lost / LOSS_PACKETS, "loss_z": abs(lost - LOSS_PACKETS * LOSS_RATIO) / deviation}
