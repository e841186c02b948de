"""R-Hybrid for ordinary sockets and hosts: applies the regimes of their paths.

Purpose: `loop` receives decisions, `telemetry.regime.follow` derives the regime of each path, and an
    `actuator` applies it: `sockets` applies it to single TCP sockets of the kernel, selected by `rules`.

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
