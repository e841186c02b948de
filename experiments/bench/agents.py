"""`ccp bench agents`: agents made with portus steer real flows, beside our algorithms and the kernel's.

One iperf3 flow a measurement, over an emulated path of a rate, an RTT and a buffer, or over one of the
paths of `ccp bench datapath`. The agent's process begins before each of its measurements, and ends
after it. The RTT is the sender's smoothed one, every 0.1 s.

An agent is judged by a congestion control beside it, or by what it does on libccp 1.2 (`bench.libccp`), over
a path of the same rate, RTT and buffer.

CPU time is all of the machine's, without others' processes. It is told of whole transfers only, and not over
the emulated path: the emulator is a process of ours.
"""

from __future__ import annotations

import contextlib
import enum
import shlex
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from ccplane.agent.description import Description, plan
from ccplane.datapath.link import CAME
from experiments.agent_process import AgentProcess, running_agent
from experiments.bench.datapath import need_congestion_controls, path_of
from experiments.bench.errors import BenchError
from experiments.bench.libccp import LibccpPath
from experiments.bench.result import BenchResult
from experiments.bench.rounds import Plan, measure_rounds
from experiments.disturbance import Watch
from experiments.netlab import Host, iperf3
from experiments.netlab.emulated import emulated
from experiments.netlab.spec import Buffer, Direction
from experiments.netlab.topologies import point_to_point

STEERED: Final = "ccp"
"""Congestion control whose flows are the agent's."""
START_S: Final = 30.0
"""Within this time an agent is there, or it failed [s]."""
GOALS: Final = {"goodput_mbit_per_s": ">= 0.95", "rtt_p50_ms": "<= 1.05", "rtt_p95_ms": "<= 1.05"}
"""Of agents, each by that of its yardstick."""
ON_LIBCCP: Final = ".libccp"
"""Ends the name of an agent's measurement on libccp."""


class Scenario(enum.StrEnum):
    """One of `datapath.SCENARIOS`."""

    unlimited = "unlimited"
    one_gbit = "1gbit"


@dataclass(frozen=True, slots=True)
class Where:
    """A path.

    Attributes:
        scenario: None emulates one.
        rate_mbit_per_s: Rate of the emulated one [Mbit/s].
        rtt_ms: Its RTT [ms].
        buffer_bdp: Its buffer, by its BDP.
    """

    scenario: Scenario | None = None
    rate_mbit_per_s: float = 48.0
    rtt_ms: float = 40.0
    buffer_bdp: float = 1.0

    @property
    def name(self) -> str:
        """What figures call it."""
        path = f"{self.rate_mbit_per_s:g}mbit-{self.rtt_ms:g}ms"
        return self.scenario or (path if self.buffer_bdp == 1 else f"{path}-{self.buffer_bdp:g}bdp")

    @property
    def link(self) -> Direction:
        """The emulated one."""
        return Direction(
            rate_bytes_per_s=self.rate_mbit_per_s * 125e3,
            delay_us=round(self.rtt_ms * 500),
            buffer=Buffer(bdp=self.buffer_bdp),
        )

    @contextlib.contextmanager
    def built(self) -> Iterator[tuple[Host, Host]]:
        """Build it for a block, and give sender and receiver."""
        if self.scenario is not None:
            with path_of(self.scenario) as path:
                yield path.sender, path.receiver
            return
        with emulated(point_to_point(self.link)) as net:
            yield net.hosts["sender"], net.hosts["receiver"]


@dataclass(frozen=True, slots=True)
class Beside:
    """What agents are measured beside.

    Attributes:
        ours: Algorithms of ours, as `ccp run` takes them.
        kernels: Congestion controls of the kernel.
        libccp: The datapath on libccp; None: without it.
    """

    ours: Sequence[str] = ()
    kernels: Sequence[str] = ()
    libccp: Path | None = None

    def names(self) -> list[str]:
        """Return the congestion controls, ours first."""
        cc_names = [one.cc_name for one in plan(Description(self.ours)).running] if self.ours else []
        return [*cc_names, *self.kernels]

    def path_of(self, where: Where) -> LibccpPath | None:
        """Return the datapath on libccp with a path.

        Raises:
            BenchError: `bench.bad_options`, `bench.no_example`.
        """
        if self.libccp is None:
            return None
        if where.scenario is not None:
            why = "the datapath on libccp has a path of its own, of a rate and an RTT"
            fix = "leave out --scenario or --libccp"
            raise BenchError(
                "bench.bad_options", "--libccp has no scenario", "--libccp, --scenario", why, fix
            )
        found = LibccpPath(self.libccp, where.rate_mbit_per_s, where.rtt_ms, where.buffer_bdp)
        found.check()
        return found


@dataclass(frozen=True, slots=True)
class Length:
    """How long a transfer is.

    Attributes:
        seconds: What is measured [s].
        omit_s: What goes before it and is left out [s].
    """

    seconds: float = 12.0
    omit_s: int = 3


@contextlib.contextmanager
def started(name: str, command: str, serving: AgentProcess) -> Iterator[None]:
    """Have an agent steer for the length of a block.

    Args:
        name: Its name, for errors.
        command: What starts it.
        serving: The `ccp serve-ccp` that waits for it.

    Raises:
        BenchError: `bench.peer_failed`, with what it wrote last, if it does not come or does not stay.
    """
    came = serving.log().count(CAME)
    with tempfile.TemporaryFile("w+") as complaints:
        try:
            process = subprocess.Popen(shlex.split(command), stdout=subprocess.DEVNULL, stderr=complaints)
        except OSError as error:
            raise _failed(name, command, str(error)) from error
        try:
            end_s = time.monotonic() + START_S
            while serving.log().count(CAME) == came and process.poll() is None and time.monotonic() < end_s:
                time.sleep(0.05)
            if serving.log().count(CAME) > came and process.poll() is None:
                yield
            if process.poll() is not None or serving.log().count(CAME) == came:
                complaints.seek(0)
                raise _failed(name, command, complaints.read()[-1000:].strip() or "it wrote nothing")
        finally:
            process.kill()
            process.wait()


def _failed(name: str, command: str, why: str) -> BenchError:
    fix = "run it by hand beside `ccp serve-ccp`: it is to stay, and to connect to /tmp/ccp/ccplane"
    return BenchError("bench.peer_failed", f"the agent `{name}` did not come, or ended", command, why, fix)


def named(agents: Sequence[str], taken: Sequence[str] = ()) -> dict[str, str]:
    """Return the command of each agent by its name.

    Args:
        agents: NAME=COMMAND.
        taken: Names of what is measured beside them.

    Raises:
        BenchError: `bench.bad_options`.
    """
    found: dict[str, str] = {}
    for agent in agents:
        name, _, command = agent.partition("=")
        if not name or not command or name in found or name in taken:
            why = "the name is taken" if name in found or name in taken else "it is not NAME=COMMAND"
            fix = "give each a name of its own, such as their-reno='./reno --ipc unix'"
            raise BenchError("bench.bad_options", f"`{agent}` names no agent", "--agent", why, fix)
        found[name] = command
    return found


Figures = Mapping[str, float]


def _measured(ends: tuple[Host, Host], congestion: str, length: Length, has_cpu: bool) -> Figures:
    with Watch() as watch:
        done = iperf3(*ends, congestion=congestion, duration_s=round(length.seconds), omit_s=length.omit_s)
    rtt_ms = [one.rtt_us / 1e3 for one in done.intervals if one.rtt_us]
    cpu = {"cpu_s_per_gb": watch.seen.own_busy_s / (done.received_bytes / 1e9)} if has_cpu else {}
    return {
        "goodput_mbit_per_s": done.goodput_bit_per_s / 1e6,
        "rtt_p50_ms": float(np.percentile(rtt_ms, 50)),
        "rtt_p95_ms": float(np.percentile(rtt_ms, 95)),
        "retransmits": done.retransmits_pkts or 0,
        **cpu,
    }


UNITS: Final = {
    "goodput_mbit_per_s": "Mbit/s",
    "rtt_p50_ms": "ms",
    "rtt_p95_ms": "ms",
    "retransmits": "segments",
    "cpu_s_per_gb": "s/GB",
}


def run(plan_: Plan, agents: Sequence[str], besides: Beside, where: Where, length: Length) -> BenchResult:
    """Measure.

    Args:
        plan_: How long.
        agents: NAME=COMMAND of each agent, at least one.
        besides: What to measure along.
        where: Over which path.
        length: How long each transfer is.

    Returns:
        Figures of all, and those of agents by their own on libccp, or else by those of the first counterpart.

    Raises:
        BenchError: `bench.bad_options`, `bench.unknown_name`, `bench.no_example`, `bench.peer_failed`, or as
            `measure_rounds`.
        LoadError: If the datapath does not load.
        LabError: If a transfer fails.
    """
    need_congestion_controls(besides.kernels)
    beside = besides.names()
    commands = named(agents, beside)
    libccp = besides.path_of(where)
    on_libccp = {f"{name}{ON_LIBCCP}": name for name in commands} if libccp else {}
    options = {
        "path": where.name,
        "agents": list(commands),
        "beside": [*on_libccp, *beside],
        "seconds": length.seconds,
        "omit_s": length.omit_s,
    }
    has_cpu = where.scenario is not None and length.omit_s == 0
    result = BenchResult("agents", plan_, options)
    with running_agent(*besides.ours, command="serve-ccp") as serving, where.built() as ends:

        def measure(name: str, _: int) -> Figures:
            if name in beside:
                return _measured(ends, name, length, has_cpu)
            agent = on_libccp.get(name, name)
            with started(agent, commands[agent], serving):
                if libccp and name in on_libccp:
                    return libccp.measured(length.seconds, length.omit_s)
                return _measured(ends, STEERED, length, has_cpu)

        measured = measure_rounds(
            [*commands, *on_libccp, *beside],
            measure,
            plan_,
            title=where.name,
            headlines=lambda samples: [
                [one["goodput_mbit_per_s"] for one in samples[name]] for name in commands
            ],
        )
    result.rounds[where.name] = measured.tally
    samples = measured.samples
    for name in commands if options["beside"] else ():
        yardstick = samples[f"{name}{ON_LIBCCP}" if libccp else beside[0]]
        for figure, goal in GOALS.items():
            pairs = zip(samples[name], yardstick, strict=True)
            result.add(f"{figure}_ratio.{name}", [a[figure] / b[figure] for a, b in pairs], "ratio", goal)
    for name in (*commands, *on_libccp, *beside):
        for figure in samples[name][0]:
            result.add(f"{figure}.{name}", [one[figure] for one in samples[name]], UNITS[figure])
    return result
