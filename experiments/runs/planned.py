"""A planned run of a sweep."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from experiments.features import serving
from experiments.runs.check import SIM, own_of
from experiments.scenario import Scenario
from experiments.traffic.spec import TCP

RUN_OVERHEAD_S: Final = 1.5
"""Approximate time that a run takes in addition to its duration [s]."""
AGENT_OVERHEAD_S: Final = 1.5
"""Additional time with an agent or a feature's congestion control in the kernel [s]."""


@dataclass(frozen=True)
class PlannedRun:
    """One run of a sweep.

    Attributes:
        key: Name of its directory: a prefix of its scenario's hash.
        axes: Name of the axis -> its point.
        repeat: Number of the repeat of this point, from 0.
        scenario: The scenario; its seed is that of the point plus `repeat`.
    """

    key: str
    axes: dict[str, Any]
    repeat: int
    scenario: Scenario

    @property
    def takes_turns(self) -> bool:
        """Whether the run adds the agent or a feature to the kernel; only one run at a time can."""
        if self.scenario.datapath == SIM:
            return False
        return bool(own_of(self.scenario, (TCP,)) or serving(self.scenario))

    @property
    def estimate_s(self) -> float:
        """Approximate time on real sockets [s]."""
        return self.scenario.duration_s + RUN_OVERHEAD_S + AGENT_OVERHEAD_S * self.takes_turns

    @property
    def label(self) -> str:
        """Display name of the run's point."""
        words = [f"{name.rpartition('.')[2]}={value}" for name, value in self.axes.items()]
        return " ".join([*words, f"#{self.repeat + 1}"])
