"""Which congestion regime a path is in: R-Hybrid's detector, who is told of it, and what they make of that.

Purpose: `detector` turns observations into decisions, `modes` has its parameters, `watch` does so for each
peer of a receiver, and `follow` says at a sender what decisions come to: they do no I/O. `trace` reads
recorded series; `tell` publishes a decision; `commands` is `ccp regime`.

May import: `broker`, the rest of `telemetry`, typer.
"""

from telemetry.regime.detector import (
    SHARED,
    SINGLE_OWNER,
    Detector,
    DetectorOptions,
    Observation,
    Regime,
    Verdict,
)

__all__ = [
    "SHARED",
    "SINGLE_OWNER",
    "Detector",
    "DetectorOptions",
    "Observation",
    "Regime",
    "Verdict",
]
