"""`ccp bench reload`: how long a new version of an algorithm keeps the agent from its flows.

As many connections as asked for, all with something to send again and again, run a small algorithm. In each
round `Client.load` swaps the next version of it in. What is told is the time that the agent's event loop is
busy with the swap, while reports wait, and the time from the request to the answer, in which the version is
imported and checked and, if its fold program changed, verified by the kernel.
"""

from __future__ import annotations

import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Final

from ccplane.agent.client import Client
from ccplane.agent.control import control_socket
from experiments.agent_process import PIN_DIR, running_agent
from experiments.bench.flow_load import BACKLOG
from experiments.bench.flows import open_flows
from experiments.bench.result import BenchResult
from experiments.bench.rounds import Plan, measure_rounds
from experiments.disturbance import disturbances_alone
from experiments.netlab import LabError, Path, two_hosts

GOAL: Final = "<= 50000"
"""Of a swap [us]: a quarter of the silence after which flows go to the fallback law."""

PROGRAM: Final = """
    program = '''
    (def (Report (volatile acked 0)) (version VERSION))
    (when true (:= Report.acked (+ Report.acked Ack.bytes_acked)) (fallthrough))
    (when (> Micros Flow.srtt_us) (report) (:= Micros 0))
    '''
"""

NUMBERS: Final = f"""
from ccp_algs import Algorithm

class Edited(Algorithm):
    {PROGRAM}
    def on_create(self, info):
        self.cwnd_bytes = float(info.init_cwnd_bytes)
        self.ssthresh_bytes = float("inf")
        self.reports, self.calm_until_us = 0, None

    def on_report(self, report):
        self.reports += 1
"""
"""The state of a flow is some numbers, which are carried over as they are."""

OBJECTS: Final = NUMBERS.replace("class Edited", "class Filter:\n    best = None\n\nclass Edited").replace(
    "self.reports, ", "self.samples, self.filter = list(range(10)), Filter()\n        self.reports, "
)
"""There are a list and an object as well, which are copied."""

VECTOR: Final = f"""
import numpy as np
from ccp_algs import VectorAlgorithm

class Edited(VectorAlgorithm):
    {PROGRAM}
    def __init__(self):
        self.row_of, self.reports = {{}}, np.zeros(65_536, np.uint64)

    def on_create(self, info):
        self.row_of[info.flow_id] = len(self.row_of)

    def on_reports(self, reports, program):
        rows = [self.row_of[flow_id] for flow_id in reports["flow_id"].tolist()]
        self.reports[rows] += np.uint64(1)
"""
"""One instance has the state of all flows in an array."""

KINDS: Final = {"numbers": NUMBERS, "objects": OBJECTS, "vectorised": VECTOR}


SWAPS: Final = 3
"""Of each kind in a round, of which the median counts."""


@dataclass(frozen=True, slots=True)
class Swap:
    """How a new version came in.

    Attributes:
        swap_us: How long the event loop was busy with it [us].
        answer_us: From the request to the answer [us].
        flows: How many went over.
    """

    swap_us: float
    answer_us: float
    flows: int


def run(plan: Plan, count: int) -> BenchResult:
    """Measure.

    Args:
        plan: How long.
        count: Concurrent flows.

    Returns:
        `swap_us` and `answer_us` for each kind of state, with the fold program as it was, and with another
        (`.program`); `flows`, how many went over.

    Raises:
        BenchError: As `measure_rounds`.
        LoadError: If the datapath does not load.
        LabError: If the load cannot be made.
    """
    result = BenchResult("reload", plan, {"count": count})
    with two_hosts() as path, tempfile.TemporaryDirectory() as directory:
        path.sender.set_sysctl("net.ipv4.ip_local_port_range", "1024 65535")
        path.receiver.set_sysctl("net.core.somaxconn", BACKLOG)
        measured = measure_rounds(
            tuple(KINDS),
            lambda kind, _: _round(path, FilePath(directory, "edited.py"), KINDS[kind], count),
            plan,
            title="reload",
            headlines=lambda samples: [[swap.swap_us for swap, _ in both] for both in samples.values()],
            judge=disturbances_alone,
        )
    result.rounds["reload"] = measured.tally
    for kind, both in measured.samples.items():
        for name, swaps in zip((kind, f"{kind}.program"), zip(*both, strict=True), strict=True):
            result.add(f"swap_us.{name}", [one.swap_us for one in swaps], "us", GOAL)
            result.add(f"answer_us.{name}", [one.answer_us for one in swaps], "us")
    rounds = zip(*measured.samples.values(), strict=True)
    least = [min(swap.flows for both in kinds for swap in both) for kinds in rounds]
    result.add("flows", least, "flows", f">= {count}")
    return result


def _round(path: Path, file: FilePath, source: str, count: int) -> tuple[Swap, Swap]:
    """Swap versions in: with the fold program as it was, and with another."""
    file.write_text(source.replace("VERSION", "0"))
    with running_agent(str(file)), _sending(path, count), Client(control_socket(PIN_DIR)) as client:
        same = [_swap(client, f"{source.replace('VERSION', '0')}# {number}") for number in range(SWAPS)]
        other = [_swap(client, source.replace("VERSION", str(1 + number))) for number in range(SWAPS)]
    return _middle(same), _middle(other)


def _swap(client: Client, text: str) -> Swap:
    begun_ns = time.monotonic_ns()
    done = client.load(text, "edited")
    answer_us = (time.monotonic_ns() - begun_ns) / 1e3
    return Swap(float(done["took_us"]), answer_us, int(done["flows"]))


def _middle(swaps: Sequence[Swap]) -> Swap:
    return Swap(
        statistics.median(one.swap_us for one in swaps),
        statistics.median(one.answer_us for one in swaps),
        min(one.flows for one in swaps),
    )


@contextmanager
def _sending(path: Path, count: int) -> Iterator[None]:
    """Keep flows open that all send again and again, until the block ends or for some seconds."""

    def work(send: Callable[[], int]) -> None:
        with suppress(LabError):  # it is ended when all is measured
            send()

    with open_flows(path, "ccp.edited", count) as send:
        thread = threading.Thread(target=work, args=(send,))
        thread.start()
        yield
    thread.join()
