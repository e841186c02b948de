"""The publisher of `ccp bench bus`, in its own process.

`python -m experiments.bench.bus_load PORT COUNT RATE` prints a line of JSON at the end.
"""

from __future__ import annotations

import json
import time
from ipaddress import IPv4Address
from typing import Annotated

import typer

from broker.options import BusOptions
from telemetry.bus import Bus
from telemetry.schema import Body, ReceiverSignal, RegimeDecision

CONNECT_S = 30.0
FLUSH_S = 60.0
TTL_MS = 600_000  # queued messages must not expire


def _body(decisions: bool, number: int) -> Body:
    if decisions:
        # Different peers: of one topic only the last message would be queued.
        peer = str(IPv4Address("10.0.0.0") + number)
        return RegimeDecision(regime="SHARED", peer=peer, address="192.0.2.1", density=0.6)
    return ReceiverSignal(
        peer="10.0.0.1",
        address="10.0.0.2",
        window_ms=100,
        rtt_min_us=10_000,
        rtt_p50_us=11_000,
        rtt_p95_us=12_000,
        rtt_p99_us=13_000,
        rtt_max_us=14_000,
        rtt_samples=10,
        ce_marks=number,
        loss_pkts=0,
        goodput_bytes_per_s=12_500_000,
    )


def main(
    port: int,
    count: Annotated[int, typer.Argument(min=1, help="Number of messages.")],
    rate: Annotated[float, typer.Argument(min=0, help="Messages per second; 0: unlimited.")],
    decisions: Annotated[
        bool, typer.Option(help="Publish decisions (QoS 1) instead of signals (QoS 0).")
    ] = False,
) -> None:
    """Publish messages, wait until all are sent, and print their number."""
    bus = Bus(BusOptions(port=port, queue_samples=count), sender="bench")
    bus.start()
    bus.wait_connected(CONNECT_S)
    start_s = time.monotonic()
    for number in range(count):
        if rate:
            due_s = start_s + number / rate
            while (left_s := due_s - time.monotonic()) > 0:
                time.sleep(left_s)
        bus.publish(_body(decisions, number), ttl_ms=TTL_MS)
    flushed = bus.flush(FLUSH_S)
    bus.stop()
    print(json.dumps({"flushed": flushed, "published": bus.counters.connection.published}), flush=True)


if __name__ == "__main__":
    typer.run(main)
