"""R-TCP (NSDI 2026): detect from ACKs that a token bucket limits a flow; estimate the bucket's size and rate.

Entry points: `mixin` (bounds any algorithm by its client's limit), `detection` (the detector alone).
"""

from ccp_algs.rtcp.detection import Progress, new_detector
from ccp_algs.rtcp.options import Options

__all__ = ["Options", "Progress", "new_detector"]
