"""Small paths."""

from __future__ import annotations

from experiments.learning.domain import BYTES_PER_S_PER_MBIT, Domain

SMALL = Domain(
    rate_bytes_per_s=(4 * BYTES_PER_S_PER_MBIT, 12 * BYTES_PER_S_PER_MBIT),
    rtt_us=(10e3, 40e3),
    mtp_us=(20e3, 60e3),
    traces=3,
    episode_us=3_000_000,
)
