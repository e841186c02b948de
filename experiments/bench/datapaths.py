"""`ccp bench datapaths`: an algorithm, the same file, on each datapath, over the same path.

A flow on the kernel's TCP, in the simulator, or on QUIC is that of a scenario. On libccp it is one of the
example of `native/ccp-difftest`: TCP's recovery, libccp's datapath, and UDP packets as long as TCP's. All but
the simulator's go through the emulator, between the same hosts.

What begins a transfer is left out. Windows and RTTs are as the sender has them (RTT: the smoothed one), every
20 ms. Goodput is acknowledged payload by time; with QUIC it is what the client has of the file. Ratios are of
the same round, by the kernel's.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd

from ccplane.datapath import registry
from experiments.agent_process import running_agent
from experiments.bench import libccp
from experiments.bench.agents import Length, Where
from experiments.bench.examples import need
from experiments.bench.result import BenchResult
from experiments.bench.rounds import Plan, Unfit, measure_rounds
from experiments.disturbance import disturbances_alone
from experiments.left_out import LATE_US, late_us
from experiments.netlab.emulated import EmulatedNetwork, emulated
from experiments.netlab.process import end
from experiments.netlab.topologies import point_to_point
from experiments.plots.windows import windows
from experiments.run import run as run_scenario
from experiments.runs.shapes import PointToPoint
from experiments.scenario import Flow, Scenario
from experiments.traffic import Iperf3, Quic, files

KERNEL: Final = registry.EBPF
WAYS: Final = tuple(kind.name for kind in registry.KINDS)
GOALS: Final = {"goodput_mbit_per_s": "0.95 - 1.05", "rtt_p95_ms": "0.9 - 1.1"}
"""Figure -> what it should be by the kernel's."""
UNITS: Final = {
    "goodput_mbit_per_s": "Mbit/s",
    "rtt_p50_ms": "ms",
    "rtt_p95_ms": "ms",
    "retransmits": "packets",
}

SAMPLE_MS: Final = 20
PORT: Final = 5001
LEAST_RATIO: Final = 0.8
"""Of its length, that a transfer has lasted: it starts some tenths of a second late."""
PATIENCE_S: Final = 30.0
"""How much longer a transfer may take than it should [s]."""


@dataclass(frozen=True)
class Transfer:
    """A flow over time.

    Attributes:
        samples: `t_s` since its start, `cwnd_bytes`, `srtt_us`.
        arrived: `t_s` likewise, `octets` so far.
        retransmits: Packets sent again.
    """

    samples: pd.DataFrame
    arrived: pd.DataFrame
    retransmits: float

    def figures(self, length: Length) -> dict[str, float]:
        """Return what it comes to, in the units of `UNITS`.

        Raises:
            Unfit: It ended too early.
        """
        begin_s, end_s = float(length.omit_s), length.seconds
        t_s, octets = (self.arrived[name].to_numpy(float) for name in ("t_s", "octets"))
        own = self.samples[self.samples["t_s"].between(begin_s, end_s)]
        if not len(own) or t_s[-1] < LEAST_RATIO * end_s:
            raise Unfit(f"the flow was over after {t_s[-1]:.1f} s")
        end_s = min(end_s, t_s[-1])
        got = np.interp(end_s, t_s, octets) - np.interp(begin_s, t_s, octets)
        p50_us, p95_us = np.percentile(own["srtt_us"], (50, 95))
        return {
            "goodput_mbit_per_s": got * 8e-6 / (end_s - begin_s),
            "rtt_p50_ms": p50_us / 1e3,
            "rtt_p95_ms": p95_us / 1e3,
            "retransmits": self.retransmits,
        }


def run(
    plan: Plan,
    algorithm: str,
    where: Where,
    length: Length,
    program: Path = libccp.PROGRAM,
    picture: Path | None = None,
) -> BenchResult:
    """Measure.

    Args:
        plan: How long.
        algorithm: As `ccp run` takes it.
        where: Over which path.
        length: How long each transfer is, with what of it is left out.
        program: The example `libccp_path`.
        picture: File for a picture of the windows in the last round.

    Returns:
        Figures of all datapaths, and those by the kernel's.

    Raises:
        BenchError: `bench.no_example`, or as `measure_rounds`.
        LoadError: If an agent does not start.
        LabError: If a network cannot be built, or a transfer fails.
        ScenarioError: If there is no such algorithm.
    """
    need(program, libccp.CRATE, libccp.EXAMPLE, "--libccp")
    need(files.PROGRAM, files.CRATE, files.EXAMPLE, "")
    options = {
        "algorithm": algorithm,
        "path": where.name,
        "seconds": length.seconds,
        "omit_s": length.omit_s,
    }
    result = BenchResult("datapaths", plan, options)
    last: dict[str, Transfer] = {}
    with _agent(algorithm) as socket:

        def measure(way: str, number: int) -> Mapping[str, float]:
            scenario = _scenario(way, algorithm, where, length, number)
            is_libccp = way == registry.CCP_UNIX
            last[way] = _by_libccp(program, socket, scenario) if is_libccp else _by_scenario(scenario)
            return last[way].figures(length)

        measured = measure_rounds(
            WAYS, measure, plan, title=where.name, headlines=_headlines, judge=disturbances_alone
        )
    result.rounds[where.name] = measured.tally
    for way in WAYS[1:]:
        for figure, goal in GOALS.items():
            result.add(f"{figure}_ratio.{way}", _ratios(measured.samples, figure, way), "ratio", goal)
    for way in WAYS:
        for figure, unit in UNITS.items():
            result.add(f"{figure}.{way}", [one[figure] for one in measured.samples[way]], unit)
    if picture is not None:
        plot = windows(
            {way: last[way].samples for way in WAYS},
            algorithm,
            title=f"{algorithm} on each datapath",
            subtitle=f"{where.rate_mbit_per_s:g} Mbit/s, {where.rtt_ms:g} ms, a buffer of one BDP",
            note="One run each.",
        )
        plot.savefig(picture)
    return result


def _ratios(samples: Mapping[str, Sequence[Mapping[str, float]]], figure: str, way: str) -> list[float]:
    pairs = zip(samples[way], samples[KERNEL], strict=True)
    return [one[figure] / base[figure] for one, base in pairs]


def _headlines(samples: Mapping[str, list[Mapping[str, float]]]) -> Iterator[list[float]]:
    for way in WAYS[1:]:
        yield from (_ratios(samples, figure, way) for figure in GOALS)


@contextlib.contextmanager
def _agent(algorithm: str) -> Iterator[Path]:
    """Have an agent for libccp; gives its socket."""
    with tempfile.TemporaryDirectory(prefix="ccplane-datapaths-") as folder:
        socket = Path(folder, "agent")
        with running_agent(algorithm, "--datapath", registry.CCP_UNIX, bind=socket):
            yield socket


def _scenario(way: str, algorithm: str, where: Where, length: Length, number: int) -> Scenario:
    link = where.link
    assert link.rate_bytes_per_s is not None
    # More than the path can carry: the flow's end cuts it off, as it does iperf3's.
    download = Quic((round(2 * link.rate_bytes_per_s * length.seconds),))
    traffic = download if way == registry.QUIC else Iperf3()
    return Scenario(
        name=f"{algorithm} over {where.name}",
        topology=PointToPoint(link),
        flows=(Flow("flow", "sender", "receiver", algorithm, traffic=traffic),),
        duration_s=length.seconds,
        seed=number,
        sample_interval_us=1000 * SAMPLE_MS,
        datapath=registry.SIM if way == registry.SIM else registry.EBPF,
    )


def _by_scenario(scenario: Scenario) -> Transfer:
    result = run_scenario(scenario)
    if late_us(result) > LATE_US:
        raise Unfit("the emulator was late")
    samples = result.flow_samples.dropna(subset=["cwnd_bytes", "srtt_us", "bytes_acked"])
    samples = samples.assign(t_s=samples["t_s"] - samples["t_s"].iloc[0])
    flow = result.flows.iloc[0]
    # QUIC sends no packet again, but what was in those that it took for lost.
    again = flow["lost_pkts"] if isinstance(scenario.flows[0].traffic, Quic) else flow["retrans_pkts"]
    return Transfer(
        samples[["t_s", "cwnd_bytes", "srtt_us"]],
        samples[["t_s", "bytes_acked"]].rename(columns={"bytes_acked": "octets"}),
        float(again),
    )


def _by_libccp(program: Path, agent: Path, scenario: Scenario) -> Transfer:
    topology = scenario.topology
    assert isinstance(topology, PointToPoint)
    with emulated(point_to_point(topology.forward), seed=scenario.seed) as net:
        transfer = _over(net, program, agent, scenario.duration_s)
        stats = net.emulator_stats()
    if stats is not None and stats.lateness_us.max > LATE_US:
        raise Unfit("the emulator was late")
    return transfer


def _over(net: EmulatedNetwork, program: Path, agent: Path, duration_s: float) -> Transfer:
    address = f"{net.hosts['receiver'].ipv4}:{PORT}"
    taking = net.hosts["receiver"].popen([str(program), f"at={address}"], stdout=subprocess.PIPE)
    try:
        assert taking.stdout is not None
        taking.stdout.readline()
        options = {
            "to": address,
            "agent": agent,
            "bind": f"{agent}-libccp",
            "seconds": duration_s,
            "every_s": SAMPLE_MS / 1e3,
            "rtt_ms": net.base_rtt_us("sender", "receiver") / 1e3,
        }
        command = [str(program), *(f"{name}={value}" for name, value in options.items())]
        said = net.hosts["sender"].run(command, timeout_s=duration_s + PATIENCE_S).stdout
    finally:
        end([taking])
        if taking.stdout is not None:
            taking.stdout.close()
    told = _rows(said.splitlines())
    flow = told.iloc[-1]
    if flow["fold_errors"] or flow["folds_alone"] > 0.02 * flow["folds"]:
        raise Unfit(f"the agent did not have the flow: {flow['folds_alone']} of {flow['folds']} ACKs")
    rows = told.assign(t_s=told["at_us"] / 1e6).rename(columns={"acked_bytes": "octets"})
    return Transfer(
        rows[["t_s", "cwnd_bytes", "srtt_us"]], rows[["t_s", "octets"]], float(flow["retransmits"])
    )


def _rows(said: Sequence[str]) -> pd.DataFrame:
    """Return the lines that are JSON."""
    rows: list[dict[str, Any]] = [json.loads(line) for line in said if line.startswith("{")]
    if not rows:
        raise Unfit(f"the example says {said!r}")
    return pd.DataFrame(rows)
