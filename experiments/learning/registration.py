"""Registers `ccplane/CongestionControl-v0` with Gymnasium, once ccplane is imported.

    import ccplane, gymnasium
    env = gymnasium.make("ccplane/CongestionControl-v0")

`register_envs` is also the entry point of the group `gymnasium.envs`, which Gymnasium itself no longer reads
since its version 1.0.
"""

from __future__ import annotations

from typing import Final

ENV_ID: Final = "ccplane/CongestionControl-v0"


def register_envs() -> None:
    """Register the environment, unless it is registered already."""
    from gymnasium.envs import registration

    if ENV_ID not in registration.registry:
        registration.register(
            ENV_ID,
            entry_point="experiments.learning.gym_env:CongestionControl",
            vector_entry_point="experiments.learning.gym_env:CongestionControlVector",
        )
