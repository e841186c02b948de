"""Draws the disturbances of a soak test: the same seed gives the same disturbances in the same order.

Rounds in which programs are killed and replaced alternate with longer calm phases, because memory growth can
only be detected in long-lived processes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle
from random import Random
from typing import Final, Literal

Kind = Literal[
    "agent killed",
    "agent stopped",
    "agent stands still",
    "upgrade, same build",
    "upgrade, other programs",
    "upgrade, other layout",
    "upgrade, other room",
    "upgrade that fails",
    "broker killed",
    "broker stands still",
    "receiver killed",
    "receiver stands still",
    "good reload",
    "bad reload",
    "reload that raises",
    "disk full",
    "clock steps",
    "namespaces vanish",
    "default changes",
]

LASTING: Final[dict[Kind, int]] = {
    "agent stands still": 3,
    "upgrade that fails": 1,
    "broker killed": 3,
    "broker stands still": 2,
    "receiver killed": 2,
    "receiver stands still": 2,
    "good reload": 3,
    "bad reload": 3,
    "reload that raises": 2,
    "disk full": 2,
    "clock steps": 2,
    "namespaces vanish": 3,
    "default changes": 3,
}
"""Disturbances that keep the agent -> relative frequency."""

REPLACING: Final[dict[Kind, int]] = {
    "agent killed": 3,
    "agent stopped": 1,
    "upgrade, same build": 2,
    "upgrade, other programs": 2,
    "upgrade, other layout": 2,
    "upgrade, other room": 1,
}
"""Disturbances that replace the agent -> relative frequency."""

KILLING: Final[frozenset[Kind]] = frozenset({"broker killed", "receiver killed"})
"""Disturbances of `LASTING` that replace the broker or receiver."""

RESTLESS, CALM = 16, 40
"""Numbers of consecutive rounds with and without killed programs."""

ROUNDS_OF_AN_AGENT: Final = 4
"""Number of rounds that an agent lives in phases with killed programs."""

PER_ROUND: Final = 3


@dataclass(frozen=True, slots=True)
class Disturbance:
    """A disturbance.

    Attributes:
        kind: Kind of the disturbance.
        after_s: Time since the previous disturbance [s].
        lasts_s: Duration, for temporary disturbances [s].
        which: Selects a target or variant.
    """

    kind: Kind
    after_s: float
    lasts_s: float
    which: int


def rounds(seed: int, *, clock: bool) -> Iterator[list[Disturbance]]:
    """Yield the disturbances of each round, without end."""
    random = Random(seed)
    lasting = {kind: weight for kind, weight in LASTING.items() if clock or kind != "clock steps"}
    calm = {kind: weight for kind, weight in lasting.items() if kind not in KILLING}
    for number in cycle(range(1, RESTLESS + CALM + 1)):
        restless = number <= RESTLESS
        drawn = [_drawn(random, lasting if restless else calm) for _ in range(PER_ROUND)]
        if restless and number % ROUNDS_OF_AN_AGENT == 0:
            drawn[random.randrange(PER_ROUND)] = _drawn(random, REPLACING)
        yield drawn


def _drawn(random: Random, weights: dict[Kind, int]) -> Disturbance:
    (kind,) = random.choices(list(weights), list(weights.values()))
    after_s, lasts_s = random.uniform(0.5, 3.0), random.choice((0.3, 1.0, 4.0))
    return Disturbance(kind, round(after_s, 1), lasts_s, random.randrange(1 << 16))
