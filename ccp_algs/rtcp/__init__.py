"""R-TCP (NSDI 2026): detect from ACKs that a token bucket limits a flow, and estimate size and rate.

Entry points: `detector` (one flow), `clients` (all flows to a client, remembered from one to the next).
"""

from ccp_algs.rtcp.detector import Detector
from ccp_algs.rtcp.options import Options
from ccp_algs.rtcp.transfer import Progress, Transfer

__all__ = ["Detector", "Options", "Progress", "Transfer"]
