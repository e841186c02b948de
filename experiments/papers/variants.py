"""Points of a grid's axes: algorithms with parameters, rounds, and steady traffic."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from experiments.events import ParamValue
from experiments.scenario import Scenario
from experiments.sweep import Grid
from experiments.traffic.spec import OnOff

KERNEL: Final = "kernel/cubic"


def steered(algorithm: str, flow: str = "*", /, **params: ParamValue) -> dict[str, Any]:
    """Return the fields that give flows an algorithm with these parameters."""
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
    """Return a grid for each round, which runs each point once, so that compared points run close in time.

    All points of a round have the same seed, and each round begins with a different point.

    Args:
        base: The scenario; or a function of the round, counted from 0.
        name: Prefix of the grids' names.
        times: Number of rounds.
        axis: Name of the axis whose order rotates.
        points: Its points: name -> fields.
        of_round: Whether a round, counted from 0, has a point.
        more_axes: Further axes, before it.
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
    """Return traffic for the whole run, from a program that sets its congestion control only once.

    iperf3 sets the congestion control again after connecting, and keeps its rate by sending bursts of 128
    KiB.

    Args:
        rate_bytes_per_s: Rate at which it writes, 1 ms of data at a time [bytes/s]; None: unlimited.
    """
    return OnOff(on_s=86_400.0, off_s=1e-3, distribution="fixed", rate_bytes_per_s=rate_bytes_per_s)
