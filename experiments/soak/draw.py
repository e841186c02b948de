"""What happens in a soak, drawn from a seed: the same seed gives the same disturbances in the same order.

Rounds in which programs are killed and replaced take turns with longer calm ones: whether the memory of a
process grows can only be told of one that lives for long.
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
"""Those after which the same agent runs -> how often, by the others."""

REPLACING: Final[dict[Kind, int]] = {
    "agent killed": 3,
    "agent stopped": 1,
    "upgrade, same build": 2,
    "upgrade, other programs": 2,
    "upgrade, other layout": 2,
    "upgrade, other room": 1,
}
"""Those after which another agent runs, likewise."""

KILLING: Final[frozenset[Kind]] = frozenset({"broker killed", "receiver killed"})
"""Those of `LASTING` after which another broker or receiver runs."""

RESTLESS, CALM = 16, 40
"""Rounds in which programs are killed and replaced, and rounds in which none is, in turn."""

ROUNDS_OF_AN_AGENT: Final = 4
"""In restless rounds, an agent lives for so many."""

PER_ROUND: Final = 3


@dataclass(frozen=True, slots=True)
class Disturbance:
    """Something that happens.

    Attributes:
        kind: What.
        after_s: How long after the one before [s].
        lasts_s: How long it lasts, where it is something that ends [s].
        which: Picks one of several: a host, a way to be bad.
    """

    kind: Kind
    after_s: float
    lasts_s: float
    which: int


def rounds(seed: int, *, clock: bool) -> Iterator[list[Disturbance]]:
    """Yield what happens in each round, for ever.

    Args:
        seed: Of the generator.
        clock: Whether the machine's clock may be stepped.
    """
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
