"""Short trainings."""

from __future__ import annotations

from experiments.learning.domain import Domain
from experiments.learning.training import Training
from experiments.units import MBIT

SHORT = Training(
    seed=3,
    worlds=16,
    steps_per_update=32,
    batches=2,
    learning_rate=3e-3,
    domain=Domain(
        rate_bytes_per_s=(4 * MBIT, 12 * MBIT),
        rtt_us=(10e3, 40e3),
        buffer_bdp=(1.0, 4.0),
        mtp_us=(20e3, 60e3),
        lossy_share=0.0,
        crossed_share=0.0,
        traced_share=0.0,
        episode_us=3_000_000,
    ),
)
