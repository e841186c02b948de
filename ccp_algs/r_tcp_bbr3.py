"""R-TCP-BBRv3: BBR of draft-06 (`bbr3.py`), bounded by the token bucket that limits its client.

    pacing rate = min(BBR's, R)
    cwnd = min(BBR's, R sRTT)

Source: S. Zhu et al., "R-TCP: A Framework to Optimize TCP Performance Over Rate-Limiting Networks", NSDI
2026, section 5.2.

Parameters: those of BBR and of R-TCP (`rtcp/mixin.py`).

Deviations: the paper bounds only the pacing rate; but half a window may leave in a burst, so the window is
bounded as well. Whenever the cap is raised, BBR is in STARTUP, without the bounds that losses left. The paper
lets BBR probe when the cap is lifted; but a flow that keeps its sending rate learns nothing from a raised
cap.
"""

from __future__ import annotations

from ccp_algs.bbr3 import Bbr3
from ccp_algs.registry import register
from ccp_algs.rtcp.limit import RateLimit
from ccp_algs.rtcp.mixin import RateLimited


@register("r_tcp_bbr3")
class RTcpBbr3(RateLimited, Bbr3):
    """BBR of draft-06 within the token bucket that limits its client."""

    caps_cwnd = True

    def on_rate_limit(self, limit: RateLimit) -> None:
        """Probe for bandwidth while the cap is raised."""
        if limit.seeks:
            self.start_up()
