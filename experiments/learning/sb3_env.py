"""Worlds as a vector environment for Stable-Baselines3."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecEnv

from experiments.learning.gym_env import ACTIONS, OBSERVATIONS
from experiments.learning.worlds import Worlds

_OVER: Final = "TimeLimit.truncated"


class WorldsEnv(VecEnv):  # type: ignore[misc]  # has no types here
    """Steps worlds; at the end of an episode the next one begins immediately, as Stable-Baselines3 requires.

    Attributes:
        rows: Output of the last step: `experiments.learning.worlds.COLUMNS`.
    """

    def __init__(self, worlds: Worlds) -> None:
        """Wrap the worlds; their episodes follow from the argument of `seed`."""
        self.render_mode = None
        super().__init__(worlds.n, OBSERVATIONS, ACTIONS)
        self._worlds = worlds
        self._actions: NDArray[np.float32] = np.zeros(worlds.n, np.float32)
        self.rows: NDArray[np.void] = np.empty(0, np.void)

    def reset(self) -> NDArray[np.float32]:
        """Begin new episodes in all worlds."""
        self.rows = self._worlds.reset(self._seeds[0])
        self._reset_seeds()
        observations: NDArray[np.float32] = self.rows["observation"].copy()
        return observations

    def step_async(self, actions: NDArray[np.float32]) -> None:
        """Store the actions for `step_wait`."""
        self._actions = actions

    def step_wait(
        self,
    ) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[Any], list[dict[str, Any]]]:
        """Apply the actions for one interval in each world."""
        rows = self._worlds.step(self._actions)
        observations = rows["observation"].copy()
        over = rows["over"] > 0
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        ended = np.flatnonzero(over).tolist()
        if ended:
            for world in ended:
                infos[world] = {"terminal_observation": observations[world].copy(), _OVER: True}
            observations[ended] = self._worlds.reset(which=ended)["observation"]
        self.rows = rows
        return observations, rows["reward"].copy(), over, infos

    def close(self) -> None:
        """Do nothing: worlds hold no resources."""

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """Return an attribute of this object, once for each world."""
        return [getattr(self, attr_name)] * len(self._chosen(indices))

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Refuse: worlds are not Python objects."""
        raise AttributeError(attr_name)

    def env_method(
        self, method_name: str, *method_args: Any, indices: Any = None, **method_kwargs: Any
    ) -> list[Any]:
        """Refuse: worlds are not Python objects."""
        raise AttributeError(method_name)

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        """Return False for each world: there are no wrappers."""
        return [False] * len(self._chosen(indices))

    def _chosen(self, indices: Any) -> Sequence[int]:
        return list(self._get_indices(indices))
