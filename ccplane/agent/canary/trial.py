"""The trial of a new version: compares its flows with the control group, which keeps the old version.

A flow is measured from its start. Each evaluation ranks the flows of the new version among all flows of the
trial (see `ranks`). The new version is worse if its ranks are very unlikely by chance, and its median is
worse than the control group's median by more than a margin:

    goodput   bytes acknowledged since the start of the flow [bytes/s]: below 95 %
    RTT       smoothed RTT at the evaluation, or at the close [us]: above 105 %
    loss      segments marked lost per segment delivered or lost: more than 0.5 percentage points above
    greed     goodput: more than three times as high

An exception of the new version ends the trial immediately.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from itertools import islice
from statistics import median
from typing import Any, Final

from ccplane.agent.canary.assignment import Assignment, Share
from ccplane.agent.canary.ranks import p_smaller, spent
from ccplane.base.flows import FlowInfo, FlowStats

LEVEL: Final = 0.005
"""Probability that a trial takes back a version that is not worse."""
FIRST_LOOK_S: Final = 1.0
LOOKS_GROW: Final = 1.25
"""Factor by which the interval between evaluations grows; each evaluation spends some of the level."""
MIN_FLOWS: Final = 3
"""Minimum flows per side for an evaluation."""
ENOUGH_FLOWS: Final = 10
"""Minimum flows of the new version for the conclusion that it is not worse."""
MIN_AGE_US: Final = 300_000
"""Minimum age of an open flow that is compared [us]: younger flows show only their first round trips."""
KEPT: Final = 2_000
"""Maximum closed and maximum open flows (the youngest) compared per side, as comparing delays reports."""

WORSE_RATIO: Final = 0.05
WORSE_LOSS: Final = 0.005
GREED: Final = 3.0


@dataclass(frozen=True, slots=True)
class Fared:
    """Performance of a flow.

    Attributes:
        goodput_bytes_per_s: Bytes acknowledged per second of its age [bytes/s].
        rtt_us: Smoothed RTT [us]; None if none was measured.
        loss_ratio: Segments marked lost per segment delivered or lost; None without segments.
    """

    goodput_bytes_per_s: float
    rtt_us: float | None
    loss_ratio: float | None

    @classmethod
    def of(cls, stats: FlowStats, age_us: int) -> Fared:
        """Compute the performance from totals and age [us]."""
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
        living: Start time of each open flow, CLOCK_MONOTONIC [us].
        closed: Performance of the last `KEPT` closed flows.
        flows: Number of all flows.
    """

    living: dict[int, int] = field(default_factory=dict)
    closed: deque[Fared] = field(default_factory=lambda: deque(maxlen=KEPT))
    flows: int = 0

    def fared(self, totals: Callable[[int], FlowStats | None], now_us: int) -> list[Fared]:
        """Return the performance of closed flows, and of open flows that are old enough."""
        found = list(self.closed)
        old_enough = (
            (flow_id, now_us - since_us)
            for flow_id, since_us in reversed(self.living.items())
            if now_us - since_us >= MIN_AGE_US
        )
        for flow_id, age_us in islice(old_enough, KEPT):
            if (stats := totals(flow_id)) is not None:
                found.append(Fared.of(stats, age_us))
        return found


@dataclass(frozen=True, slots=True)
class Compared:
    """One metric of both sides in an evaluation.

    Attributes:
        new: Median of the new version's flows.
        old: Median of the control group.
        p: Probability that chance alone makes the new version look as bad, or worse.
    """

    new: float
    old: float
    p: float


@dataclass(frozen=True, slots=True)
class Look:
    """Result of an evaluation.

    Attributes:
        flows: Number of flows of the new version that were compared.
        with_flows: Number of flows of the control group.
        figures: Metrics: `goodput`, `rtt`, `loss` and `greed`.
        worse: Why the new version must be taken back; empty if it is no worse.
    """

    flows: int = 0
    with_flows: int = 0
    figures: Mapping[str, Compared] = field(default_factory=dict)
    worse: str = ""


class Trial:
    """A version on trial.

    Attributes:
        algorithm: Name of the algorithm.
        name: Name under which the new version runs.
        share: Share of new flows.
        seconds: Duration [s].
        new: Flows of the new version.
        old: Control group.
        looks: Number of evaluations.
        last: Result of the last evaluation.
        failed: Exception of the new version; empty if none.
    """

    def __init__(
        self,
        algorithm: str,
        share: Share,
        seconds: float,
        now_s: float,
        seed: int | None = None,
    ) -> None:
        """Start; `now_s` is the current time [s], `seed` the random seed."""
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
        self._assignment = Assignment(share, seed)

    def takes(self, info: FlowInfo) -> bool:
        """Assign a new flow at random; return whether it gets the new version."""
        drawn = self._assignment.draw(info)
        if drawn is None:
            return False
        side = self.new if drawn else self.old
        side.living[info.flow_id] = info.created_us
        side.flows += 1
        return drawn

    def closed(self, flow_id: int, stats: FlowStats | None) -> None:
        """Record the totals of a flow that closed, if it took part; None if they were lost."""
        for side in (self.new, self.old):
            since_us = side.living.pop(flow_id, None)
            if since_us is not None and stats is not None:
                side.closed.append(Fared.of(stats, stats.now_us - since_us))

    def due(self, now_s: float) -> bool:
        """Return whether an evaluation is due."""
        return bool(self.failed) or now_s >= min(self._next_s, self._since_s + self.seconds)

    def over(self, now_s: float) -> bool:
        """Return whether the trial's duration has passed."""
        return now_s >= self._since_s + self.seconds

    def age_s(self, now_s: float) -> float:
        """Return the time since the start [s]."""
        return now_s - self._since_s

    def look(self, totals: Callable[[int], FlowStats | None], now_s: float) -> Look:
        """Compare both sides."""
        self._next_s = now_s + max(FIRST_LOOK_S, (LOOKS_GROW - 1) * self.age_s(now_s))
        now_us = round(1e6 * now_s)
        new, old = (side.fared(totals, now_us) for side in (self.new, self.old))
        if self.failed:
            self.last = Look(len(new), len(old), {}, self.failed)
        elif min(len(new), len(old)) < MIN_FLOWS:
            self.last = Look(len(new), len(old))
        else:
            self.looks += 1
            figures = compared(new, old)
            level = spent(self.looks, LEVEL) / len(JUDGED)
            self.last = Look(len(new), len(old), figures, reported_worse(figures, level))
        return self.last

    def as_row(self, now_s: float) -> dict[str, Any]:
        """Return the state as plain data."""
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
    """Return the name under which a version on trial runs."""
    return f"{algorithm}@canary"


@dataclass(frozen=True, slots=True)
class _Judged:
    """How a metric is compared.

    Attributes:
        of: Returns the metric of a flow, or None.
        sign: 1 if smaller is worse, -1 if larger is worse.
        worse: Whether the new median is worse than the old one by more than the margin.
        text: Describes the difference.
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
        lambda new, old: f"goodput {8e-6 * new:.3g} Mbit/s, control group {8e-6 * old:.3g} Mbit/s",
    ),
    "rtt": _Judged(
        lambda one: one.rtt_us,
        -1,
        lambda new, old: new > (1 + WORSE_RATIO) * old,
        lambda new, old: f"RTT {new / 1e3:.3g} ms, control group {old / 1e3:.3g} ms",
    ),
    "loss": _Judged(
        lambda one: one.loss_ratio,
        -1,
        lambda new, old: new > old + WORSE_LOSS,
        lambda new, old: f"loss {100 * new:.2g} %, control group {100 * old:.2g} %",
    ),
    "greed": _Judged(
        lambda one: one.goodput_bytes_per_s,
        -1,
        lambda new, old: new > GREED * old,
        lambda new, old: f"too aggressive: goodput {8e-6 * new:.3g}, control group {8e-6 * old:.3g} Mbit/s",
    ),
}
"""Metric -> how it is compared."""


def compared(new: list[Fared], old: list[Fared]) -> dict[str, Compared]:
    """Return all metrics that both sides have."""
    found = {}
    for name, judged in JUDGED.items():
        sides = [[value for one in side if (value := judged.of(one)) is not None] for side in (new, old)]
        if all(sides):
            own, other = ([judged.sign * value for value in side] for side in sides)
            found[name] = Compared(median(sides[0]), median(sides[1]), p_smaller(own, other))
    return found


def reported_worse(figures: Mapping[str, Compared], level: float) -> str:
    """Describe the metrics that are worse by more than the margin, and not by chance; "" if none is."""
    return "; ".join(
        f"{JUDGED[name].text(one.new, one.old)} (p = {one.p:.1g})"
        for name, one in figures.items()
        if one.p <= level and JUDGED[name].worse(one.new, one.old)
    )
