"""R-TCP: CPU time and kernel memory of a server with 8,000 connections (Appendix N).

The paper has 8,000 HTTP connections, and says that R-TCP keeps 250 bytes for each and adds no CPU time. Here
each connection goes to its own client, an address of one host behind a bare veth pair. No client is limited,
so detectors only watch for losses. All connections send the same bytes at the same rate. CPU time is the
machine's busy time while they send, minus other processes; memory is what the kernel accounts to `ccp rtcp
attach`, which owns R-TCP's maps. `detector` is the time per ACK of the detector alone, compiled for this
processor, while it watches for losses (`waiting`), estimates (`triggered`), or follows a limit (`limited`).
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path as FilePath
from typing import Any, Final

import pandas as pd

from ccp_algs.rtcp import Options
from ccp_algs.rtcp.limit import LIMITED_STATES
from ccplane.agent.features.rtcp.tables import known_clients
from ccplane.base import _native
from experiments import plots
from experiments.bench.bpf_objects import PROGRAM_NAME_CHARACTERS, counting_runs, runs_of_programs
from experiments.bench.flow_load import BACKLOG
from experiments.bench.flows import open_flows
from experiments.bench.kernel_memory import kernel_memory
from experiments.bench.rounds import Plan, measure_rounds
from experiments.disturbance import Watch
from experiments.features.rtcp.live import attach
from experiments.netlab import Path, process, two_hosts
from experiments.papers.estimates import over_runs
from experiments.papers.paper import Findings, Measurement, Part, Runs, Size, nothing_to_run
from experiments.papers.tables import Check, Table

CONNECTIONS: Final = 8_000
MAX_CPU: Final = 1.05
"""Maximum ratio of CPU time per byte to that without R-TCP, for "negligible"."""
MEMORY_MB: Final = 2.0
"""Kernel memory for 8,000 connections in the paper [MB]."""
MEMORY_WITH: Final = "cubic"
"""Congestion control of the memory claim."""
_ROUND_S: Final = 120.0
_QUICK_ROUND_S: Final = 50.0

OWN: Final = {"cubic": "rtcp_cubic", "bbr": "rtcp_bbr"}
"""Congestion control of the kernel -> the same congestion control under R-TCP."""
ACK_HOOK: Final = {"cubic": "cubic_in_ack_event", "bbr": "rtcp_bbr_cong_control"}
"""Function that handles every ACK; BBR's contains all of BBR."""
STATES: Final = ("waiting", "triggered", "limited")
CORE_ACKS: Final = 1_000_000
"""ACKs that a detector handles in a round."""
FIRST_CLIENT: Final = "198.18.0.1"
CLIENTS: Final = "198.18.0.0/15"
"""Addresses for benchmarks (RFC 2544), enough for the maximum number of connections."""


@dataclass(frozen=True, slots=True)
class OverheadSample:
    """One load.

    Attributes:
        cpu_s_per_gb: Busy CPU time of the machine per 1e9 bytes [s].
        goodput_bytes_per_s: What was acknowledged [bytes/s].
        retrans_pct: Retransmitted share of bytes sent [%].
    """

    cpu_s_per_gb: float
    goodput_bytes_per_s: float
    retrans_pct: float


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost of R-TCP under a load.

    Attributes:
        memory_bytes: Kernel memory per connection, with its client [bytes].
        ack_ns: Mean time in the function that handles every ACK [ns].
        rtcp_share_pct: Time in all its functions, as a share of the machine's busy time [%].
        clients: Number of known clients.
        limited: Number of limited clients.
    """

    memory_bytes: float
    ack_ns: float
    rtcp_share_pct: float
    clients: int
    limited: int


# --- the measurement ---------------------------------------------------------------------------------------


def rows(size: Size) -> list[dict[str, Any]]:
    """Measure, and return a row for each round of a load, of a state of the detector, and with one client."""
    count, times = _count(size), _rounds(size)
    plan = Plan(times, times)
    shared = _memory_with_one_client(plan, count)
    return [
        *({"what": "load", **row, "connections": count} for row in _loads(plan, count)),
        *({"what": "detector", "state": state, "ack_ns": one} for state, one in _core_ns(plan)),
        *({"what": "one client", "connections": count, "memory_bytes": one} for one in shared),
    ]


def _rounds(size: Size) -> int:
    return size.times(1, 10)


def _count(size: Size) -> int:
    return CONNECTIONS // 8 if size.quick else CONNECTIONS


def _core_ns(plan: Plan) -> Iterator[tuple[str, float]]:
    """Yield the detector's time per ACK in each of its states [ns], per round."""
    options = Options().to_bytes()

    def work(state: str, _: int) -> float:
        start_ns = time.thread_time_ns()
        _native.rtcp_work(options, state, CORE_ACKS)
        return (time.thread_time_ns() - start_ns) / CORE_ACKS

    found = measure_rounds(STATES, work, plan, title="rtcp core", headlines=lambda samples: samples.values())
    return ((state, one) for state, samples in found.samples.items() for one in samples)


def _loads(plan: Plan, count: int) -> Iterator[dict[str, Any]]:
    """Yield a row for each round and congestion control: the load without and with R-TCP."""
    kernels = {mine: kernel for kernel, mine in OWN.items()}
    with _path() as path:

        def one(way: str, _: int) -> tuple[OverheadSample, Cost | None]:
            if way in kernels:
                return _with(path, kernels[way], count)
            with _sending(path, way, count) as send:
                return _measured(send)[0], None

        found = measure_rounds(
            [*OWN, *kernels],
            one,
            plan,
            title="rtcp",
            headlines=lambda samples: [
                [with_it[0].cpu_s_per_gb / without[0].cpu_s_per_gb for without, with_it in pairs]
                for name, mine in OWN.items()
                if (pairs := list(zip(samples[name], samples[mine], strict=True)))
            ],
        )
    for name, mine in OWN.items():
        for (kernel, _), (rtcp, cost) in zip(found.samples[name], found.samples[mine], strict=True):
            assert cost is not None
            sides = {"kernel": kernel, "rtcp": rtcp}
            yield {
                "congestion": name,
                "cpu_quotient": rtcp.cpu_s_per_gb / kernel.cpu_s_per_gb,
                **{
                    f"{side}_{key}": value
                    for side, one in sides.items()
                    for key, value in asdict(one).items()
                },
                **asdict(cost),
            }


def _memory_with_one_client(plan: Plan, count: int) -> list[float]:
    """Return the kernel memory per connection, with all connections to one client [bytes]."""
    with _path() as path:

        def taken(name: str, _: int) -> float:
            with _rtcp(count) as (_, taken_bytes), open_flows(path, OWN[name], count):
                return taken_bytes() / count

        found = measure_rounds(
            ("cubic",), taken, plan, title="rtcp one client", headlines=lambda samples: samples.values()
        )
    return found.samples["cubic"]


Send = Callable[[], dict[str, float]]
"""Sends a load and returns totals, as the function that `open_load` yields."""


@contextlib.contextmanager
def _path() -> Iterator[Path]:
    """Yield a bare link to a host with the addresses of all clients."""
    with two_hosts() as path:
        path.sender.set_sysctl("net.ipv4.ip_local_port_range", "1024 65535")
        path.sender.set_sysctl("net.ipv4.tcp_no_metrics_save", 1)  # rounds must not learn from each other
        path.receiver.set_sysctl("net.core.somaxconn", BACKLOG)
        path.receiver.run(["ip", "route", "add", "local", CLIENTS, "dev", "lo"])
        path.sender.run(["ip", "route", "add", CLIENTS, "via", path.receiver.ipv4])
        yield path


@contextlib.contextmanager
def _sending(path: Path, congestion: str, count: int) -> Iterator[Send]:
    """Keep the connections open for a block, and yield the function that makes them send."""
    with open_flows(path, congestion, count, "--clients", str(count), address=FIRST_CLIENT) as send:
        yield send


def _measured(send: Send) -> tuple[OverheadSample, float]:
    """Return a load, and the machine's busy time [s]."""
    with Watch() as watch:
        reported = send()
    busy_s = watch.seen.own_busy_s
    goodput_bytes_per_s = reported["acked_bytes"] / watch.seen.elapsed_s
    retrans_pct = 100 * reported["retrans_bytes"] / reported["sent_bytes"]
    return OverheadSample(busy_s / (reported["acked_bytes"] / 1e9), goodput_bytes_per_s, retrans_pct), busy_s


def _with(path: Path, name: str, count: int) -> tuple[OverheadSample, Cost]:
    """Measure a load under R-TCP, then again while the kernel counts runs of its programs."""
    with _rtcp(2 * count) as (pid, taken_bytes), _sending(path, OWN[name], count) as send:
        sample, _ = _measured(send)
        memory_bytes = taken_bytes() / count
        with counting_runs():
            earlier = runs_of_programs(pid)
            _, busy_s = _measured(send)
            later = runs_of_programs(pid)
        spent = {program: later[program] - runs for program, runs in earlier.items()}
        known = known_clients()
        hook = spent[ACK_HOOK[name][:PROGRAM_NAME_CHARACTERS]]
        return sample, Cost(
            memory_bytes=memory_bytes,
            ack_ns=hook.time_s / hook.count * 1e9,
            rtcp_share_pct=100 * sum(one.time_s for one in spent.values()) / busy_s,
            clients=len(known),
            limited=sum(one["state"] in LIMITED_STATES for one in known),
        )


@contextlib.contextmanager
def _rtcp(max_clients: int) -> Iterator[tuple[int, Callable[[], int]]]:
    """Attach R-TCP for a block; yield its process, and a function for its memory since then [bytes]."""
    with tempfile.TemporaryDirectory() as directory, kernel_memory() as memory:
        program = attach(FilePath(directory) / "rtcp.jsonl", "--max-clients", str(max_clients))
        try:
            memory.take(program.process.pid)  # before it creates its maps
            program.wait_ready()
            start_bytes = memory.used_bytes
            yield program.process.pid, lambda: memory.used_bytes - start_bytes
        finally:
            process.end([program.process])


# --- what it says ------------------------------------------------------------------------------------------


def _findings(runs: Runs) -> Findings:
    table = runs.table
    loads, detector, shared = (
        table[table["what"] == what].dropna(axis="columns") for what in ("load", "detector", "one client")
    )
    by = ["congestion", "connections"]
    cpu = ["cpu_quotient", "kernel_cpu_s_per_gb", "rtcp_cpu_s_per_gb", "rtcp_share_pct", "ack_ns"]
    reached = [
        f"{side}_{value}" for value in ("goodput_bytes_per_s", "retrans_pct") for side in ("kernel", "rtcp")
    ]
    figure = plots.bars(
        loads,
        "cpu_quotient",
        group="connections",
        by="congestion",
        title="CPU time per byte, ratio to that without R-TCP",
        subtitle=f"{CONNECTIONS:,} connections, each to its own client",
    )
    memory = ["memory_bytes", "clients", "limited"]
    return Findings(
        [
            Table.of(loads, "CPU time with R-TCP", by, cpu),
            Table.of(loads, "Goodput and retransmissions", by, reached),
            Table.of(loads, "Kernel memory per connection with its client", by, memory),
            Table.of(shared, "Kernel memory per connection, all to one client", ["connections"], memory[:1]),
            Table.of(detector, "Time of the detector alone per ACK", ["state"], ["ack_ns"]),
        ],
        {"overhead": figure},
        claims(loads),
    )


def claims(loads: pd.DataFrame) -> list[Check]:
    """Check what the paper says: no additional CPU time, and 2 MB of memory."""
    checks = [
        Check(
            f"{name}: ratio of CPU time per byte to that without R-TCP",
            over_runs(own, "cpu_quotient"),
            high=MAX_CPU,
            name=f"cpu, {name}",
        )
        for name, own in loads.groupby("congestion", sort=False)
    ]
    memory = loads.assign(mb=loads["memory_bytes"] * CONNECTIONS / 1e6)
    return [
        *checks,
        Check(
            f"kernel memory of {CONNECTIONS:,} connections and as many clients [MB]",
            over_runs(memory[memory["congestion"] == MEMORY_WITH], "mb"),
            high=MEMORY_MB,
            name="memory",
        ),
    ]


OVERHEAD: Final = Part(
    "overhead",
    f"CPU time and memory with {CONNECTIONS:,} connections (Appendix N)",
    nothing_to_run,
    _findings,
    measurement=Measurement(rows, lambda size: _rounds(size) * (_QUICK_ROUND_S if size.quick else _ROUND_S)),
)
