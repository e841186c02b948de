"""Hyvar (Qiu, Liu, Liu, Li, Zhu): the slides' evaluation. `docs/papers/hyvar.md` has the results."""

from __future__ import annotations

from typing import Final

from experiments.papers.hyvar.claims import CLAIMS
from experiments.papers.hyvar.mtp import MTP
from experiments.papers.hyvar.paths import PATHS
from experiments.papers.hyvar.runs import SLIDES_PARAMS
from experiments.papers.hyvar.sharing import SHARING
from experiments.papers.literal import literal
from experiments.papers.paper import Paper

_PARTS: Final = (
    MTP,
    PATHS,
    SHARING,
    *(
        literal(part, "the slides' reward, no packet trains, no price", SLIDES_PARAMS)
        for part in (MTP, PATHS)
    ),
)

PAPER: Final = Paper.of(
    "hyvar", "Hybrid Congestion Control with Variable Monitoring Time Period", _PARTS, CLAIMS
)
