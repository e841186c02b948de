"""Congestion control as an environment of Gymnasium: `ccplane/CongestionControl-v0`.

    observation  7 numbers from -1 to 1: `ccp_algs.hyvar.observation`
    action       1 number a from -1 to 1: the window is multiplied by 2^a
    reward       the reward of the slides, or another function: `experiments.learning.rewards`
    info         inputs of the observation and properties of the path, with units:
                 `experiments.learning.worlds.COLUMNS`

A step is one monitoring time period. An episode is one path, drawn from a `Domain`. Episodes are
truncated when their time is over and never terminate, because congestion control has no goal state. There
is nothing to render.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from ccp_algs.hyvar.observation import N_FEATURES
from experiments.learning.domain import Domain
from experiments.learning.rewards import slides
from experiments.learning.worlds import Reward, Worlds, info_of

OBSERVATIONS = spaces.Box(-1.0, 1.0, (N_FEATURES,), np.float32)
ACTIONS = spaces.Box(-1.0, 1.0, (1,), np.float32)

_SEEDS = 2**62


class CongestionControl(gymnasium.Env[NDArray[np.float32], NDArray[np.float32]]):
    """One connection.

    `reset(seed=...)` determines this episode and all following episodes without a seed.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 -- declared so by Gymnasium

    def __init__(
        self, domain: Domain | None = None, reward: Reward = slides.reward, render_mode: str | None = None
    ) -> None:
        """Make the environment.

        Args:
            domain: Distribution of the paths; None for the default.
            reward: The reward function.
            render_mode: Must be None: there is nothing to render.

        Raises:
            LearningError: `learning.bad_domain`.
        """
        self.observation_space = OBSERVATIONS
        self.action_space = ACTIONS
        self.render_mode = render_mode
        self._worlds = Worlds(1, domain, reward)
        self._is_over = True

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Begin an episode; there are no options."""
        super().reset(seed=seed)
        rows = self._worlds.reset(int(self.np_random.integers(_SEEDS)))
        self._is_over = False
        return _observation(rows), _info(rows)

    def step(
        self, action: NDArray[np.float32]
    ) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Apply the action for one interval.

        Raises:
            gymnasium.error.ResetNeeded: If no episode is under way.
        """
        if self._is_over:
            raise gymnasium.error.ResetNeeded("the episode is over; call reset()")
        rows = self._worlds.step(action)
        self._is_over = bool(rows["over"][0])
        return _observation(rows), float(rows["reward"][0]), False, self._is_over, _info(rows)


class CongestionControlVector(VectorEnv[NDArray[np.float32], NDArray[np.float32], NDArray[Any]]):
    """Many connections, each on its own path, stepped by native code.

    After the end of an episode, the next step ignores the action, starts a new episode, and has reward 0
    (`AutoresetMode.NEXT_STEP`).
    """

    metadata: dict[str, Any] = {  # noqa: RUF012 -- declared so by Gymnasium
        "render_modes": [],
        "autoreset_mode": AutoresetMode.NEXT_STEP,
    }

    def __init__(
        self,
        num_envs: int = 1,
        domain: Domain | None = None,
        reward: Reward = slides.reward,
        render_mode: str | None = None,
    ) -> None:
        """Make `num_envs` environments; other arguments as in `CongestionControl`."""
        self.num_envs = num_envs
        self.single_observation_space = OBSERVATIONS
        self.single_action_space = ACTIONS
        self.observation_space = batch_space(OBSERVATIONS, num_envs)
        self.action_space = batch_space(ACTIONS, num_envs)
        self.render_mode = render_mode
        self._worlds = Worlds(num_envs, domain, reward)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Begin an episode in each environment; there are no options."""
        super().reset(seed=seed)
        rows = self._worlds.reset(int(self.np_random.integers(_SEEDS)))
        return rows["observation"].copy(), info_of(rows)

    def step(
        self, actions: NDArray[np.float32]
    ) -> tuple[NDArray[np.float32], NDArray[Any], NDArray[Any], NDArray[Any], dict[str, Any]]:
        """Apply an action in each environment for one interval."""
        rows = self._worlds.step(actions)
        terminated = np.zeros(self.num_envs, bool)
        reward = rows["reward"].astype(np.float64)
        return rows["observation"].copy(), reward, terminated, rows["over"] > 0, info_of(rows)


def _observation(rows: NDArray[np.void]) -> NDArray[np.float32]:
    observation: NDArray[np.float32] = rows["observation"][0].copy()
    return observation


def _info(rows: NDArray[np.void]) -> dict[str, Any]:
    return {name: values[0].item() for name, values in info_of(rows).items()}
