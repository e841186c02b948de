"""Which congestion regime a path is in: R-Hybrid's detector.

Purpose: `detector` turns observations into decisions and does no I/O; `trace` reads recorded series;
`commands` is `ccp regime`.

May import: `broker.errors`, `telemetry.errors`, `telemetry.schema`, typer.
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
