"""The cases: what each criterion of RFC 9743 is tested with.

A case has one or more line-ups of flows over a path, and measures of them. All paths have 50 Mbit/s, an RTT
of 40 ms and a buffer of one bandwidth-delay product (BDP) unless the case says otherwise.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from experiments.evaluate.cases import general, mixed, own, special
from experiments.evaluate.cases.base import Case
from experiments.evaluate.paths import Traces

__all__ = ["Case", "all_cases"]


@cache
def all_cases(folder: Path) -> tuple[Case, ...]:
    """Return all cases, in the order of RFC 9743; `folder` is that of their trace files."""
    return (*own.cases(), *mixed.cases(), *general.cases(Traces(folder)), *special.cases())
