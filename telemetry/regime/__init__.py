"""The congestion regime of a path: R-Hybrid's detector, its decisions, and how senders use them.

Without I/O: `detector` turns observations into decisions, `modes` has its parameters, `watch` runs a detector
for each peer of a receiver, and `follow` combines decisions at a sender. `trace` reads recorded series;
`publish` publishes a decision; `commands` is `ccp regime`.

This package may import `broker`, the rest of `telemetry`, and typer.
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
