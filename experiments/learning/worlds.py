"""Many independent simulated worlds, each with a connection that learns, stepped together.

    worlds = Worlds(64)
    seen = worlds.reset(seed=1)
    while True:
        seen = worlds.step(policy(seen["observation"]))

A step lasts one monitoring time period (MTP) of each world, and until something was heard from the receiver:
a fold program reports with an ACK, too. While it lasts, Python's lock is released.
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
"""What is good: from intervals, (n,) with `COLUMNS`, to n finite numbers. `reward` is not filled in there."""

COLUMNS: Final[dict[str, str]] = {
    "observation": "what the policy sees of the interval (`ccp_algs.hyvar.observation`), 7 numbers",
    "reward": "how good the interval was",
    "over": "whether the episode ended with it (1) or not (0)",
    "interval_us": "how long it was [us of virtual time]",
    "now_us": "its end, since the start of the episode [us of virtual time]",
    "thr_bytes_per_s": "delivered [bytes/s of payload]",
    "thr_max_bytes_per_s": "largest of those of the episode so far [bytes/s]",
    "loss_bytes_per_s": "taken for lost [bytes/s]",
    "rtt_us": "mean of the RTT samples; 0: there was none [us]",
    "rtt_min_us": "least RTT of the episode so far [us]",
    "srtt_us": "smoothed RTT at the end [us]",
    "cwnd_bytes": "window at the end [bytes]",
    "mss_bytes": "payload of a segment [bytes]",
    "path_bytes_per_s": "payload that the path could carry in the last half second [bytes/s]",
    "path_rtt_us": "RTT of the path without a queue [us]",
    "path_buffer_bytes": "what waits in front of the bottleneck at most [bytes]",
    "path_loss_ratio": "probability that the path loses a packet",
    "path_cross_flows": "connections next to the learner's",
    "path_traced": "whether the rate follows a trace (1) or not (0)",
    "steered": "whether the policy is alone (1) or CUBIC moves the window between actions (0)",
    "mtp_us": "monitoring time period [us]",
}
"""What a step tells of each world; `Worlds.step` returns an array with these fields."""
_ROW: Final = np.dtype(
    [("observation", "f4", (N_FEATURES,)), ("reward", "f4"), *((name, "f8") for name in list(COLUMNS)[2:])]
)


class Worlds:
    """Worlds, and the episodes in them."""

    def __init__(
        self,
        n: int,
        domain: Domain | None = None,
        reward: Reward = slides.reward,
        heuristic: Heuristic = "cubic",
    ) -> None:
        """Make the worlds; `reset` begins their first episodes.

        Args:
            n: How many, >= 1.
            domain: What paths there are.
            reward: What is good.
            heuristic: What moves the window between actions, but on `steered_share` of the paths.

        Raises:
            LearningError: `learning.bad_domain`, if something of that cannot be.
        """
        self.domain = Domain() if domain is None else domain
        self._reward = reward
        self._collector = Collector()
        self.n = n
        if n < 1:
            raise LearningError("learning.bad_domain", f"{n} worlds", "n", fix="ask for 1 or more")
        try:
            msgspec.convert(msgspec.to_builtins(self.domain), Domain)
        except msgspec.ValidationError as error:
            raise LearningError("learning.bad_domain", f"no such paths: {error}") from error
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
            seed: All random numbers from now on follow from it, in world i from seed + i; without, worlds
                that had a seed go on drawing.
            which: In these worlds; in all, if None.

        Returns:
            Structured array with `COLUMNS`, one entry for each of these worlds: the interval after which the
            first action is due, in which nobody acted. Its reward is 0.
        """
        worlds = list(range(self.n)) if which is None else list(which)
        seeds = None if seed is None else [(seed + world) % 2**64 for world in worlds]
        return self._judged(self._native.reset(worlds, seeds))

    def step(self, actions: ArrayLike, where: NDArray[np.bool_] | None = None) -> NDArray[np.void]:
        """Act, and let an interval pass in each world.

        Args:
            actions: (n,) from -1 to 1: each window is multiplied by 2 to the power of its action; by 0 it is
                left alone, and so is CUBIC's epoch. Where the episode was over, a new one begins instead.
            where: (n,) bool: in which worlds; in all, if None. In the others time stands still, and their
                entries are zeros.

        Returns:
            Structured array with `COLUMNS`, one entry a world.

        Raises:
            LearningError: `learning.bad_reward`, if the reward is not a finite number for each world.
        """
        given = np.array(actions, np.float32).reshape(self.n)
        if where is not None:
            given[~where] = np.nan
        return self._judged(self._native.step(given.tobytes()))

    def _judged(self, told: NDArray[np.void]) -> NDArray[np.void]:
        """Return rows of what the worlds told, with rewards where an action led to the interval."""
        rows = np.zeros(len(told), _ROW)
        for name in told.dtype.names or ():
            if name in COLUMNS:
                rows[name] = told[name]
        passed = np.flatnonzero(told["interval_us"] > 0)
        self._begin(told[passed])
        states = self._collector.end(told[passed])
        if states is not None:
            for name, values in {"observation": states.observations, **states.seen}.items():
                rows[name][passed] = values
        acted = told["acted"] > 0
        if acted.any():
            rewards = np.asarray(self._reward(rows[acted]))
            if rewards.shape != (acted.sum(),) or not np.isfinite(rewards).all():
                raise LearningError(
                    "learning.bad_reward",
                    "a reward is a finite number for each interval",
                    str(getattr(self._reward, "origin", "")),
                    f"it is {rewards.dtype} of shape {rewards.shape} for {acted.sum()} intervals"
                    + (", not all finite" if rewards.dtype.kind == "f" else ""),
                    "compute with arrays, and mind what can be 0: `rtt_us` is, without a sample",
                )
            rows["reward"][acted] = rewards
        return rows

    def _begin(self, told: NDArray[np.void]) -> None:
        """Begin to collect where an episode begins; its totals count from the beginning of this interval."""
        begun = told[told["acted"] == 0]
        for world, mtp_us in zip(begun["flow_id"].tolist(), begun["mtp_us"].tolist(), strict=True):
            self._collector.add(world, mtp_us)
        first = np.zeros_like(begun)
        first["flow_id"] = begun["flow_id"]
        first["now_us"] = begun["now_us"] - begun["interval_us"]
        self._collector.begin(first)


def info_of(rows: NDArray[np.void]) -> dict[str, Any]:
    """Return the fields of entries, without those that Gymnasium has places of their own for."""
    return {name: rows[name] for name in COLUMNS if name not in ("observation", "reward", "over")}
