"""`ccp bench int`: what in-band telemetry costs in every super-packet, in one of ten, in all packets.

One iperf3 flow over IPv6 between two network namespaces, over a bare veth pair: the machine is the limit. The
sender's interface is source and transit, the receiver's is sink, which writes its summaries. Each round
measures every way once; ratios are of the same round. CPU is all of the machine's busy time, without that of
processes of others.

Off is measured twice: `off` is an interface as it is, with super-packets; `single` is one as a source has it
that puts headers into each packet (`packet`), where the kernel sends packets one by one and leaves room for
headers. What `packet` costs above that is what its telemetry itself costs.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path as FilePath
from typing import Final

from ccplane.base import _native
from experiments.bench.result import BenchResult
from experiments.bench.rounds import Plan, measure_rounds
from experiments.bench.transfers import Sample, add_figures, cpu_ratios, throughput_ratios, transfer
from experiments.netlab import Host, Path, two_hosts
from experiments.netlab.held import held
from telemetry.inband.device import prepared
from telemetry.inband.node import InterfaceNode, NodeSpec, SourceOptions

CONGESTION: Final = "cubic"
SOURCES: Final = {
    "every": SourceOptions(),
    "1in10": SourceOptions(every_pkts=10),
    "packet": SourceOptions(per_packet=True),
}
WAYS: Final = ("off", "single", *SOURCES)
LEAST_THROUGHPUT: Final = {"every": 0.90, "1in10": 0.97}
"""Goals, of that without telemetry."""
MOST_CPU_PER_GB: Final = {"every": 1.15}
_READ_BYTES: Final = 1 << 16


class Summaries:
    """A pipe for a sink's summaries, and a thread that empties it.

    Attributes:
        fd: Where the sink writes.
        lines: What it wrote, a summary each, once the pipe is closed.
    """

    def __init__(self) -> None:
        """Open the pipe and start the thread."""
        reading, self.fd = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self.fd, False)
        self.lines: list[bytes] = []
        self._thread = threading.Thread(target=self._read, args=(reading,))
        self._thread.start()

    def _read(self, reading: int) -> None:
        with open(reading, "rb") as pipe:
            self.lines = pipe.read().splitlines()

    def close(self) -> None:
        """Wait until all is read; the sink is gone by now."""
        os.close(self.fd)
        self._thread.join()


@contextlib.contextmanager
def node_on(
    host: Host, interface: str, spec: NodeSpec, summaries_fd: int, records: FilePath | None = None
) -> Iterator[InterfaceNode]:
    """Run a node on an interface of a host.

    Raises:
        NodeError: As `InterfaceNode`.
    """
    node = InterfaceNode(interface, spec, summaries_fd, records=records)
    with held(host, node, node.refresh):
        yield node


@contextlib.contextmanager
def _way(path: Path, way: str) -> Iterator[None]:
    """Set the interfaces up."""
    with contextlib.ExitStack() as stack:
        if way == "single":
            interface = path.sender.interfaces[0].name
            overhead_bytes = _native.int_overhead_bytes(b"{}")
            stack.enter_context(held(path.sender, prepared(interface, overhead_bytes, single_packets=True)))
        if way in SOURCES:
            summaries = stack.enter_context(contextlib.closing(Summaries()))
            source = NodeSpec(roles=("source", "transit"), source=SOURCES[way])
            stack.enter_context(
                node_on(
                    path.receiver, path.receiver.interfaces[0].name, NodeSpec(roles=("sink",)), summaries.fd
                )
            )
            stack.enter_context(node_on(path.sender, path.sender.interfaces[0].name, source, summaries.fd))
        yield


def run(plan: Plan, seconds: float) -> BenchResult:
    """Measure.

    Args:
        plan: How long.
        seconds: Length of each transfer [s].

    Returns:
        Ratios to both ways of being off, and the figures behind them.

    Raises:
        BenchError: As `measure_rounds`.
        LabError: If a transfer fails.
        NodeError: If an interface cannot be a node.
    """
    result = BenchResult("int", plan, {"seconds": seconds})
    with two_hosts() as path:

        def measure(way: str, _: int) -> Sample:
            with _way(path, way):
                return transfer(path, CONGESTION, seconds, "ipv6")

        measured = measure_rounds(WAYS, measure, plan, title="int", headlines=_headlines)
    result.rounds["int"] = measured.tally
    samples = measured.samples
    for way in SOURCES:
        for base in ("off", "single") if way == "packet" else ("off",):
            pair, label = (samples[way], samples[base]), f"{way}.{base}"
            cpu, throughput = MOST_CPU_PER_GB.get(way), LEAST_THROUGHPUT.get(way)
            result.add(
                f"cpu_per_gb_ratio.{label}",
                cpu_ratios(*pair),
                "ratio",
                None if cpu is None else f"<= {cpu:.2f}",
            )
            result.add(
                f"throughput_ratio.{label}",
                throughput_ratios(*pair),
                "ratio",
                None if throughput is None else f">= {throughput:.2f}",
            )
    for way in WAYS:
        add_figures(result, way, samples[way])
    return result


def _headlines(samples: Mapping[str, list[Sample]]) -> Iterator[list[float]]:
    yield cpu_ratios(samples["every"], samples["off"])
    for way in LEAST_THROUGHPUT:
        yield throughput_ratios(samples[way], samples["off"])
