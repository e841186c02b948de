"""R-TCP's Figure 18: effect of the detector's parameters (Table 5) on recorded transfers."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import pandas as pd

from ccp_algs.rtcp import Options
from experiments import plots
from experiments.papers.r_tcp.acks import R_TCP, compared, connections, judged
from experiments.plots import Plot
from experiments.results import Result

VALUES: Final[Mapping[str, Sequence[float]]] = MappingProxyType(
    {
        "loss_window_min_rtts": (4, 5, 6, 7, 8),
        "loss_ratio": (0.1, 0.2, 0.3, 0.4),
        "reduction_ratio": (0.2, 0.4, 0.6, 0.8),
        "n_candidates": (5, 9, 13, 17),
        "convergence_min_rtts": tuple(range(2, 15)),
    }
)
"""Table 5: alpha, beta, theta, omega, epsilon."""

GREEK: Final = MappingProxyType(
    dict(zip(VALUES, ("alpha", "beta", "theta", "omega", "epsilon"), strict=True))
)


MOBILE: Final = "op4m"
"""Figure 18 leaves this operator out."""


def errors_by_option(result: Result) -> pd.DataFrame:
    """Return the findings of R-TCP's detector for a run's transfers, with one parameter changed.

    Returns:
        A row for each transfer and value: `flow`, `option`, `value`, and the columns of `compared`.
    """
    rows = []
    for flow in result.scenario.flows:
        if flow.name.startswith(MOBILE):
            continue
        for acks in connections(result, flow.name):
            for option, values in VALUES.items():
                for value in values:
                    change: dict[str, Any] = {option: value}
                    finding = judged(acks, R_TCP, dataclasses.replace(Options(), **change))
                    about = {"flow": flow.name, "option": GREEK[option], "value": float(value)}
                    rows.append(about | compared(result, flow, finding))
    return pd.DataFrame(rows)


def figure_18(found: pd.DataFrame) -> dict[str, Plot]:
    """Return a figure per parameter, and a figure of the bucket's error over the number of candidates."""
    figures = {}
    for name in GREEK.values():
        own = found[found["option"] == name].rename(columns={"value": name})
        title = f"Figure 18: transfers with a wrong verdict, by {name}"
        figures[f"fig18-{name}"] = plots.lines(own, "wrong_ratio", name, by="option", title=title)
    own = found[found["option"] == "omega"].rename(columns={"value": "omega"})
    figures["fig18-omega-bucket"] = plots.lines(
        own, "bucket_error_ratio", "omega", by="option", title="Figure 18: error of the bucket by omega"
    )
    return figures
