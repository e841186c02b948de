"""R-TCP (NSDI 2026): detect from ACKs that a token bucket limits a flow, and estimate size and rate.

Entry points: `mixin` (any algorithm, kept within its clients' limits), `detection` (the detector by itself).
"""

from ccp_algs.rtcp.detection import Progress, new_detector
from ccp_algs.rtcp.options import Options

__all__ = ["Options", "Progress", "new_detector"]
