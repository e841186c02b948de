"""`ccp bench reload`: how long a new version of an algorithm keeps the agent from its flows.

As many connections as asked for, all with something to send again and again, run a small algorithm. In each
round `Client.load` swaps the next version of it in. What is told is the time that the agent's event loop is
busy with the swap, while reports wait, and the time from the request to the answer, in which the version is
imported and checked and, if its fold program changed, verified by the kernel.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path as FilePath
from typing import Final

from agent.client import Client
from agent.control import control_socket
from experiments.agent_process import PIN_DIR, running_agent
from experiments.bench.flow_load import BACKLOG
from experiments.bench.flows import open_flows
from experiments.bench.progress import bench_progress
from experiments.bench.result import BenchResult
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

    def on_reports(self, reports):
        rows = [self.row_of[flow_id] for flow_id in reports["flow_id"].tolist()]
        self.reports[rows] += np.uint64(1)
"""
"""One instance has the state of all flows in an array."""

KINDS: Final = {"numbers": NUMBERS, "objects": OBJECTS, "vectorised": VECTOR}


def run(rounds: int, count: int) -> BenchResult:
    """Measure.

    Args:
        rounds: Swaps of each kind.
        count: Concurrent flows.

    Returns:
        `swap_us` and `answer_us` for each kind of state, with the fold program as it was, and with another
        (`.program`); `flows`, how many went over.

    Raises:
        LoadError: If the datapath does not load.
        LabError: If the load cannot be made.
    """
    result = BenchResult("reload", rounds)
    with two_hosts() as path, tempfile.TemporaryDirectory() as directory, bench_progress() as progress:
        path.sender.set_sysctl("net.ipv4.ip_local_port_range", "1024 65535")
        path.receiver.set_sysctl("net.core.somaxconn", BACKLOG)
        task = progress.add_task("reload", total=2 * rounds * len(KINDS))
        flows: list[float] = []
        for kind, source in KINDS.items():
            file = FilePath(directory, "edited.py")
            file.write_text(source.replace("VERSION", "0"))
            with running_agent(str(file)), _sending(path, count), Client(control_socket(PIN_DIR)) as client:
                for name, program in ((kind, False), (f"{kind}.program", True)):
                    swaps_us, answers_us = [], []
                    for number in range(1, rounds + 1):
                        text = source.replace("VERSION", str(number if program else 0))
                        begun_ns = time.monotonic_ns()
                        done = client.load(f"{text}# {number}", "edited")
                        answers_us.append((time.monotonic_ns() - begun_ns) / 1e3)
                        swaps_us.append(float(done["took_us"]))
                        flows.append(float(done["flows"]))
                        progress.advance(task)
                    result.add(f"swap_us.{name}", swaps_us, "us", GOAL)
                    result.add(f"answer_us.{name}", answers_us, "us")
        result.add("flows", flows, "flows", f">= {count}")
    return result


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
