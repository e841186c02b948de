"""Ordinary sockets and hosts follow the regimes of their paths (R-Hybrid).

Purpose: `loop` receives decisions, `telemetry.regime.follow` says what holds of them, and an `actuator`
applies it: `sockets` to the kernel's TCP sockets one by one, by `rules`.

May import: `ccplane.datapath`, `telemetry`, `broker`, the core of `ccplane.agent`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ccplane.agent.features import Feature

if TYPE_CHECKING:
    from ccplane.datapath.ebpf import Capability


def _trials(available: Sequence[str]) -> Sequence[Capability]:
    from ccplane.agent.features.regime.needs import needs

    return needs(available)


FEATURE = Feature(
    commands={"research": {"regime": "ccplane.agent.features.regime.commands:app"}}, trials=_trials
)
