"""`ccp bench emulator`: how fast and how exact the userspace link emulator is.

Speed: one TCP flow with segmentation offload over one link that is faster than the emulator.

Delay: small UDP packets over a link of 100 Mbit/s and 10 ms; the error is the time from sending until the
receiver's device has the packet, minus delay and transmission time. Once with nothing else on the link, and
once while a TCP flow fills it. In the flow's direction packets wait in the queue for a time that only the
emulator knows, so the probes go against it.

Rate: a train of packets of 1,500 bytes, which the link spreads; the error is that of the bytes behind the
first packet over the time from the first to the last. The worst of three rates.

Loss: packets through a link that loses 1 %; `loss_z` is the distance from what was to be expected in standard
deviations of the binomial distribution. 99 % of fair links are below 2.58.
"""

from __future__ import annotations

import math
import time
from typing import Final

import numpy as np

from experiments.bench import probes
from experiments.bench.progress import bench_progress
from experiments.bench.result import BenchResult
from experiments.netlab import iperf3, start_iperf3
from experiments.netlab.emulated import EmulatedNetwork, emulated
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
START_S: Final = 1
"""Until a TCP flow has filled the link [s]."""
MOST_EMPTY: Final = 0.1
"""What the flow may leave of the link, for it to count as filled."""

RATES_BYTES_PER_S: Final = {"10mbit": 1.25e6, "100mbit": 12.5e6, "1gbit": 125e6}
PACKET_BYTES: Final = 1500
TRAIN_S: Final = 0.5
AT_ONCE: Final = 40
"""Packets that a host hands over in one piece: 60,000 bytes."""

LOSS_RATIO: Final = 0.01
LOSS_PACKETS: Final = 40_000
LOSS_PACKET_BYTES: Final = 128


def run(rounds: int) -> BenchResult:
    """Measure.

    Args:
        rounds: How often.

    Returns:
        `packets_per_s`, `mbit_per_s`; `delay_error_p50_us` and `delay_error_p99_us` on a filled link, and
        with `.idle` on an empty one; `lateness_p50_us` and `lateness_p99_us`, how much later than due the
        emulator itself says that it wrote the packets of the filled link; `rate_error_pct` and the same with
        each rate; `loss_ratio`, `loss_z`.

    Raises:
        LabError: If the network cannot be built, or a transfer fails.
        RuntimeError: If hardly a packet arrived.
    """
    result = BenchResult("emulator", rounds)
    values: dict[str, list[float]] = {}
    with bench_progress() as progress:
        task = progress.add_task("emulator", total=5 * rounds)
        for seed in range(1, rounds + 1):
            for measure in (_speed, _delay_idle, _delay_filled, _rates, _loss):
                for metric, value in measure(seed).items():
                    values.setdefault(metric, []).append(value)
                progress.advance(task)
    for metric, unit, goal in (
        ("packets_per_s", "packets/s", PACKETS_GOAL),
        ("mbit_per_s", "Mbit/s", None),
        ("delay_error_p50_us", "us", None),
        ("delay_error_p99_us", "us", DELAY_GOAL),
        ("delay_error_p50_us.idle", "us", None),
        ("delay_error_p99_us.idle", "us", DELAY_GOAL),
        ("lateness_p50_us", "us", None),
        ("lateness_p99_us", "us", None),
        ("rate_error_pct", "%", RATE_GOAL),
        *((f"rate_error_pct.{rate}", "%", None) for rate in RATES_BYTES_PER_S),
        ("loss_ratio", "ratio", None),
        ("loss_z", "sigma", LOSS_GOAL),
    ):
        result.add(metric, values[metric], unit, goal)
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
    seconds = math.ceil(START_S + PROBES * PROBE_GAP_S) + 1
    with emulated(point_to_point(PATH), seed=seed) as net:
        sender, receiver = net.hosts["receiver"], net.hosts["sender"]  # of the flow
        with start_iperf3(sender, receiver, congestion="cubic", duration_s=seconds) as flow:
            time.sleep(START_S)
            before = net.stats()["link<"]
            start_s = time.monotonic()
            errors_us = _delay_errors_us(net, seed)
            took_s = time.monotonic() - start_s
            after = net.stats()["link<"]
            flow.wait()
        lateness = net.emulator_stats()
    used = (after.delivered_bytes - before.delivered_bytes) / took_s / RATE_BYTES_PER_S
    if used < 1 - MOST_EMPTY:
        raise RuntimeError(f"the flow filled only {used:.0%} of the link; is the machine stalled?")
    if lateness is None:
        raise RuntimeError("the network is not the emulator's")
    of_itself = {"lateness_p50_us": lateness.lateness_us.p50, "lateness_p99_us": lateness.lateness_us.p99}
    return errors_us | of_itself


def _delay_errors_us(net: EmulatedNetwork, seed: int) -> dict[str, float]:
    with probes.socket_pair(net.hosts["sender"], net.hosts["receiver"]) as (near, far):
        delays_ns = probes.delays_ns(near, far, PROBES, PROBE_GAP_S, seed)
    if len(delays_ns) < PROBES * 0.99:
        raise RuntimeError(f"only {len(delays_ns)} of {PROBES} probes arrived")
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
            raise RuntimeError(f"{len(arrived)} of {count} packets arrived at {name}")
        took_s = (arrived[-1].at_ns - arrived[0].at_ns) / 1e9
        measured = (count - 1) * PACKET_BYTES / took_s
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
        raise RuntimeError(
            f"{lost} packets are missing, of {counted.arrived_pkts} the link lost {counted.dropped_loss_pkts}"
        )
    deviation = math.sqrt(LOSS_PACKETS * LOSS_RATIO * (1 - LOSS_RATIO))
    return {"loss_ratio": lost / LOSS_PACKETS, "loss_z": abs(lost - LOSS_PACKETS * LOSS_RATIO) / deviation}
