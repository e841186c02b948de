"""Hyvar: a hybrid of CUBIC and a learned policy whose monitoring time period (MTP) follows the network.

Entry points: `algorithms` (hyvar, hybrid_mtp, policy). Parts: `fold` (the fold program), `collector`,
`reasoner`, `observation` (the policy's input), `policy` (its weights). Like all algorithms it may import the
standard library, numpy and `ccp_algs`.
"""

from ccp_algs.hyvar import algorithms

__all__ = ["algorithms"]
