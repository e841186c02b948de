"""`ccp bench quic`: connections of quinn under an agent, beside quinn's own CUBIC.

One download by the example of `native/ccp-quic`, over an emulated path of 100 Mbit/s and 20 ms, and between
two network namespaces, where the machine is the limit. Each round measures both ways once; ratios are of the
same round. CPU is that of the server, and of the agent with it: the client and the emulator do the same for
both.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Final

from datapath import registry
from experiments.agent_process import running_agent
from experiments.bench import examples
from experiments.bench.result import BenchResult
from experiments.bench.rounds import Plan, Unfit, measure_rounds
from experiments.bench.transfers import Sample, cpu_ratios, throughput_ratios
from experiments.netlab import Host, two_hosts
from experiments.netlab.cpu import process_cpu_s
from experiments.netlab.emulated import emulated
from experiments.netlab.process import Process, end
from experiments.netlab.spec import Buffer, Direction
from experiments.netlab.topologies import point_to_point

ALGORITHM: Final = "cubic"
QUINN: Final = "quinn"
OURS: Final = "ccplane"
WAYS: Final = (QUINN, OURS)
CPU_GOAL: Final = "<= 1.05"
THROUGHPUT_GOAL: Final = ">= 0.98"
PATH: Final = Direction(rate_bytes_per_s=12.5e6, delay_us=10_000, buffer=Buffer(bdp=1))
SIZES_BYTES: Final = {"100mbit": 50_000_000, "unlimited": 1_000_000_000}
"""Scenario -> length of a download."""
PORT: Final = 4433
TIMEOUT_S: Final = 120.0
CRATE: Final = "ccp-quic"
EXAMPLE: Final = "files"
FILES: Final = examples.FOLDER / EXAMPLE


def run(plan: Plan, files: FilePath = FILES) -> BenchResult:
    """Measure.

    Args:
        plan: How long.
        files: The example's program.

    Returns:
        Ratios of CPU per GB and of goodput, and the figures behind them.

    Raises:
        BenchError: As `measure_rounds`, and `bench.no_example`.
        LoadError: If the agent does not start.
        LabError: If a network cannot be built, or a download fails.
    """
    result = BenchResult("quic", plan, {"algorithm": ALGORITHM})
    examples.need(files, CRATE, EXAMPLE, "--files")
    with contextlib.ExitStack() as during:
        socket = FilePath(during.enter_context(tempfile.TemporaryDirectory(prefix="ccplane-quic-")), "agent")
        agent = during.enter_context(running_agent(ALGORITHM, "--datapath", registry.QUIC, bind=socket))
        steered = (socket, agent.pid)
        for scenario, size_bytes in SIZES_BYTES.items():

            def measure(way: str, number: int, scenario: str = scenario, n: int = size_bytes) -> Sample:
                with _hosts(scenario, number) as (sender, receiver):
                    return _download(files, sender, receiver, steered if way == OURS else None, n)

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


@dataclass(frozen=True, slots=True)
class Server:
    """The example as a server.

    Attributes:
        process: It; what it says is read from its output.
        address: Where it is.
        certificate: What clients trust.
    """

    process: Process
    address: str
    certificate: str

    def get(self, files: FilePath, size_bytes: int) -> list[str]:
        """Return the command of a client that downloads so much, and keeps nothing."""
        return [str(files), "get", self.address, self.certificate, f"zeros/{size_bytes}", "/dev/null"]


@contextlib.contextmanager
def serving(files: FilePath, sender: Host, agent: FilePath | None, **settings: str) -> Iterator[Server]:
    """Have a server for the length of a block.

    Args:
        files: The example's program.
        sender: The host that it is on.
        agent: Socket of the agent that has its connections; None: quinn's own CUBIC has.
        **settings: Environment variables of the example.
    """
    with tempfile.TemporaryDirectory(prefix="ccplane-quic-") as folder:
        certificate, address = f"{folder}/certificate", f"{sender.ipv4}:{PORT}"
        env = dict(os.environ) | settings
        if agent is not None:
            env["CCP_AGENT"] = str(agent)
        serve = [str(files), "serve", address, folder, certificate]
        process = sender.popen(serve, stdout=subprocess.PIPE, env=env)
        try:
            assert process.stdout is not None
            process.stdout.readline()
            yield Server(process, address, certificate)
        finally:
            end([process])
            if process.stdout is not None:
                process.stdout.close()


def _download(
    files: FilePath, sender: Host, receiver: Host, agent: tuple[FilePath, int] | None, size_bytes: int
) -> Sample:
    socket, pids = (None, []) if agent is None else (agent[0], [agent[1]])
    with serving(files, sender, socket) as server:
        pids.append(server.process.pid)
        before_s = sum(map(process_cpu_s, pids))
        said = receiver.run(server.get(files, size_bytes), timeout_s=TIMEOUT_S).stdout
        cpu_s = sum(map(process_cpu_s, pids)) - before_s
        assert server.process.stdout is not None
        lost = number(server.process.stdout.readline(), r", (\d+) packets lost")
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
