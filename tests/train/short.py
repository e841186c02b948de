"""Short trainings."""

from __future__ import annotations

from experiments.learning.domain import BYTES_PER_S_PER_MBIT, Domain, Reward
from experiments.learning.training import Training

SHORT = Training(
    seed=3,
    worlds=16,
    steps_per_update=32,
    batches=2,
    learning_rate=3e-3,
    domain=Domain(
        rate_bytes_per_s=(4 * BYTES_PER_S_PER_MBIT, 12 * BYTES_PER_S_PER_MBIT),
        rtt_us=(10e3, 40e3),
        buffer_bdp=(1.0, 4.0),
        mtp_us=(20e3, 60e3),
        lossy_share=0.0,
        crossed_share=0.0,
        traced_share=0.0,
        episode_us=3_000_000,
    ),
    reward=Reward(yardstick="path", rtt_tolerance=1.1),
)
