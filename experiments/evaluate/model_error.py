"""How far the simulator is from the kernel, as a wheel has it: the errors that a simulated effect has to exceed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Final

FILE: Final = "model_error.json"
"""90th percentile of the error, by kind of path and quantity; `python -m scripts.tables` writes it."""


@cache
def errors() -> Mapping[str, Mapping[str, float]]:
    """Return the 90th percentile of the simulator's error on drawn scenarios, by kind of path and quantity."""
    found: Mapping[str, Mapping[str, float]] = json.loads((files(__package__) / FILE).read_text())
    return found


def error(kind: str, quantity: str) -> float:
    """Return the relative error of a quantity on a kind of path."""
    return errors()[kind][quantity]
