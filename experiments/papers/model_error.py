"""How far the simulator is from the kernel: the errors that its verdicts have to exceed.

The errors are those of all kept draws of scenarios (`ccp validate --draw`), each of which was drawn and run
before the simulator was corrected with it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

import numpy as np

from experiments.papers.comparisons import Claim
from experiments.statistics import Estimate
from experiments.validation.heldout import FAST, Heldout

DRAWS: Final = Path(__file__).parents[2] / "docs/results/validation"
KINDS: Final = ("aqm", "cellular", "drop-tail", "limiter", "loss")
"""Kinds of paths of draws."""
PATHS: Final = (*KINDS, *(kind + FAST for kind in KINDS))
"""Kinds of paths with errors of their own: the simulator is less exact above 100 Mbit/s."""
MIN_CASES: Final = 10
"""Minimum number of scenarios of a 90th percentile; with fewer, those of all kinds at the same rate count."""
QUANTILE: Final = 0.9

GOODPUT: Final = "goodput_bytes_per_s"
RETRANSMITTED: Final = "retrans_pkts"
JAIN: Final = "jain_index"
OF_COLUMN: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        (
            GOODPUT,
            "throughput_bytes_per_s",
            "after_goodput_bytes_per_s",
            "far_goodput_bytes_per_s",
            "own_goodput_ratio",
            "share_of_link_ratio",
            "share_of_delivered_ratio",
            "share_of_fair_ratio",
            "by_mathis_ratio",
            "by_padhye_ratio",
            "by_rfc9438_ratio",
            "by_model_ratio",
        ),
        GOODPUT,
    ),
    **dict.fromkeys(("retrans_pkts", "retrans_pct"), RETRANSMITTED),
    **dict.fromkeys(("rtt_p50_us", "queueing_delay_p50_us"), "rtt_p50_us"),
    **dict.fromkeys(("rtt_p95_us", "delay_us"), "rtt_p95_us"),
    JAIN: JAIN,
}
"""Column of a claim -> quantity of draws with the same unit, or that the column is a ratio of."""
SAVED: Final = "saved "
"""Prefix of columns of which a claim measures the saved share: 1 minus a ratio."""


@cache
def errors(folder: Path = DRAWS) -> Mapping[tuple[str, str], float]:
    """Return the 90th percentile of the simulator's error, by path (one of `PATHS`) and quantity.

    Raises:
        BenchError: `bench.cannot_read`.
    """
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    for file in sorted(folder.glob("draw-*.json")):
        draw = Heldout.from_json(file.read_text(), str(file))
        measured = draw.median_errors()
        for case in draw.cases:
            for column, error in measured.get(case.name, {}).items():
                if not math.isnan(error) and (column != JAIN or len(case.algorithms) > 1):
                    for path in (case.path, case.path.removeprefix(case.kind)):
                        found[path, column].append(error)
    enough: dict[tuple[str, str], float] = {}
    for path in PATHS:
        rate = FAST if path.endswith(FAST) else ""
        for column in {column for at, column in found if at == rate}:
            own = found.get((path, column), [])
            each = own if len(own) >= MIN_CASES else found[rate, column]
            enough[path, column] = float(np.quantile(each, QUANTILE))
    return enough


def widened(found: Estimate, column: str, path: str) -> Estimate | None:
    """Return a simulated estimate with an interval that includes the simulator's error.

    Args:
        found: The estimate.
        column: What it measures, or a ratio of two of them; `SAVED` and the column: a saved share.
        path: One of `PATHS`.

    Returns:
        The estimate; None if draws do not have the quantity on this kind of path.
    """
    quantity = OF_COLUMN.get(column.removeprefix(SAVED), "")
    error = errors().get((path, quantity))
    if error is None:
        return None
    if quantity == JAIN:
        return Estimate(found.value, found.low - error, found.high + error, found.n)
    if column.startswith(SAVED):
        low, high = 1 - (1 - found.low) * (1 + error), 1 - (1 - found.high) / (1 + error)
        return Estimate(found.value, low, high, found.n)
    return Estimate(found.value, found.low / (1 + error), found.high * (1 + error), found.n)


def measured(claim: Claim, name: str) -> tuple[str, str]:
    """Return what a check of a claim measures, a column, and its path, one of `PATHS`."""
    rate = FAST if claim.fast else ""
    for test in claim.tests:
        if test.name == name:
            return test.column, (test.path or _path(test.of) or claim.path) + rate
    return claim.measures, claim.path + rate


def _path(which: Mapping[str, object]) -> str:
    if which.get("loss_ratio"):
        return "loss"
    return "cellular" if str(which.get("path", "")).startswith("cellular") else ""
