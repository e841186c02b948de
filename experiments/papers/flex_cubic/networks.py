"""Algorithms in networks drawn at random: alone, and beside a flow of kernel CUBIC.

Goodput and delay count after the first quarter of a run, when slow start is over; what is sent again counts
from its beginning.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from experiments.metrics import NAN, goodput_bytes_per_s, jain_index, queueing_delay_us, retrans_pct, within
from experiments.netlab.spec import Direction
from experiments.papers.flex_cubic.bars import LOSSLESS_CUBIC, SUCCESSOR, findings
from experiments.papers.flex_cubic.drawn import JUDGED_SEED, LOSSLESS, TRACE_S, TRIED_SEED, Network, networks
from experiments.papers.paper import Part, Size
from experiments.papers.variants import KERNEL, steered
from experiments.results import Result
from experiments.runs.shapes import Dumbbell
from experiments.scenario import Flow, Scenario
from experiments.sweep import Grid

COMPARED: Final = (KERNEL, "kernel/bbr", SUCCESSOR)
"""Algorithms that are run in each network."""
OTHERS: Final = ("flex_cubic", "bbr3", "westwood", "cubic")
"""Those that are run in the first OTHERS_NETWORKS of them."""
ALONE: Final = "alone"
BESIDE: Final = "beside"
OWN: Final = "own"
OTHER: Final = "other"
SETTLED_AT: Final = 0.25
"""From when on a run counts, as a share of it."""
QUICK_NETWORKS: Final = 10
NETWORKS: Final = 300
OTHERS_NETWORKS: Final = 60


def scenario(setting: str, duration_s: float = TRACE_S) -> Scenario:
    """Return one flow, or two of which the second has kernel CUBIC, through a dumbbell.

    Args:
        setting: ALONE or BESIDE.
        duration_s: How long they send [s].
    """
    names = [OWN] if setting == ALONE else [OWN, OTHER]
    return Scenario(
        name=f"flex-cubic: {setting}",
        topology=Dumbbell(len(names), Direction()),
        flows=tuple(Flow(name, f"s{i}", f"r{i}", KERNEL) for i, name in enumerate(names, 1)),
        duration_s=duration_s,
    )


def grid(
    setting: str,
    drawn: Sequence[Network],
    variants: Mapping[str, Mapping[str, Any]],
    name: str,
    seconds: float,
) -> Grid:
    """Return each variant in each network, alone or beside kernel CUBIC.

    Args:
        setting: ALONE or BESIDE.
        drawn: The networks.
        variants: Name -> what it sets.
        name: Of the grid.
        seconds: Length of each run [s].
    """
    points = {one.name: one.fields for one in drawn}
    return Grid(scenario(setting, seconds), {"network": points, "variant": variants}, name)


def variants_of(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return algorithms of the first flow as points of an axis."""
    return {name: steered(name, OWN) for name in names}


_WITHOUT_LOSS: Final = {LOSSLESS_CUBIC: steered(KERNEL, OWN) | LOSSLESS}


def _grids(seed: int, size: Size) -> list[Grid]:
    drawn = networks(size.times(QUICK_NETWORKS, NETWORKS), seed)
    seconds = size.seconds(TRACE_S, TRACE_S)
    lossy = [one for one in drawn if one.bottleneck.loss is not None]
    few = drawn[:OTHERS_NETWORKS]
    return [
        grid(ALONE, drawn, variants_of(COMPARED), f"{size.name}-{ALONE}", seconds),
        *([grid(ALONE, lossy, _WITHOUT_LOSS, f"{size.name}-{LOSSLESS_CUBIC}", seconds)] if lossy else []),
        grid(BESIDE, drawn, variants_of(COMPARED), f"{size.name}-{BESIDE}", seconds),
        *(
            grid(one, few, variants_of(OTHERS), f"{size.name}-others-{one}", seconds)
            for one in (ALONE, BESIDE)
        ),
    ]


def row(result: Result) -> dict[str, Any]:
    """Return what a run was, and what it came to.

    Returns:
        `setting`; `kind` and `path` of the network; `goodput_bytes_per_s`, `retrans_pct` and
        `queueing_delay_us`, the mean, of the first flow; `lost_at_random_pct` of the packets that came to the
        bottleneck; `other_goodput_bytes_per_s` and `jain_index`, if there is another flow.
    """
    kind, _, path = result.scenario.name.partition(": ")
    settled = within(result.flow_samples, SETTLED_AT * result.scenario.duration_s)
    goodput = goodput_bytes_per_s(settled)
    own = settled[settled["flow"] == OWN]
    base_rtt_us = result.flows.set_index("flow")["base_rtt_us"].get(OWN, NAN)
    link = result.metadata.get("links", {}).get("bottleneck>", {})
    arrived_pkts = link.get("arrived_pkts", 0)
    alone = len(result.scenario.flows) == 1
    return {
        "setting": ALONE if alone else BESIDE,
        "kind": kind,
        "path": path,
        "goodput_bytes_per_s": goodput.get(OWN, NAN),
        "retrans_pct": retrans_pct(result.flow_samples).get(OWN, NAN),
        "lost_at_random_pct": 100 * link["dropped_loss_pkts"] / arrived_pkts if arrived_pkts else NAN,
        "queueing_delay_us": queueing_delay_us(own, base_rtt_us).mean(),
        "other_goodput_bytes_per_s": goodput.get(OTHER, NAN),
        "jain_index": NAN if alone else jain_index([goodput.get(OWN, NAN), goodput.get(OTHER, NAN)]),
    }


NETWORKS_PART: Final = Part(
    "networks", "networks drawn at random", partial(_grids, JUDGED_SEED), findings, row
)
TRIED_PART: Final = Part(
    "networks-tried",
    "networks that lt_cubic was made with",
    partial(_grids, TRIED_SEED),
    findings,
    row,
)
