"""A small closed loop: what flows come to, and parameters that are set while they run.

A bandit: each arm is a choice of parameters, and the one in use is judged by what flows got meanwhile. What
is known of an arm fades, so that a path that changes is found out again. A guard does not wait for the end of
an arm's turn: where too much is lost, the safe arm comes at once, and the other one is barred for a while.

The same tuner steers simulated flows (`tuning.py`) and those of a running agent:

    client = Client()
    tuner = Tuner(ARMS, lambda values: client.set(values, algorithm="flex_cubic"))
    while True:
        tuner.turn(totals_of(client.flows(), time.monotonic()))
        time.sleep(0.1)

Source: A. Garivier, E. Moulines, "On upper-confidence bound policies for switching bandit problems", ALT
2011: discounted UCB. Deviation: the guard.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import pandas as pd

Params = Mapping[str, float]

TURN_S: Final = 1.0
"""How long an arm is used before it is judged."""
SETTLING_RATIO: Final = 0.3
"""First part of a turn, which still shows the arm before."""
KEPT_RATIO: Final = 0.9
"""What a turn leaves of the weight of those before."""
CURIOSITY: Final = 0.2
"""How much an arm is worth for being little known, as a share of the best rate of late."""
MOST_LOST_RATIO: Final = 0.06
"""From this share of lost packets on the guard acts."""
LEAST_PKTS: Final = 100
"""Of fewer packets the guard takes no share."""
BARRED_S: Final = 8.0
LOST_WEIGHT: Final = 5.0
"""A percent lost is worth so many percent of goodput."""


@dataclass(frozen=True)
class Arm:
    """A choice of parameters.

    Attributes:
        name: What people call it.
        params: Values by parameter.
    """

    name: str
    params: Params


@dataclass(frozen=True)
class Totals:
    """What all flows came to so far.

    Attributes:
        t_s: When [s], by any clock that does not go back.
        acked_bytes: Acknowledged.
        delivered_pkts: Delivered.
        lost_pkts: Marked lost.
    """

    t_s: float
    acked_bytes: int
    delivered_pkts: int
    lost_pkts: int


def totals_of(flows: pd.DataFrame, t_s: float) -> Totals:
    """Return the totals of the table that `ccplane.agent.client.Client.flows` gives."""
    sums = flows[["bytes_acked", "delivered_pkts", "lost_pkts"]].sum()
    return Totals(t_s, int(sums["bytes_acked"]), int(sums["delivered_pkts"]), int(sums["lost_pkts"]))


@dataclass
class _Known:
    weight: float = 0.0
    worth: float = 0.0
    barred_until_s: float = -math.inf


@dataclass
class Tuner:
    """Chooses among arms; the first one is safe.

    Attributes:
        arms: What to choose from.
        set_params: Sets parameters of all flows.
        chosen: When which arm was chosen, and whether the guard did.
    """

    arms: Sequence[Arm]
    set_params: Callable[[Params], object]
    chosen: list[tuple[float, str, bool]] = field(default_factory=list)
    _known: list[_Known] = field(init=False)
    _now: int = field(default=0, init=False)
    _began: Totals | None = field(default=None, init=False)
    _settled: Totals | None = field(default=None, init=False)
    _before: Totals | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        """Know nothing."""
        self._known = [_Known() for _ in self.arms]

    def turn(self, now: Totals) -> None:
        """Look at the flows, and change the arm where it is time to."""
        if self._began is None:
            self._choose(0, now, guarded=False)
            return
        passed_s = now.t_s - self._began.t_s
        if self._settled is None and passed_s >= SETTLING_RATIO * TURN_S:
            self._settled = now
        if self._now and self._is_dangerous(now):
            known = self._known[self._now]
            known.weight, known.worth = 1.0, 0.0
            known.barred_until_s = now.t_s + BARRED_S
            self._choose(0, now, guarded=True)
        elif passed_s >= TURN_S:
            assert self._settled is not None
            self._learn(worth(self._settled, now))
            self._choose(self._best(now.t_s), now, guarded=False)

    def _is_dangerous(self, now: Totals) -> bool:
        if self._settled is None:
            return False
        lost_pkts = now.lost_pkts - self._settled.lost_pkts
        gone_pkts = lost_pkts + now.delivered_pkts - self._settled.delivered_pkts
        return gone_pkts >= LEAST_PKTS and lost_pkts > MOST_LOST_RATIO * gone_pkts

    def _learn(self, found: float) -> None:
        for one in self._known:
            one.weight *= KEPT_RATIO
        known = self._known[self._now]
        known.worth = (known.worth * known.weight + found) / (known.weight + 1)
        known.weight += 1

    def _best(self, t_s: float) -> int:
        total = max(sum(one.weight for one in self._known), math.e)
        scale = max(one.worth for one in self._known)

        def hope(place: int) -> float:
            known = self._known[place]
            if place and t_s < known.barred_until_s:
                return -math.inf
            if known.weight < 1e-3:
                return math.inf
            return known.worth + CURIOSITY * scale * math.sqrt(math.log(total) / known.weight)

        return max(range(len(self.arms)), key=hope)

    def _choose(self, place: int, now: Totals, *, guarded: bool) -> None:
        if self._began is None or place != self._now:
            self.set_params(self.arms[place].params)
            self.chosen.append((now.t_s, self.arms[place].name, guarded))
            self._settled = None
        else:
            self._settled = now
        self._now, self._began = place, now


def worth(before: Totals, now: Totals) -> float:
    """Return what a time was worth: goodput, less what was lost of it `LOST_WEIGHT` times [bytes/s]."""
    lost_pkts, delivered_pkts = now.lost_pkts - before.lost_pkts, now.delivered_pkts - before.delivered_pkts
    goodput = (now.acked_bytes - before.acked_bytes) / (now.t_s - before.t_s)
    lost_ratio = lost_pkts / max(lost_pkts + delivered_pkts, 1)
    return goodput * max(0.0, 1 - LOST_WEIGHT * lost_ratio)
