"""Hyvar: a hybrid of CUBIC and a learned policy whose monitoring time period (MTP) follows the network.

Entry points: `algorithms` (hyvar, hybrid_mtp, policy). Parts: `fold` (the
program in the datapath), `collector`, `reasoner`, `observation` (what the policy sees), `policy` (its
weights). May import what algorithms may: the standard library, numpy, `ccp_algs`.
"""

from ccp_algs.hyvar import algorithms

__all__ = ["algorithms"]
