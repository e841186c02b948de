"""`ccp bench quic`: connections of quinn under an agent, beside quinn's own CUBIC.

One download by the example of `native/ccp-quic`, over an emulated path of 100 Mbit/s and 20 ms, and between
two network namespaces, where the machine is the limit. Each round measures both ways once; ratios are of the
same round. CPU is that of the server, and of the agent with it: the client and the emulator do the same for
both.
"""

from __future__ import annotations

import contextlib
import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path as FilePath
from typing import Final

from ccplane.datapath import registry
from experiments.agent_process import running_agent
from experiments.bench.examples import need
from experiments.bench.result import BenchResult
from experiments.bench.rounds import Plan, Unfit, measure_rounds
from experiments.bench.transfers import Sample, cpu_ratios, throughput_ratios
from experiments.netlab import Host, two_hosts
from experiments.netlab.cpu import process_cpu_s
from experiments.netlab.emulated import emulated
from experiments.netlab.spec import Buffer, Direction
from experiments.netlab.topologies import point_to_point
from experiments.traffic import files

ALGORITHM: Final = "cubic"
QUINN: Final = "quinn"
OURS: Final = "ccplane"
WAYS: Final = (QUINN, OURS)
CPU_GOAL: Final = "<= 1.05"
THROUGHPUT_GOAL: Final = ">= 0.98"
PATH: Final = Direction(rate_bytes_per_s=12.5e6, delay_us=10_000, buffer=Buffer(bdp=1))
SIZES_BYTES: Final = {"100mbit": 50_000_000, "unlimited": 1_000_000_000}
"""Scenario -> length of a download."""
TIMEOUT_S: Final = 120.0


def run(plan: Plan, program: FilePath = files.PROGRAM) -> BenchResult:
    """Measure.

    Args:
        plan: How long.
        program: The example's program.

    Returns:
        Ratios of CPU per GB and of goodput, and the figures behind them.

    Raises:
        BenchError: As `measure_rounds`, and `bench.no_example`.
        LoadError: If the agent does not start.
        LabError: If a network cannot be built, or a download fails.
    """
    result = BenchResult("quic", plan, {"algorithm": ALGORITHM})
    need(program, files.CRATE, files.EXAMPLE, "--files")
    with contextlib.ExitStack() as during:
        socket = FilePath(during.enter_context(tempfile.TemporaryDirectory(prefix="ccplane-quic-")), "agent")
        agent = during.enter_context(running_agent(ALGORITHM, "--datapath", registry.QUIC, bind=socket))
        steered = (socket, agent.pid)
        for scenario, size_bytes in SIZES_BYTES.items():

            def measure(way: str, number: int, scenario: str = scenario, n: int = size_bytes) -> Sample:
                with _hosts(scenario, number) as (sender, receiver):
                    return _download(program, sender, receiver, steered if way == OURS else None, n)

            measured = measure_rounds(WAYS, measure, plan, title=scenario, headlines=_headlines)
            result.rounds[scenario] = measured.tally
            pair = measured.samples[OURS], measured.samples[QUINN]
            result.add(f"cpu_per_gb_ratio.{scenario}", cpu_ratios(*pair), "ratio", CPU_GOAL)
            result.add(f"throughput_ratio.{scenario}", throughput_ratios(*pair), "ratio", THROUGHPUT_GOAL)
            for way, samples in measured.samples.items():
                goodput = [one.goodput_bytes_per_s / 125e3 for one in samples]
                result.add(f"goodput_mbit_per_s.{scenario}.{way}", goodput, "Mbit/s")
                result.add(f"cpu_s_per_gb.{scenario}.{way}", [one.cpu_s_per_gb for one in samples], "s/GB")
                lost = [float(one.retransmits_pkts) for one in samples]
                result.add(f"lost.{scenario}.{way}", lost, "packets")
    return result


def _headlines(samples: Mapping[str, list[Sample]]) -> Iterator[list[float]]:
    pair = samples[OURS], samples[QUINN]
    yield cpu_ratios(*pair)
    yield throughput_ratios(*pair)


@contextlib.contextmanager
def _hosts(scenario: str, seed: int) -> Iterator[tuple[Host, Host]]:
    """Build the path of a scenario; gives sender and receiver."""
    if scenario == "unlimited":
        with two_hosts() as path:
            yield path.sender, path.receiver
    else:
        with emulated(point_to_point(PATH), seed=seed) as net:
            yield net.hosts["sender"], net.hosts["receiver"]


def _download(
    program: FilePath, sender: Host, receiver: Host, agent: tuple[FilePath, int] | None, size_bytes: int
) -> Sample:
    socket, pids = (None, []) if agent is None else (agent[0], [agent[1]])
    server = files.FileServer(sender, agent=socket, program=program)
    try:
        pids.append(server.process.pid)
        before_s = sum(map(process_cpu_s, pids))
        client = [str(program), *server.client("get", f"zeros/{size_bytes}", "/dev/null")]
        said = receiver.run(client, timeout_s=TIMEOUT_S).stdout
        cpu_s = sum(map(process_cpu_s, pids)) - before_s
        lost = number(server.line("packets lost", TIMEOUT_S) or server.log(), r", (\d+) packets lost")
    finally:
        server.stop()
    seconds = number(said, r"in ([\d.]+) s")
    return Sample(cpu_s / (size_bytes / 1e9), size_bytes / seconds, int(lost))


def number(text: str, pattern: str) -> float:
    """Return the number that a pattern's group finds in what the example says.

    Raises:
        Unfit: It says something else.
    """
    found = re.search(pattern, text)
    if found is None:
        raise Unfit(f"the example says {text!r}")
    return float(found[1])
