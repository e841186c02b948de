"""What the links of the chain are like; imported by the command line, so nothing heavy is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

RATE_BYTES_PER_S: Final = 125_000
"""Of the wire: 1 Mbit/s, far below what simulated radios carry, so that the wire is the bottleneck. An
emulated processor keeps up with so many packets, and with what is said about them."""

LEAST_BUFFER_BYTES: Final = 25_000
AIR_DELAY_MS: Final = 200.0
"""Of the lossy air: telemetry is at the sender before TCP finds a loss, also where programs are slow [ms]."""

MTU_BYTES: Final = 1500


@dataclass(frozen=True)
class Conditions:
    """What the links of a chain are like.

    Attributes:
        rate_bytes_per_s: Of the wire.
        delay_ms: Of the air behind ap2, towards sta2 [ms].
    """

    rate_bytes_per_s: float = RATE_BYTES_PER_S
    delay_ms: float = AIR_DELAY_MS

    @property
    def bdp_bytes(self) -> int:
        """What the path holds without a queue."""
        return round(self.rate_bytes_per_s * self.delay_ms / 1000)

    @property
    def buffer_bytes(self) -> int:
        """Room in front of the wire: a bandwidth-delay product, and some packets where that is less."""
        return max(LEAST_BUFFER_BYTES, self.bdp_bytes)


USUAL: Final = Conditions()
