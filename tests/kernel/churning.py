"""Connections that come and go under an algorithm, its right version and a wrong one."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path as FilePath
from typing import Any, Final

import ccp_algs.example_aimd
from experiments.bench.flows import hear, load_environment
from experiments.netlab import Host, process
from experiments.netlab.spec import Buffer, Direction
from experiments.netlab.topologies import point_to_point

NETWORK: Final = point_to_point(
    Direction(rate_bytes_per_s=12.5e6, delay_us=10_000, buffer=Buffer(bdp=1)),
    Direction(delay_us=10_000),
)
"""100 Mbit/s and 20 ms; the load takes two thirds of it."""
LOAD: Final = "tests.kernel.churn_load"
RIGHT: Final = FilePath(ccp_algs.example_aimd.__file__).read_text()
WRONG: Final = RIGHT.replace("self.flow.set(cwnd_bytes=cwnd)", "self.flow.set(cwnd_bytes=max(1, cwnd / mss))")
"""The window in segments, where it is to be in bytes."""


@contextmanager
def churning(server: Host, client: Host, seed: int) -> Iterator[list[dict[str, Any]]]:
    """Let connections of a client to a server come and go; yields what arrived, a row a second.

    Raises:
        LabError: `lab.command_failed`, if an end gives up.
    """
    came: list[dict[str, Any]] = []
    address, port = server.ipv4, str(server.new_port())
    running: list[process.Process] = []

    def start(host: Host, *words: str) -> process.Process:
        load = [sys.executable, "-m", LOAD, *words]
        pipe = subprocess.PIPE
        running.append(host.popen(load, stdout=pipe, stderr=pipe, env=load_environment()))
        return running[-1]

    try:
        hear(start(server, "server", address, port, "ccp"), f"the server: {LOAD}")
        load = start(client, "client", address, port, str(seed))
        came.append(hear(load, f"the client: {LOAD}"))
        threading.Thread(target=lambda: came.extend(map(json.loads, load.stdout or [])), daemon=True).start()
        yield came
    finally:
        process.end(list(reversed(running)))
