"""`ccp bench rtcp`: what R-TCP in the kernel costs a server with very many connections.

Each connection goes to a client of its own: an address of one and the same host, which has a detector of its
own. With CUBIC and BBR of the kernel, and with both under R-TCP. CPU is all of the machine's busy time while
they send, without that of others and the link emulator's; memory is what the kernel accounts to
`ccp rtcp attach`, whose maps have all that R-TCP remembers.

`core_ns`: what the detector alone takes for an ACK, compiled for this processor; it looks out for losses
(`waiting`), estimates (`triggered`), or follows a limit (`limited`).

`free`: over a bare veth pair; no client is limited, and detectors only look out for losses. All send the same
bytes at the same rate. `limited`: every client has a token bucket of its own, 10 ms away. Some download at a
time; before it is measured, each has downloaded something, so that its limit can be known.
"""

from __future__ import annotations

import contextlib
import enum
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path as FilePath
from typing import Final

from ccp_algs.rtcp import Options
from ccp_algs.rtcp.limit import LIMITED_STATES
from ccplane.agent.features.rtcp.tables import known_clients
from ccplane.base import _native
from experiments.bench.bpf_objects import PROGRAM_NAME_CHARACTERS, counting_runs, runs_of_programs
from experiments.bench.flow_load import BACKLOG
from experiments.bench.flows import open_flows, open_load
from experiments.bench.kernel_memory import kernel_memory
from experiments.bench.result import BenchResult
from experiments.bench.rounds import Plan, Rounds, Tally, measure_rounds
from experiments.disturbance import Watch
from experiments.netlab import Host, Path, process, two_hosts
from experiments.netlab.emulated import EmulatedNetwork, emulated
from experiments.netlab.spec import Direction
from experiments.netlab.topologies import point_to_point
from experiments.runs.rtcp import attach

OURS: Final = {"cubic": "rtcp_cubic", "bbr": "rtcp_bbr"}
"""Congestion controls of the kernel, and the same under R-TCP."""
KERNELS: Final = {ours: kernel for kernel, ours in OURS.items()}
ACK_HOOK: Final = {"cubic": "cubic_in_ack_event", "bbr": "rtcp_bbr_cong_control"}
"""Which of their functions sees every ACK; BBR's has all of BBR in it."""


class Load(enum.StrEnum):
    """Whether clients are behind token buckets."""

    FREE = "free"
    LIMITED = "limited"


STATES: Final = ("waiting", "triggered", "limited")
CORE_ACKS: Final = 1_000_000
"""That a detector takes in a round."""

FIRST_CLIENT: Final = "198.18.0.1"
CLIENTS: Final = "198.18.0.0/15"
"""Addresses for benchmarks (RFC 2544), enough for the most connections."""

RATE_BYTES_PER_S: Final = 125_000
"""Of each client's token bucket: 1 Mbit/s, as of the slowest operator of the paper [bytes/s]."""
BURST_BYTES: Final = 10_000
"""By so much the bucket is larger than what comes in a second [bytes]."""
DELAY_US: Final = 5_000
ACTIVE: Final = 200
"""Clients that download at a time."""
OBJECT_BYTES: Final = 1 << 18
"""Length of each download, if no other is asked for."""
LIMITED_S: Final = 10.0
"""How long downloads are measured, and how long they go on at a time before [s]."""
_GOODPUT_BYTES_PER_S: Final = 75e6
"""That they reach together at least while nothing limits them [bytes/s]."""


@dataclass(frozen=True, slots=True)
class Clients:
    """Who is sent to.

    Attributes:
        count: Concurrent connections, each to a client of its own.
        load: Whether they are behind token buckets.
        object_bytes: Length of each download behind a token bucket.
    """

    count: int
    load: Load
    object_bytes: int = OBJECT_BYTES


@dataclass(frozen=True, slots=True)
class Sample:
    """One load.

    Attributes:
        cpu_s_per_gb: Busy CPU time of the machine, without the emulator, per 1e9 bytes [s].
        goodput_bytes_per_s: What was acknowledged [bytes/s].
        retrans_ratio: Share of what was sent that was sent again.
    """

    cpu_s_per_gb: float
    goodput_bytes_per_s: float
    retrans_ratio: float


@dataclass(frozen=True, slots=True)
class Cost:
    """What R-TCP came to under one load.

    Attributes:
        memory_bytes: Kernel memory by connection, with its client [bytes].
        ack_ns: Mean time in the function that sees every ACK [ns].
        cpu_share: Time in all its functions, by busy time of the machine.
        clients: That it knew.
        limited: Of these, those that were limited.
        triggered: Those that had heavy losses in their latest transfer, and were never found limited.
        gone_by_bytes: Those whose limit was found, and then gone: more arrived than it lets through.
        gone_by_rate: The same, because the rate was no abrupt reduction any more.
    """

    memory_bytes: float
    ack_ns: float
    cpu_share: float
    clients: int
    limited: int
    triggered: int
    gone_by_bytes: int
    gone_by_rate: int


@dataclass(frozen=True, slots=True)
class Pair:
    """A load without and with R-TCP, of the same round.

    Attributes:
        load: Which.
        congestion: The kernel's congestion control.
        kernel: Under that.
        rtcp: Under the same with R-TCP.
        cost: What R-TCP came to.
    """

    load: Load
    congestion: str
    kernel: Sample
    rtcp: Sample
    cost: Cost

    @property
    def cpu_per_gb_ratio(self) -> float:
        """CPU time for the same bytes, by that without R-TCP."""
        return self.rtcp.cpu_s_per_gb / self.kernel.cpu_s_per_gb


def run(
    plan: Plan,
    count: int,
    loads: Sequence[Load] = tuple(Load),
    *,
    object_bytes: int = OBJECT_BYTES,
    observe: bool = False,
) -> BenchResult:
    """Measure.

    Args:
        plan: How long, for each load.
        count: Concurrent connections, each to a client of its own.
        loads: Which.
        object_bytes: Length of each download behind a token bucket.
        observe: R-TCP finds limits, and bounds nothing.

    Returns:
        `core_ns.*`; for each load and congestion control the ratio of CPU time to that of the kernel's, time
        for an ACK, memory by connection, clients, and what is behind the ratio; behind limits, too, the share
        that was found of those that a client felt (`found_ratio`; none if nothing was lost), and
        retransmissions and goodput beside the kernel's; with the free load also `memory_bytes.one_client`.

    Raises:
        BenchError: As `measure_rounds`.
        LabError: If a load cannot be made.
        RunError: If R-TCP cannot be attached.
    """
    settings = {
        "count": count,
        "loads": [str(load) for load in loads],
        "object_bytes": object_bytes,
        "observe": observe,
    }
    result = BenchResult("rtcp", plan, settings)
    core = core_ns(plan)
    result.rounds["core"] = core.tally
    for state, took_ns in core.samples.items():
        result.add(f"core_ns.{state}", took_ns, "ns")
    for load in loads:
        clients = Clients(count, load, object_bytes)
        pairs, result.rounds[str(load)] = measure(plan, clients, observe=observe)
        for name in OURS:
            own = [one for one in pairs if one.congestion == name]
            _add(result, f"{name}.{load}", own, count)
            if load is Load.LIMITED:
                _add_goals(result, f"{name}.{load}", own)
    if Load.FREE in loads:
        memory = memory_with_one_client(plan, count)
        result.rounds["one client"] = memory.tally
        result.add("memory_bytes.one_client", memory.samples["cubic"], "bytes")
    return result


def _add(result: BenchResult, label: str, pairs: Sequence[Pair], count: int) -> None:
    result.add(f"cpu_per_gb_ratio.{label}", [one.cpu_per_gb_ratio for one in pairs], "ratio")
    result.add(f"ack_ns.{label}", [one.cost.ack_ns for one in pairs], "ns")
    result.add(f"cpu_share.{label}", [one.cost.cpu_share for one in pairs], "ratio")
    result.add(f"memory_bytes.{label}", [one.cost.memory_bytes for one in pairs], "bytes")
    result.add(f"clients.{label}", [one.cost.clients for one in pairs], "clients", f">= {count}")
    for state in ("limited", "triggered", "gone_by_bytes", "gone_by_rate"):
        result.add(f"{state}.{label}", [getattr(one.cost, state) for one in pairs], "clients")
    for name in ("kernel", "rtcp"):
        samples: list[Sample] = [getattr(one, name) for one in pairs]
        result.add(f"cpu_s_per_gb.{label}.{name}", [one.cpu_s_per_gb for one in samples], "s/GB")
        mbit_per_s = [one.goodput_bytes_per_s / 125e3 for one in samples]
        result.add(f"goodput_mbit_per_s.{label}.{name}", mbit_per_s, "Mbit/s")
        result.add(f"retrans_ratio.{label}.{name}", [one.retrans_ratio for one in samples], "ratio")


def _add_goals(result: BenchResult, label: str, pairs: Sequence[Pair]) -> None:
    """Add what R-TCP is for: limits that clients feel are found, less is sent again, as much arrives."""
    felt = [one.cost.limited + one.cost.triggered for one in pairs]
    if all(felt):
        found = [one.cost.limited / clients for one, clients in zip(pairs, felt, strict=True)]
        result.add(f"found_ratio.{label}", found, "ratio", ">= 0.9")
    more = [one.rtcp.retrans_ratio - one.kernel.retrans_ratio for one in pairs]
    result.add(f"retrans_ratio_change.{label}", more, "ratio", "<= 0")
    goodput = [one.rtcp.goodput_bytes_per_s / one.kernel.goodput_bytes_per_s for one in pairs]
    result.add(f"goodput_ratio.{label}", goodput, "ratio", ">= 0.99")


def core_ns(plan: Plan) -> Rounds[float]:
    """Return what the detector takes for an ACK in each of its states [ns]."""
    options = Options().to_bytes()

    def work(state: str, _: int) -> float:
        start_ns = time.thread_time_ns()
        _native.rtcp_work(options, state, CORE_ACKS)
        return (time.thread_time_ns() - start_ns) / CORE_ACKS

    return measure_rounds(STATES, work, plan, title="rtcp core", headlines=lambda samples: samples.values())


def measure(plan: Plan, clients: Clients, *, observe: bool = False) -> tuple[list[Pair], Tally]:
    """Return a pair for each round and congestion control, and how many rounds there were.

    Args:
        plan: How long.
        clients: Who is sent to.
        observe: R-TCP finds limits, and bounds nothing.

    Raises:
        BenchError: As `measure_rounds`.
        LabError: If a load cannot be made.
        RunError: If R-TCP cannot be attached.
    """
    load = clients.load
    with free_path() if load is Load.FREE else limited_path(clients.count) as (path, emulator_s):

        def one(way: str, _: int) -> tuple[Sample, Cost | None]:
            if way in OURS:
                return _without(path, way, clients, emulator_s), None
            return _with(path, KERNELS[way], clients, emulator_s, observe=observe)

        measured = measure_rounds(
            [*OURS, *KERNELS],
            one,
            plan,
            title=f"rtcp {load}",
            headlines=lambda samples: [
                [pair.cpu_per_gb_ratio for pair in _pairs(load, name, samples)] for name in OURS
            ],
        )
    return [pair for name in OURS for pair in _pairs(load, name, measured.samples)], measured.tally


def _pairs(load: Load, name: str, samples: Mapping[str, list[tuple[Sample, Cost | None]]]) -> list[Pair]:
    both = zip(samples[name], samples[OURS[name]], strict=True)
    return [Pair(load, name, kernel, rtcp, cost) for (kernel, _), (rtcp, cost) in both if cost is not None]


def memory_with_one_client(plan: Plan, count: int) -> Rounds[float]:
    """Return the kernel memory by connection, of connections that all go to one client [bytes].

    Args:
        plan: How long.
        count: Concurrent connections.

    Raises:
        BenchError: As `measure_rounds`.
        LabError: If the load cannot be made.
        RunError: If R-TCP cannot be attached.
    """
    with free_path() as (path, _):

        def taken(name: str, _: int) -> float:
            with _rtcp(count) as (_, taken_bytes), open_flows(path, OURS[name], count):
                return taken_bytes() / count

        return measure_rounds(
            ("cubic",), taken, plan, title="rtcp one client", headlines=lambda samples: samples.values()
        )


# --- loads -------------------------------------------------------------------------------------------------

Send = Callable[[], dict[str, float]]
"""As of `open_load`."""
EmulatorTime = Callable[[], float]
"""Returns the CPU time that the link emulator took so far [s]."""


@contextlib.contextmanager
def free_path() -> Iterator[tuple[Path, EmulatorTime]]:
    """Give a bare link to a host that has the addresses of all clients."""
    with two_hosts() as path:
        _prepare(path.sender, path.receiver)
        path.sender.run(["ip", "route", "add", CLIENTS, "via", path.receiver.ipv4])
        yield path, lambda: 0.0


@contextlib.contextmanager
def limited_path(count: int) -> Iterator[tuple[Path, EmulatorTime]]:
    """Give a link to such a host, which drops what is above the rate limit of each client."""
    addresses = [str(ip_address(FIRST_CLIENT) + number) for number in range(count)]
    link = point_to_point(Direction(delay_us=DELAY_US))
    with emulated(link, more_addresses={"receiver": addresses}) as net:
        path = Path(net.lab, net.hosts["sender"], net.hosts["receiver"])
        _prepare(path.sender, path.receiver)
        _police(path.receiver)
        yield path, lambda: _emulator_s(net)


def _prepare(sender: Host, receiver: Host) -> None:
    sender.set_sysctl("net.ipv4.ip_local_port_range", "1024 65535")
    sender.set_sysctl("net.ipv4.tcp_no_metrics_save", 1)  # no round is to learn from the one before
    receiver.set_sysctl("net.core.somaxconn", BACKLOG)
    receiver.run(["ip", "route", "add", "local", CLIENTS, "dev", "lo"])


def _police(host: Host) -> None:
    """Put a token bucket in front of each address of the clients'."""
    limit = f"ip daddr limit rate over {RATE_BYTES_PER_S} bytes/second burst {BURST_BYTES} bytes"
    for command in (
        "add table ip police",
        "add set ip police clients { type ipv4_addr; size 131072; flags dynamic; }",
        "add chain ip police arriving { type filter hook prerouting priority raw; }",
        f"add rule ip police arriving ip daddr {CLIENTS} update @clients {{ {limit} }} drop",
    ):
        host.run(["nft", command])


def _emulator_s(net: EmulatedNetwork) -> float:
    stats = net.emulator_stats()
    assert stats is not None
    return stats.cpu_s


@contextlib.contextmanager
def _sending(path: Path, congestion: str, clients: Clients) -> Iterator[Send]:
    """Keep the connections open for a block, and yield what lets them send; each has sent something then."""
    count, object_bytes = clients.count, clients.object_bytes
    each = ["--clients", str(count)]
    if clients.load is Load.FREE:
        with open_flows(path, congestion, count, *each, address=FIRST_CLIENT) as send:
            yield send
        return
    what = ["--active", str(ACTIVE), "--object-bytes", str(object_bytes), "--seconds", str(LIMITED_S)]
    with open_load(path, congestion, count, *each, *what, address=FIRST_CLIENT) as send_objects:
        # An object takes the time that its bucket makes it wait, or the link.
        wait_s = max(object_bytes - RATE_BYTES_PER_S - BURST_BYTES, 0) / RATE_BYTES_PER_S / ACTIVE
        for _ in range(1 + int(count * max(wait_s, object_bytes / _GOODPUT_BYTES_PER_S) / LIMITED_S)):
            send_objects()
        yield send_objects


def _measure(send: Send, emulator_s: EmulatorTime) -> Sample:
    before_s = emulator_s()
    with Watch() as watch:
        told = send()
    busy_s = watch.seen.own_busy_s - (emulator_s() - before_s)
    return Sample(
        busy_s / (told["acked_bytes"] / 1e9),
        told["acked_bytes"] / watch.seen.elapsed_s,
        told["retrans_bytes"] / told["sent_bytes"],
    )


# --- R-TCP -------------------------------------------------------------------------------------------------


def _without(path: Path, name: str, clients: Clients, emulator_s: EmulatorTime) -> Sample:
    with _sending(path, name, clients) as send:
        return _measure(send, emulator_s)


def _with(
    path: Path, name: str, clients: Clients, emulator_s: EmulatorTime, *, observe: bool
) -> tuple[Sample, Cost]:
    """Measure a load under R-TCP: first as it is, then again while the kernel counts runs of its programs."""
    with (
        _rtcp(2 * clients.count, observe=observe) as (pid, taken_bytes),
        _sending(path, OURS[name], clients) as send,
    ):
        sample = _measure(send, emulator_s)
        memory_bytes = taken_bytes() / clients.count
        before_s = emulator_s()
        with counting_runs():
            earlier = runs_of_programs(pid)
            with Watch() as watch:
                send()
            later = runs_of_programs(pid)
        busy_s = watch.seen.own_busy_s - (emulator_s() - before_s)
        spent = {program: later[program] - runs for program, runs in earlier.items()}
        known = known_clients()
        hook = spent[ACK_HOOK[name][:PROGRAM_NAME_CHARACTERS]]
        return sample, Cost(
            memory_bytes=memory_bytes,
            ack_ns=hook.time_s / hook.count * 1e9,
            cpu_share=sum(one.time_s for one in spent.values()) / busy_s,
            clients=len(known),
            limited=sum(one["state"] in LIMITED_STATES for one in known),
            triggered=sum(one["triggered"] and not one["found"] for one in known),
            gone_by_bytes=sum(one["end"] == "bytes" for one in known),
            gone_by_rate=sum(one["end"] == "rate" for one in known),
        )


@contextlib.contextmanager
def _rtcp(max_clients: int, *, observe: bool = False) -> Iterator[tuple[int, Callable[[], int]]]:
    """Attach R-TCP for a block; yields its process, and what tells the memory it has taken since [bytes]."""
    arguments = ["--max-clients", str(max_clients), *(["--observe"] if observe else [])]
    with tempfile.TemporaryDirectory() as directory, kernel_memory() as memory:
        program = attach(FilePath(directory) / "rtcp.jsonl", *arguments)
        try:
            memory.take(program.process.pid)  # long before it makes its maps
            program.wait_ready()
            start_bytes = memory.used_bytes
            yield program.process.pid, lambda: memory.used_bytes - start_bytes
        finally:
            process.end([program.process])
