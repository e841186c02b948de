"""Many independent simulated worlds, stepped together, each with one learning connection.

    worlds = Worlds(64)
    seen = worlds.reset(seed=1)
    while True:
        seen = worlds.step(policy(seen["observation"]))

A step lasts one monitoring time period (MTP) of each world, extended until a report arrives, because fold
programs report only on ACKs. A step runs without Python's global lock.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from ccp_algs.hyvar.collector import Collector
from ccp_algs.hyvar.observation import N_FEATURES
from ccplane.base import _native
from ccplane.base.errors import CcpError
from experiments.learning.domain import Domain, Heuristic, traces_ms
from experiments.learning.errors import LearningError
from experiments.learning.rewards import slides

Reward = Callable[[NDArray[np.void]], NDArray[np.float64]]
"""Reward function: maps intervals, (n,) with `COLUMNS` but without `reward`, to n finite numbers."""

COLUMNS: Final[dict[str, str]] = {
    "observation": "the policy's input for the interval (`ccp_algs.hyvar.observation`), 7 numbers",
    "reward": "reward of the interval",
    "over": "whether the episode ended with the interval (1) or not (0)",
    "interval_us": "length of the interval [us of virtual time]",
    "now_us": "end of the interval, since the start of the episode [us of virtual time]",
    "thr_bytes_per_s": "delivered [bytes/s of payload]",
    "thr_max_bytes_per_s": "maximum `thr_bytes_per_s` in the episode so far [bytes/s]",
    "loss_bytes_per_s": "detected as lost [bytes/s]",
    "rtt_us": "mean of the RTT samples; 0 without a sample [us]",
    "rtt_min_us": "minimum RTT in the episode so far [us]",
    "srtt_us": "smoothed RTT at the end of the interval [us]",
    "cwnd_bytes": "congestion window at the end of the interval [bytes]",
    "mss_bytes": "payload of a segment [bytes]",
    "path_bytes_per_s": "payload capacity of the path in the last half second [bytes/s]",
    "path_rtt_us": "RTT of the path without a queue [us]",
    "path_buffer_bytes": "buffer in front of the bottleneck [bytes]",
    "path_loss_ratio": "probability that the path loses a packet",
    "path_cross_flows": "competing connections",
    "path_traced": "whether the rate follows a trace (1) or not (0)",
    "steered": "whether the policy alone controls the window (1), or CUBIC also does between actions (0)",
    "mtp_us": "monitoring time period [us]",
}
"""Output of a step for each world; `Worlds.step` returns an array with these fields."""
_ROW: Final = np.dtype(
    [("observation", "f4", (N_FEATURES,)), ("reward", "f4"), *((name, "f8") for name in list(COLUMNS)[2:])]
)


class Worlds:
    """Simulated worlds and their episodes."""

    def __init__(
        self,
        n: int,
        domain: Domain | None = None,
        reward: Reward = slides.reward,
        heuristic: Heuristic = "cubic",
    ) -> None:
        """Make the worlds; `reset` begins their first episodes.

        Args:
            n: Number of worlds, >= 1.
            domain: Distribution of the paths; None for the default.
            reward: The reward function.
            heuristic: Controls the window between actions, except on `steered_share` of the paths.

        Raises:
            LearningError: `learning.bad_domain`, if an argument is invalid.
        """
        self.domain = Domain() if domain is None else domain
        self._reward = reward
        self._collector = Collector()
        self.n = n
        if n < 1:
            raise LearningError(
                "learning.bad_domain", f"{n} is not a valid number of worlds", "n", fix="ask for 1 or more"
            )
        try:
            msgspec.convert(msgspec.to_builtins(self.domain), Domain)
        except msgspec.ValidationError as error:
            raise LearningError("learning.bad_domain", f"invalid domain: {error}") from error
        paths = msgspec.to_builtins(self.domain)
        del paths["traces"]
        try:
            settings = {
                "domain": {**paths, "traces_ms": traces_ms(self.domain)},
                "heuristic": heuristic,
            }
            self._native = _native.SimEnv(msgspec.json.encode(settings), n)
        except CcpError as error:
            raise LearningError(
                "learning.bad_domain", error.message, error.where, error.why, error.fix
            ) from error

    def reset(self, seed: int | None = None, which: Sequence[int] | None = None) -> NDArray[np.void]:
        """Begin new episodes.

        Args:
            seed: Determines all random numbers from now on; world i uses seed + i. Without a seed, worlds
                that had one continue their sequence.
            which: Worlds to reset; None for all.

        Returns:
            Structured array with `COLUMNS`, one entry per reset world: the interval before the first action,
            with a reward of 0.
        """
        worlds = list(range(self.n)) if which is None else list(which)
        seeds = None if seed is None else [(seed + world) % 2**64 for world in worlds]
        return self._judged(self._native.reset(worlds, seeds))

    def step(self, actions: ArrayLike, where: NDArray[np.bool_] | None = None) -> NDArray[np.void]:
        """Apply an action in each world, for one interval.

        Args:
            actions: (n,) from -1 to 1: each window is multiplied by 2 to the power of its action; 0 leaves
                the window and CUBIC's epoch alone. Where the episode is over, a new one begins instead.
            where: (n,) bool: worlds to step; None for all. In the others time stands still, and their entries
                are zeros.

        Returns:
            Structured array with `COLUMNS`, one entry per world.

        Raises:
            LearningError: `learning.bad_reward`, if the reward is not a finite number for each world.
        """
        given = np.array(actions, np.float32).reshape(self.n)
        if where is not None:
            given[~where] = np.nan
        return self._judged(self._native.step(given.tobytes()))

    def _judged(self, reported: NDArray[np.void]) -> NDArray[np.void]:
        """Return rows with the worlds' output, with rewards where an action led to the interval."""
        rows = np.zeros(len(reported), _ROW)
        for name in reported.dtype.names or ():
            if name in COLUMNS:
                rows[name] = reported[name]
        passed = np.flatnonzero(reported["interval_us"] > 0)
        self._begin(reported[passed])
        states = self._collector.end(reported[passed])
        if states is not None:
            for name, values in {"observation": states.observations, **states.seen}.items():
                rows[name][passed] = values
        acted = reported["acted"] > 0
        if acted.any():
            rewards = np.asarray(self._reward(rows[acted]))
            if rewards.shape != (acted.sum(),) or not np.isfinite(rewards).all():
                raise LearningError(
                    "learning.bad_reward",
                    "a reward must return a finite number for each interval",
                    str(getattr(self._reward, "origin", "")),
                    f"the result is {rewards.dtype} of shape {rewards.shape} for {acted.sum()} intervals"
                    + (", not all finite" if rewards.dtype.kind == "f" else ""),
                    "compute with arrays, and handle zeros: `rtt_us` is 0 without a sample",
                )
            rows["reward"][acted] = rewards
        return rows

    def _begin(self, reported: NDArray[np.void]) -> None:
        """Start collecting where an episode begins; totals count from the start of this interval."""
        begun = reported[reported["acted"] == 0]
        for world, mtp_us in zip(begun["flow_id"].tolist(), begun["mtp_us"].tolist(), strict=True):
            self._collector.add(world, mtp_us)
        first = np.zeros_like(begun)
        first["flow_id"] = begun["flow_id"]
        first["now_us"] = begun["now_us"] - begun["interval_us"]
        self._collector.begin(first)


def info_of(rows: NDArray[np.void]) -> dict[str, Any]:
    """Return the fields of entries, except those that Gymnasium returns separately."""
    return {name: rows[name] for name in COLUMNS if name not in ("observation", "reward", "over")}
