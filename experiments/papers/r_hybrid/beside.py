"""R-Hybrid: what it costs others that obey marks, if CUBIC takes them for less than a loss while shared.

Four streams of ours and four of others share a link that marks; of `kernel/cubic` beside itself, ours would
have half. Figure 3 (`paper.py`) says what each treatment wins on a link of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pandas as pd

from ccp_algs.r_hybrid import ECN_BETA
from experiments import plots
from experiments.events import ParamValue
from experiments.metrics import goodput_bytes_per_s, within
from experiments.netlab.spec import Buffer, Direction, DropTail
from experiments.papers.paper import Findings, Part, Runs, Size
from experiments.papers.r_hybrid.path import (
    BUFFER_PKTS,
    DCTCP,
    FLOW,
    MTU_BYTES,
    OURS,
    RATE_BYTES_PER_S,
    SETTLED_S,
    STREAMS,
)
from experiments.papers.tables import Table
from experiments.papers.variants import KERNEL
from experiments.results import Result
from experiments.runs import reading
from experiments.runs.shapes import Dumbbell
from experiments.scenario import Flow, ReceiverAgent, Scenario
from experiments.sweep import Grid
from experiments.traffic.spec import Iperf3

LINKS: Final[Mapping[str, tuple[int, int]]] = {
    "RTT 1 ms, marks at 0.3 ms": (1_000, 300),
    "RTT 20 ms, marks at 5 ms": (20_000, 5_000),
}
"""Name -> RTT [us], waiting time above which it marks [us]: a data centre's switch, an Internet router."""
WAYS: Final[Mapping[str, dict[str, ParamValue]]] = {
    "abe": {"shared_ecn": "abe"},
    "RFC 8511 alone": {"shared_ecn": "abe", "early_ecn_beta": ECN_BETA},
    "loss": {"shared_ecn": "loss"},
    "queue": {"shared_ecn": "queue"},
    "ignore": {"shared_ecn": "ignore"},
}
"""What `r_hybrid` makes of marks: parameters."""
OTHERS: Final[Mapping[str, str]] = {"kernel CUBIC": KERNEL, "DCTCP": DCTCP}

_UNDER: Final = " | "
"""Between link, others and what is ours, in the names of points."""


def _link(rtt_us: int, marked_us: int) -> Direction:
    bdp_pkts = RATE_BYTES_PER_S * rtt_us / 1e6 / MTU_BYTES
    return Direction(
        rate_bytes_per_s=RATE_BYTES_PER_S,
        delay_us=rtt_us // 2,
        buffer=Buffer(packets=max(BUFFER_PKTS, round(2 * bdp_pkts))),
        queue=DropTail(ce_threshold_us=marked_us),
    )


def _points() -> Mapping[str, Mapping[str, Any]]:
    streams = Iperf3(parallel=STREAMS)
    ours = {
        "kernel CUBIC": Flow(FLOW, "s1", "r1", KERNEL, traffic=streams, ecn=True),
        "kernel CUBIC without ECN": Flow(FLOW, "s1", "r1", KERNEL, traffic=streams),
        **{
            f"r_hybrid, {way}": Flow(FLOW, "s1", "r1", OURS, params=params, traffic=streams, ecn=True)
            for way, params in WAYS.items()
        },
    }
    return {
        _UNDER.join((link, name, variant)): {
            "topology.bottleneck": reading.full(_link(*ends)),
            "flows": reading.full(
                [flow, Flow("others", "s2", "r2", algorithm, traffic=streams, ecn=True)],
            ),
        }
        for link, ends in LINKS.items()
        for name, algorithm in OTHERS.items()
        for variant, flow in ours.items()
    }


def _grids(size: Size) -> list[Grid]:
    base = Scenario(
        name="r-hybrid: beside others that obey marks",
        topology=Dumbbell(2, _link(*LINKS["RTT 1 ms, marks at 0.3 ms"])),
        flows=(Flow(FLOW, "s1", "r1", KERNEL),),
        duration_s=size.seconds(8, 15),
        receivers=(ReceiverAgent("r1", mode="fast"),),
    )
    return [Grid(base, {"case": _points()}, size.name, size.times(1, 10))]


def row(result: Result) -> dict[str, Any]:
    """Return a run's case, and of what both got the part that was ours, from `SETTLED_S` on."""
    link, others, ours = str(result.axes["case"]).split(_UNDER)
    goodputs = goodput_bytes_per_s(within(result.flow_samples, SETTLED_S))
    return {
        "link": link,
        "others": others,
        "ours": ours,
        "own_goodput_ratio": goodputs[FLOW] / goodputs.sum(),
        "goodput_bytes_per_s": goodputs.sum(),
    }


def _findings(runs: Runs) -> Findings:
    table: pd.DataFrame = runs.table
    by, values = ["link", "others", "ours"], ["own_goodput_ratio", "goodput_bytes_per_s"]
    return Findings(
        [Table.of(table, "Part of the goodput that is ours, beside others that obey marks", by, values)],
        {
            "marks-beside": plots.bars(
                table.assign(beside=table["link"] + ", " + table["others"]),
                "own_goodput_ratio",
                group="beside",
                by="ours",
                title="Part of the goodput that is ours",
                subtitle="four streams beside four that obey marks",
            )
        },
    )


MARKS_BESIDE: Final = Part(
    "marks-beside", "what others lose where our CUBIC obeys marks less", _grids, _findings, row
)
