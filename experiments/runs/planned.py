"""One run of a sweep, before it is done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from experiments.features import serving
from experiments.runs.check import SIM, ours_of
from experiments.scenario import Scenario
from experiments.traffic.spec import TCP

RUN_OVERHEAD_S: Final = 1.5
"""What a run takes beside its duration, roughly [s]."""
AGENT_OVERHEAD_S: Final = 1.5
"""What it takes longer with an agent, or with the congestion control of a feature, in the kernel [s]."""


@dataclass(frozen=True)
class PlannedRun:
    """One run of a sweep.

    Attributes:
        key: Name of its directory: the beginning of its scenario's hash.
        axes: Point of each axis, by the axis' name.
        repeat: Which repeat of this point, from 0.
        scenario: What is run; its seed is that of the point plus `repeat`.
    """

    key: str
    axes: dict[str, Any]
    repeat: int
    scenario: Scenario

    @property
    def takes_turns(self) -> bool:
        """Whether it adds to the kernel: the agent, or a feature. One run at a time can."""
        if self.scenario.datapath == SIM:
            return False
        return bool(ours_of(self.scenario, (TCP,)) or serving(self.scenario))

    @property
    def estimate_s(self) -> float:
        """How long it takes on real sockets, roughly [s]."""
        return self.scenario.duration_s + RUN_OVERHEAD_S + AGENT_OVERHEAD_S * self.takes_turns

    @property
    def label(self) -> str:
        """Its point, for people."""
        words = [f"{name.rpartition('.')[2]}={value}" for name, value in self.axes.items()]
        return " ".join([*words, f"#{self.repeat + 1}"])
