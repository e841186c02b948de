"""Makes Gymnasium know `ccplane/CongestionControl-v0`.

    import gymnasium
    env = gymnasium.make("experiments.learning.registration:ccplane/CongestionControl-v0")

Importing this module registers it; the part in front of the colon lets Gymnasium do that. `register_envs` is
also the entry point of the group `gymnasium.envs`, which Gymnasium itself reads no longer since its version
1.0.
"""

from __future__ import annotations

from typing import Final

import gymnasium

ENV_ID: Final = "ccplane/CongestionControl-v0"


def register_envs() -> None:
    """Register the environment, if it is not yet."""
    if ENV_ID not in gymnasium.registry:
        gymnasium.register(
            ENV_ID,
            entry_point="experiments.learning.gym_env:CongestionControl",
            vector_entry_point="experiments.learning.gym_env:CongestionControlVector",
        )


register_envs()
