"""The papers' experiments, for notebooks: their networks, tables and figures. Wheels omit this module.

from ccplane.papers import Table, flex_cubic, on, table_of
"""

from dataclasses import replace

from ccp_algs.rtcp import Progress, new_detector
from experiments.papers import flex_cubic, hyvar, int_adaptive, r_hybrid, r_tcp
from experiments.papers.flex_cubic import paper as _flex_cubic  # noqa: F401 -- found as flex_cubic.paper
from experiments.papers.hyvar import mtp as _mtp  # noqa: F401
from experiments.papers.hyvar import runs as _runs  # noqa: F401
from experiments.papers.int_adaptive import chain as _chain  # noqa: F401
from experiments.papers.int_adaptive import growth as _growth  # noqa: F401
from experiments.papers.int_adaptive import paper as _int_adaptive  # noqa: F401
from experiments.papers.paper import Runs, table_of
from experiments.papers.r_hybrid import paper as _r_hybrid  # noqa: F401
from experiments.papers.r_hybrid import path as _path  # noqa: F401
from experiments.papers.r_hybrid import series as _series  # noqa: F401
from experiments.papers.r_tcp import download as _download  # noqa: F401
from experiments.papers.r_tcp import lift as _lift  # noqa: F401
from experiments.papers.r_tcp import operators as _operators  # noqa: F401
from experiments.papers.r_tcp import runs as _transfers  # noqa: F401
from experiments.papers.tables import Table
from experiments.papers.variants import KERNEL, steered
from experiments.sweep import Grid
from telemetry.regime import DetectorOptions

__all__ = [
    "KERNEL",
    "DetectorOptions",
    "Progress",
    "Runs",
    "Table",
    "flex_cubic",
    "hyvar",
    "int_adaptive",
    "new_detector",
    "on",
    "r_hybrid",
    "r_tcp",
    "steered",
    "table_of",
]


def on(grid: Grid, datapath: str) -> Grid:
    """Return a grid whose runs take place on a datapath: `sim`, or `ebpf` for real sockets, as root."""
    return replace(grid, base=grid.base.replace(datapath=datapath))
