"""R-Hybrid: shares of four streams next to four of kernel CUBIC, on links that mark.

CUBIC obeys marks, so the queue stays below the detector's delta, and most windows of 100 ms have no mark.
Only the count of marks over seconds shows the receiver that the bottleneck is shared.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from experiments import plots
from experiments.events import ParamValue
from experiments.metrics import goodput_bytes_per_s, within
from experiments.netlab.spec import Buffer, Direction, DropTail
from experiments.papers.paper import Findings, Part, Runs, Size
from experiments.papers.r_hybrid.path import (
    BUFFER_PKTS,
    FLOW,
    OWN,
    OWN_PARAMS,
    RATE_BYTES_PER_S,
    SETTLED_S,
    STREAMS,
    decided,
)
from experiments.papers.tables import Table
from experiments.papers.variants import KERNEL, rounds
from experiments.results import Result
from experiments.runs import reading
from experiments.runs.shapes import Dumbbell
from experiments.scenario import FlowSpec, ReceiverAgent, Scenario
from experiments.sweep import Grid
from experiments.traffic.spec import Iperf3

LINKS: Final[Mapping[str, tuple[int, int, int]]] = {
    "RTT 1 ms, marks at 0.3 ms": (1_000, 300, BUFFER_PKTS),
    "RTT 20 ms, marks at 5 ms": (20_000, 5_000, 667),
}
"""Name -> RTT [us], waiting time above which the link marks [us], buffer [packets]: a data centre, and the
Internet with twice the packets that fill the path.
"""
VARIANTS: Final[Mapping[str, tuple[str, Mapping[str, ParamValue]]]] = {
    "kernel CUBIC": (KERNEL, {}),
    "r_hybrid, abe": (OWN, {"shared_ecn": "abe", **OWN_PARAMS}),
    "r_hybrid, loss": (OWN, {"shared_ecn": "loss"}),
}
"""Name -> algorithm and parameters of the own streams."""
OTHERS: Final = "kernel CUBIC"

_UNDER: Final = " | "
"""Separator of link and variant in the names of cases."""


def _link(rtt_us: int, marked_us: int, buffer_pkts: int) -> Direction:
    return Direction(
        rate_bytes_per_s=RATE_BYTES_PER_S,
        delay_us=rtt_us // 2,
        buffer=Buffer(packets=buffer_pkts),
        queue=DropTail(ce_threshold_us=marked_us),
    )


def _flows(algorithm: str, params: Mapping[str, ParamValue]) -> tuple[FlowSpec, ...]:
    streams = Iperf3(parallel=STREAMS)
    return (
        FlowSpec(FLOW, "s1", "r1", algorithm, params=dict(params), traffic=streams, ecn=True),
        FlowSpec("others", "s2", "r2", KERNEL, traffic=streams, ecn=True),
    )


CASES: Final[Mapping[str, Mapping[str, Any]]] = {
    f"{link}{_UNDER}{variant}": {
        "topology.bottleneck": reading.full(_link(*of_link)),
        "flows": reading.full(list(_flows(*streams))),
    }
    for link, of_link in LINKS.items()
    for variant, streams in VARIANTS.items()
}


def _grids(size: Size) -> list[Grid]:
    base = Scenario(
        name="r-hybrid: next to kernel CUBIC",
        topology=Dumbbell(2, _link(*LINKS["RTT 1 ms, marks at 0.3 ms"])),
        flows=_flows(KERNEL, {}),
        duration_s=size.seconds(8, 15),
        receivers=(ReceiverAgent("r1", peers=("s1",), mode="fast"),),
    )
    return rounds(base, size.name, size.times(1, 10), "case", CASES)


def row(result: Result) -> dict[str, Any]:
    """Return a run's case, and the own streams' share of the goodput from `SETTLED_S` on."""
    link, _, variant = str(result.axes["case"]).partition(_UNDER)
    goodputs = goodput_bytes_per_s(within(result.flow_samples, SETTLED_S))
    return {
        "link": link,
        "others": OTHERS,
        "ours": variant,
        "own_goodput_ratio": goodputs[FLOW] / goodputs.sum(),
        "goodput_bytes_per_s": goodputs.sum(),
        "shared_ratio": decided(result)["shared_ratio"],
    }


def _findings(runs: Runs) -> Findings:
    title = "Share of the goodput of four streams next to four that obey marks"
    values = ["own_goodput_ratio", "goodput_bytes_per_s", "shared_ratio"]
    return Findings(
        [Table.of(runs.table, title, ["link", "others", "ours"], values)],
        {
            "next-to-cubic": plots.bars(
                runs.table,
                "own_goodput_ratio",
                group="link",
                by="ours",
                title="Share of the goodput",
                subtitle="four streams next to four of kernel CUBIC that obey marks",
            )
        },
    )


NEXT_TO_CUBIC: Final = Part(
    "next-to-cubic", "four streams next to four of kernel CUBIC, with marks", _grids, _findings, row
)
