"""Properties of the chain's links; imports little, because the command line imports this module."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

RATE_BYTES_PER_S: Final = 125_000
"""Rate of the wire: 1 Mbit/s, so that the wire, not the simulated radios, is the bottleneck, and an emulated
processor keeps up with the packets and their telemetry."""

MIN_BUFFER_BYTES: Final = 25_000
AIR_DELAY_MS: Final = 200.0
"""Delay of the lossy air; long enough for telemetry to reach a slow sender before TCP detects a loss [ms]."""

MTU_BYTES: Final = 1500


@dataclass(frozen=True)
class Conditions:
    """Properties of the links of a chain.

    Attributes:
        rate_bytes_per_s: Rate of the wire.
        delay_ms: Delay of the air after ap2, towards sta2 [ms].
    """

    rate_bytes_per_s: float = RATE_BYTES_PER_S
    delay_ms: float = AIR_DELAY_MS

    @property
    def bdp_bytes(self) -> int:
        """Bandwidth-delay product of the path."""
        return round(self.rate_bytes_per_s * self.delay_ms / 1000)

    @property
    def buffer_bytes(self) -> int:
        """Buffer in front of the wire: a bandwidth-delay product, or a few packets where that is more."""
        return max(MIN_BUFFER_BYTES, self.bdp_bytes)


USUAL: Final = Conditions()
