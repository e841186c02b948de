"""Figures in printed tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


def figure(value: Any, unit: float, digits: int) -> str:
    """Format a number in a unit; `?` if it is missing."""
    return "?" if value is None or value != value else f"{value / unit:,.{digits}f}"


def median(values: ArrayLike, unit: float, digits: int) -> str:
    """Format a median in a unit, with its interval if there is one, for a table."""
    from experiments.statistics import median_interval  # with pandas, which is slow to import

    found = median_interval(values)
    value, low, high = (figure(one, unit, digits) for one in (found.value, found.low, found.high))
    return value if found.low != found.low else rf"{value} \[{low}, {high}]"
