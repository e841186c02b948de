from __future__ import annotations

from experiments.learning.domain import Domain
from experiments.units import MBIT

SMALL = Domain(
    rate_bytes_per_s=(4 * MBIT, 12 * MBIT),
    rtt_us=(10e3, 40e3),
    mtp_us=(20e3, 60e3),
    traces=3,
    episode_us=3_000_000,
)
