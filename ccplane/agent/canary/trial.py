"""The trial of a new version: how its flows fare beside those that the lots left with the old one.

A flow is judged by what it came to since its start. At each look, the flows of the new version are ranked
among all that took part (`ranks`). The version is worse where they rank so badly that lots alone hardly ever
do that, and their median is worse by more than a margin:

    goodput   bytes acknowledged since the flow began [bytes/s], below 95 % of the others' median
    RTT       smoothed RTT at the look, or at the end [us], above 105 %
    loss      segments marked lost per segment delivered or lost, above the others' by half a per cent
    greed     goodput above three times the others' median

An exception of the new version ends the trial at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from itertools import islice
from statistics import median
from typing import Any, Final

from ccplane.agent.canary.lottery import Lottery, Share
from ccplane.agent.canary.ranks import p_smaller, spent
from ccplane.base.flows import FlowInfo, FlowStats

LEVEL: Final = 0.005
"""Chance that a version which is no worse is taken back, in the whole of a trial."""
FIRST_LOOK_S: Final = 1.0
LOOKS_GROW: Final = 1.25
"""Looks become rarer: each spends some of the level, and a trial that has lasted says less in a second."""
LEAST_FLOWS: Final = 3
"""So many flows a side are needed for a look."""
ENOUGH_FLOWS: Final = 10
"""So many flows of the new version are needed to say at the end that it is not worse."""
LEAST_AGE_US: Final = 300_000
"""A flow that lives is judged from this age on [us]: before, it tells of its first round trips only."""
KEPT: Final = 2_000
"""So many flows a side that closed, and so many of the youngest that live, are compared; reports wait."""

WORSE_RATIO: Final = 0.05
WORSE_LOSS: Final = 0.005
GREED: Final = 3.0


@dataclass(frozen=True, slots=True)
class Fared:
    """What a flow came to.

    Attributes:
        goodput_bytes_per_s: Bytes acknowledged, by its age [bytes/s].
        rtt_us: Smoothed RTT [us]; None if none was measured.
        loss_ratio: Segments marked lost per segment delivered or lost; None if there were none.
    """

    goodput_bytes_per_s: float
    rtt_us: float | None
    loss_ratio: float | None

    @classmethod
    def of(cls, stats: FlowStats, age_us: int) -> Fared:
        """Return what totals and age [us] say."""
        sent = stats.delivered_pkts + stats.lost_pkts
        return cls(
            1e6 * stats.bytes_acked / max(age_us, 1),
            stats.srtt_us or None,
            stats.lost_pkts / sent if sent else None,
        )


@dataclass(slots=True)
class Side:
    """The flows of one version.

    Attributes:
        living: When each flow began, CLOCK_MONOTONIC [us].
        closed: What the last `KEPT` that closed came to.
        flows: How many there were in all.
    """

    living: dict[int, int] = field(default_factory=dict)
    closed: deque[Fared] = field(default_factory=lambda: deque(maxlen=KEPT))
    flows: int = 0

    def fared(self, totals: Callable[[int], FlowStats | None], now_us: int) -> list[Fared]:
        """Return what the flows came to that are old enough, or closed."""
        found = list(self.closed)
        old_enough = (
            (flow_id, now_us - since_us)
            for flow_id, since_us in reversed(self.living.items())
            if now_us - since_us >= LEAST_AGE_US
        )
        for flow_id, age_us in islice(old_enough, KEPT):
            if (stats := totals(flow_id)) is not None:
                found.append(Fared.of(stats, age_us))
        return found


@dataclass(frozen=True, slots=True)
class Compared:
    """One figure of both sides at a look.

    Attributes:
        new: Median of the new version's flows.
        old: Median of the others.
        p: How likely lots alone make the new ones look as bad, or worse.
    """

    new: float
    old: float
    p: float


@dataclass(frozen=True, slots=True)
class Look:
    """What a look showed.

    Attributes:
        flows: How many flows of the new version were compared.
        with_flows: With how many.
        figures: By `goodput`, `rtt`, `loss` and `greed`.
        worse: Why the version is to be taken back; empty if nothing speaks against it.
    """

    flows: int = 0
    with_flows: int = 0
    figures: Mapping[str, Compared] = field(default_factory=dict)
    worse: str = ""


class Trial:
    """A version on trial.

    Attributes:
        algorithm: Name of the algorithm whose version it is.
        name: Name that the version runs under.
        share: Which flows it gets.
        seconds: How long the trial lasts [s].
        new: Its flows.
        old: Those that the lots left with the old version.
        looks: How often both sides were compared.
        last: What the last look showed.
        failed: What the version raised; empty if nothing.
    """

    def __init__(
        self,
        algorithm: str,
        share: Share,
        seconds: float,
        now_s: float,
        seed: int | None = None,
    ) -> None:
        """Begin.

        Args:
            algorithm: Name of the running algorithm.
            share: Which flows the new version gets.
            seconds: How long the trial lasts [s].
            now_s: Clock at the start [s].
            seed: Of the lots.
        """
        self.algorithm = algorithm
        self.name = name_of(algorithm)
        self.share = share
        self.seconds = seconds
        self.new, self.old = Side(), Side()
        self.looks = 0
        self.last = Look()
        self.failed = ""
        self._since_s = now_s
        self._next_s = now_s + FIRST_LOOK_S
        self._lottery = Lottery(share, seed)

    def takes(self, info: FlowInfo) -> bool:
        """Draw the lot of a new flow; returns whether it gets the new version."""
        lot = self._lottery.draw(info)
        if lot is None:
            return False
        side = self.new if lot else self.old
        side.living[info.flow_id] = info.created_us
        side.flows += 1
        return lot

    def closed(self, flow_id: int, stats: FlowStats | None) -> None:
        """Take what a flow came to, if it took part; None if its totals were lost."""
        for side in (self.new, self.old):
            since_us = side.living.pop(flow_id, None)
            if since_us is not None and stats is not None:
                side.closed.append(Fared.of(stats, stats.now_us - since_us))

    def due(self, now_s: float) -> bool:
        """Return whether it is time for a look."""
        return bool(self.failed) or now_s >= min(self._next_s, self._since_s + self.seconds)

    def over(self, now_s: float) -> bool:
        """Return whether the trial has lasted as long as it was to."""
        return now_s >= self._since_s + self.seconds

    def age_s(self, now_s: float) -> float:
        """Return for how long it has lasted [s]."""
        return now_s - self._since_s

    def look(self, totals: Callable[[int], FlowStats | None], now_s: float) -> Look:
        """Compare both sides.

        Args:
            totals: Returns the totals of a flow.
            now_s: The clock [s], CLOCK_MONOTONIC as that of the totals.
        """
        self._next_s = now_s + max(FIRST_LOOK_S, (LOOKS_GROW - 1) * self.age_s(now_s))
        now_us = round(1e6 * now_s)
        new, old = (side.fared(totals, now_us) for side in (self.new, self.old))
        if self.failed:
            self.last = Look(len(new), len(old), {}, self.failed)
        elif min(len(new), len(old)) < LEAST_FLOWS:
            self.last = Look(len(new), len(old))
        else:
            self.looks += 1
            figures = compared(new, old)
            level = spent(self.looks, LEVEL) / len(JUDGED)
            self.last = Look(len(new), len(old), figures, told_worse(figures, level))
        return self.last

    def as_row(self, now_s: float) -> dict[str, Any]:
        """Return how it stands, as plain data."""
        return {
            "algorithm": self.algorithm,
            "name": self.name,
            "share": str(self.share),
            "for_s": self.seconds,
            "age_s": round(self.age_s(now_s), 3),
            "flows": self.new.flows,
            "other_flows": self.old.flows,
            "looks": self.looks,
            "compared": self.last.flows,
            "compared_with": self.last.with_flows,
            "figures": {name: asdict(one) for name, one in self.last.figures.items()},
        }


def name_of(algorithm: str) -> str:
    """Return the name that a version on trial runs under."""
    return f"{algorithm}@canary"


@dataclass(frozen=True, slots=True)
class _Judged:
    """How a figure is judged.

    Attributes:
        of: Returns it of a flow; None if it has none.
        sign: 1 where less is worse, -1 where more is.
        worse: Whether a median is worse than the others' by more than the margin.
        text: Says it.
    """

    of: Callable[[Fared], float | None]
    sign: int
    worse: Callable[[float, float], bool]
    text: Callable[[float, float], str]


JUDGED: Final[dict[str, _Judged]] = {
    "goodput": _Judged(
        lambda one: one.goodput_bytes_per_s,
        1,
        lambda new, old: new < (1 - WORSE_RATIO) * old,
        lambda new, old: f"goodput {8e-6 * new:.3g} Mbit/s, others {8e-6 * old:.3g}",
    ),
    "rtt": _Judged(
        lambda one: one.rtt_us,
        -1,
        lambda new, old: new > (1 + WORSE_RATIO) * old,
        lambda new, old: f"RTT {new / 1e3:.3g} ms, others {old / 1e3:.3g}",
    ),
    "loss": _Judged(
        lambda one: one.loss_ratio,
        -1,
        lambda new, old: new > old + WORSE_LOSS,
        lambda new, old: f"loss {100 * new:.2g} %, others {100 * old:.2g}",
    ),
    "greed": _Judged(
        lambda one: one.goodput_bytes_per_s,
        -1,
        lambda new, old: new > GREED * old,
        lambda new, old: f"it takes from others: goodput {8e-6 * new:.3g} Mbit/s, others {8e-6 * old:.3g}",
    ),
}
"""Figure -> how it is judged."""


def compared(new: list[Fared], old: list[Fared]) -> dict[str, Compared]:
    """Return all figures that both sides have."""
    found = {}
    for name, judged in JUDGED.items():
        sides = [[value for one in side if (value := judged.of(one)) is not None] for side in (new, old)]
        if all(sides):
            ours, theirs = ([judged.sign * value for value in side] for side in sides)
            found[name] = Compared(median(sides[0]), median(sides[1]), p_smaller(ours, theirs))
    return found


def told_worse(figures: Mapping[str, Compared], level: float) -> str:
    """Return what is worse by more than chance and margin, as people say it; empty if nothing is."""
    return "; ".join(
        f"{JUDGED[name].text(one.new, one.old)} (p = {one.p:.1g})"
        for name, one in figures.items()
        if one.p <= level and JUDGED[name].worse(one.new, one.old)
    )
