"""R-TCP-Hyvar: Hyvar (`algorithms.py`), bounded by the token bucket that limits its client (`rtcp/mixin.py`).

    window = min(Hyvar's, R sRTT)       pacing rate = R while there is a limit

Source: S. Zhu et al., "R-TCP: A Framework to Optimize TCP Performance Over Rate-Limiting Networks", NSDI
2026, appendix M: the limiter for a learned congestion control.

Parameters: those of Hyvar and of R-TCP.

Deviation: while the cap is raised CUBIC is in slow start, as in `r_tcp_cubic.py`; the policy may end it.
"""

from __future__ import annotations

from ccp_algs.hyvar.algorithms import Hyvar
from ccp_algs.r_tcp_cubic import NO_THRESHOLD_BYTES
from ccp_algs.registry import register
from ccp_algs.rtcp.limit import RateLimit
from ccp_algs.rtcp.mixin import VectorRateLimited


@register("r_tcp_hyvar")
class RTcpHyvar(VectorRateLimited, Hyvar):
    """Hyvar within the token bucket that limits its client."""

    caps_cwnd = True

    def on_rate_limit(self, flow_id: int, limit: RateLimit) -> None:
        """Grow fast while the cap is raised."""
        if limit.seeks:
            self.flows[flow_id].set(ssthresh_bytes=NO_THRESHOLD_BYTES)
