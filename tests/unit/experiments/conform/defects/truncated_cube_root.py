"""Planted defect: CUBIC whose cube root truncates its argument to 32 bits, so that K is far too short."""

import math

from ccp_algs.cubic import Cubic

CUBE_FACTOR = (1 << 40) // 410
"""Linux' factor: K^3 in units of 1/1024 s, for a deficit of one segment."""


class Truncated(Cubic):
    """CUBIC, but for its cube root."""

    def k_us(self, w_max_bytes: float, cwnd_epoch_bytes: float, mss_bytes: int) -> int:
        """Return K [us]."""
        deficit_pkts = max(0, int(w_max_bytes - cwnd_epoch_bytes) // mss_bytes)
        cubed = (CUBE_FACTOR * deficit_pkts) & 0xFFFFFFFF
        return round(math.cbrt(cubed) * 1e6 / 1024)
