"""Which kept results still count: those of a clean tree, with today's behaviour of simulator and algorithms.

`CHANGES` lists changes of behaviour, and the parts whose results they can reach. A test compares today's
behaviour with `DIGESTS`. If it differs, add the change and the digest that the test prints, and repeat the
parts that `ccp paper claims` calls stale.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from experiments.papers.comparisons import LITERAL


@dataclass(frozen=True)
class Change:
    """A change of the behaviour of something that results are made with.

    Attributes:
        model: `SIMULATOR`, or an algorithm.
        at: When it changed (ISO 8601).
        what: The change, as a noun phrase.
        parts: Parts of papers whose results it can reach; empty: all that use the model.
        checks: It reaches only claims with a check whose name contains this.
        papers: Papers whose results it can reach; empty: all.
    """

    model: str
    at: str
    what: str
    parts: frozenset[str] = frozenset()
    checks: str = ""
    papers: frozenset[str] = frozenset()


SIMULATOR: Final = "simulator"
_WITH_IDLE_TIMES: Final = frozenset({"multi", "stateful", "patterns", "traces"})
_SEVERAL_TRANSFERS: Final = _WITH_IDLE_TIMES | {"concurrent"}
_LATE_CANDIDATES: Final = _SEVERAL_TRANSFERS | {
    *("bdp", "closed-loop", "download", "errors", "fairness", "false-positives", "grid", "lift", "tuning")
}
"""Not `download-32mb`: repeated after the change, all simulated figures of CUBIC and BBRv1 were the same."""
_SPARSE_EVENTS: Final = frozenset({"fast", "fig3", "next-to-cubic"})
"""Not `clean`, `false-switches`, `fig2`, `two-peers`: simulated figures stayed the same; nor `timing`, where
nothing is marked or lost.
"""
_LARGE_WINDOWS: Final = frozenset({"grid", "parameters", "fairness", "bursts", "loss"})
"""Parts whose windows, with data after a loss, exceed 2.7 MB. Others gave the same packets as before on their
largest paths."""
CHANGES: Final = (
    Change(SIMULATOR, "2026-11-25T16:47:00+00:00", "the send buffer of Linux"),
    Change(SIMULATOR, "2026-11-26T01:38:00+00:00", "the delay of the first ACKs"),
    Change(SIMULATOR, "2026-11-28T03:19:00+00:00", "windows after an idle time", _WITH_IDLE_TIMES),
    Change(
        SIMULATOR,
        "2026-11-29T01:04:00+00:00",
        "writes of iperf3 into a full send buffer",
        _LARGE_WINDOWS,
        papers=frozenset({"flex-cubic", "published"}),
    ),
    Change("flex_cubic", "2026-11-26T05:29:00+00:00", "options for what the paper leaves open"),
    Change("int_cubic", "2026-11-26T05:39:00+00:00", "growth in a round trip", frozenset({"echo-growth"})),
    Change("hyvar", "2026-11-27T05:36:00+00:00", "packet trains"),
    Change("hyvar", "2026-11-27T12:45:00+00:00", "the price of losses", frozenset({"sharing"})),
    Change("r_hybrid", "2026-11-26T01:48:00+00:00", "the response to marks", frozenset({"fig3"})),
    Change("r_hybrid", "2026-11-27T09:33:00+00:00", "the response to early marks", frozenset({"fig3"})),
    Change("r_tcp", "2026-11-26T02:53:00+00:00", "the end of probes"),
    Change("r_tcp", "2026-11-27T02:48:00+00:00", "tokens of idle times", _WITH_IDLE_TIMES),
    Change("r_tcp", "2026-11-27T06:30:00+00:00", "caps before a verdict", _SEVERAL_TRANSFERS),
    Change("flex_cubic", "2026-11-28T21:30:00+00:00", "the window after timeouts and repeated losses"),
    Change(
        "int_cubic",
        "2026-11-28T21:30:00+00:00",
        "the window before a loss that is taken back",
        frozenset({"echo-loss", "fig6", "silent"}),
    ),
    Change(
        "r_hybrid",
        "2026-11-28T21:30:00+00:00",
        "the response to marks",
        frozenset({"fig3"}),
    ),
    Change("r_tcp", "2026-11-28T21:30:00+00:00", "candidates that are added late", _LATE_CANDIDATES),
    Change("bbr3", "2026-11-28T21:30:00+00:00", "rounds by packets", checks="bbr3"),
    Change(
        "r_hybrid",
        "2026-11-29T00:26:00+00:00",
        "marks and losses that are counted over seconds",
        _SPARSE_EVENTS,
    ),
)
"""All changes since the oldest kept result, in order."""
USED: Final[Mapping[str, Sequence[str]]] = {
    "flex-cubic": ("flex_cubic",),
    "int-adaptive": ("int_cubic",),
    "hyvar": ("hyvar",),
    "r-hybrid": ("r_hybrid", "dctcp"),
    "r-tcp": ("r_tcp", "bbr3"),
}
"""Paper -> the algorithms that its claims are about."""
DIGESTS: Final[Mapping[str, str]] = {
    "kernel/cubic": "b44c4b3f",
    "kernel/bbr": "7f779a22",
    "flex_cubic": "10343dbc",
    "int_cubic": "75816c81",
    "hyvar": "48092166",
    "r_hybrid": "3e528db2",
    "rtcp/cubic": "888259f0",
    "bbr3": "7c909376",
    "dctcp": "fc1b1d6d",
}
"""Algorithm -> what it does in the simulator today, as the test of this module computes it."""


def stale(
    paper: str,
    part: str,
    about: Mapping[str, Any],
    checks: Sequence[str],
    *,
    simulated: bool,
    changes: Sequence[Change] = CHANGES,
    used: Mapping[str, Sequence[str]] = USED,
) -> str:
    """Return why a result gives no verdict; empty if it does.

    Args:
        paper: Name of the paper.
        part: Name of the part, without the suffix of simulated results; by the paper's rule or ccplane's.
        about: `git` and `date` of the result, as in `Kept.about`.
        checks: Names of a claim's checks.
        simulated: Whether the simulator made it.
        changes: Changes of behaviour.
        used: Paper -> its algorithms.
    """
    git = about["git"]
    if not git:
        return "of an unknown revision"
    if git["dirty"]:
        return "of a tree with changes"
    made = datetime.fromisoformat(about["date"])
    part = part.removesuffix(LITERAL)  # the same flows but for parameters
    models = {*used.get(paper, ()), *((SIMULATOR,) if simulated else ())}
    for one in changes:
        reached = one.model in models and (not one.parts or part in one.parts)
        reached = reached and (not one.papers or paper in one.papers)
        reached = reached and (not one.checks or any(one.checks in name for name in checks))
        if reached and made < datetime.fromisoformat(one.at):
            return f"older than a change of {one.model}: {one.what}"
    return ""
