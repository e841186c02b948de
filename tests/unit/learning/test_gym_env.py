from __future__ import annotations

import warnings
from importlib.metadata import entry_points

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from experiments.learning.gym_env import CongestionControl, CongestionControlVector
from experiments.learning.registration import ENV_ID, register_envs
from experiments.learning.rewards import hyvar
from tests.unit.learning.small import SMALL


def test_the_environment_is_what_gymnasium_wants() -> None:
    with warnings.catch_warnings():
        # The only warning says that environments should be checked without wrappers.
        warnings.simplefilter("error")
        check_env(CongestionControl(SMALL), skip_render_check=True)


def test_it_is_made_by_its_name_with_parameters() -> None:
    env = gymnasium.make(ENV_ID, domain=SMALL, reward=hyvar.reward)
    observation, info = env.reset(seed=4)
    assert env.observation_space.contains(observation)
    assert info["rtt_us"] > 0
    observation, reward, terminated, truncated, info = env.step(env.action_space.sample())
    assert env.observation_space.contains(observation)
    assert -1 <= reward <= 1
    assert not terminated
    assert not truncated
    env.close()


def test_the_entry_point_registers_it() -> None:
    found = [entry for entry in entry_points(group="gymnasium.envs") if entry.load() is register_envs]
    assert len(found) == 1
    del gymnasium.registry[ENV_ID]
    found[0].load()()
    assert ENV_ID in gymnasium.registry


def test_a_seed_determines_all_that_follows() -> None:
    def played() -> list[float]:
        env = CongestionControl(SMALL)
        rewards = []
        env.reset(seed=3)
        for _ in range(2):
            over = False
            while not over:
                _, reward, _, over, _ = env.step(np.array([0.1], np.float32))
                rewards.append(reward)
            env.reset()
        return rewards

    first = played()
    assert first == played()
    # The second episode differs.
    assert len(set(first)) > len(first) / 2


def test_stepping_after_the_end_is_refused() -> None:
    env = CongestionControl(SMALL)
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(np.zeros(1, np.float32))
    env.reset(seed=1)
    while not env.step(np.zeros(1, np.float32))[3]:
        pass
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(np.zeros(1, np.float32))


def test_many_are_made_at_once() -> None:
    envs = gymnasium.make_vec(ENV_ID, num_envs=5, domain=SMALL)
    assert isinstance(envs.unwrapped, CongestionControlVector)
    observations, infos = envs.reset(seed=1)
    assert envs.observation_space.contains(observations)
    assert infos["cwnd_bytes"].shape == (5,)
    ended = np.zeros(5, bool)
    after_end = []
    for _ in range(200):
        observations, rewards, terminated, truncated, infos = envs.step(envs.action_space.sample())
        assert envs.observation_space.contains(observations)
        assert not terminated.any()
        after_end += rewards[ended].tolist()
        ended = truncated
    # The step after an end begins the next episode.
    assert after_end
    assert set(after_end) == {0.0}
    envs.close()
