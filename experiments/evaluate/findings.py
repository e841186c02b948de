"""Findings: what is wrong, whatever the figures say; each with the scenario that shows it."""

from __future__ import annotations

import msgspec


class Finding(msgspec.Struct, frozen=True):
    """Something wrong, found in a run.

    Attributes:
        algorithm: The algorithm, as in scenarios.
        key: What kind of thing, for programs.
        text: What was found, as a sentence without its full stop.
        case: The case, or the suite and its case, in which it was found.
        seed: Seed of the run.
        scenario: File of the scenario that shows it again.
    """

    algorithm: str
    key: str
    text: str
    case: str
    seed: int
    scenario: str
