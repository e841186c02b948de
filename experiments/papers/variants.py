"""What the flows of a grid run: an algorithm and its parameters, as the point of an axis."""

from __future__ import annotations

from typing import Any, Final

from experiments.events import ParamValue

KERNEL: Final = "kernel/cubic"


def steered(algorithm: str, flow: str = "*", /, **params: ParamValue) -> dict[str, Any]:
    """Return what an axis sets for flows to have an algorithm with these parameters.

    Args:
        algorithm: As in scenarios.
        flow: Which flow; `*`: all.
        **params: Of the algorithm, where they are not its defaults.
    """
    return {f"flows.{flow}.algorithm": algorithm, f"flows.{flow}.params": params}
