"""UDP packets at a rate, whatever becomes of them: what keeps a link full where a TCP flow would back off.

Run in a host of a lab as `python -m experiments.bench.udp_load ADDRESS PORT BYTES_PER_S`, until it is ended.
"""

from __future__ import annotations

import os
import socket
import time

import typer

from experiments.bench.probes import HEADERS_BYTES, send_many

PACKET_BYTES = 1500
AT_ONCE = 10
"""Packets with one system call: 1.2 ms at 100 Mbit/s."""
_PRIORITY = 1


def main(address: str, port: int, bytes_per_s: float) -> None:
    """Send packets of 1,500 bytes to a port at a rate; what a late turn cost is sent at once."""
    os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(_PRIORITY))  # as the emulator, which it is to fill
    payload = b"\0" * ((PACKET_BYTES - HEADERS_BYTES) * AT_ONCE)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as near:
        near.connect((address, port))
        send_many(near, PACKET_BYTES)
        due_s = time.monotonic()
        while True:
            near.send(payload)
            due_s += AT_ONCE * PACKET_BYTES / bytes_per_s
            time.sleep(max(due_s - time.monotonic(), 0.0))


if __name__ == "__main__":
    typer.run(main)
