"""Congestion-control algorithms, one per module, and the API for writing them.

    from ccp_algs import Algorithm, Param, register
    from ccp_algs.fold import Ack, Cwnd, Flow, FoldProgram, every, latest, total

This package may import the standard library, numpy and `ccplane.base`, and nothing else of ccplane. An
algorithm reads
no clock, file or environment variable and draws no global random numbers: its decisions depend only on what
its callbacks receive. (`ccp_algs/hyvar/policy.py` reads the weights shipped with ccplane, and checks their
hash.)

Start with `ccp_algs.api` (the classes to derive from), `ccp_algs.fold` (fold programs in Python),
`ccp_algs.params` (parameters), `ccp_algs.registry` (look-up by name) and `ccp_algs.check` (the contract
check). The smallest complete algorithm is `ccp_algs/example_aimd.py`.
"""

from ccp_algs.api import Algorithm, Updates, VectorAlgorithm
from ccp_algs.check import check_algorithm
from ccp_algs.errors import AlgorithmError, ContractError, FoldError, RegistryError
from ccp_algs.params import Param, params_of, set_params
from ccp_algs.registry import register
from ccplane.base.errors import ParamError

__all__ = [
    "Algorithm",
    "AlgorithmError",
    "ContractError",
    "FoldError",
    "Param",
    "ParamError",
    "RegistryError",
    "Updates",
    "VectorAlgorithm",
    "check_algorithm",
    "params_of",
    "register",
    "set_params",
]
