"""Congestion-control algorithms, one module each, and the API that they are written against.

    from ccp_algs import Algorithm, Param, register
    from ccp_algs.fold import Ack, Cwnd, Flow, FoldProgram, every, latest, total

May import: the standard library, numpy and `ccplane.base`; nothing else of ccplane. An algorithm reads no
clock, file or environment and draws no global random numbers: it sees reports, and what it does depends on
nothing else.
(`ccp_algs/hyvar/policy.py` reads the weights that come with ccplane, whose hash it checks.)

Entry points: `ccp_algs.api` (what an algorithm is), `ccp_algs.fold` (fold programs in Python),
`ccp_algs.params` (parameters), `ccp_algs.registry` (algorithms by name), `ccp_algs.check` (the contract,
checked). The smallest algorithm is `ccp_algs/example_aimd.py`.
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
