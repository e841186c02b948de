"""Random assignment of new flows to a version on trial: a share of all flows, or of those matching a rule."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from typing import Final

from ccplane.agent.rules import Rule, Which
from ccplane.base.errors import UsageError
from ccplane.base.flows import FlowInfo

SHARE_OF_RULE: Final = 0.5
"""Default share of the flows that match a rule; the remaining flows are the control group."""


@dataclass(frozen=True, slots=True)
class Share:
    """Selection of new flows for a version on trial.

    Attributes:
        ratio: Probability of the new version, between 0 and 1.
        rule: Conditions as in rules; None for all flows of the algorithm.
    """

    ratio: float
    rule: str | None = None

    @classmethod
    def from_text(cls, text: str) -> Share:
        """Parse `5%`, conditions such as `dport=5001`, or both: `20% dst=10.0.0.0/8`.

        Raises:
            UsageError: `canary.bad_share`, or an error of a condition.
        """
        words = text.split()
        shares = [word for word in words if word.endswith("%")]
        rule = " ".join(word for word in words if not word.endswith("%")) or None
        found = re.fullmatch(r"(\d{1,3}(?:\.\d{1,6})?)%", shares[0]) if shares else None
        ratio = SHARE_OF_RULE if found is None else float(found[1]) / 100
        if not words or len(shares) > 1 or (shares and found is None) or not 0 < ratio < 1:
            raise UsageError(
                "canary.bad_share",
                f"cannot parse canary selector `{text}`",
                where="--canary",
                why="the selector must match some of the new flows, not all: the others are the control "
                "group",
                fix="write a share such as 5%, conditions such as 'dport=5001', or both: '20% dport=5001'",
            )
        Which(rule=rule).parsed()
        return cls(ratio, rule)

    def __str__(self) -> str:
        share = f"{100 * self.ratio:g} % of new flows"
        return share if self.rule is None else f"{share} that match {self.rule}"


class Assignment:
    """Assigns new flows at random."""

    def __init__(self, share: Share, seed: int | None = None) -> None:
        self._share = share
        self._rule: Rule | None = Which(rule=share.rule).parsed()
        self._random = random.Random(seed)

    def draw(self, info: FlowInfo) -> bool | None:
        """Return whether a flow gets the new version; None if the flow does not take part in the trial."""
        if self._rule is not None and not self._rule.matches(info):
            return None
        return self._random.random() < self._share.ratio
