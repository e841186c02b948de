"""`ccp bench int`: cost and harm of in-band telemetry, as ratios to transfers without it.

One iperf3 flow over IPv6 between two network namespaces, over a bare veth pair: the machine is the limit. The
sender's interface is source and transit, the receiver's is a sink, which writes its summaries to a file.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Final

from experiments.bench.result import BenchResult
from experiments.bench.rounds import Plan, measure_rounds
from experiments.bench.transfers import TransferSample, add_figures, cpu_ratios, throughput_ratios, transfer
from experiments.netlab import Path, two_hosts
from experiments.netlab.contexts import held
from experiments.netlab.inband import Summaries
from telemetry.inband.node import InterfaceNode, NodeSpec, SourceOptions

CONGESTION: Final = "cubic"
OFF: Final = "off"
SOURCES: Final = {"every": SourceOptions(), "1in10": SourceOptions(every_pkts=10)}
"""Headers in every super-packet, and in one of ten."""
THROUGHPUT_GOALS: Final = {"every": ">= 0.90", "1in10": ">= 0.97"}
CPU_GOALS: Final = {"every": "<= 1.15"}
RETRANSMIT_GOALS: Final = {"every": "<= 2"}


@contextlib.contextmanager
def telemetry(path: Path, source: SourceOptions) -> Iterator[None]:
    """Give the sender's packets headers, and remove them at the receiver."""
    with contextlib.closing(Summaries()) as summaries:
        ends = (
            (path.receiver, NodeSpec(roles=("sink",))),
            (path.sender, NodeSpec(roles=("source", "transit"), source=source)),
        )
        with contextlib.ExitStack() as stack:
            for host, spec in ends:
                node = InterfaceNode(host.interfaces[0].name, spec, summaries.fd)
                stack.enter_context(held(host, node, node.refresh))
            yield


def run(plan: Plan, seconds: float) -> BenchResult:
    """Measure.

    Args:
        plan: How long.
        seconds: Length of each transfer [s].

    Returns:
        Ratios to transfers without telemetry, and the measurements they come from.

    Raises:
        BenchError: As `measure_rounds`.
        LabError: If a transfer fails.
        NodeError: If an interface cannot be a node.
    """
    result = BenchResult("int", plan, {"seconds": seconds})
    with two_hosts() as path:

        def measure(way: str, _: int) -> TransferSample:
            context = telemetry(path, SOURCES[way]) if way in SOURCES else contextlib.nullcontext()
            with context:
                return transfer(path, CONGESTION, seconds, "ipv6")

        measured = measure_rounds((OFF, *SOURCES), measure, plan, title="int", headlines=_headlines)
    result.rounds["int"] = measured.tally
    samples, off = measured.samples, measured.samples[OFF]
    for way in SOURCES:
        label = f"{way}.{OFF}"
        result.add(f"cpu_per_gb_ratio.{label}", cpu_ratios(samples[way], off), "ratio", CPU_GOALS.get(way))
        throughput = throughput_ratios(samples[way], off)
        result.add(f"throughput_ratio.{label}", throughput, "ratio", THROUGHPUT_GOALS[way])
        # Adding one avoids a division by 0.
        pairs = zip(samples[way], off, strict=True)
        again = [(a.retransmits_pkts + 1) / (b.retransmits_pkts + 1) for a, b in pairs]
        result.add(f"retransmit_ratio.{label}", again, "ratio", RETRANSMIT_GOALS.get(way))
    for way in (OFF, *SOURCES):
        add_figures(result, way, samples[way])
    return result


def _headlines(samples: Mapping[str, list[TransferSample]]) -> list[list[float]]:
    return [throughput_ratios(samples[way], samples[OFF]) for way in SOURCES]
