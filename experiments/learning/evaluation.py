"""Runs policies and plain congestion controls on the same fixed set of paths.

The paths follow from a seed that no training run uses. Each contender gets every path, for one episode each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from experiments.learning.domain import Domain, Heuristic
from experiments.learning.rewards import slides
from experiments.learning.worlds import COLUMNS, Reward, Worlds

SEED: Final = 1 << 40
"""Seed of the paths; training runs use small numbers."""
N_PATHS: Final = 64
WARM_UP_SHARE: Final = 0.2
"""Share of an episode to leave out of its figures: slow start is the same for all contenders."""

Act = Callable[[NDArray[np.float32]], NDArray[np.float32]]
"""Maps observations (n, 7) to actions (n,)."""


@dataclass(frozen=True, slots=True)
class Contender:
    """A controller to evaluate.

    Attributes:
        act: The policy; None for no policy.
        heuristic: Controls the window between the policy's actions; None for the policy alone.
    """

    act: Act | None = None
    heuristic: Heuristic | None = "cubic"


def evaluate(
    contenders: Mapping[str, Contender],
    domain: Domain | None = None,
    reward: Reward = slides.reward,
    *,
    n_paths: int = N_PATHS,
    seed: int = SEED,
) -> pd.DataFrame:
    """Run each contender on each path.

    Args:
        contenders: By name.
        domain: Distribution of the paths; None for the default.
        reward: The reward to compute.
        n_paths: Number of paths.
        seed: Seed of the paths.

    Returns:
        A row for each contender and path: `contender`, `path`; `utilisation` (delivered payload divided by
        the path's capacity for payload), `queueing_us` (mean RTT above the path's), `queueing_p95_us`,
        `loss_ratio` (of sent bytes), `reward`, and the path's properties (`COLUMNS`).
    """
    tables = [
        _on_paths(name, contender, Domain() if domain is None else domain, reward, n_paths, seed)
        for name, contender in contenders.items()
    ]
    return pd.concat(tables, ignore_index=True)


def _on_paths(
    name: str, contender: Contender, domain: Domain, reward: Reward, n_paths: int, seed: int
) -> pd.DataFrame:
    rows = _play(contender, domain, reward, n_paths, seed)
    figures = [
        {"contender": name, "path": path, **_figures(rows[:, path], domain.episode_us)}
        for path in range(n_paths)
    ]
    return pd.DataFrame(figures)


def _play(contender: Contender, domain: Domain, reward: Reward, n_paths: int, seed: int) -> NDArray[np.void]:
    """Return all intervals, (n_intervals, n_paths); those after the end of an episode have length 0."""
    domain = msgspec.structs.replace(domain, steered_share=float(contender.heuristic is None))
    worlds = Worlds(n_paths, domain, reward, contender.heuristic or "cubic")
    rows = worlds.reset(seed)
    over = np.zeros(n_paths, bool)
    played = []
    while not over.all():
        actions = (
            np.zeros(n_paths, np.float32) if contender.act is None else contender.act(rows["observation"])
        )
        rows = worlds.step(actions, where=~over)
        played.append(np.where(over, np.zeros(1, rows.dtype), rows))
        over |= rows["over"] > 0
    return np.stack(played)


def _figures(rows: NDArray[np.void], episode_us: int) -> dict[str, float]:
    last = rows[rows["over"] > 0][0]
    rows = rows[
        (rows["interval_us"] > 0) & (rows["now_us"] > last["now_us"] - (1 - WARM_UP_SHARE) * episode_us)
    ]
    weights_us = rows["interval_us"]
    delivered_bytes = (rows["thr_bytes_per_s"] * weights_us).sum()
    lost_bytes = (rows["loss_bytes_per_s"] * weights_us).sum()
    sampled = rows[rows["rtt_us"] > 0]
    waits_us = np.maximum(sampled["rtt_us"] - sampled["path_rtt_us"], 0)
    packets = sampled["thr_bytes_per_s"] * sampled["interval_us"]
    return {
        "utilisation": delivered_bytes / (rows["path_bytes_per_s"] * weights_us).sum(),
        "queueing_us": _mean(waits_us, packets),
        "queueing_p95_us": float(np.quantile(waits_us, 0.95)) if len(waits_us) else float("nan"),
        "loss_ratio": lost_bytes / max(delivered_bytes + lost_bytes, 1.0),
        "reward": _mean(rows["reward"], weights_us),
        **{name: float(last[name]) for name in COLUMNS if name.startswith("path_") or name == "mtp_us"},
    }


def _mean(values: NDArray[np.float64], weights: NDArray[np.float64]) -> float:
    return float((values * weights).sum() / weights.sum()) if weights.sum() > 0 else float("nan")
