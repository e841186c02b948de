"""What the flows of a grid run: algorithms with parameters, as points of an axis, and what they send."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from experiments.events import ParamValue
from experiments.scenario import Scenario
from experiments.sweep import Grid
from experiments.traffic.spec import OnOff

KERNEL: Final = "kernel/cubic"


def steered(algorithm: str, flow: str = "*", /, **params: ParamValue) -> dict[str, Any]:
    """Return what an axis sets for flows to have an algorithm with these parameters.

    Args:
        algorithm: As in scenarios.
        flow: Which flow; `*`: all.
        **params: Of the algorithm, where they are not its defaults.
    """
    return {f"flows.{flow}.algorithm": algorithm, f"flows.{flow}.params": params}


def rounds(
    base: Scenario | Callable[[int], Scenario],
    name: str,
    times: int,
    axis: str,
    points: Mapping[str, Mapping[str, Any]],
    *,
    of_round: Callable[[int, str], bool] = lambda _number, _point: True,
    more_axes: Mapping[str, Any] | None = None,
) -> list[Grid]:
    """Return a grid for each round, in which each point is run once: what is compared is run side by side.

    Each round has a seed of its own, the same for all its points, and begins with another point.

    Args:
        base: The scenario; or that of a round, counted from 0.
        name: What names of the grids begin with.
        times: How many rounds.
        axis: Name of the axis that is turned.
        points: Its points: name -> what it sets.
        of_round: Whether a round, counted from 0, has a point.
        more_axes: Other axes, in front of it.
    """
    grids = []
    for number in range(times):
        names = [point for point in points if of_round(number, point)]
        first = number % len(names)
        turned = {point: points[point] for point in names[first:] + names[:first]}
        axes = {**(more_axes or {}), axis: turned}
        scenario = base if isinstance(base, Scenario) else base(number)
        grids.append(Grid(scenario.replace(seed=scenario.seed + number), axes, f"{name}-round-{number + 1}"))
    return grids


def steady(rate_bytes_per_s: float | None = None) -> OnOff:
    """Return traffic that goes on for the whole run, from a program that chooses its congestion control once.

    iperf3 chooses it again when it is connected, and keeps a rate by blocks of 128 KiB as fast as they go.

    Args:
        rate_bytes_per_s: At which it is written, a millisecond's worth at a time [bytes/s]; None: as fast as
            the socket takes it.
    """
    return OnOff(on_s=86_400.0, off_s=1e-3, distribution="fixed", rate_bytes_per_s=rate_bytes_per_s)
