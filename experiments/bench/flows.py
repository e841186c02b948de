"""`ccp bench flows`: thousands of concurrent flows.

Connections from one host to another, over a bare veth pair, take turns to send. The connections send the same
bytes at the same rate with kernel CUBIC and with ccplane's CUBIC. CPU time is the machine's busy time while
they send, including load generator and agent, minus other processes.

Memory of the datapath is the memory that the kernel charges for its maps, per flow of their capacity; memory
of the agent is the growth of its anonymous memory, per flow.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any, Final

from ccplane.datapath import ebpf
from experiments.agent_process import PIN_DIR, AgentProcess, running_agent
from experiments.bench.bpf_objects import memory_of_maps
from experiments.bench.flow_load import BACKLOG, CHUNK
from experiments.bench.result import BenchResult
from experiments.bench.rounds import Plan, Unfit, measure_rounds
from experiments.disturbance import Watch
from experiments.netlab import LabError, Path, process, two_hosts

KERNEL: Final = "cubic"
OWN: Final = "ccp.cubic"
CPU_GOAL: Final = "<= 1.02"
SECONDS: Final = 5.0
RATE_BYTES_PER_S: Final = 100e6
LOAD: Final = "experiments.bench.flow_load"
STEP_TIMEOUT_S: Final = 60.0
"""Maximum time for opening or sending before the run is aborted [s]."""

_PACKAGES: Final = str(FilePath(__file__).parents[2])
"""Folder of this package, from which the load generator is also imported."""


@dataclass(frozen=True, slots=True)
class Agent:
    """Figures of ccplane under a load.

    Attributes:
        flows: Flows that ran the algorithm after all had sent.
        reports_per_s: Reports per second while they sent.
        bytes_per_flow: Growth of the agent's memory per flow [bytes].
        map_bytes_per_flow: Kernel memory of the maps per flow of their capacity [bytes].
    """

    flows: int
    reports_per_s: float
    bytes_per_flow: float
    map_bytes_per_flow: float


@dataclass(frozen=True, slots=True)
class FlowsSample:
    """One load.

    Attributes:
        cpu_s_per_gb: Busy CPU time of the machine, minus other processes, per 1e9 bytes sent [s].
        agent: ccplane's figures; None with kernel CUBIC.
    """

    cpu_s_per_gb: float
    agent: Agent | None = None


def run(plan: Plan, count: int) -> BenchResult:
    """Measure.

    Returns:
        `memory_per_flow_bytes`, `agent_memory_per_flow_bytes`, `cpu_ratio`, `flows_with_agent`,
        `reports_per_s`, and the CPU time behind the ratio.

    Raises:
        BenchError: As `measure_rounds`.
        LoadError: If the datapath does not load.
        LabError: If the load generator fails.
    """
    result = BenchResult("flows", plan, {"count": count})
    with two_hosts() as path:
        path.sender.set_sysctl("net.ipv4.ip_local_port_range", "1024 65535")
        path.receiver.set_sysctl("net.core.somaxconn", BACKLOG)
        measured = measure_rounds(
            (KERNEL, OWN),
            lambda name, _: _without_agent(path, count) if name == KERNEL else _with_agent(path, count),
            plan,
            title="flows",
            headlines=lambda samples: [_cpu_ratios(samples)],
        )
    result.rounds["flows"] = measured.tally
    own = [agent for one in measured.samples[OWN] if (agent := one.agent) is not None]
    result.add("memory_per_flow_bytes", [one.map_bytes_per_flow for one in own], "bytes")
    result.add("agent_memory_per_flow_bytes", [one.bytes_per_flow for one in own], "bytes")
    result.add("cpu_ratio", _cpu_ratios(measured.samples), "ratio", CPU_GOAL)
    result.add("flows_with_agent", [one.flows for one in own], "flows", f">= {count}")
    result.add("reports_per_s", [one.reports_per_s for one in own], "reports/s")
    for name, samples in measured.samples.items():
        result.add(f"cpu_s_per_gb.{name}", [one.cpu_s_per_gb for one in samples], "s/GB")
    return result


def _cpu_ratios(samples: Mapping[str, list[FlowsSample]]) -> list[float]:
    pairs = zip(samples[OWN], samples[KERNEL], strict=True)
    return [own.cpu_s_per_gb / kernel.cpu_s_per_gb for own, kernel in pairs]


def _without_agent(path: Path, count: int) -> FlowsSample:
    with open_flows(path, KERNEL, count) as send:
        return FlowsSample(_cpu_s_per_gb(send)[0])


def _with_agent(path: Path, count: int) -> FlowsSample:
    with running_agent("cubic") as agent:
        map_bytes = sum(memory_of_maps(PIN_DIR).values())
        before_bytes = _own_memory(agent)
        with open_flows(path, OWN, count) as send:
            view = ebpf.observe(PIN_DIR)
            reports = sum(one.reports for one in view.all_stats())
            cpu_s_per_gb, took_s = _cpu_s_per_gb(send)
            after = view.all_stats()
            seen = Agent(
                flows=sum(one.program != 0 and not one.fallback for one in after),
                reports_per_s=(sum(one.reports for one in after) - reports) / took_s,
                bytes_per_flow=(_own_memory(agent) - before_bytes) / count,
                map_bytes_per_flow=map_bytes / ebpf.LoadOptions().max_flows,
            )
            return FlowsSample(cpu_s_per_gb, seen)


def _cpu_s_per_gb(send: Callable[[], dict[str, float]]) -> tuple[float, float]:
    """Return the machine's busy time per 1e9 bytes [s], and the time of sending [s]."""
    with Watch() as watch:
        sent_bytes = send()["sent_bytes"]
    return watch.seen.own_busy_s / (sent_bytes / 1e9), watch.seen.elapsed_s


@contextlib.contextmanager
def open_flows(
    path: Path, congestion: str, count: int, *options: str, address: str | None = None
) -> Iterator[Callable[[], dict[str, float]]]:
    """Keep connections open that send one after the other at a fixed rate; see `open_load`."""
    seconds = max(SECONDS, 2 * count * len(CHUNK) / RATE_BYTES_PER_S)  # at least two turns each
    pace = ["--seconds", str(seconds), "--bytes-per-s", str(RATE_BYTES_PER_S)]
    with open_load(path, congestion, count, *pace, *options, address=address) as send:
        yield send


@contextlib.contextmanager
def open_load(
    path: Path, congestion: str, count: int, *options: str, address: str | None = None
) -> Iterator[Callable[[], dict[str, float]]]:
    """Keep connections open for the length of a block.

    Args:
        path: Path of the connections.
        congestion: Congestion control of the sender.
        count: Number of connections.
        *options: Options of the load generator's client.
        address: Address to connect to, which the receiver must have; default: the receiver's.

    Yields:
        A function that sends, and returns totals: `sent_bytes`, `retrans_bytes` of these, `acked_bytes`, and
        `seconds`.

    Raises:
        LabError: `lab.command_failed`, if sender or receiver exits or takes too long.
    """
    port = str(path.receiver.new_port())
    load = [sys.executable, "-P", "-m", LOAD]
    counted = ["--count", str(count)]
    env = load_environment()
    pipe = subprocess.PIPE
    running: list[process.Process] = []
    try:
        server = path.receiver.popen(
            [*load, "server", "0.0.0.0", port, *counted], stdout=pipe, stderr=pipe, env=env
        )
        running.append(server)
        receive(server, f"host receiver: {LOAD}")
        client = path.sender.popen(
            [*load, "client", address or path.receiver.ipv4, port, congestion, *counted, *options],
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            env=env,
        )
        running.append(client)
        receive(client, f"host sender: {LOAD}")

        def send() -> dict[str, float]:
            assert client.stdin is not None
            client.stdin.write("\n")
            client.stdin.flush()
            reported: dict[str, float] = receive(client, f"host sender: {LOAD}")
            return reported

        yield send
    finally:
        process.end(list(reversed(running)))  # the sender first: it resets its connections


def load_environment() -> dict[str, str]:
    """Return an environment in which the load generator is imported from this module's folder."""
    paths = [_PACKAGES, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def receive(speaker: process.Process, where: str) -> Any:
    """Return the next line of JSON that a load generator prints.

    Raises:
        LabError: `lab.command_failed`, if it exits or takes too long.
    """
    assert speaker.stdout is not None
    assert speaker.stderr is not None
    late = threading.Timer(STEP_TIMEOUT_S, speaker.kill)
    late.start()
    try:
        line = speaker.stdout.readline()
    finally:
        late.cancel()
    if not line:
        process.kill(speaker)
        why = speaker.stderr.read().strip()[-process.TAIL_CHARACTERS :]
        raise LabError(
            "lab.command_failed",
            "the load generator exited or took too long",
            where,
            why or f"it was killed after {STEP_TIMEOUT_S:.0f} s",
            "try fewer flows with --flows; each needs two sockets and their memory",
        )
    return json.loads(line)


def _own_memory(agent: AgentProcess) -> int:
    """Return an agent's anonymous memory, without mapped BPF maps [bytes]."""
    status = FilePath(f"/proc/{agent.pid}/status")
    found = re.search(r"^RssAnon:\s+(\d+) kB", status.read_text() if status.exists() else "", re.MULTILINE)
    if found is None:
        raise Unfit(f"the agent (pid {agent.pid}) exited")
    return int(found[1]) * 1024
