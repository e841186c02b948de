"""R-TCP (Zhu et al., NSDI 2026): the paper's figures and tables over emulated operators.

The operators of Table 1 are links with token buckets (`operators.py`). Compared flows run simultaneously,
each pair of hosts with its own link and limiter (`runs.py`). `docs/papers/r-tcp.md` has the results.
"""

from __future__ import annotations

from typing import Final

from experiments.papers.literal import literal
from experiments.papers.paper import Paper
from experiments.papers.r_tcp.claims import CLAIMS, LIMITED_BY
from experiments.papers.r_tcp.download import DOWNLOAD, LARGEST_DOWNLOAD
from experiments.papers.r_tcp.fairness import FAIRNESS
from experiments.papers.r_tcp.false import CLOSED_LOOP, FALSE_POSITIVES
from experiments.papers.r_tcp.grid import GRID
from experiments.papers.r_tcp.harder import CLAIMS as HARDER_CLAIMS
from experiments.papers.r_tcp.harder import HARDER
from experiments.papers.r_tcp.lift import LIFT
from experiments.papers.r_tcp.overhead import OVERHEAD
from experiments.papers.r_tcp.patterns import PATTERNS_PART
from experiments.papers.r_tcp.traces import TRACES
from experiments.papers.r_tcp.transfers import BDP, CONCURRENT_PART, ERRORS, MULTI_PART, STATEFUL
from experiments.papers.r_tcp.tuning import TUNING
from experiments.papers.r_tcp.video import VIDEO

PAPERS_PROBES: Final = {one: {"probe_every_pkts": 0} for one in LIMITED_BY.values()}
"""Parameters with which probes wait for eta round trips alone."""

_PARTS: Final = (
    DOWNLOAD,
    LARGEST_DOWNLOAD,
    ERRORS,
    STATEFUL,
    MULTI_PART,
    CONCURRENT_PART,
    PATTERNS_PART,
    BDP,
    LIFT,
    TUNING,
    FAIRNESS,
    TRACES,
    GRID,
    FALSE_POSITIVES,
    CLOSED_LOOP,
    HARDER,
    OVERHEAD,
    VIDEO,
    *(
        literal(part, "probes wait for eta alone", PAPERS_PROBES)
        for part in (DOWNLOAD, LARGEST_DOWNLOAD, STATEFUL, CONCURRENT_PART, BDP, LIFT, FAIRNESS)
    ),
)

PAPER: Final = Paper.of(
    "r-tcp",
    "R-TCP: A Framework to Optimize TCP Performance Over Rate-Limiting Networks",
    _PARTS,
    (*CLAIMS, *HARDER_CLAIMS),
    own_networks=False,  # each repeat has its own limiters already
)
