"""The interval of a figure, drawn against its bounds.

One bound is in the middle, so that a reader sees down a column of intervals on which side each one is; two
bounds are equally far from the middle. The tinted area is where the claim holds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from experiments.report.model import Measured

_MARGIN: Final = 1.12
"""The farthest end of an interval is at 1 / `_MARGIN` of the way from the middle to the edge."""
_HALF_PX: Final = 9
"""Half the height of the drawing; its width is that of its place on the page."""


@dataclass(frozen=True)
class Axis:
    """A linear axis from the left to the right edge of the drawing.

    Attributes:
        middle: Value in the middle.
        half: Distance from there to the edges, in the value's unit.
    """

    middle: float
    half: float

    @classmethod
    def of(cls, one: Measured) -> Axis:
        """Return an axis on which the interval and the bounds are visible."""
        shown = [x for x in (one.found.value, one.found.low, one.found.high) if not math.isnan(x)]
        bounds = one.bounds
        middle = sum(bounds) / len(bounds) if bounds else (min(shown) + max(shown)) / 2
        half = max(abs(x - middle) for x in (*shown, *bounds))
        if len(bounds) > 1:
            half = max(half, 1.3 * (bounds[1] - middle))
        return cls(middle, _MARGIN * half or abs(middle) / 10 or 1.0)

    def at(self, value: float) -> float:
        """Return the place of a value in percent of the width; infinite ones are at the edges."""
        place = 50 * (1 + (value - self.middle) / self.half)
        return round(min(max(place, 0.0), 100.0), 2)


def drawn(one: Measured) -> Markup:
    """Return the drawing as SVG; empty without a value."""
    if math.isnan(one.found.value):
        return Markup("")
    axis, known = Axis.of(one), not math.isnan(one.found.low)
    parts = []
    if one.bounds:
        left = axis.at(-math.inf if one.at_least is None else one.at_least)
        right = axis.at(math.inf if one.at_most is None else one.at_most)
        parts.append(
            Markup('<rect class="good" x="{}%" width="{}%" y="0" height="{}"/>').format(
                left, round(right - left, 2), 2 * _HALF_PX
            )
        )
    parts.append(_line("axis", 0, 100))
    parts += [_upright("bound", axis.at(bound), _HALF_PX) for bound in one.bounds]
    if known:
        low, high = axis.at(one.found.low), axis.at(one.found.high)
        parts += [_line("interval", low, high), _upright("end", low, 5), _upright("end", high, 5)]
    parts.append(
        Markup('<circle class="{}" cx="{}%" cy="{}" r="4"/>').format(
            "value" if known else "value open", axis.at(one.found.value), _HALF_PX
        )
    )
    text = " ".join(filter(None, (one.value_text, one.unit, one.interval_text)))
    described = f"{text}, bound {one.bound_text}" if one.bounds else text
    return Markup('<svg class="against {}" height="{}" role="img" aria-label="{}">{}</svg>').format(
        one.verdict or "plain", 2 * _HALF_PX, described, Markup("").join(parts)
    )


def _line(name: str, left: float, right: float) -> Markup:
    return Markup('<line class="{}" x1="{}%" x2="{}%" y1="{y}" y2="{y}"/>').format(
        name, left, right, y=_HALF_PX
    )


def _upright(name: str, place: float, half_px: int) -> Markup:
    return Markup('<line class="{}" x1="{x}%" x2="{x}%" y1="{}" y2="{}"/>').format(
        name, _HALF_PX - half_px, _HALF_PX + half_px, x=place
    )
