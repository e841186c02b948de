"""A sender of telemetry whose clocks can be shifted: `python -m experiments.soak.shifted URL PEER ADDRESS`.

It says the same of a path twice a second. A line on standard input shifts both of its clocks by so many
seconds; the end of standard input ends it.
"""

from __future__ import annotations

import select
import sys
import time

from broker.options import BusOptions
from telemetry import bus
from telemetry.schema import ReceiverSignal

EACH_S = 0.5


def main(url: str, peer: str, address: str) -> None:
    """Publish until standard input ends."""
    shift_us = 0
    bus.wall_us = lambda: time.time_ns() // 1000 + shift_us
    bus.mono_us = lambda: time.monotonic_ns() // 1000 + shift_us
    sender = bus.Bus(BusOptions.from_url(url), sender="soak-shifted")
    sender.start()
    said = ReceiverSignal(peer=peer, address=address, window_ms=500, rtt_p50_us=1000, rtt_samples=5)
    try:
        while True:
            if select.select([sys.stdin], [], [], EACH_S)[0]:
                line = sys.stdin.readline()
                if not line:
                    return
                shift_us = round(1e6 * float(line))
            sender.publish(said)
    finally:
        sender.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
