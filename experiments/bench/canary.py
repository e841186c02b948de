"""`ccp bench canary`: what a bad version costs on a share of new flows; how often a good one is taken back.

A server under churn: connections come and go over a bottleneck, with sizes that are as unequal as on real
servers. In turn, a version that writes its window in segments instead of bytes gets 5 % of the new flows, and
none does. What all flows together came to in the same seconds of both tells what the trial cost. Then the
running version is tried against itself, again and again.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any, Final

import ccp_algs.example_aimd
from ccplane.agent.client import Client
from ccplane.agent.control import control_socket
from experiments.agent_process import PIN_DIR, running_agent
from experiments.bench.flows import hear, load_environment
from experiments.bench.progress import RoundsProgress
from experiments.bench.result import BenchResult
from experiments.bench.rounds import Plan, measure_rounds
from experiments.netlab import Host, process
from experiments.netlab.emulated import emulated
from experiments.netlab.spec import Buffer, Direction
from experiments.netlab.topologies import point_to_point

NETWORK: Final = point_to_point(
    Direction(rate_bytes_per_s=12.5e6, delay_us=10_000, buffer=Buffer(bdp=1)),
    Direction(delay_us=10_000),
)
"""100 Mbit/s and 20 ms; the load takes two thirds of it."""
LOAD: Final = "experiments.bench.churn_load"
SHARE: Final = "5%"
SETTLE_S: Final = 5.0
AFTER_S: Final = 30.0
"""From the start of the trial on, so long is what all came to counted [s]."""
SELF_S: Final = 6.0
"""How long a version is tried against itself [s]."""
SELF_SHARE: Final = "20%"

RIGHT: Final = FilePath(ccp_algs.example_aimd.__file__).read_text()
WRONG: Final = RIGHT.replace("self.flow.set(cwnd_bytes=cwnd)", "self.flow.set(cwnd_bytes=max(1, cwnd / mss))")
"""The window in segments, where it is to be in bytes."""


@dataclass(frozen=True, slots=True)
class Came:
    """What a run came to.

    Attributes:
        goodput_bytes_per_s: Of all flows together, from the start of the trial on [bytes/s].
        undone_s: From the start of the trial until the version was taken back, `AFTER_S` if it was not [s]; 0
            without a trial.
        failed: Objects that did not arrive.
    """

    goodput_bytes_per_s: float
    undone_s: float
    failed: int


def run(plan: Plan, tries: int) -> BenchResult:
    """Measure.

    Args:
        plan: How long.
        tries: How often a version is tried against itself.

    Returns:
        `undone_s`, until the wrong version is taken back; `goodput_ratio`, with a trial by without;
        `failed_objects`; `false_alarms` of `tries`.

    Raises:
        BenchError: As `measure_rounds`.
        LoadError: If the datapath does not load.
        LabError: If the load cannot be made.
    """
    result = BenchResult("canary", plan, {"tries": tries, "share": SHARE})
    measured = measure_rounds(
        ("trial", "none"),
        lambda way, seed: _bad(way == "trial", seed),
        plan,
        title="canary",
        headlines=lambda samples: [_goodput_ratios(samples)],
    )
    result.rounds["canary"] = measured.tally
    trials = measured.samples["trial"]
    result.add("undone_s", [one.undone_s for one in trials], "s", "<= 10")
    result.add("goodput_ratio", _goodput_ratios(measured.samples), "ratio", ">= 0.99")
    result.add("failed_objects", [one.failed for one in trials], "objects", "<= 0")
    if tries:
        result.add("false_alarms", [_false_alarms(tries)], f"of {tries}")
    return result


def _goodput_ratios(samples: Mapping[str, list[Came]]) -> list[float]:
    """Return what all came to with a trial, by without."""
    pairs = zip(samples["trial"], samples["none"], strict=True)
    return [one.goodput_bytes_per_s / other.goodput_bytes_per_s for one, other in pairs]


def _bad(trial: bool, seed: int) -> Came:
    """Try the wrong version, or none, and count what arrives."""
    with _served(seed) as (client, came):
        time.sleep(SETTLE_S)
        before, begun_s = came[-1], time.monotonic()
        undone_s = 0.0
        if trial:
            client.load(WRONG, "aimd", canary=SHARE)
        time.sleep(begun_s + AFTER_S - time.monotonic())
        after = came[-1]
        if trial:
            (row,) = client.status()["canaries"]
            undone_s = AFTER_S if row["outcome"] is None else float(row["age_s"])
    goodput = (after["bytes"] - before["bytes"]) / (after["t_s"] - before["t_s"])
    return Came(goodput, undone_s, after["failed"])


def _false_alarms(tries: int) -> int:
    """Try a version against itself; returns how often it was taken back for what it did."""
    alarms = 0
    with _served(1) as (client, _), RoundsProgress("against itself", tries) as progress:
        for number in range(tries):
            client.load(f"{RIGHT}# {number}\n", "aimd", canary=SELF_SHARE, seconds=SELF_S)
            while (row := client.status()["canaries"][0])["outcome"] is None:
                time.sleep(0.1)
            alarms += row["outcome"] == "taken back" and not row["why"].startswith("undecided")
            progress.show(number + 1, 0)
    return alarms


@contextmanager
def _served(seed: int) -> Iterator[tuple[Client, list[dict[str, Any]]]]:
    """Run the agent and the load; yields the agent, and what arrived second by second."""
    with tempfile.TemporaryDirectory() as directory, emulated(NETWORK) as net:
        file = FilePath(directory, "example_aimd.py")
        file.write_text(RIGHT)
        with (
            running_agent(str(file)),
            Client(control_socket(PIN_DIR)) as client,
            churning(net.hosts["sender"], net.hosts["receiver"], seed) as came,
        ):
            yield client, came


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
