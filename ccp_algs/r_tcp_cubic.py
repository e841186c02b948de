"""R-TCP-CUBIC: CUBIC (`cubic.py`), bounded by the token bucket that limits its client (`rtcp/mixin.py`).

    window = min(CUBIC's, R sRTT)       pacing rate = R while there is a limit

Source: S. Zhu et al., "R-TCP: A Framework to Optimize TCP Performance Over Rate-Limiting Networks", NSDI
2026, section 5.1.

Parameters: those of CUBIC and of R-TCP, and `pace_cubic`.

Deviations, with reasons:

* A capped flow is paced (`pace_cubic`): at 1 Mbit/s and 20 ms the window of equation 14 is less than two
  segments, and a burst would be lost as a whole.
* While the cap is raised CUBIC is in slow start, without HyStart: along its curve it would need seconds to
  find out that a limit has been lifted.
"""

from __future__ import annotations

from typing import Final

from ccp_algs.cubic import Cubic
from ccp_algs.params import Param
from ccp_algs.registry import register
from ccp_algs.rtcp.limit import RateLimit
from ccp_algs.rtcp.mixin import RateLimited
from ccp_algs.rtcp.options import Options

NO_THRESHOLD_BYTES: Final = 1 << 40
"""Threshold for a later slow start, which HyStart does not end because HyStart ends only the first one."""


@register("r_tcp_cubic")
class RTcpCubic(RateLimited, Cubic):
    """CUBIC within the token bucket that limits its client."""

    caps_cwnd = True
    pace_cubic = Param(Options.pace_cubic, doc="pace at the limit, in addition to bounding the window")

    @property
    def caps_rate(self) -> bool:  # type: ignore[override] # it can be changed
        """Whether the pacing rate is bounded."""
        return self.pace_cubic

    def on_rate_limit(self, limit: RateLimit) -> None:
        """Grow fast while the cap is raised."""
        if limit.seeks:
            self.flow.set(ssthresh_bytes=NO_THRESHOLD_BYTES)
